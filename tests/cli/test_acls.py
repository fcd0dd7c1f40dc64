"""`stuntbroker acl` against our broker and Apache Kafka, and our `kafka-acls` compared with Apache's, against our broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.cli.main import run
from tests.cli.shims.kafka_commands import CLASSES, settled, with_bootstrap
from tests.kit.brokers.kafka_broker import apache_kafka
from tests.kit.brokers.our_broker import our_broker
from tests.kit.processes.process import until
from tests.kit.programs.kafka_tools import KafkaTools

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def with_acls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run our broker with an authorizer."""
    folder = tmp_path_factory.mktemp("acls")
    settings = [f"{name}={value}" for name, value in AUTHORIZER.items()]
    with our_broker(folder / "data", folder / "stderr.log", *settings) as address:
        yield address


@pytest.fixture(scope="module")
def kafka_with_acls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache_kafka(tmp_path_factory.mktemp("kafka"), settings=AUTHORIZER) as address:
        yield address


@pytest.fixture(params=["with_acls", "kafka_with_acls"])
def call(request: pytest.FixtureRequest, capsys: Capture) -> Any:
    """Return a function that runs a command and returns (exit status, standard output, standard error)."""
    bootstrap = request.getfixturevalue(request.param)

    def called(*words: str) -> tuple[int, str, str]:
        status = run(["acl", *words, "--bootstrap", bootstrap])
        return status, *capsys.readouterr()

    return called


def listed(call: Any, *options: str) -> list[tuple[str, ...]]:
    """Return operation, resource and name of each ACL that the command lists."""
    status, out, err = call("list", *options, "--json")
    assert status == 0, err
    return [(each["operation"], each["resource"], each["name"]) for each in json.loads(out)["acls"]]


