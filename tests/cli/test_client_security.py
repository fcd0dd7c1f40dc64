"""`--command-config`: our commands, Kafka's and rpk with TLS and SASL."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stuntbroker.cli.arguments import UsageError
from stuntbroker.cli.client_security import security, security_of_command
from stuntbroker.cli.main import run
from stuntbroker.cli.shims.arguments import CommandError
from stuntbroker.cli.shims.rpk.security import client_properties_of
from stuntbroker.client.commands.cluster import REFUSALS_MAX, Cluster
from stuntbroker.client.errors import AuthenticationFailed, Refused
from stuntbroker.client.security import blocking_security
from stuntbroker.client.security_properties import SecurityError
from stuntbroker.protocol.addresses import Address
from tests.kit.keystore_files import PASSWORD, write_keystores
from tests.kit.processes.process import serving

Capture = pytest.CaptureFixture[str]
PROTOCOLS = ("SASL_SSL", "SASL_PLAINTEXT", "SSL")
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
SCRAM = PLAIN.replace("plain.Plain", "scram.Scram")
TRUST = {"ssl.truststore.location": "trust.pem"}
CONFIGS: dict[str, tuple[str, dict[str, str]]] = {
    "PLAIN": ("SASL_PLAINTEXT", {"sasl.mechanism": "PLAIN  ", "sasl.jaas.config": PLAIN}),  # Kafka trims blanks.
    "SCRAM": ("SASL_PLAINTEXT", {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM}),
    "SCRAM and TLS": ("SASL_SSL", {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM, **TRUST}),
    "a certificate": ("SSL", {"ssl.keystore.location": "client.pem", **TRUST}),
    "a certificate, PKCS12": (
        "SSL",
        {
            "ssl.keystore.location": "client.pem",
            "ssl.truststore.location": "trust.pkcs12",
            "ssl.truststore.password": PASSWORD,
        },
    ),
}
"""Name -> listener, and the client's properties apart from `security.protocol`."""
REFUSED: dict[str, tuple[str, dict[str, str], str]] = {
    "a wrong password": (
        "SASL_SSL",
        CONFIGS["SCRAM and TLS"][1] | {"sasl.jaas.config": SCRAM.replace('"secret"', '"guess"')},
        "refuses user 'alice': Authentication failed",
    ),
    "a mechanism that is not enabled": (
        "SASL_PLAINTEXT",
        {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM, "listener": "no SHA-512"},
        "has no SCRAM-SHA-512; it has PLAIN, SCRAM-SHA-256",
    ),
    "an authority that is not trusted": (
        "SASL_SSL",
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
        "is not trusted: unable to get local issuer certificate",
    ),
    "another host name": (
        "SASL_SSL",
        CONFIGS["SCRAM and TLS"][1] | {"host": "127.0.0.1"},
        "is not trusted: IP address mismatch",
    ),
    "no certificate": ("SSL", TRUST, "refuses the TLS connection: TLSV13_ALERT_CERTIFICATE_REQUIRED"),
    "no TLS": ("PLAINTEXT", {"listener": "no SHA-512"}, "(does the listener need TLS or SASL, or other certificates?)"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    created = tmp_path_factory.mktemp("keystores")
    write_keystores(created)
    return created


@pytest.fixture(scope="module")
def ports(folder: Path) -> Iterator[dict[str, str]]:
    """Listener -> port of a broker with one listener per protocol, and one without SCRAM-SHA-512."""
    settings = {
        "listeners": ",".join(f"{name}://localhost:0" for name in (*PROTOCOLS, "LESS")),
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in PROTOCOLS) + ",LESS:SASL_PLAINTEXT",
        "listener.name.less.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "stuntbroker.users": "alice:secret",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.location": str(folder / "trust.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with serving(*words) as broker:
        ready = dict(word.split("=", 1) for word in broker.line.split()[1:])
        yield {name: ready[f"listener.{name}"].rpartition(":")[2] for name in (*PROTOCOLS, "LESS")}


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def config_file(folder: Path, protocol: str, properties: Mapping[str, str]) -> str:
    lines = {"security.protocol": protocol, **properties}
    (folder / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return "client.properties"


@pytest.mark.parametrize("name", CONFIGS)
def test_commands_reach_a_listener_with_tls_or_sasl(
    name: str, ports: dict[str, str], folder: Path, capsys: Capture
) -> None:
    protocol, properties = CONFIGS[name]
    topic = f"orders-{list(CONFIGS).index(name)}"
    there = ["--bootstrap", f"localhost:{ports[protocol]}"]
    there += ["--command-config", config_file(folder, protocol, properties)]

    assert run(["wait", "--timeout", "10", *there]) == 0
    assert run(["topic", "create", topic, *there]) == 0
    assert run(["produce", topic, "one", "--transactional-id", topic, *there]) == 0
    assert run(["produce", topic, "two", *there]) == 0
    capsys.readouterr()
    assert run(["consume", topic, *there]) == 0
    assert sorted(capsys.readouterr().out.split()) == ["one", "two"]
    assert run(["txn", "describe", "--transactional-id", topic, *there]) == 0
    assert "CompleteCommit" in capsys.readouterr().out


@pytest.mark.parametrize("name", REFUSED)
def test_a_command_says_why_a_listener_cannot_be_used(
    name: str, ports: dict[str, str], folder: Path, capsys: Capture
) -> None:
    protocol, properties, said = REFUSED[name]
    port = ports["LESS" if "listener" in properties else protocol]
    address = f"{properties.get('host', 'localhost')}:{port}"
    config = config_file(folder, protocol, properties)

    assert run(["topic", "list", "--bootstrap", address, "--command-config", config, "--timeout", "2"]) == 1
    assert said in capsys.readouterr().err


def test_kafka_s_commands_take_the_same_properties_file(
    ports: dict[str, str], folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_file(folder, *CONFIGS["SCRAM and TLS"])
    there = ["--bootstrap-server", f"SASL_SSL://localhost:{ports['SASL_SSL']}"]

    assert run(["kafka-topics.sh", "--create", "--topic", "lines", *there, "--command-config", config]) == 0
    # The command reads standard input through its file descriptor.
    reading, writing = _pipe(b"one\ntwo\n")
    with reading:
        monkeypatch.setattr(sys, "stdin", reading)
        assert run(["kafka-console-producer.sh", "--topic", "lines", *there, "--producer.config", config]) == 0
    writing.close()
    read = ["kafka-console-consumer.sh", "--topic", "lines", "--from-beginning", "--max-messages", "2", *there]
    capsys.readouterr()
    for group in ([], ["--group", "g"]):
        assert run([*read, *group, "--consumer.config", config, "--timeout-ms", "20000"]) == 0
        assert sorted(capsys.readouterr().out.split()) == ["one", "two"]
    given = [word for line in Path(config).read_text().splitlines() for word in ("--consumer-property", line)]
    assert run([*read, *given]) == 0


@pytest.mark.parametrize(
    ("protocol", "words", "variables"),
    [
        ("SASL_PLAINTEXT", "--user alice --password secret", {}),
        ("SASL_PLAINTEXT", "-X user=alice -X pass=secret -X sasl.mechanism=plain", {}),
        ("SASL_SSL", "--tls-enabled --tls-truststore trust.pem --sasl-mechanism SCRAM-SHA-512",
         {"RPK_USER": "alice", "RPK_PASS": "secret"}),
        ("SSL", "-X tls.ca=trust.pem --tls-cert client.pem --tls-key client.pem", {}),
        ("SSL", "--tls-insecure-skip-verify --tls-cert client.pem --tls-key client.pem", {}),
        ("SASL_SSL", "--user alice --password secret", {"RPK_TLS_INSECURE_SKIP_VERIFY": "true"}),
    ],
)  # fmt: skip
def test_rpk_takes_tls_and_sasl_options_and_variables(
    protocol: str,
    words: str,
    variables: dict[str, str],
    ports: dict[str, str],
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    at = f"localhost:{ports[protocol]}"

    assert run(["rpk", *shlex.split(words), "cluster", "info", "--brokers", at]) == 0
    assert ports[protocol] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: it must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI, the default, is not one that this client has"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism=OAUTHBEARER is not one that this client has"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.jaas.config: not set"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"}, "sasl.jaas.config: expected required, requisite"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "x required;"}, "it has no username and no password"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols: 'SSLv3' is none of"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'x required p="Sec'}, "character 14 is not closed"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "x required p=a=b;"}, "expected '=' before"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "no"}, "ssl.truststore.location: no: No such file"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "trust.pem"}, "there is no private key with a"),
    ],
)
def test_properties_that_cannot_be_used_are_named(properties: dict[str, str], said: str) -> None:
    with pytest.raises(SecurityError) as raised:
        security_of_command({"security.protocol": "SASL_PLAINTEXT", **properties})

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sasl.mechanizm", "sasl.mechanism"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("group.id", ""),
        ("ssl.key.location", ""),
    ],
)
def test_a_misspelt_property_in_a_file_is_an_error_and_those_of_other_programs_are_not(
    name: str, meant: str, tmp_path: Path
) -> None:
    (tmp_path / "client.properties").write_text(f"{name}=x\n")
    given = {"--command-config": [str(tmp_path / "client.properties")]}
    if not meant:
        assert security(given) is None
        return
    with pytest.raises(UsageError, match=f"unknown property {name}: do you mean {meant}\\?"):
        security(given)


