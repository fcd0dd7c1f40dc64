"""The fast path of a transactional Produce has the same responses, log and producer state as the general handler.

Two brokers get the same random requests; one of them has no fast path.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stuntbroker.broker.produce import plain_produce
from stuntbroker.broker.produce.plain_produce import GENERAL
from stuntbroker.protocol.batches.records import build_batch
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.primitives import Message
from tests.kit.disk_rig import Disk
from tests.kit.logs import facts_of
from tests.kit.rig import Client, Rig, decode, frame, running_rig

STEPS = 150
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "small": {"segment.bytes": "1048576", "max.message.bytes": "200"},
}
IDS = {name: bytes([number]) * 16 for number, name in enumerate(TOPICS, 1)}
TXNS = ("a", "b", "c")


@dataclass
class Owner:
    """A client's producer id and epoch, and its next sequence number in each partition."""

    producer_id: int
    epoch: int
    sequences: dict[tuple[str, int], int]


class Twin:
    """One of the two brokers. Every transactional id has its own connection, so that a waiting request blocks no other id."""

    def __init__(self, rig: Rig, disk: Disk | None) -> None:
        self.rig = rig
        self.disk = disk
        self.clients = {name: rig.client() for name in TXNS}
        for name, configs in TOPICS.items():
            rig.broker.topics.create(name, 3, configs, IDS[name])

    def send(self, txn: str, request: Message, version: int) -> None:
        client: Client = self.clients[txn]
        client.feed(frame(request, version))

    def answers(self, txn: str) -> list[bytes]:
        return self.clients[txn].answers()

    def books(self) -> Any:
        """Return the contents of the logs, and the state of their producers."""
        self.rig.broker.turn.end()
        actual = []
        for name in TOPICS:
            for log in self.rig.logs(name):
                log.flush_buffered()
                producers = facts_of(log.producers)
                data = b"".join(bytes(data) for _, data in log.batches())
                actual.append(
                    (name, log.index, data, producers, log.producers.open_txns, log.producers.unresolved_batches)
                )
        return actual


def init(txn: str, keep: bool = False) -> InitProducerIdRequest:
    """Return the InitProducerId request of an id: the first id gets a short time-out, the last one uses two-phase commit."""
    two_phase = txn == TXNS[-1]
    timeout_ms = 60_000 if txn == TXNS[0] else 900_000
    return InitProducerIdRequest(txn, timeout_ms, enable_2pc=two_phase, keep_prepared_txn=two_phase and keep)


def some_batch(random: Random, owner: Owner, where: tuple[str, int], now_ms: int) -> bytes:
    """Return a batch: usually the owner's next one, sometimes with a wrong field, a wrong sequence number or a flipped bit."""
    sequence = owner.sequences.get(where, 0)
    count = random.choice((1, 2, 3, 20))
    owner.sequences[where] = sequence + count
    match random.randrange(40):
        case 0:
            sequence += random.choice((-1, 1, 5))
        case 1:
            sequence -= count
    epoch = owner.epoch + random.choice((0,) * 60 + (-1, 1))
    attributes = random.choice((0x10,) * 40 + (0,))
    records = [(random.choice((b"k", b"k", None)), b"v" * random.choice((1, 9, 100)))] * count
    batch = bytearray(
        build_batch(
            records,
            now_ms + random.choice((0,) * 30 + (10**9,)),
            attributes=attributes,
            producer_id=owner.producer_id + random.choice((0,) * 50 + (1,)),
            producer_epoch=max(epoch, 0),
            base_sequence=max(sequence, 0),
        )
    )
    if not random.randrange(40):
        batch[random.randrange(len(batch))] ^= 1
    return bytes(batch)


