"""Environment variables of `serve`, including those of other Kafka images."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stuntbroker.cli.serving.container import ownership_advice
from stuntbroker.cli.serving.environment import read_environment
from tests.kit.processes.process import run, serving

TABLE: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    # variables -> properties
    "a property": ({"KAFKA_NUM_PARTITIONS": "3"}, {"num.partitions": "3"}),
    "bitnami's form": ({"KAFKA_CFG_NUM_PARTITIONS": "3"}, {"num.partitions": "3"}),
    "two underscores are one, three a hyphen": (
        {"KAFKA_SASL_A__B___C": "x"},
        {"sasl.a_b-c": "x"},
    ),
    "a property of ours": ({"STUNTBROKER_PROFILE": "kip-588"}, {"stuntbroker.profile": "kip-588"}),
    "ours in Kafka's form": ({"KAFKA_STUNTBROKER_PROFILE": "kip-588"}, {"stuntbroker.profile": "kip-588"}),
    "ours wins over Kafka's": (
        {"KAFKA_STUNTBROKER_PROFILE": "kafka", "STUNTBROKER_PROFILE": "kip-588"},
        {"stuntbroker.profile": "kip-588"},
    ),
    "the id of the cluster": ({"CLUSTER_ID": "abc"}, {"stuntbroker.cluster.id": "abc"}),
    "advertised listeners alone are listened on": (
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,HOST://localhost:9092"},
        {
            "advertised.listeners": "PLAINTEXT://broker:29092,HOST://localhost:9092",
            "listeners": "PLAINTEXT://0.0.0.0:29092,HOST://0.0.0.0:9092",
        },
    ),
    "a comma at the end": (
        {"KAFKA_LISTENERS": "A://:1", "KAFKA_ADVERTISED_LISTENERS": "A://a:1,"},
        {"listeners": "A://:1", "advertised.listeners": "A://a:1"},
    ),
    "a controller whose name is not told": (
        {"KAFKA_LISTENERS": "CONTROLLER://:2,PLAINTEXT://:1"},
        {"listeners": "CONTROLLER://:2,PLAINTEXT://:1", "controller.listener.names": "CONTROLLER"},
    ),
    "a host and a port of before": (
        {"KAFKA_ADVERTISED_HOST_NAME": "here", "KAFKA_ADVERTISED_PORT": "1234"},
        {"advertised.listeners": "PLAINTEXT://here:1234", "listeners": "PLAINTEXT://0.0.0.0:9092"},
    ),
    "a port of before": (
        {"KAFKA_ADVERTISED_HOST_NAME": "here", "KAFKA_PORT": "9093"},
        {"advertised.listeners": "PLAINTEXT://here:9092", "listeners": "PLAINTEXT://0.0.0.0:9093"},
    ),
    "a port alone": ({"KAFKA_PORT": "9093"}, {"listeners": "PLAINTEXT://0.0.0.0:9093"}),
    "bitnami's advertised listener is not the one that it listens on": (
        {"KAFKA_CFG_ADVERTISED_LISTENERS": "OUT://here:29094"},
        {"advertised.listeners": "OUT://here:29094", "listeners": "OUT://0.0.0.0:9092"},
    ),
    "the folder of Kafka": ({"KAFKA_HOME": "/opt/kafka"}, {}),
    "an id to be generated, as in older images": ({"KAFKA_BROKER_ID": "-1", "KAFKA_NODE_ID": "-1"}, {}),
    "a listener without encryption is allowed, as it is the only kind": ({"ALLOW_PLAINTEXT_LISTENER": "yes"}, {}),
    "a JAAS file": (
        {"KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/jaas.conf"},
        {"stuntbroker.jaas.file": "/etc/jaas.conf"},
    ),
    "keystores by the names of their files": (
        {"KAFKA_SSL_KEYSTORE_FILENAME": "a.jks", "KAFKA_SSL_TRUSTSTORE_FILENAME": "b.jks"},
        {"ssl.keystore.location": "/etc/kafka/secrets/a.jks", "ssl.truststore.location": "/etc/kafka/secrets/b.jks"},
    ),
    "bitnami's users": (
        {
            "KAFKA_CLIENT_USERS": "alice, bob",
            "KAFKA_CLIENT_PASSWORDS": "one,two",
            "KAFKA_INTER_BROKER_USER": "admin",
            "KAFKA_INTER_BROKER_PASSWORD": "three",
        },
        {"stuntbroker.users": "alice:one,bob:two,admin:three"},
    ),
    "nothing of ours": ({"PATH": "/bin", "KAFKA": "x", "MY_KAFKA_X": "1"}, {}),
}


@pytest.mark.parametrize("what", TABLE)
def test_variables_are_properties(what: str) -> None:
    variables, properties = TABLE[what]

    environment = read_environment(variables)

    assert environment.properties == properties
    assert environment.unknown == environment.without_effect == []


@pytest.mark.parametrize(
    ("advertised", "listeners"),
    [("A://a:1", "A://0.0.0.0:1"), ("A://a:1,B://b:2", "A://0.0.0.0:1,B://0.0.0.0:2")],
)
def test_a_port_beside_advertised_listeners_has_no_effect(advertised: str, listeners: str) -> None:
    environment = read_environment({"KAFKA_ADVERTISED_LISTENERS": advertised, "KAFKA_PORT": "9093"})

    assert environment.properties == {"advertised.listeners": advertised, "listeners": listeners}
    assert environment.without_effect == ["KAFKA_PORT"]


def test_variables_are_options_of_serve() -> None:
    environment = read_environment(
        {
            "STUNTBROKER_PORT": "19092",
            "STUNTBROKER_DATA_DIR": "/d",
            "STUNTBROKER_LOG_FORMAT": "json",
            "STUNTBROKER_TOPICS": "orders:3, payments:1:cleanup.policy=[compact,delete]:segment.ms=9",
            "STUNTBROKER_HOST": "",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
            "KAFKA_CREATE_TOPICS": "a:2:1,b:1:1:compact,c:3:1:delete --config=retention.ms=1000 --config segment.ms=9,"
            "d:1:1 --config=retention.ms=5",
        }
    )

    assert environment.options == {
        "--port": ["19092"],
        "--data-dir": ["/d"],
        "--log-format": ["json"],
        "--log-level": ["warning"],
        "--topic": [
            "orders:3",
            "payments:1:cleanup.policy=[compact,delete]:segment.ms=9",
            "a:2",
            "b:1:cleanup.policy=compact",
            "c:3:cleanup.policy=delete:retention.ms=1000:segment.ms=9",
            "d:1:retention.ms=5",
        ],
    }


@pytest.mark.parametrize(
    "name",
    [
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_ENABLE_KRAFT",
        "KAFKA_PORT_9092_TCP_ADDR",
        "HOSTNAME_COMMAND",
        "ADVERTISED_HOST_NAME",
        "ADVERTISED_PORT",
        "CONFLUENT_SUPPORT_CUSTOMER_ID",
        "BITNAMI_DEBUG",
        "LOG4J_LOGGER_KAFKA",
        "REDPANDA_RPC_SERVER_PORT",
    ],
)
def test_variables_of_other_images_are_named_as_without_effect(name: str) -> None:
    assert read_environment({name: "x"})._replace(log_dirs="") == ({}, {}, "", [name], [])


@pytest.mark.parametrize(
    ("value", "options", "unknown"),
    [("true", {"--exit-with-parent": []}, []), ("0", {}, []), ("maybe", {}, ["STUNTBROKER_EXIT_WITH_PARENT=maybe"])],
)
def test_the_variable_of_a_flag_is_a_boolean(value: str, options: dict[str, list[str]], unknown: list[str]) -> None:
    environment = read_environment({"STUNTBROKER_EXIT_WITH_PARENT": value})

    assert (environment.options, environment.unknown) == (options, unknown)


def test_a_token_for_commands_and_tests_does_not_keep_a_broker_without_control_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STUNTBROKER_CONTROL_TOKEN", "secret")
    with serving():
        pass


def test_ignored_jvm_options_and_users_without_passwords_are_named() -> None:
    environment = read_environment(
        {
            "KAFKA_OPTS": "-Xmx1g -Djava.security.auth.login.config=/etc/jaas.conf",
            "KAFKA_CLIENT_USERS": "alice,bob",
            "KAFKA_CLIENT_PASSWORDS": "one",
        }
    )

    assert environment.properties == {"stuntbroker.jaas.file": "/etc/jaas.conf"}
    assert environment.without_effect == ["KAFKA_OPTS"]
    assert environment.unknown == ["KAFKA_CLIENT_USERS without as many passwords in KAFKA_CLIENT_PASSWORDS"]


def test_passwords_of_keystores_are_read_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stuntbroker.cli.serving.environment.SECRETS", str(tmp_path))
    (tmp_path / "creds").write_text("secret\n")
    environment = read_environment(
        {
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
            "KAFKA_SSL_KEY_CREDENTIALS": "creds",
            "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "no",
        }
    )

    assert environment.properties == {"ssl.keystore.password": "secret", "ssl.key.password": "secret"}
    assert environment.unknown == [f"{tmp_path}/no in ssl.truststore.credentials"]


@pytest.mark.parametrize("name", ["KAFKA_NUM_PARTITION", "KAFKA_CFG_FOO", "STUNTBROKER_FOO"])
def test_an_unknown_environment_variable_is_reported_by_name(name: str) -> None:
    assert read_environment({name: "x"}).unknown == [name]


def test_unsupported_values_of_variables_are_named() -> None:
    assert read_environment({"KAFKA_LOG4J_ROOT_LOGLEVEL": "loud"}).unknown == ["KAFKA_LOG4J_ROOT_LOGLEVEL=loud"]
    assert read_environment({"KAFKA_LOG_DIRS": "/a, /b"}).unknown == ["/b in log.dirs"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STUNTBROKER_PORT", "tcp://10.96.0.10:9092"),
        ("STUNTBROKER_PORT_9092_TCP", "tcp://10.96.0.10:9092"),
        ("STUNTBROKER_PORT_9092_TCP_ADDR", "10.96.0.10"),
        ("STUNTBROKER_SERVICE_HOST", "10.96.0.10"),
        ("STUNTBROKER_SERVICE_PORT_KAFKA", "9092"),
    ],
)
def test_variables_of_a_service_of_kubernetes_with_our_name_are_passed_over(name: str, value: str) -> None:
    assert read_environment({name: value}) == ({}, {}, "", [], [])


def test_variables_of_the_plug_in_are_not_meant_for_the_broker() -> None:
    assert read_environment({"STUNTBROKER_BOOTSTRAP": "x", "STUNTBROKER_STRICT": "1"}) == ({}, {}, "", [], [])


@pytest.mark.parametrize(
    ("variable", "value", "option"), [("STUNTBROKER_PORT", "x", "--port"), ("STUNTBROKER_TOPICS", "a:x", "--topic")]
)
def test_a_wrong_value_is_reported_with_its_variable_or_option(variable: str, value: str, option: str) -> None:
    of_variable = run("serve", **{variable: value})
    assert of_variable.returncode == 2
    assert of_variable.stderr.startswith(f"stuntbroker: {variable}, which stands for {option} '{value}': it must be")

    of_option = run("serve", "--port", "y", STUNTBROKER_PORT="1")
    assert of_option.stderr.startswith("stuntbroker: --port 'y': it must be")


def test_the_data_folder_is_the_first_of_log_dirs() -> None:
    assert read_environment({"KAFKA_LOG_DIRS": "/a,/b"}).log_dirs == "/a"
    assert read_environment({"KAFKA_LOG_DIR": "/c"}).log_dirs == "/c"


def test_precedence_is_command_line_our_variables_kafka_s_variables_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("num.partitions=2\nlog.segment.bytes=2000000\nmessage.max.bytes=3000\nfetch.max.bytes=4000\n")
    variables = {"KAFKA_LOG_SEGMENT_BYTES": "3000000", "KAFKA_MESSAGE_MAX_BYTES": "5000", "KAFKA_NUM_PARTITION": "1"}
    variables |= {
        "KAFKA_STUNTBROKER_MAPPED_ADDRESS": "a:1",
        "STUNTBROKER_MAPPED_ADDRESS": "b:2",
        "STUNTBROKER_TOPICS": "t:4",
    }
    words = ["--config", str(file), "--set", "message.max.bytes=6000", "--log-level", "warning"]
    with serving(*words, STUNTBROKER_LOG_LEVEL="error", **variables) as broker:
        bootstrap = f"127.0.0.1:{broker.address[1]}"
        shown: Any = run("config", "describe", "--broker", "1", "--bootstrap", bootstrap).stdout
        topics = run("topic", "list", "--json", "--bootstrap", bootstrap).stdout
        status, _, log = broker.end()

    values = dict(line.split()[:2] for line in shown.splitlines())
    assert values["num.partitions"] == "2"
    assert values["log.segment.bytes"] == "3000000"
    assert values["message.max.bytes"] == "6000"
    assert values["stuntbroker.mapped.address"] == "b:2"
    assert '"partitions": 4' in topics
    assert status == 0
    assert "unknown_variables_ignored" in log and "KAFKA_NUM_PARTITION" in log


def test_a_data_folder_that_cannot_be_written_is_reported_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ownership_advice(str(tmp_path / "below" / "it")) == ""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert f"{tmp_path} belongs to user {os.geteuid()}" in ownership_advice(str(tmp_path / "below" / "it"))
    with monkeypatch.context() as read_only:
        read_only.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
        assert (
            ownership_advice(str(tmp_path))
            == f"; {tmp_path} is mounted read-only: mount it without `:ro` or `read_only`"
        )
        assert "nothing is mounted there" in ownership_advice("/kafka-nowhere/logs")
    assert ownership_advice("kafka-nowhere/logs")
    assert "nothing is mounted there: mount a volume at /kafka-nowhere/logs" in ownership_advice("/kafka-nowhere/logs")