def test_a_listener_that_refuses_a_client_ends_a_command_at_once() -> None:
    listener = ("--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0", "--set", "stuntbroker.users=alice:secret")
    with serving(*listener, "--set", "sasl.enabled.mechanisms=PLAIN") as broker:
        pauses: list[float] = []
        cluster = Cluster([Address(*broker.address)], sleep=pauses.append)
        with pytest.raises(Refused, match="does the listener need TLS or SASL"):
            cluster.retrying(lambda: cluster.metadata([]))
        assert len(pauses) == REFUSALS_MAX - 1


def test_a_producer_with_a_wrong_password_is_refused_and_not_retried() -> None:
    listener = ("--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0", "--set", "stuntbroker.users=alice:secret")
    options = blocking_security(
        {"security_protocol": "SASL_PLAINTEXT", "sasl_plain_username": "alice", "sasl_plain_password": "wrong"}
    )
    with (
        serving(*listener, "--set", "sasl.enabled.mechanisms=PLAIN") as broker,
        Cluster([Address(*broker.address)], security=options, sleep=lambda _: pytest.fail("it is retried")) as cluster,
        pytest.raises(AuthenticationFailed),
    ):
        cluster.producer("pay")


def test_a_login_module_may_be_in_the_file_that_kafka_opts_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jaas.conf").write_text(f"KafkaServer {{ {PLAIN} }};\nKafkaClient {{ {SCRAM} }};\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={tmp_path / 'jaas.conf'}")

    security = security_of_command({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"})

    assert security is not None
    assert (security["sasl_plain_username"], security["sasl_plain_password"]) == ("alice", "secret")


def test_names_and_passwords_of_rpk_may_have_any_characters() -> None:
    given = {"user": 'a"b\\', "pass": "c;d e='"}

    security = security_of_command(client_properties_of(given, {}))

    assert security is not None
    assert (security["sasl_plain_username"], security["sasl_plain_password"]) == (given["user"], given["pass"])


@pytest.mark.parametrize("name", ["pass", "sasl.mechanism"])
def test_rpk_refuses_sasl_options_without_a_user(name: str) -> None:
    with pytest.raises(CommandError, match=f"^-X {name} needs -X user$"):
        client_properties_of({name: "PLAIN"}, {})


def test_an_empty_identification_algorithm_skips_the_host_name_check(ports: dict[str, str], folder: Path) -> None:
    properties = CONFIGS["SCRAM and TLS"][1] | {"ssl.endpoint.identification.algorithm": ""}
    config = config_file(folder, "SASL_SSL", properties)

    assert run(["topic", "list", "--bootstrap", f"127.0.0.1:{ports['SASL_SSL']}", "--command-config", config]) == 0


def _pipe(data: bytes) -> tuple[io.TextIOWrapper, io.BufferedWriter]:
    import os

    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return io.TextIOWrapper(os.fdopen(reading, "rb")), open(os.devnull, "wb")
