"""Compose files that were written for other images work when `image:` is changed, for clients in three places.

Each style has the variables and the ports of the examples that its image is known by.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from tests.kit.keystore_files import PASSWORD, write_keystores
from tests.kit.processes.engine import DEADLINE_S, docker
from tests.kit.processes.free_ports import free_ports

ROOT = Path(__file__).parents[2]


class Style(NamedTuple):
    """A compose file with HOST_PORT as the port on the host, and the broker's address for clients within the network."""

    text: str
    inside: str
    has_tls: bool = False
    """Whether clients need TLS, with a client certificate."""


APACHE = """
services:
  broker:
    image: @IMAGE@
    hostname: broker
    container_name: @NAME@
    ports: ["HOST_PORT:9092"]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
      KAFKA_ADVERTISED_LISTENERS: "PLAINTEXT_HOST://localhost:HOST_PORT,PLAINTEXT://broker:19092"
      KAFKA_PROCESS_ROLES: "broker,controller"
      KAFKA_CONTROLLER_QUORUM_VOTERS: "1@broker:29093"
      KAFKA_LISTENERS: "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092"
      KAFKA_INTER_BROKER_LISTENER_NAME: "PLAINTEXT"
      KAFKA_CONTROLLER_LISTENER_NAMES: "CONTROLLER"
      CLUSTER_ID: "4L6g3nShT-eMCtK--X86sw"
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: 0
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_LOG_DIRS: "/tmp/kraft-combined-logs"
"""
APACHE_TLS = """
services:
  broker:
    image: @IMAGE@
    hostname: broker
    container_name: @NAME@
    ports: ["HOST_PORT:9093"]
    volumes: ["@SECRETS@:/etc/kafka/secrets:ro"]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: "CONTROLLER:PLAINTEXT,SSL:SSL,SSL-INTERNAL:SSL"
      KAFKA_ADVERTISED_LISTENERS: "SSL://localhost:HOST_PORT,SSL-INTERNAL://broker:19093"
      KAFKA_PROCESS_ROLES: "broker,controller"
      KAFKA_CONTROLLER_QUORUM_VOTERS: "1@broker:29093"
      KAFKA_LISTENERS: "CONTROLLER://:29093,SSL://:9093,SSL-INTERNAL://:19093"
      KAFKA_INTER_BROKER_LISTENER_NAME: "SSL-INTERNAL"
      KAFKA_CONTROLLER_LISTENER_NAMES: "CONTROLLER"
      CLUSTER_ID: "4L6g3nShT-eMCtK--X86sw"
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_SSL_KEYSTORE_FILENAME: "server.pkcs12"
      KAFKA_SSL_KEYSTORE_CREDENTIALS: "creds"
      KAFKA_SSL_KEY_CREDENTIALS: "creds"
      KAFKA_SSL_TRUSTSTORE_FILENAME: "trust.pkcs12"
      KAFKA_SSL_TRUSTSTORE_CREDENTIALS: "creds"
      KAFKA_SSL_CLIENT_AUTH: "required"
"""
CONFLUENT = """
services:
  broker:
    image: @IMAGE@
    hostname: broker
    container_name: @NAME@
    ports: ["HOST_PORT:HOST_PORT", "9101"]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
      KAFKA_ADVERTISED_LISTENERS: "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:HOST_PORT"
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: 0
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_JMX_PORT: 9101
      KAFKA_JMX_HOSTNAME: localhost
      KAFKA_PROCESS_ROLES: "broker,controller"
      KAFKA_CONTROLLER_QUORUM_VOTERS: "1@broker:29093"
      KAFKA_LISTENERS: "PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:HOST_PORT"
      KAFKA_INTER_BROKER_LISTENER_NAME: "PLAINTEXT"
      KAFKA_CONTROLLER_LISTENER_NAMES: "CONTROLLER"
      KAFKA_LOG_DIRS: "/tmp/kraft-combined-logs"
      CLUSTER_ID: "MkU3OEVBNTcwNTJENDM2Qk"
    healthcheck:
      test: kafka-topics --bootstrap-server broker:29092 --list
      interval: 1s
"""
CONFLUENT_ZOOKEEPER = """
services:
  broker:
    image: @IMAGE@
    hostname: broker
    container_name: @NAME@
    ports: ["HOST_PORT:HOST_PORT"]
    environment:
      KAFKA_BROKER_ID: 1
      KAFKA_ZOOKEEPER_CONNECT: "zookeeper:2181"
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:HOST_PORT
      KAFKA_METRIC_REPORTERS: io.confluent.metrics.reporter.ConfluentMetricsReporter
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR: 1
"""
BITNAMI = """
services:
  broker:
    image: @IMAGE@
    hostname: broker
    container_name: @NAME@
    ports: ["HOST_PORT:9094"]
    volumes: ["data:/bitnami"]
    environment:
      - KAFKA_CFG_NODE_ID=0
      - KAFKA_CFG_PROCESS_ROLES=controller,broker
      - KAFKA_CFG_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094
      - KAFKA_CFG_ADVERTISED_LISTENERS=PLAINTEXT://broker:9092,EXTERNAL://localhost:HOST_PORT
      - KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT
      - KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@broker:9093
      - KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
      - ALLOW_PLAINTEXT_LISTENER=yes
volumes:
  data: {}
"""
REDPANDA = """
services:
  broker:
    image: @IMAGE@
    hostname: broker
    container_name: @NAME@
    command:
      - redpanda
      - start
      - --kafka-addr internal://0.0.0.0:9092,external://0.0.0.0:19092
      - --advertise-kafka-addr internal://broker:9092,external://localhost:HOST_PORT
      - --pandaproxy-addr internal://0.0.0.0:8082,external://0.0.0.0:18082
      - --rpc-addr broker:33145
      - --mode dev-container
      - --smp 1
      - --default-log-level=info
    ports: ["HOST_PORT:19092"]
    healthcheck:
      test: ["CMD-SHELL", "rpk cluster health | grep -E 'Healthy:.+true' || exit 1"]
      interval: 1s
"""
NOTHING_SET = """
services:
  broker:
    image: @IMAGE@
    hostname: broker
    container_name: @NAME@
    ports: ["HOST_PORT:9092"]
    command: ["stuntbroker", "serve", "--container", "--set", "stuntbroker.mapped.address=localhost:HOST_PORT"]
"""
STYLES = {
    "apache/kafka, one node": Style(APACHE, "broker:19092"),
    "apache/kafka, one node with TLS": Style(APACHE_TLS, "broker:19093", has_tls=True),
    "cp-kafka, KRaft": Style(CONFLUENT, "broker:29092"),
    "cp-kafka, ZooKeeper": Style(CONFLUENT_ZOOKEEPER, "broker:29092"),
    "bitnami": Style(BITNAMI, "broker:9092"),
    "redpanda": Style(REDPANDA, "broker:9092"),
    "ours": Style(NOTHING_SET, "broker:9092"),
}


