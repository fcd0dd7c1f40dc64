"""Command lines and completion of the commands that read and change a cluster, as far as they need no broker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stuntbroker.cli.arguments import COMMANDS
from stuntbroker.cli.commands import acl, config, consume, group, produce, topic, txn
from stuntbroker.cli.completion import NOUNS, candidates
from stuntbroker.cli.main import run
from tests.kit.processes.process import serving

VERBS = {"topic": topic, "group": group, "acl": acl, "config": config, "txn": txn}
WRONG = {
    "topic": "topic: a command is missing; there are create, list, describe, delete, grow",
    "topic make x": "there is no command 'make'",
    "topic create": "topic create needs NAME",
    "topic create x --partitions 0": "--partitions '0': it must be a whole number from 1",
    "topic create x --config a": "--config 'a': it must be KEY=VALUE",
    "topic grow x": "topic grow needs --partitions N",
    "topic grow x y --partitions 2": "topic grow takes one NAME, not 2",
    "topic list x": "unexpected argument 'x'; the options are",
    "topic list --json=1": "--json takes no value",
    "group describe": "group describe needs ID",
    "group reset g": "needs --to earliest|latest|OFFSET, or --to-timestamp-ms N",
    "group reset g --to soon": "--to 'soon': it must be earliest, latest or a whole number",
    "group reset g --to 1 --to-timestamp-ms 1": "needs --to earliest|latest|OFFSET, or --to-timestamp-ms N",
    "group reset g --to 1 --topic t:x": "--topic 't:x': it must be TOPIC or TOPIC:PARTITION",
    "config describe": "config needs one of --topic NAME, --broker ID and --group ID",
    "config describe --topic t --group g": "config needs one of",
    "config describe --broker x": "--broker 'x': it must be the id of a broker, or default",
    "config set --topic t a": "config set 'a': it must be KEY=VALUE",
    "produce": "produce needs TOPIC",
    "produce t v --abort": "need --transactional-id ID",
    "produce t v --transactional-id i --abort --leave-open": "exclude each other",
    "produce t v --transactional-id=": "--transactional-id is empty: give it a value, or leave it out",
    "produce t v --key-separator=": "--key-separator is empty",
    "produce t v --from-json": "the value 'v': it is no JSON",
    "produce t {} --from-json": "it has no value; null is one, which deletes its key",
    'produce t {"valu":"x"} --from-json': "there is no field 'valu'; there are key, value, headers, partition",
    'produce t {"value":5} --from-json': 'value must be text, null or {"base64": ...}, not 5',
    'produce t {"marker":{}} --from-json': "a transaction marker cannot be produced",
    "produce t [] --from-json": "it must be a JSON object with a value",
    "consume t --group=": "--group is empty",
    "serve --data-dir=": "--data-dir is empty",
    "serve --host=": "--host is empty",
    "group list --state stable": "--state 'stable': it must be one of",
    "produce t v --null": "--null needs --key KEY, and no VALUE",
    "produce t v --compression rar": "--compression 'rar': it must be one of none, gzip, snappy, lz4, zstd",
    "consume": "consume needs TOPIC",
    "consume t:x": "'t:x': it must be TOPIC or TOPIC:PARTITION",
    "consume t --from start": "--from 'start': it must be earliest, latest or a whole number",
    "consume t --for 3": "--for needs --follow",
    "consume t --isolation none": "it must be one of read_committed, read_uncommitted",
    "completion": "completion: give the name of a shell: bash, zsh, fish",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_exits_2_with_one_line_that_names_the_mistake(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stuntbroker: ")
    assert WRONG[line] in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("noun", NOUNS)
def test_help_names_every_command_and_option(noun: str) -> None:
    module = VERBS[noun]
    for name, verb in module.VERBS.items():
        for word in (name, *verb.options, *verb.flags, "--bootstrap", "--timeout", "--json"):
            assert word in module.USAGE, word


@pytest.mark.parametrize("module", [produce, consume])
def test_help_names_every_option_of_a_command_without_verbs(module: object) -> None:
    for name in (*module.OPTIONS, *module.FLAGS):  # type: ignore[attr-defined]
        assert f"  {name} " in module.USAGE, name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "line",
    [
        "topic list",
        "group list",
        "config describe --topic t",
        "produce t v",
        "consume t",
        "produce t v --transactional-id i",
    ],
)
def test_an_unreachable_broker_exits_1_with_one_line(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*line.split(), "--bootstrap", "127.0.0.1:1", "--timeout", "1"]) == 1
    assert capsys.readouterr() == ("", "stuntbroker: cannot connect to 127.0.0.1:1: Connection refused\n")


@pytest.mark.parametrize(
    "words", [["topic", "create", "\udcff"], ["topic", "describe", "\udcff"], ["group", "describe", "\udcff"]]
)
def test_a_word_that_is_not_utf_8_is_reported_in_a_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as broker:
        assert run([*words, "--bootstrap", "127.0.0.1:" + str(broker.address[1])]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "an argument is not UTF-8" in err


def test_help_behind_two_hyphens_is_a_value() -> None:
    assert run(["produce", "orders", "--bootstrap", "127.0.0.1:1", "--timeout", "1", "--", "-h"]) == 1


@pytest.mark.parametrize(
    "line", ["topic list", "consume t", "produce t", "kafka-topics --list", "kafka-console-producer --topic t"]
)
def test_closed_standard_streams_are_no_traceback(line: str) -> None:
    option = "--bootstrap-server" if line.startswith("kafka-") else "--bootstrap"
    with serving("--topic", "t:1") as broker:
        address = f"127.0.0.1:{broker.address[1]}"
        words = " ".join([sys.executable, "-m", "stuntbroker", line, option, address, "<&-", ">&-"])
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, timeout=60, check=False)

    assert "Traceback" not in done.stderr


def test_candidates_are_commands_then_verbs_then_their_options() -> None:
    assert candidates([]) == list(COMMANDS)
    assert candidates(["topic"]) == ["create", "list", "describe", "delete", "grow"]
    assert candidates(["topic", "delete"]) == ["--if-exists", "--bootstrap", "--command-config", "--timeout", "--json"]
    assert candidates(["topic", "make"]) == []
    assert candidates(["consume", "t", "--isolation"]) == ["read_committed", "read_uncommitted"]
    assert candidates(["txn", "list", "--state"])[0] == "Empty"
    assert "Stable" in candidates(["group", "list", "--state"])
    assert candidates(["serve", "--config"]) == candidates(["consume", "t", "--max"]) == []
    assert "--from" in candidates(["consume", "t", "--follow"])
    assert "--exit-with-parent" in candidates(["serve"])
    assert all(candidates([command]) for command in COMMANDS)


@pytest.fixture
def on_the_path(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose PATH has the command `stuntbroker`."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "stuntbroker"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m stuntbroker "$@"\n')
    command.chmod(0o755)
    return os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"}


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_completes_a_command_and_offers_files_only_without_other_candidates(
    tmp_path: Path, on_the_path: dict[str, str]
) -> None:
    (tmp_path / "a-file").touch()

    def completed(words: str) -> list[str]:
        code = f"stuntbroker completion fish | source; complete -C '{words}'"
        command = ["fish", "--no-config", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=on_the_path)
        return sorted(line.split("\t")[0] for line in done.stdout.splitlines())

    assert completed("stuntbroker pro") == ["produce"]
    assert completed("stuntbroker topic ") == ["create", "delete", "describe", "grow", "list"]
    assert "a-file" in completed("stuntbroker dump a-")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_zsh_completes_a_command_and_a_file(tmp_path: Path, on_the_path: dict[str, str]) -> None:
    (tmp_path / "a-file").touch()
    script = r"""
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell 'autoload -Uz compinit; compinit -u -D; eval "$(stuntbroker completion zsh)"; echo is-$((1 + 1))ready'
    zpty -r shell output '*is-2ready*'
    zpty -n -w shell $'stuntbroker topic des\t'
    zpty -r shell output '*describe*'
    zpty -n -w shell $'\Cu'
    zpty -n -w shell $'stuntbroker dump a-f\t'
    zpty -r shell output '*a-file*'
    zpty -d shell
    echo completed
    """
    command = ["zsh", "-f", "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env=on_the_path, cwd=tmp_path
    )
    assert done.stdout == "completed\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    ours = "import sys; from stuntbroker.cli.main import run; sys.exit(run(sys.argv[1:]))"
    code = f"""
    stuntbroker() {{ {sys.executable} -c '{ours}' "$@"; }}
    source {tmp_path}/script
    COMP_WORDS=(stuntbroker topic cr); COMP_CWORD=2; _stuntbroker; echo "${{COMPREPLY[@]}}"
    COMP_WORDS=(stuntbroker pro); COMP_CWORD=1; _stuntbroker; echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["create", "produce"]
