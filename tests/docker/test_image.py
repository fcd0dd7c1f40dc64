"""The image without a container engine: what it is built from, and its commands as processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from stuntbroker.cli.shims import COMMANDS, MISSING
from tests.kit.processes.process import DEADLINE_S, serving

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
BAKE = (ROOT / "docker" / "bake.hcl").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instruction(name: str, text: str = DOCKERFILE) -> list[str]:
    """The JSON form of an instruction: the words that an engine would start."""
    match = re.search(rf"^{name}\b[^\[]*(\[.*\])$", text, re.MULTILINE)
    assert match, f"there is no {name} in JSON form"
    words: list[str] = json.loads(match[1])
    return words


def test_bake_uses_the_same_health_check_with_a_start_interval() -> None:
    assert instruction("HEALTHCHECK", BAKE) == instruction("HEALTHCHECK")
    assert "--start-interval=" in BAKE


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image has beside the package."""
    root = tmp_path_factory.mktemp("image")
    subprocess.run(["sh", ROOT / "docker" / "image" / "install.sh", root], check=True)
    return root


def test_the_command_of_the_image_serves_and_passes_the_health_check(tmp_path: Path) -> None:
    ours = [sys.executable, "-m", "stuntbroker"]
    command = instruction("CMD")
    check = instruction("HEALTHCHECK")
    assert command[0] == check[0] == "stuntbroker"
    environment = os.environ | {
        "KAFKA_LISTENERS": "HOST://127.0.0.1:0,DOCKER://127.0.0.1:0",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
    }
    broker = subprocess.Popen(
        [*ours, *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert broker.stdout is not None
        lines = [broker.stdout.readline() for _ in range(6)]
        assert lines[0].startswith("ready kafka=127.0.0.1:")

        healthy = subprocess.run([*ours, *check[1:]], check=False, capture_output=True)

        assert healthy.returncode == 0, healthy.stderr
        said = "".join(lines)
        for line in (
            "Transitioning from RECOVERY to RUNNING",
            "[KafkaServer id=1] started",
            "Kafka Server started",
            "Started Kafka API server",
            "Successfully started Redpanda!",
        ):
            assert said.count(line) == 1
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=DEADLINE_S)
    assert broker.returncode == 0
    assert (tmp_path / "data" / "metadata.journal").exists()
    assert (
        subprocess.run([*ours, "wait", "--container", "--timeout", "0"], check=False, capture_output=True).returncode
        == 1
    )


@pytest.mark.parametrize("options", ["-z", "-z -w5", "-vz -w1", "-zw 2", "-zw2", "-z -w 3 -v", "-nz"])
def test_a_health_check_by_netcat_is_understood(options: str) -> None:
    netcat = ROOT / "docker" / "image" / "nc"
    with serving() as broker:
        open_port = subprocess.run(["bash", netcat, *options.split(), *map(str, broker.address)], check=False)
    closed_port = subprocess.run(["bash", netcat, *options.split(), *map(str, broker.address)], check=False)

    assert (open_port.returncode, closed_port.returncode) == (0, 1)


def test_every_command_of_kafka_has_its_names_in_the_image(layout: Path) -> None:
    kafka = [command for command in [*COMMANDS, *MISSING] if command not in ("rpk", "redpanda")]
    folder = layout / "opt" / "kafka" / "bin"

    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["stuntbroker-shim", *kafka, *(f"{command}.sh" for command in kafka)]
    )
    assert all(os.readlink(folder / f"{command}.sh") == "stuntbroker-shim" for command in kafka)
    assert {path.name for path in (layout / "usr" / "bin").iterdir()} >= {
        "rpk",
        "redpanda",
        "stuntbroker",
        "kafka-topics.sh",
    }


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_start_scripts_of_cp_kafka_work_after_custom_edits(layout: Path, tmp_path: Path) -> None:
    """Images derived from cp-kafka delete lines of a start script, add a line, and empty another script."""
    folder = tmp_path / "docker"
    shutil.copytree(layout / "etc" / "confluent" / "docker", folder)
    (folder / "launch").write_text("#!/bin/sh\necho launched\n")
    for name in ("run", "configure"):
        text = (folder / name).read_text().replace("/etc/confluent/docker", str(folder))
        (folder / name).write_text(text)
    subprocess.run(["sed", "-i", "/KAFKA_ZOOKEEPER_CONNECT/d", folder / "configure"], check=True)
    with (folder / "configure").open("a") as file:
        file.write("echo formatted\n")
    (folder / "ensure").write_text("\n")

    done = subprocess.run([folder / "run"], check=True, capture_output=True, text=True)

    assert done.stdout == "formatted\nlaunched\n"
    assert subprocess.run(["sh", "-c", f". {folder}/bash-config; echo sourced"], check=True, capture_output=True).stdout


def test_pinned_requirements_match_the_dependencies_of_the_package_and_its_build() -> None:
    """Each pinned requirement has hashes, and its version is in the range of pyproject.toml."""
    needed = {
        "requirements.txt": [
            *PROJECT["project"]["dependencies"],
            *PROJECT["project"]["optional-dependencies"]["image"],
        ],
        "build-requirements.txt": PROJECT["dependency-groups"]["image"],
    }
    for name, lines in needed.items():
        check_pinned((ROOT / "docker" / name).read_text(), lines)


def check_pinned(text: str, lines: list[str]) -> None:
    pinned = {
        name.lower(): Version(version) for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    }
    hashed = re.findall(r"^([\w.-]+)==[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert sorted(name.lower() for name in hashed) == sorted(pinned)
    for line in lines:
        wanted = Requirement(line)
        assert pinned[wanted.name.lower()] in wanted.specifier, line
    assert "://" not in text  # No address of a package index.


def test_the_image_runs_as_its_own_user_and_contains_no_build_tools() -> None:
    _, _, final = DOCKERFILE.rpartition("\nFROM ")

    assert re.search(r"^USER stuntbroker$", final, re.MULTILINE)
    assert "VOLUME" not in final  # An anonymous volume would outlive each container.
    assert "apt-get" not in final
    assert "pip uninstall" in final
    assert instruction("ENTRYPOINT") == ["tini", "-s", "--"]  # The start scripts of other images are run as commands.
