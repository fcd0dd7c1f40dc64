"""An executor whose syncs the test completes, and helpers to see which requests are acknowledged before and after."""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack_from

from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.rig import Client, decode, frame
from tests.kit.valid_requests import TOPIC

TXN = "txn"


class Disk:
    """Executor for a rig in place of the sync thread; a sync waits until the test calls `sync`."""

    def __init__(self) -> None:
        self.requests: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
        self.syncs = 0
        self._has_finished = False

    def __call__(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.requests.append((work, done))
        if self._has_finished:
            self.sync()

    def sync(self, index: int = 0) -> None:
        """Complete a pending sync, by default the oldest."""
        work, done = self.requests.pop(index)
        work()
        self.syncs += 1
        done(None)

    def drain(self) -> None:
        while self.requests:
            self.sync()

    def finish(self) -> None:
        """Complete all pending syncs, and complete future syncs immediately, as the broker is about to stop."""
        self._has_finished = True
        self.drain()

    def refuse(self) -> None:
        work, done = self.requests.pop(0)
        work()
        done(OSError(5, "Input/output error"))


def produce(data: bytes, transactional_id: str | None = None, topic: str = TOPIC) -> ProduceRequest:
    return ProduceRequest(
        transactional_id, -1, 1_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, data)])]
    )


def numbers(client: Client) -> list[int]:
    return [unpack_from(">i", answer)[0] for answer in client.answers()]


def owner_of(client: Client, disk: Disk | None, transactional_id: str = TXN) -> tuple[int, int]:
    client.feed(frame(InitProducerIdRequest(transactional_id, 60_000), 4))
    if disk is not None:
        disk.drain()
    (answer,) = client.answers()
    created = decode(answer, 22, 4)
    return created.producer_id, created.producer_epoch