def some_request(random: Random, txn: str, owner: Owner, now_ms: int) -> tuple[Message, int]:
    if not random.randrange(4):
        return EndTxnRequest(txn, owner.producer_id, owner.epoch, random.random() < 0.7), random.choice((5, 5, 5, 4))
    if not random.randrange(25):
        return init(txn, keep=random.random() < 0.5), 6
    version = random.choice((9, 11, 12, 12, 12, 12, 13, 13, 13, 13))
    topics, names = [], random.sample(("plain", "plain", *TOPICS), random.choice((1,) * 9 + (2,)))
    for name in names if random.randrange(20) else ["nobody's"]:
        parts = [
            PartitionProduceData(index, some_batch(random, owner, (name, index), now_ms))
            for index in random.sample(range(3), random.randint(1, 3))
        ]
        if not random.randrange(30):
            parts.append(PartitionProduceData(7, parts[0].records))
        topics.append(TopicProduceData(name, IDS.get(name, bytes(16)), partition_data=parts))
    acks = random.choice((-1,) * 20 + (0, 1, 2))
    return ProduceRequest(random.choice((txn,) * 30 + ("b", None)), acks, 1_000, topics), version


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("seed", range(8))
async def test_the_fast_path_of_produce_gives_the_same_result_as_the_general_path(
    seed: int, durability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    way, taken = plain_produce.handle, [0]

    async with contextlib.AsyncExitStack() as stack:
        twins = []
        for name in ("with", "without"):
            disk = Disk() if durability == "power" else None
            properties = {"transaction.two.phase.commit.enable": "true"}
            twins.append(
                Twin(await stack.enter_async_context(running_rig(tmp_path / name, properties, durability, disk)), disk)
            )

        def handle(request: Any, fields: Any, version: int) -> Any:
            response = way(request, fields, version) if request.broker is twins[0].rig.broker else GENERAL
            taken[0] += response is not GENERAL
            return response

        monkeypatch.setattr(plain_produce, "handle", handle)

        def sync() -> None:
            for twin in twins:
                if twin.disk is not None:
                    twin.disk.drain()

        def heard(txn: str) -> list[bytes]:
            first, second = (twin.answers(txn) for twin in twins)
            assert first == second
            return first

        owners, waiting = {}, dict.fromkeys(TXNS, False)
        for txn in TXNS:
            for twin in twins:
                twin.send(txn, init(txn), 6)
                twin.rig.broker.turn.end()
            sync()
            created = decode(heard(txn)[0], 22, 6)
            owners[txn] = Owner(created.producer_id, created.producer_epoch, {})
        sent: dict[str, tuple[Message, int]] = {}
        for _ in range(STEPS):
            txn = random.choice(TXNS)
            if twins[0].clients[txn].transport.closed:  # An error with acks=0.
                for twin in twins:
                    assert twin.clients[txn].transport.closed
                    twin.clients[txn] = twin.rig.client()
                waiting[txn] = False
            if not waiting[txn]:
                sent[txn] = some_request(random, txn, owners[txn], twins[0].rig.clock.ms)
                for twin in twins:
                    twin.send(txn, *sent[txn])
                request = sent[txn][0]
                waiting[txn] = not (isinstance(request, ProduceRequest) and request.acks == 0)
            if random.random() < 0.5:
                sync()
            if random.random() < 0.3:
                ms = random.choice((1, 1_000, 61_000))
                for twin in twins:
                    twin.rig.pass_time(ms)
            for name in TXNS:
                for answer in heard(name):
                    waiting[name] = False
                    request, version = sent[name]
                    if isinstance(request, EndTxnRequest | InitProducerIdRequest):
                        created = decode(answer, 26 if isinstance(request, EndTxnRequest) else 22, version)
                        if not created.error_code and getattr(created, "producer_id", -1) >= 0:
                            owners[name] = Owner(created.producer_id, created.producer_epoch, {})
        sync()
        assert twins[0].books() == twins[1].books()
    assert taken[0] > STEPS // 15


async def test_a_duplicate_first_batch_is_unresolved_when_another_batch_of_its_request_is_refused(
    tmp_path: Path,
) -> None:
    """The duplicate gets a successful response, but the first partition's log has no record of this transaction."""
    async with running_rig(tmp_path) as rig:
        twin = Twin(rig, None)
        twin.send("b", init("b"), 4)
        owner = decode(twin.answers("b")[0], 22, 4)

        def produce(*sequences: int) -> list[int]:
            parts = [
                PartitionProduceData(
                    index,
                    bytes(
                        build_batch(
                            [(None, b"v")],
                            rig.clock.ms,
                            attributes=0x10,
                            producer_id=owner.producer_id,
                            producer_epoch=owner.producer_epoch,
                            base_sequence=sequence,
                        )
                    ),
                )
                for index, sequence in enumerate(sequences)
            ]
            twin.send("b", ProduceRequest("b", -1, 1_000, [TopicProduceData("plain", partition_data=parts)]), 12)
            answer = decode(twin.answers("b")[0], 0, 12)
            return [part.error_code for part in answer.responses[0].partition_responses]

        assert produce(0) == [0]
        twin.send("b", EndTxnRequest("b", owner.producer_id, owner.producer_epoch, True), 4)
        assert decode(twin.answers("b")[0], 26, 4).error_code == 0

        assert produce(0, 5) == [0, 45]
        assert list(rig.log("plain", 0).producers.unresolved_batches) == [owner.producer_id]
