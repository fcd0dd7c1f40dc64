"""A broker that a test controls, and clients of four languages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stuntbroker
from stuntbroker.fixture.broker import Broker
from tests.kit.programs.by_command import Client
from tests.peers.control.payer import (
    CLIENTS,
)


@pytest.fixture(scope="module", params=CLIENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def clients(name: str) -> Iterator[Client]:
    running = CLIENTS[name]()
    yield running
    running.close()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    options = {"properties": {}, "nodes": 1, **getattr(request, "param", {})}
    with stuntbroker.broker(options["properties"], topics={"paid": 2}, nodes=options["nodes"]) as running:
        yield running
        assert "request_crashed" not in running.log


@pytest.fixture
def client(clients: Client, broker: Broker) -> Iterator[Client]:
    """Yield the client; afterwards, close its producers before the broker ends."""
    yield clients
    broker.faults.clear()
    broker.stops.clear()
    clients.close_producers()
