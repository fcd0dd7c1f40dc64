"""Apache Kafka and our broker, one of each for all cases.

    pytest tests/conformance                          both are started, and ended
    pytest tests/conformance --kafka=localhost:9092   Kafka is there already

The option exists only when tests/conformance is named on the command line: pytest reads it before it looks further.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.conformance.side import prepare
from tests.peers.kafka_broker import apache_kafka
from tests.peers.our_broker import our_broker

SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
"""What Kafka is started with too, as far as a reply shows it."""

SWEEP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
SWEEP_MS = 100
"""How often both look for transactions whose time is over. Kafka's own pace is ten seconds."""


class Pair(NamedTuple):
    kafka: str
    ours: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", default="", metavar="HOST:PORT", help="an Apache Kafka that is running already")


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("conformance")
    with ExitStack() as running:
        kafka = request.config.getoption("kafka", "") or running.enter_context(
            apache_kafka(folder / "kafka", **{SWEEP.replace(".", "_"): SWEEP_MS})
        )
        settings = [f"{name}={value}" for name, value in SETTINGS.items()] + [f"{SWEEP}={SWEEP_MS}"]
        ours = running.enter_context(our_broker(folder / "ours", folder / "stderr.log", *settings))
        for address in (kafka, ours):
            prepare(address)
        yield Pair(kafka, ours)
