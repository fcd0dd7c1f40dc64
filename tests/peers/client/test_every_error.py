"""Every error code in the response to each request: the application of KIP-691 goes on from what the broker has."""

from __future__ import annotations

import asyncio

import pytest

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.groups import committed_offsets
from stuntbroker.client.producer.error_table import Request, kind_of
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.errors import ErrorCode
from tests.kit.brokers.clusters import Clusters
from tests.kit.transactions.application import Application
from tests.kit.transactions.faults import CASES, FATAL, Fault, fault_of
from tests.kit.transactions.faulty_wire import FaultyWire
from tests.peers.aiokafka_steps import create_topic
from tests.peers.client.committed import committed

INPUTS = 2
FENCES = (1, Request.END_TXN_ABORT, ErrorCode.UNKNOWN_PRODUCER_ID)
"""(transaction version, request, code): the coordinator has not forgotten the producer, and fences it by InitProducerId."""


def faults_of(request: Request) -> dict[str, Fault]:
    """Every error code, and a connection that breaks before the request and after it."""
    faults = {code.name: fault_of(request, code) for code in ErrorCode if code}
    return faults | {"lost request": Fault(None), "lost response": Fault(None, is_applied=True)}


@pytest.mark.parametrize(("level", "request_kind"), CASES)
async def test_the_application_writes_everything_once_and_restarts_only_after_a_fatal_error(
    clusters: Clusters, own: str, level: int, request_kind: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = clusters.bootstrap(f"tv{level}")
    topic = await create_topic(bootstrap, own, partitions=2)
    applications = {}
    wrong = []
    for number, (label, fault) in enumerate(faults_of(request_kind).items()):
        name = f"{own}-{number}"

        async def position(name: str = name) -> int:
            with Cluster(parse_bootstrap(bootstrap)) as cluster:
                offsets = await asyncio.to_thread(committed_offsets, cluster, name, require_stable=True)
            return offsets[topic, 0].offset if offsets else 0

        def script(request: str, count: int, fault: Fault = fault) -> Fault | None:
            return fault if (request, count) == (request_kind.value, 1) else None

        application = Application(INPUTS, position, topic, name, bootstrap_servers=bootstrap)
        wire = FaultyWire(script)
        with wire.installed(monkeypatch):
            async with asyncio.timeout(60):
                await application.run()
        assert (wire.unsent, wire.lost, wire.refused) == {
            (True, False): (1, 0, 0),
            (True, True): (0, 1, 0),
        }.get((fault.code is None, fault.is_applied), (0, 0, 1)), "the fault did not happen once"
        applications[label] = application
        is_fatal = fault.code is not None and kind_of(request_kind, fault.code) in FATAL
        is_fatal |= (level, request_kind, fault.code) == FENCES
        if (application.processes > 1) is not is_fatal:
            wrong.append((label, application.processes, application.fatal, application.abortable))

    values = [value.encode() for partition in range(2) for value in await committed(bootstrap, topic, partition)]
    lost = {label: values for label, application in applications.items() if not application.has_written(values)}
    assert (wrong, lost) == ([], {})
