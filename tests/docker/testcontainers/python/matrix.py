"""Runs each Kafka module of Testcontainers for Python, unmodified, with the image in IMAGE; one line per module.

`matrix.py [part of a name ...]` runs each module in a process of its own, ended after MODULE_TIMEOUT seconds.
"""

import os
import re
import subprocess
import sys
import time
import uuid
import warnings

warnings.simplefilter("ignore")
IMAGE = os.environ["IMAGE"]
RUN = os.environ.get("RUN", "manual")
TIMEOUT = int(os.environ.get("MODULE_TIMEOUT", "60"))
LOGS = os.environ.get("LOGS", "logs")
IS_VERSION = re.search(r":v?\d+(\.\d+)*$", IMAGE)
KRAFT_IMAGE = IMAGE if IS_VERSION and int(re.search(r"\d+", IS_VERSION[0])[0]) >= 7 else os.environ.get("IMAGE7", IMAGE)
"""with_kraft() reads the tag as a version, of at least 7.0.0."""


def kafka():
    from testcontainers.community.kafka import KafkaContainer

    return KafkaContainer(IMAGE), lambda c: c.get_bootstrap_server()


def kafka_kraft():
    from testcontainers.community.kafka import KafkaContainer

    return KafkaContainer(KRAFT_IMAGE).with_kraft(), lambda c: c.get_bootstrap_server()


def redpanda():
    from testcontainers.community.kafka import RedpandaContainer

    return RedpandaContainer(IMAGE), lambda c: c.get_bootstrap_server()


def generic():
    from testcontainers.core.container import DockerContainer

    def bootstrap(container):
        address = f"{container.get_container_host_ip()}:{container.get_exposed_port(9092)}"
        # Set the advertised address in the container, as the random port is only known after its start.
        if os.environ.get("ADVERTISE") != "0":
            code, output = container.exec(["stuntbroker", "advertise", address])
            if code:
                print(
                    f"note: stuntbroker advertise: exit {code}: {output.decode().strip().splitlines()[-1:]}",
                    file=sys.stderr,
                )
        return address

    return DockerContainer(IMAGE).with_exposed_ports(9092), bootstrap


MODULES = {
    "KafkaContainer": kafka,
    "KafkaContainer.with_kraft": kafka_kraft,
    "RedpandaContainer": redpanda,
    "generic": generic,
}


def transact(bootstrap: str) -> str | None:
    """Commit one transaction (after one that is aborted) and read it back with read_committed."""
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"tc-{uuid.uuid4()}"
    common = {"bootstrap.servers": bootstrap, "socket.timeout.ms": 10_000, "log_level": 0}
    admin = AdminClient(common)
    admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=15)[topic].result(15)
    producer = Producer(common | {"transactional.id": f"tx-{topic}", "transaction.timeout.ms": 15_000})
    producer.init_transactions(15)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", b"k")
    producer.flush(10)
    producer.abort_transaction(15)
    producer.begin_transaction()
    producer.produce(topic, b"committed", b"k")
    producer.commit_transaction(15)
    consumer = Consumer(
        common | {"group.id": f"g-{topic}", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values, end = [], time.time() + 15
    while not values and time.time() < end:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return None if values == [b"committed"] else f"read {values} instead of [b'committed']"


def single(name: str) -> int:
    begin = time.time()
    container, bootstrap = MODULES[name]()
    container.with_kwargs(**(container._kwargs | {"labels": {"tc-matrix": RUN}}))
    try:
        container.start()
        up = time.time() - begin
        fault = transact(bootstrap(container))
        print(f"{fault or 'ok'}\t{up:.1f}")
        return 1 if fault else 0
    finally:
        if container._container is not None:
            with open(f"{LOGS}/python-{name}.log", "wb") as file:
                file.write(container._container.logs())
            container.stop()


def main(parts: list[str]) -> int:
    failed = 0
    for name in MODULES:
        if parts and not any(part in name for part in parts):
            continue
        begin = time.time()
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--one", name], capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
            fault = (
                None if done.returncode == 0 else (done.stdout.split("\t")[0] or done.stderr.strip().splitlines()[-1])
            )
            up = done.stdout.strip().rpartition("\t")[2]
            for line in done.stderr.splitlines():
                if line.startswith("note:"):
                    print(line, file=sys.stderr)
        except subprocess.TimeoutExpired:
            fault, up = f"not done after {TIMEOUT} s", ""
        took = f"({time.time() - begin:.1f} s{f', up after {up} s' if up else ''})"
        print(
            f"PASS python {name} {took}"
            if fault is None
            else f"FAIL python {name}: {' '.join(fault.split())[:600]} {took}",
            flush=True,
        )
        failed += fault is not None
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        sys.exit(single(sys.argv[2]))
    sys.exit(main(sys.argv[1:]))