def compose_command() -> list[str]:
    """Return the command `docker compose`, or the older `docker-compose`; skip if neither is installed."""
    if subprocess.run(["docker", "compose", "version"], check=False, capture_output=True).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.skip("there is neither `docker compose` nor `docker-compose` here")


def commit_and_read(bootstrap: str, security: dict[str, str]) -> None:
    """A client on this machine commits a transaction and reads it back."""
    there = {"bootstrap.servers": bootstrap, **security}
    producer = Producer({**there, "transactional.id": "on-the-host", "log_level": 0})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce("from-the-host", b"committed")
    producer.commit_transaction(DEADLINE_S)
    settings = {**there, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"isolation.level": "read_committed"})
    consumer.subscribe(["from-the-host"])
    message = consumer.poll(DEADLINE_S)
    consumer.close()
    assert message is not None and message.error() is None
    assert message.value() == b"committed"


def tls_of_clients(folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Write keystores into a folder; return librdkafka's options on this machine, and those of commands in a container."""
    write_keystores(folder)
    (folder / "creds").write_text(f"{PASSWORD}\n")
    secrets = "/etc/kafka/secrets"
    lines = ("security.protocol=SSL", f"ssl.truststore.location={secrets}/trust.pem")
    (folder / "client.properties").write_text("\n".join((*lines, f"ssl.keystore.location={secrets}/client.pem\n")))
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)
    own = str(folder / "client.pem")
    files = {"ssl.ca.location": str(folder / "trust.pem"), "ssl.certificate.location": own, "ssl.key.location": own}
    return {"security.protocol": "ssl", **files}, ("--command-config", f"{secrets}/client.properties")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("style", STYLES)
def test_a_compose_file_needs_only_its_image_changed(image: str, style: str, tmp_path: Path) -> None:
    compose = compose_command()
    (port,) = free_ports(1)
    name = f"stuntbroker-compose-{port}"
    file = tmp_path / "compose.yaml"
    text = STYLES[style].text.replace("@IMAGE@", image).replace("HOST_PORT", str(port)).replace("@NAME@", name)
    security, config, secrets = {}, (), ()
    if STYLES[style].has_tls:
        text = text.replace("@SECRETS@", str(tmp_path))
        security, config = tls_of_clients(tmp_path)
        secrets = ("--volume", f"{tmp_path}:/etc/kafka/secrets:ro")
    file.write_text(f'version: "3.8"\n{text}')

    def run(*words: str) -> str:
        command = [*compose, "--project-name", name, "--file", str(file), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    run("up", "--detach")
    try:
        docker("exec", name, "stuntbroker", "wait", "--container", "--timeout", "20")

        commit_and_read(f"localhost:{port}", security)

        inside = STYLES[style].inside
        words = ("produce", "inside", "value", "--transactional-id", "inside", "--bootstrap", inside, *config)
        network = ("run", "--rm", "--network", f"{name}_default", *secrets, image, "stuntbroker")
        assert "committed 1 record to inside" in docker(*network, *words)
        assert docker(*network, "consume", "inside", "--bootstrap", inside, *config).strip() == "value"
        there = ("--bootstrap-server", inside, *config)
        assert "from-the-host" in docker("exec", name, "kafka-topics.sh", *there, "--list")
        log = docker("logs", name)
        assert "unknown_variables_ignored" not in log
        if "healthcheck" in text:
            _wait_until_healthy(name)
    finally:
        run("down", "--volumes", "--timeout", "2")


def _wait_until_healthy(name: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while docker("inspect", "--format", "{{.State.Health.Status}}", name).strip() != "healthy":
        assert time.monotonic() < deadline, docker("inspect", "--format", "{{json .State.Health}}", name)
        time.sleep(0.2)


@pytest.mark.timeout(180)
def test_the_compose_file_of_this_repository_commits_transactions(image: str) -> None:
    compose = compose_command()
    (port,) = free_ports(1)
    name = f"stuntbroker-own-{port}"
    environment: dict[str, Any] = {"PORT": str(port), "STUNTBROKER_IMAGE": image}
    command = [*compose, "--project-name", name, "--file", str(ROOT / "docker" / "compose.yaml")]
    try:
        done = subprocess.run(
            [*command, "up", "--exit-code-from", "client"],
            check=False,
            capture_output=True,
            text=True,
            env=os.environ | environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        subprocess.run(
            [*command, "down", "--volumes", "--timeout", "2"],
            check=False,
            capture_output=True,
            env=os.environ | environment,
        )