def test_acls_are_created_listed_and_deleted(call: Any) -> None:
    assert call("create", "--principal", "User:ann", "--operation", "read", "--topic", "list-orders")[0] == 0
    created = call(
        "create", "--principal", "User:ann", "--operation", "WRITE", "--topic", "list-", "--prefixed", "--deny"
    )
    assert created == (0, "", "User:ann may not WRITE the TOPIC list-...\n")
    # Kafka's brokers apply an ACL a little later than the controller.
    assert until(lambda: len(listed(call, "--topic", "list-orders")) == 2, "both ACLs")
    assert listed(call, "--topic", "list-other") == [("WRITE", "TOPIC", "list-")]
    assert listed(call, "--topic", "list-orders", "--operation", "READ") == [("READ", "TOPIC", "list-orders")]
    assert listed(call, "--principal", "User:nobody") == []
    header, row = call("list", "--topic", "list-other")[1].splitlines()
    assert header.split() == ["PRINCIPAL", "HOST", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN"]
    assert row.split() == ["User:ann", "*", "DENY", "WRITE", "TOPIC", "list-", "PREFIXED"]

    assert call("delete", "--topic", "list-orders")[2] == "deleted: User:ann may READ the TOPIC list-orders\n"
    assert call("delete", "--topic", "list-orders")[2] == "no ACL matches\n"
    assert call("delete", "--principal", "User:ann")[2] == "deleted: User:ann may not WRITE the TOPIC list-...\n"
    assert until(lambda: listed(call, "--principal", "User:ann") == [], "no ACL")


def test_producer_and_consumer_options_create_the_acls_that_they_need(call: Any) -> None:
    words = ["--principal", "User:eve", "--topic", "role-t", "--group", "role-g", "--transactional-id", "role-x"]
    assert call("create", *words, "--producer", "--consumer")[0] == 0
    expected = {
        *((each, "TOPIC", "role-t") for each in ("READ", "WRITE", "CREATE", "DESCRIBE")),
        ("READ", "GROUP", "role-g"),
        *((each, "TRANSACTIONAL_ID", "role-x") for each in ("WRITE", "DESCRIBE")),
    }
    assert until(lambda: set(listed(call, "--principal", "User:eve")) == expected, "the ACLs of both roles")
    hosts = ["--host", "10.0.0.1", "--host", "10.0.0.2"]
    assert call("create", "--principal", "User:hosted", "--topic", "role-t", "--operation", "read", *hosts)[0] == 0
    assert until(lambda: len(listed(call, *hosts)) == 2, "the ACLs of both hosts")
    assert call("create", "--principal", "User:eve", "--cluster", "--operation", "idempotent-write")[0] == 0
    assert until(lambda: listed(call, "--cluster") == [("IDEMPOTENT_WRITE", "CLUSTER", "kafka-cluster")], "one more")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("create --topic t --operation READ", "acl create needs --principal User:NAME"),
        (
            "create --principal User:a --operation READ",
            "acl create needs --topic, --group, --transactional-id or --cluster",
        ),
        ("create --principal User:a --topic t", "acl create needs --operation, --producer or --consumer"),
        ("create --principal a --topic t --operation READ", "--principal 'a': it must be User:NAME"),
        ("create --principal User:a --topic t --operation FLY", "--operation 'FLY': it must be one of ALL, READ,"),
        ("create --principal User:a --cluster --producer", "a producer needs --topic or --transactional-id"),
        ("delete", "acl delete needs an option that says which ACLs"),
    ],
)
def test_an_incomplete_command_line_is_refused_with_what_is_missing(words: str, message: str, capsys: Capture) -> None:
    assert run(["acl", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_a_broker_without_an_authorizer_is_reported(ours: str, capsys: Capture) -> None:
    assert run(["acl", "list", "--bootstrap", ours]) == 1
    assert "No Authorizer is configured on the broker" in capsys.readouterr().err


LINES = [
    "--list",
    "--add --allow-principal User:NAME --operation Read --operation Describe --topic NAME-t",
    "--add --allow-principal User:NAME --topic NAME-t --producer",
    "--add --allow-principal User:NAME --topic NAME-t --producer --transactional-id NAME-x --idempotent",
    "--add --allow-principal User:NAME --topic NAME-u --group NAME-g --consumer --resource-pattern-type prefixed",
    "--add --deny-principal User:NAME --deny-host 10.0.0.1 --topic NAME-t --operation write",
    "--add --allow-principal User:NAME --cluster",
    "--list --topic NAME-t",
    "--list --topic NAME-t --topic NAME-u",
    "--list --principal User:NAME --topic NAME-t",
    "--list --topic NAME-u-x --resource-pattern-type match",
    "--list --cluster --principal User:NAME",
    "--remove --topic NAME-t --allow-principal User:NAME --operation Read --force",
    "--list --topic NAME-t",
    "--remove --topic NAME-t --force",
    "--list --topic NAME-t",
    "--remove --topic NAME-none --force",
    "--remove --force",
    "--add --topic NAME-t",
    "--add --allow-principal User:NAME --operation Nonsense --topic NAME-t",
    "--add --allow-principal NAME --operation Read --topic NAME-t",
    "--add --allow-principal User:NAME --operation Create --group NAME-g",
    "--add --list",
    "",
    "--add --allow-principal User:NAME --group NAME-g --producer",
    "--add --allow-principal User:NAME --topic NAME-g --consumer",
    "--add --allow-principal User:NAME --operation All --topic NAME-t --group NAME-g --user-principal User:NAME",
    "--add --allow-principal User:NAME --operation Read --topic NAME-t --resource-pattern-type any",
    "--add --allow-principal User:NAME",
    "--remove --cluster --group NAME-g --topic NAME-t --topic NAME-u --user-principal User:NAME --force",
    "--remove --cluster --group NAME-g --topic NAME-u --resource-pattern-type prefixed --force",
    "--remove --transactional-id NAME-x --force",
    "--list",
]


def test_kafka_acls_does_and_prints_what_apache_kafka_s_does(
    with_acls: str, kafka_tools: KafkaTools, capsys: Capture
) -> None:
    for line in LINES:
        theirs = line.replace("NAME", "theirs").split()
        done = kafka_tools.run(CLASSES["kafka-acls"], *with_bootstrap(["kafka-acls", *theirs], with_acls))
        words = line.replace("NAME", "mine").split()
        status = run(["kafka-acls.sh", "--bootstrap-server", with_acls, *words])
        out, err = capsys.readouterr()

        assert status == done.status, (line, out, err, done)
        if status == 0:
            # Kafka prints the ACLs of a resource in the order of a hash table.
            both = ([each.strip() for each in settled(*text)] for text in ((out, "mine"), (done.out, "theirs")))
            ours, expected = map(sorted, both)
            assert ours == expected, line
        else:
            assert err, line


def test_kafka_acls_asks_for_each_resource(
    with_acls: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["kafka-acls", "--bootstrap-server", with_acls]
    topics = ["--topic", "first", "--topic", "second"]
    assert run([*words, "--add", "--allow-principal", "User:a", *topics]) == 0
    answers = tmp_path / "answers"
    answers.write_text("n\ny\n")
    with answers.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert run([*words, "--remove", *topics]) == 0
    capsys.readouterr()
    run([*words, "--list", *topics])
    out = capsys.readouterr().out
    assert "name=first" in out and "name=second" not in out


def test_kafka_acls_removes_only_what_is_confirmed(
    with_acls: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["kafka-acls", "--bootstrap-server", with_acls]
    assert run([*words, "--add", "--allow-principal", "User:a", "--topic", "asked"]) == 0
    for number, (said, is_left) in enumerate((("n\n", True), ("", True), ("y\n", False))):
        answer = tmp_path / str(number)
        answer.write_text(said)
        with answer.open() as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            assert run([*words, "--remove", "--topic", "asked"]) == 0
        assert "Are you sure you want to delete all ACLs for resource filter" in capsys.readouterr().out
        run([*words, "--list", "--topic", "asked"])
        assert ("User:a" in capsys.readouterr().out) == is_left
