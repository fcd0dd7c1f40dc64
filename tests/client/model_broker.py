"""An in-memory broker with only the transaction rules that a producer needs, and with faults that a test chooses.

It is written from the protocol and shares no code with our broker, so that the producer is tested independently.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from aiokafka.record.memory_records import MemoryRecords
from fake_broker import FakeBroker

from stuntbroker.protocol.batches.records import read_header
from stuntbroker.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse, FinalizedFeatureKey
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from stuntbroker.protocol.primitives import Message
from tests.kit.transactions.faults import Script, name_of, refusal

PRODUCER_ID = 4000
OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE, PRODUCER_FENCED = 45, 47, 48, 90


class ModelBroker(FakeBroker):
    """A broker for one transactional id. `committed` has the values that a read_committed consumer gets."""

    def __init__(self, level: int, script: Script = lambda request, count: None) -> None:
        super().__init__()
        self.level = level
        self.script = script
        self.counts: Counter[str] = Counter()
        self.committed: list[bytes] = []
        self.committed_offset = 0
        self.epoch = -1
        self.fenced_epochs = 0
        self._last_epoch = -1
        self.is_ongoing = False
        self._last_commit: bool | None = None
        self._records: list[bytes] = []
        self._offset: int | None = None
        self._partitions: set[tuple[str, int]] = set()
        self._sequences: dict[tuple[str, int], tuple[int, int]] = {}
        self._lock = threading.Lock()
        self.handlers |= {
            0: self._with_faults(self._produce),
            10: self._with_faults(self._find_coordinator),
            22: self._with_faults(self._init),
            24: self._with_faults(self._add_partitions),
            25: self._with_faults(self._add_offsets),
            26: self._with_faults(self._end),
            28: self._with_faults(self._commit_offsets),
        }

    # --- faults

    def _with_faults(self, apply: Callable[[Any, int], Message]) -> Callable[[Any, int], Message | None]:
        def handle(request: Any, version: int) -> Message | None:
            with self._lock:
                name = name_of(request)
                self.counts[name] += 1
                fault = self.script(name, self.counts[name])
                if fault is None:
                    return apply(request, version)
                if fault.is_applied:
                    apply(request, version)
                return None if fault.code is None else refusal(request, fault.code)

        return handle

    # --- rules

    def _api_versions(self, request: Any, version: int) -> Message:
        features = [FinalizedFeatureKey("transaction.version", self.level, self.level)] if self.level else []
        return ApiVersionsResponse(0, self._known(), finalized_features_epoch=1, finalized_features=features)

    def _init(self, request: Any, version: int) -> Message:
        bearer = (request.producer_id, request.producer_epoch)
        if bearer != (-1, -1):
            if request.producer_epoch == self._last_epoch:
                return InitProducerIdResponse(0, 0, PRODUCER_ID, self.epoch)
            if bearer != (PRODUCER_ID, self.epoch):
                return InitProducerIdResponse(0, PRODUCER_FENCED, -1, -1)
            self._last_epoch = self.epoch
        else:
            self._last_epoch = -1
        self._close(commit=False)
        self._last_commit = None
        self.epoch += 1
        return InitProducerIdResponse(0, 0, PRODUCER_ID, self.epoch)

    async def committed_position(self) -> int:
        """The offset that the group has committed."""
        return self.committed_offset

    def time_out(self) -> None:
        """Abort the transaction and raise the epoch, as the coordinator does at the transaction time-out."""
        with self._lock:
            assert self.is_ongoing
            self._last_epoch = self.epoch if self.level == 2 else -1
            self.epoch += 1
            self._close(commit=False)

    def _close(self, commit: bool) -> None:
        if commit:
            self.committed += self._records
            if self._offset is not None:
                self.committed_offset = self._offset
        self._records, self._offset, self.is_ongoing = [], None, False
        self._partitions.clear()
        self._last_commit = commit

    def _add_partitions(self, request: Any, version: int) -> Message:
        if request.v3_and_below_producer_epoch != self.epoch:
            return refusal(request, PRODUCER_FENCED)
        self.is_ongoing = True
        self._partitions |= {
            (topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions
        }
        return refusal(request, 0)

    def _add_offsets(self, request: Any, version: int) -> Message:
        if request.producer_epoch != self.epoch:
            return AddOffsetsToTxnResponse(0, PRODUCER_FENCED)
        self.is_ongoing = True
        self._partitions.add(("group", 0))
        return AddOffsetsToTxnResponse(0, 0)

    def _commit_offsets(self, request: Any, version: int) -> Message:
        assert version < 5 or self.level == 2
        if request.producer_epoch != self.epoch:
            return refusal(request, INVALID_EPOCH)
        if version >= 5:
            self.is_ongoing = True
        elif ("group", 0) not in self._partitions:
            return refusal(request, INVALID_STATE)
        self._offset = request.topics[0].partitions[0].committed_offset
        return refusal(request, 0)

    def _produce(self, request: Any, version: int) -> Message:
        assert version < 12 or self.level == 2
        topics = []
        for topic in request.topic_data:
            parts = [
                PartitionProduceResponse(
                    part.index, *self._append((topic.name, part.index), bytes(part.records), version)
                )
                for part in topic.partition_data
            ]
            topics.append(TopicProduceResponse(topic.name, partition_responses=parts))
        return ProduceResponse(topics)

    def _append(self, where: tuple[str, int], data: bytes, version: int) -> tuple[int, int]:
        header = read_header(data)
        assert header.transactional and header.producer_id == PRODUCER_ID
        if header.producer_epoch != self.epoch:
            return INVALID_EPOCH, -1
        if version >= 12:
            self.is_ongoing = True
        elif where not in self._partitions:
            return INVALID_STATE, -1
        epoch, following = self._sequences.get(where, (self.epoch, 0))
        following = following if epoch == self.epoch else 0
        if header.base_sequence < following:
            return 0, 7  # A duplicate.
        if header.base_sequence > following:
            return OUT_OF_ORDER, -1
        self._sequences[where] = (self.epoch, following + header.count)
        self._records += [record.value for record in MemoryRecords(data).next_batch()]
        return 0, 7

    def _end(self, request: Any, version: int) -> Message:
        assert version < 5 or self.level == 2
        commit = request.committed
        if version >= 5:
            return self._end_v5(request.producer_epoch, commit)
        if request.producer_epoch != self.epoch:
            return EndTxnResponse(0, PRODUCER_FENCED)
        if not self.is_ongoing:
            return EndTxnResponse(0, 0 if self._last_commit is commit else INVALID_STATE)
        self._close(commit)
        return EndTxnResponse(0, 0)

    def _end_v5(self, epoch: int, commit: bool) -> Message:
        if epoch == self.epoch and (self.is_ongoing or not commit):
            self._close(commit)
            self._last_epoch, self.epoch = self.epoch, self.epoch + 1
            return EndTxnResponse(0, 0, PRODUCER_ID, self.epoch)
        if epoch == self.epoch:
            return EndTxnResponse(0, INVALID_STATE)
        if epoch == self.epoch - 1 and not self.is_ongoing and self._last_commit is not None:
            if self._last_commit is commit:
                return EndTxnResponse(0, 0, PRODUCER_ID, self.epoch)
            return EndTxnResponse(0, INVALID_STATE)
        self.fenced_epochs += 1
        return EndTxnResponse(0, PRODUCER_FENCED)
