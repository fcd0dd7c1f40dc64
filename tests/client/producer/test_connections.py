"""Connections that break at an awkward moment."""

from __future__ import annotations

import pytest
from model_broker import ModelBroker

from stuntbroker.client.producer.connections import Connections
from stuntbroker.client.producer.coordination import FIND_COORDINATOR
from stuntbroker.client.producer.errors import DisconnectedError
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.find_coordinator_response import FindCoordinatorResponse


async def test_a_write_that_the_event_loop_refuses_is_a_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop raises RuntimeError for a transport that was closed, before it has told whoever reads from it."""
    request = FindCoordinatorRequest("id", 1, ["id"])

    async def run(connections: Connections) -> FindCoordinatorResponse:
        return await connections.ask(1, FIND_COORDINATOR, request, FindCoordinatorResponse, most=3)

    def refuse(data: bytes) -> None:
        raise RuntimeError(f"unable to write {len(data)} bytes; the handler is closed")

    with ModelBroker(2) as broker:
        connections = Connections(bootstrap_servers=str(broker.address))
        await connections.start()
        try:
            await run(connections)
            monkeypatch.setattr((await connections.link(1)).connection._writer, "write", refuse)
            with pytest.raises(DisconnectedError):
                await run(connections)
            assert (await run(connections)).node_id == 1
        finally:
            await connections.stop()
