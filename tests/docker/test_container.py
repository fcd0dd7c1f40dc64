"""The image in an engine: users, file systems, volumes, a port that is known late, and its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from stuntbroker.fixture.control import ControlClient
from tests.kit.keystore_files import PASSWORD, write_keystores
from tests.kit.processes.engine import DEADLINE_S, docker
from tests.kit.processes.free_ports import free_ports

Start = Callable[..., str]


def wait_until_ready(container: str) -> None:
    docker("exec", container, "stuntbroker", "wait", "--container", "--timeout", "20")


def mapped_port(container: str) -> int:
    return int(docker("port", container, "9092").splitlines()[0].rpartition(":")[2])


@pytest.mark.parametrize("user", ["", "0", "4711:0", "4711:4711"])
def test_any_user_may_run_the_image(started: Start, user: str) -> None:
    container = started(*(("--user", user) if user else ()))

    wait_until_ready(container)
    assert "Created topic t." in docker("exec", container, "kafka-topics.sh", "--create", "--topic", "t")


def test_the_image_runs_on_a_read_only_file_system(started: Start) -> None:
    container = started("--read-only")

    wait_until_ready(container)
    docker("exec", container, "stuntbroker", "produce", "t", "value", "--transactional-id", "id")
    assert "data_not_kept" in docker("logs", container)


@pytest.mark.parametrize("folder", ["/var/lib/kafka/data", "/kafka", "/tmp/kraft-combined-logs"])
def test_data_in_a_volume_survives_its_container(started: Start, image: str, folder: str) -> None:
    volume = docker("volume", "create").strip()
    try:
        first = started("--volume", f"{volume}:{folder}")
        wait_until_ready(first)
        docker("exec", first, "stuntbroker", "produce", "kept", "value")
        docker("stop", first)
        second = started("--volume", f"{volume}:{folder}")
        wait_until_ready(second)
        assert docker("exec", second, "stuntbroker", "consume", "kept").strip() == "value"
        docker("rm", "--force", first, second)
    finally:
        docker("volume", "rm", volume)


def test_a_mounted_folder_with_other_files_is_not_taken_for_data(started: Start, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "create-topics.sh").touch()
    container = started("--volume", f"{tmp_path}:/kafka")
    wait_until_ready(container)

    docker("exec", container, "stuntbroker", "produce", "t", "value")
    assert [path.name for path in tmp_path.iterdir()] == ["create-topics.sh"]


@pytest.mark.parametrize(
    "folder", ["/mnt/shared/config", "/bitnami/kafka/config", "/opt/bitnami/kafka/config", "/opt/kafka/config"]
)
def test_a_properties_file_is_read_where_other_images_read_it(started: Start, tmp_path: Path, folder: str) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "server.properties").write_text("num.partitions=4\n", encoding="utf-8")
    container = started("--volume", f"{tmp_path / 'server.properties'}:{folder}/server.properties:ro")
    wait_until_ready(container)

    docker("exec", container, "sh", "-c", "$KAFKA_HOME/bin/kafka-topics.sh --create --topic t")
    assert "PartitionCount: 4" in docker("exec", container, "bin/kafka-topics.sh", "--describe", "--topic", "t")


def test_the_port_of_an_older_image_is_only_advertised(started: Start) -> None:
    container = started("--env", "KAFKA_ADVERTISED_HOST_NAME=localhost", "--env", "KAFKA_ADVERTISED_PORT=29093")
    wait_until_ready(container)
    docker("exec", container, "cub", "zk-ready", "localhost:9092", "5")
    assert docker("exec", container, "rpk", "cluster", "info").split()[-2:] == ["localhost", "29093"]


def test_a_data_folder_of_root_is_refused_with_the_remedy(started: Start, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    container = started("--volume", f"{tmp_path}:/var/lib/kafka/data")

    assert docker("wait", container).strip() == "1"
    line = docker("logs", container).strip().splitlines()[-1]
    assert "/var/lib/kafka/data belongs to user 0, and the broker runs as user 10001" in line
    assert "run `chown 10001` on the folder that is mounted there, or start the container with --user 0" in line
    assert not list(tmp_path.iterdir())


def test_a_client_gets_a_random_mapped_port_once_it_is_advertised(started: Start) -> None:
    container = started("--publish", "9092")
    wait_until_ready(container)
    address = f"localhost:{mapped_port(container)}"

    assert f"get the address {address}" in docker("exec", container, "stuntbroker", "advertise", address)

    producer = Producer({"bootstrap.servers": address, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(DEADLINE_S)
    docker("exec", container, "stuntbroker", "topic", "list")  # Within the container, the address is unchanged.


def test_an_early_client_waits_until_the_mapped_port_is_advertised(started: Start) -> None:
    container = started("--publish", "9092", "--env", "STUNTBROKER_MAPPED_ADDRESS_WAIT_MS=60000")
    wait_until_ready(container)
    address = f"localhost:{mapped_port(container)}"
    producer = Producer({"bootstrap.servers": address, "transactional.id": "t", "log_level": 0})
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(producer.init_transactions, DEADLINE_S)
        with pytest.raises(TimeoutError):
            waiting.result(1)
        docker("exec", container, "stuntbroker", "advertise", address)
        waiting.result(DEADLINE_S)


def test_the_control_api_of_a_container_is_usable_from_the_host(started: Start) -> None:
    container = started(
        "--publish", "9095", "--env", "STUNTBROKER_CONTROL=0.0.0.0:9095", "--env", "STUNTBROKER_CONTROL_TOKEN=s"
    )
    wait_until_ready(container)
    port = int(docker("port", container, "9095").splitlines()[0].rpartition(":")[2])

    client = ControlClient(f"http://localhost:{port}", "s")
    client.post("/v1/clock/advance", {"ms": 1_000})
    assert client.get("/v1/clock")["ahead_ms"] >= 1_000
    client.close()


def test_the_image_has_an_sbom_of_its_components(started: Start) -> None:
    container = started()
    listed = json.loads(docker("exec", container, "cat", "/opt/stuntbroker/sbom.cdx.json"))
    names = {each["name"] for each in listed["components"]}
    assert {"stuntbroker", "aiokafka", "uvicorn"} <= names
    assert not names & {"pip", "mypy", "cyclonedx-bom"}


def test_docker_stop_ends_the_broker_with_exit_code_0(started: Start) -> None:
    container = started()
    wait_until_ready(container)

    docker("stop", "--time", "30", container)

    (state,) = json.loads(docker("inspect", container))
    assert state["State"]["ExitCode"] == 0  # The status would be 137 if it was killed after 30 s.


def test_a_starting_container_stops_on_sigterm(image: str) -> None:
    for _ in range(5):
        container = docker("run", "--detach", image)
        try:
            docker("kill", "--signal", "TERM", container)
            assert docker("wait", container).strip() in ("0", "143")  # 143: before it has signal handlers.
        finally:
            docker("rm", "--force", container)


def test_an_unknown_environment_variable_is_reported_by_name(started: Start) -> None:
    container = started(
        "--env",
        "KAFKA_NUM_PARTITIONS=3",
        "--env",
        "KAFKA_NUM_PARTITION=3",
        "--env",
        "KAFKA_HEAP_OPTS=-Xmx1g",
        "--env",
        "STUNTBROKER_TOPICS=orders:2,payments",
    )
    wait_until_ready(container)

    log = docker("logs", container)
    assert "variables=['KAFKA_NUM_PARTITION']" in log
    assert "variables_ignored              variables=['KAFKA_HEAP_OPTS']" in log
    described = docker("exec", container, "kafka-topics", "--describe")
    assert "Topic: orders\t" in described and "PartitionCount: 2" in described and "PartitionCount: 3" in described


def test_an_invalid_environment_variable_is_reported_with_its_cause(started: Start) -> None:
    container = started("--env", "KAFKA_LISTENERS=SSL://0.0.0.0:9092")

    assert docker("wait", container).strip() == "2"
    assert "listener SSL: ssl.keystore.location: not set" in docker("logs", container)


def test_the_keystores_of_apaches_example_secure_a_listener_and_the_container_is_healthy(
    started: Start, tmp_path: Path
) -> None:
    write_keystores(tmp_path)
    (tmp_path / "creds").write_text(f"{PASSWORD}\n")
    for path in (tmp_path, *tmp_path.iterdir()):
        path.chmod(0o755)
    (port,) = free_ports(1)
    variables = {
        "KAFKA_LISTENERS": "SSL://:9092",
        "KAFKA_ADVERTISED_LISTENERS": f"SSL://localhost:{port}",
        "KAFKA_SSL_KEYSTORE_FILENAME": "server.pkcs12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
        "KAFKA_SSL_KEY_CREDENTIALS": "creds",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "trust.pkcs12",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "creds",
        "KAFKA_SSL_CLIENT_AUTH": "required",
    }
    settings = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    container = started("--publish", f"{port}:9092", "--volume", f"{tmp_path}:/etc/kafka/secrets:ro", *settings)
    wait_until_ready(container)

    producer = Producer(
        {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "ssl",
            "ssl.ca.location": str(tmp_path / "trust.pem"),
            "ssl.certificate.location": str(tmp_path / "client.pem"),
            "ssl.key.location": str(tmp_path / "client.pem"),
            "transactional.id": "secured",
        }
    )
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce("orders", "value")
    producer.commit_transaction(DEADLINE_S)
    assert "without_effect" not in docker("logs", container)


def test_acls_are_switched_on_by_variables_and_set_by_kafka_s_command(started: Start) -> None:
    variables = {
        "KAFKA_AUTHORIZER_CLASS_NAME": "kafka.security.authorizer.AclAuthorizer",
        "KAFKA_SUPER_USERS": "User:ANONYMOUS",
        "KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "false",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CLIENT://:9093",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,CLIENT://localhost:9093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT",
        "KAFKA_STUNTBROKER_PRINCIPAL": "CLIENT:User:alice",
    }
    container = started(*(word for name, value in variables.items() for word in ("--env", f"{name}={value}")))
    wait_until_ready(container)
    command = ("exec", container, "kafka-acls.sh", "--bootstrap-server", "localhost:9092")
    produce = ("exec", container, "stuntbroker", "produce", "orders", "value", "--bootstrap", "localhost:9093")

    with pytest.raises(AssertionError, match="TOPIC_AUTHORIZATION_FAILED"):
        docker(*produce)
    added = docker(*command, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    assert "operation=WRITE, permissionType=ALLOW" in added
    docker(*produce)
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in docker(*command, "--list")
    assert "without_effect" not in docker("logs", container)


def test_the_image_has_no_pip_no_compiler_and_is_small(image: str) -> None:
    script = "for tool in pip pip3 gcc cc; do command -v $tool; done; python -m pip --version 2>&1 | tail -1"
    lines = docker("run", "--rm", image, "sh", "-c", script).strip().splitlines()
    assert lines[-1].endswith("No module named pip") and len(lines) == 1
    size = int(docker("run", "--rm", image, "du", "-sk", "/opt/stuntbroker").split()[0])
    assert size < 40 << 10
    (described,) = json.loads(docker("inspect", image))
    assert described["Config"]["Labels"]["org.opencontainers.image.title"] == "Stuntbroker"
    assert described["Config"]["Volumes"] is None
    assert "compiled" in docker("run", "--rm", image, "stuntbroker", "version")
