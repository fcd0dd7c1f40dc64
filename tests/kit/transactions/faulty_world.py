"""Random transactional producers on a broker with random faults, checked by the oracle.

One seed determines the whole run. The producers follow transaction version 2 and are as simple as possible: after any error
they start again with InitProducerId.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from stuntbroker.control.control import Control
from stuntbroker.control.rules.faults import FaultError
from stuntbroker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.protocol.primitives import Message
from tests.kit.rig import KEYS, Client, Rig, decode, frame
from tests.kit.valid_requests import batch

TOPIC, INPUT, GROUP = "t", "in", "readers"
PARTITIONS = 3
TIMEOUT_MS = 60_000
OK = 0
APIS = ("InitProducerId", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "*")
VERBS: tuple[dict[str, Any], ...] = (
    {"error": "COORDINATOR_NOT_AVAILABLE"},
    {"error": "CONCURRENT_TRANSACTIONS"},
    {"error": "NOT_LEADER_OR_FOLLOWER"},
    {"lose_response": True},
    {"no_response": True},
    {"close": True},
    {"respond_only": True},
    {"duplicate": True},
    {"throttle_ms": 10},
)
POINTS = (
    "txn.Ongoing.before",
    "txn.Ongoing.after",
    "txn.PrepareCommit.before",
    "txn.PrepareCommit.after",
    "txn.PrepareAbort.after",
    "txn.marker.before",
    "txn.marker.after",
    "txn.offsets.before",
    "txn.CompleteCommit.before",
    "txn.reply",
)


class RawProducer:
    """A transactional producer from raw requests. Its calls return error codes, or -1 without a response."""

    def __init__(self, rig: Rig, name: str = "pay") -> None:
        self._rig = rig
        self.client: Client = rig.client()
        self.name = name
        self.pair = (-1, -1)
        self.sequences: dict[int, int] = {}
        self.begin()

    def _ask(self, request: Message, version: int) -> Any:
        client = self.client
        client.feed(frame(request, version))
        answers = client.answers()
        if not answers or client.transport.closed:
            if not client.transport.closed:
                client.disconnect()
            self.client = self._rig.client()
        return decode(answers[0], KEYS[type(request).__name__.removesuffix("Request")], version) if answers else None

    def begin(self) -> int:
        """Initialise the producer with InitProducerId, which fences earlier instances."""
        given = self._ask(InitProducerIdRequest(self.name, TIMEOUT_MS), 5)
        if given is None:
            return -1
        if given.error_code == OK:
            self.pair = given.producer_id, given.producer_epoch
            self.sequences = {}
        code: int = given.error_code
        return code

    def write(self, *partitions: int, topic: str = TOPIC) -> list[int]:
        """Write a record into each of these partitions."""
        data = {index: batch(1, *self.pair, self.sequences.get(index, 0)) for index in partitions}
        parts = [PartitionProduceData(index, records) for index, records in data.items()]
        answer = self._ask(ProduceRequest(self.name, -1, 1_000, [TopicProduceData(topic, partition_data=parts)]), 12)
        if answer is None:
            return [-1]
        codes = [each.error_code for each in answer.responses[0].partition_responses]
        for index, code in zip(partitions, codes, strict=True):
            self.sequences[index] = self.sequences.get(index, 0) + (code == OK)
        return codes

    def stage(self, offset: int, group: str = GROUP) -> int:
        """Commit an offset in the transaction."""
        if self._ask(AddOffsetsToTxnRequest(self.name, *self.pair, group), 4) is None:
            return -1
        topics = [TxnOffsetCommitRequestTopic(INPUT, partitions=[TxnOffsetCommitRequestPartition(0, offset)])]
        answer = self._ask(TxnOffsetCommitRequest(self.name, group, *self.pair, topics=topics), 5)
        if answer is None:
            return -1
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def commit_alone(self, offset: int, group: str = GROUP) -> None:
        """Commit an offset outside of any transaction."""
        topics = [OffsetCommitRequestTopic(INPUT, partitions=[OffsetCommitRequestPartition(0, offset)])]
        self._ask(OffsetCommitRequest(group, topics=topics), 8)

    def end(self, commit: bool = True) -> int:
        """Commit or abort the transaction."""
        answer = self._ask(EndTxnRequest(self.name, *self.pair, commit), 5)
        if answer is None:
            return -1
        code: int = answer.error_code
        if code == OK:
            if (answer.producer_id, answer.producer_epoch) != self.pair:
                self.sequences = {}
            self.pair = answer.producer_id, answer.producer_epoch
        return code


class FaultyWorld:
    """Producers that have a broker, its topics and its control to themselves."""

    def __init__(self, rig: Rig, control: Control, seed: int, producers: int = 8, ids: int = 5) -> None:
        self._control = control
        self._random = Random(seed)
        self._offset = 0
        rig.topic(TOPIC, PARTITIONS)
        rig.topic(INPUT)
        self.producers = [RawProducer(rig, f"pay-{number % ids}") for number in range(producers)]

    def new_plan(self) -> None:
        """Replace the faults and stops by new random ones, possibly none."""
        random, control = self._random, self._control
        self.end_plan()
        for _ in range(random.randrange(4)):
            when = {"probability": random.choice((0.01, 0.1)), "seed": random.randrange(1 << 30)}
            control.injector.add({"match": {"api": random.choice(APIS)}, "when": when, "do": random.choice(VERBS)})
        for _ in range(random.randrange(3)):
            rule = {"action": random.choice(("park", "fail")), "nth": random.randrange(1, 9), "times": 3}
            try:
                control.stops.add(random.choice(POINTS), rule)
            except FaultError as fault:
                raise AssertionError(f"a point of this world is wrong: {fault}") from fault

    def end_plan(self) -> None:
        """Remove all faults and stops; parked requests continue."""
        for id_ in list(self._control.injector.faults):
            self._control.injector.remove(id_)
        for id_ in list(self._control.stops.stops):
            self._control.stops.remove(id_)

    async def step(self) -> None:
        """Perform one random step of a producer, or advance the clock."""
        random = self._random
        producer = random.choice(self.producers)
        code = OK
        match random.randrange(16):
            case 0 | 1 | 2 | 3 | 4 | 5:
                code = max(producer.write(*sorted(random.sample(range(PARTITIONS), random.randrange(1, 4)))))
            case 6:
                self._offset += 1
                code = producer.stage(self._offset)
            case 7 | 8 | 9 | 10 | 11:
                code = producer.end()
            case 12:
                code = producer.end(commit=False)
            case 13:
                self._offset += 1
                producer.commit_alone(self._offset)
            case 14:
                for stop in self._control.stops.stops.values():
                    self._control.stops.release(stop)
            case 15:
                if not random.randrange(20):
                    self._control.oracle.check()  # Read the logs first, as advancing the clock may clean them.
                    await self._control.clock.advance(random.choice((1, 1_000, TIMEOUT_MS + 1)))
        if code != OK:
            producer.begin()
        if not random.randrange(8):
            await asyncio.sleep(0)  # Let the event loop write markers and run deferred work.

    async def settle(self) -> None:
        """Remove the faults, and wait until all transactions have ended."""
        self.end_plan()
        broker = self._control.broker
        while broker.timers.is_busy:
            await asyncio.sleep(0)
        await self._control.clock.advance(2 * TIMEOUT_MS)
