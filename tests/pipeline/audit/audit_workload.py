"""A small workload of transactions that runs on any broker, whose data folder the tests audit afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.errors import ErrorCode as E
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.kit.processes.process import DEADLINE_S, Peer

GROUP, COPY, OLD, SLOW, TWO_PHASE, FENCED = "copiers", "copy", "old", "slow", "two-phase", "fenced"
INPUTS = [(b"k%d" % n, b"v%d" % n) for n in range(9)]
NOT_YET = {
    E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.CONCURRENT_TRANSACTIONS,
    E.UNKNOWN_TOPIC_OR_PARTITION, E.LEADER_NOT_AVAILABLE, E.NOT_LEADER_OR_FOLLOWER, E.NOT_ENOUGH_REPLICAS,
}  # fmt: skip
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.two.phase.commit.enable": "true",
}
Pair = tuple[int, int]


class Storyteller:
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def retrying(self, ask: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
        """Repeat a request until its error code is no longer one of NOT_YET; return the response, which must have no error."""
        deadline = time.monotonic() + DEADLINE_S
        while (code := code_of(answer := ask())) in NOT_YET and time.monotonic() < deadline:
            time.sleep(0.02)
        assert code == 0, E(code)
        return answer

    def find(self, key: str, kind: int) -> None:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        self.retrying(lambda: self.peer.ask(request, 4), lambda answer: answer.coordinators[0].error_code)

    def init(self, name: str | None, timeout_ms: int = 60_000, *, two_phase: bool = False) -> Pair:
        if name is not None:
            self.find(name, 1)
        request = InitProducerIdRequest(name, timeout_ms, enable_2pc=two_phase)
        created = self.retrying(lambda: self.peer.ask(request, 6 if two_phase else 5), lambda answer: answer.error_code)
        return created.producer_id, created.producer_epoch

    def produce(
        self, name: str | None, owner: Pair, place: tuple[str, int], pairs: Any, seq: int = 0, version: int = 12
    ) -> None:
        data = build_batch(
            pairs,
            int(time.time() * 1_000),
            producer_id=owner[0],
            producer_epoch=owner[1],
            base_sequence=seq,
            attributes=TRANSACTIONAL if name else 0,
        )
        topics = [TopicProduceData(place[0], partition_data=[PartitionProduceData(place[1], bytes(data))])]
        request = ProduceRequest(name, -1, 10_000, topics)
        self.retrying(
            lambda: self.peer.ask(request, version),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )

    def add(self, name: str, owner: Pair, *places: tuple[str, int]) -> None:
        topics = [AddPartitionsToTxnTopic(topic, [index]) for topic, index in places]
        request = AddPartitionsToTxnRequest((), name, *owner, topics)
        self.retrying(
            lambda: self.peer.ask(request, 3),
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    def commit_offset(self, name: str, owner: Pair, place: tuple[str, int], offset: int) -> None:
        parts = [TxnOffsetCommitRequestPartition(place[1], offset)]
        request = TxnOffsetCommitRequest(
            name, GROUP, *owner, topics=[TxnOffsetCommitRequestTopic(place[0], partitions=parts)]
        )
        self.retrying(lambda: self.peer.ask(request, 5), lambda answer: answer.topics[0].partitions[0].error_code)

    def end(self, name: str, owner: Pair, commit: bool, version: int = 5) -> Pair:
        request = EndTxnRequest(name, *owner, commit)
        ended = self.retrying(lambda: self.peer.ask(request, version), lambda answer: answer.error_code)
        return (ended.producer_id, ended.producer_epoch) if version >= 5 else owner

    def wait_for(self, name: str, state: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            (actual,) = self.peer.ask(DescribeTransactionsRequest([name]), 0).transaction_states
            if actual.transaction_state == state:
                return
            assert time.monotonic() < deadline, actual.transaction_state
            time.sleep(0.02)


def tell(address: tuple[str, int]) -> None:
    """Run a workload without faults: commits, aborts, a time-out, fencing, 2PC, and the protocol from before KIP-890."""
    with Peer(address) as peer:
        by = Storyteller(peer)
        topics = [CreatableTopic("in", 1, 1), CreatableTopic("out", 2, 1), CreatableTopic("other", 2, 1)]
        peer.ask(CreateTopicsRequest(topics, 10_000), 5)
        by.produce(None, by.init(None), ("in", 0), INPUTS)
        copy(by)
        old = by.init(OLD)
        for number, commit in enumerate((True, False, True)):
            by.add(OLD, old, ("other", 0), ("other", 1))
            for index in range(2):
                by.produce(OLD, old, ("other", index), [(b"old", b"%d" % number)], number, version=11)
            old = by.end(OLD, old, commit, version=4)
            by.wait_for(OLD, "CompleteCommit" if commit else "CompleteAbort")
        slow = by.init(SLOW, 300)
        by.produce(SLOW, slow, ("other", 0), [(b"slow", b"too late")])
        by.wait_for(SLOW, "CompleteAbort")
        by.produce(TWO_PHASE, prepared := by.init(TWO_PHASE, two_phase=True), ("other", 1), [(b"two", b"phases")])
        by.end(TWO_PHASE, prepared, True)
        by.wait_for(TWO_PHASE, "CompleteCommit")
        by.produce(FENCED, by.init(FENCED), ("other", 0), [(b"fenced", b"lost")])
        fencing = by.init(FENCED)
        by.produce(FENCED, fencing, ("other", 1), [(b"fenced", b"kept")])
        by.end(FENCED, fencing, True)
        by.wait_for(FENCED, "CompleteCommit")


def copy(by: Storyteller) -> None:
    """Copy three records per transaction between topics, exactly once; each transaction is aborted once, then committed."""
    by.find(GROUP, 0)
    owner = by.init(COPY)
    for start in range(0, len(INPUTS), 3):
        for commit in (False, True):
            for index in range(2):
                pairs = [pair for pair in INPUTS[start : start + 3] if pair[0][-1] % 2 == index]
                if pairs:
                    by.produce(COPY, owner, ("out", index), pairs)
            by.commit_offset(COPY, owner, ("in", 0), start + 3)
            owner = by.end(COPY, owner, commit)
            by.wait_for(COPY, "CompleteCommit" if commit else "CompleteAbort")
