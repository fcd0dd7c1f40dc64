"""Make helpers importable, and start the brokers for the tests of commands: ours and Apache Kafka, once each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

from producers import Hand

from tests.kit.brokers.kafka_broker import apache_kafka
from tests.kit.brokers.our_broker import our_broker

PROPERTIES = {
    "transaction.partition.verification.enable": "false",  # Otherwise no transaction could hang.
    "transaction.two.phase.commit.enable": "true",
    "num.partitions": "2",
}


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run our broker; yield "host:port"."""
    folder = tmp_path_factory.mktemp("ours")
    settings = [f"{name}={value}" for name, value in PROPERTIES.items()]
    with our_broker(folder / "data", folder / "stderr.log", *settings) as address:
        yield address


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run Apache Kafka; yield "host:port". Skip the test if there is no JDK."""
    settings = {name.replace(".", "_"): value for name, value in PROPERTIES.items()}
    with apache_kafka(tmp_path_factory.mktemp("kafka"), unstable_api_versions_enable="true", **settings) as address:
        yield address


@pytest.fixture(params=["ours", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Return the address of each broker in turn."""
    address: str = request.getfixturevalue(request.param)
    return address


@pytest.fixture
def hand(bootstrap: str) -> Iterator[Hand]:
    created = Hand(bootstrap)
    yield created
    created.close()


@pytest.fixture
def own(request: pytest.FixtureRequest) -> str:
    """Return a prefix for names that no other test uses."""
    return f"{request.node.originalname.removeprefix('test_')[:40]}-"
