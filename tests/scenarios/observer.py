"""Observes a transaction like a client, and describes it in the language of the scenarios.

`append` lines are the records of the transaction log, `markers` lines the control records of the partitions: both are
fetched. DescribeTransactions must agree with the last record.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any, Final

from txn_harness import PRODUCER, SPARE
from txn_scenarios import record

from stuntbroker.coordinator.records import read_record
from stuntbroker.coordinator.state import PREPARED, Phase, Txn, txn_of
from stuntbroker.protocol.batches.records import HEADER_SIZE, BatchHeader, marker_of, read_header, read_records
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.hashing import partition_for
from tests.conformance.side import Side

SETTLE_S_MAX: Final = 30.0
PAUSE_S: Final = 0.01
INTERNAL_PARTITIONS: Final = 4
TXN_STATE: Final = "__transaction_state"
OFFSETS: Final = "__consumer_offsets"
STRANGERS: Final = 5_000_000
"""Offset added to producer ids of a script that no coordinator allocated, so that no broker has these ids."""
Partition = tuple[str, int]


class Names:
    """Maps names and producer ids of the script to those of this broker and this run."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._unseen = chain([PRODUCER], count(SPARE))
        self._ids: dict[int, int] = {}
        """Producer id of this broker -> producer id of the script."""
        self.transactional_id = side.name("payments")
        self.group = side.name("group")
        self.offsets: Partition = (OFFSETS, partition_for(self.group, INTERNAL_PARTITIONS))

    def known(self, producer_id: int) -> int:
        """The producer id of the script for one of this broker, assigned in order of appearance."""
        if producer_id >= STRANGERS:
            return producer_id - STRANGERS
        if producer_id not in self._ids and producer_id != -1:
            self._ids[producer_id] = next(self._unseen)
        return self._ids.get(producer_id, producer_id)

    def actual(self, producer_id: int) -> int:
        """The producer id of this broker; an id that no producer has if the script's id has not appeared yet."""
        return next((own for own, named in self._ids.items() if named == producer_id), producer_id + STRANGERS)

    def partition(self, text: str) -> Partition:
        topic, _, index = text.rpartition("-")
        return self.offsets if topic == "offsets" else (self._side.name(topic), int(index))

    def script_partition(self, partition: Partition) -> Partition:
        topic, index = partition
        return ("offsets", 0) if partition == self.offsets else (topic.removeprefix(self._side.name("")), index)

    def txn(self, txn: Txn) -> Txn:
        """A record with the script's names. A missing previous producer id becomes the current one."""
        producer_id, previous_id = self.known(txn.producer_id), txn.previous_producer_id
        fields = {
            "producer_id": producer_id,
            "previous_producer_id": self.known(previous_id) if previous_id != -1 else producer_id,
            "next_producer_id": self.known(txn.next_producer_id),
            "partitions": frozenset(map(self.script_partition, txn.partitions)),
        }
        return txn_of(**(txn.as_dict() | fields))


class Observer:
    """Reads the logs of one scenario, each time from where the last read ended."""

    def __init__(self, side: Side, names: Names) -> None:
        self.side = side
        self.names = names
        self.held = False
        """The script holds the markers."""
        self.held_here = False
        """The broker holds the markers."""
        self.last: Txn | None = None
        """The last record of the transactional id."""
        self.transcript = False
        """Whether a record of the transactional id was read."""
        self._prepared: Txn | None = None
        """The last Prepare record."""
        self._owing: Txn | None = None
        """A Prepare record whose markers are held."""
        self._stash: list[str] = []
        """Lines that the broker produced while the script still holds the markers."""
        self._log = self.log_of(names.transactional_id)
        self._next: dict[Partition, int] = defaultdict(int)
        self._markers: dict[Partition, list[tuple[BatchHeader, bool]]] = defaultdict(list)
        for partition in (self._log, names.offsets):
            self._next[partition] = self._end_of(partition)

    @staticmethod
    def log_of(transactional_id: str) -> Partition:
        return TXN_STATE, partition_for(transactional_id, INTERNAL_PARTITIONS)

    # --- lines

    def lines(self) -> list[str]:
        """Lines for everything appended since the last call. Waits until no markers are in progress."""
        actual = self._settled()
        messages: list[str] = []
        self.transcript |= bool(actual)
        if self._owing is not None and not self.held_here:
            messages += self.markers(self._owing)
            self._owing = None
        for txn in actual:
            messages.append("append tombstone" if txn is None else record(self.names.txn(txn)))
            if txn is not None and txn.phase in PREPARED:
                self._prepared = txn
                if self.held_here and txn is self.last:
                    self._owing = txn
                    messages.append("markers held")
                else:
                    messages += self.markers(txn)
        return self._without_held(messages)

    def _without_held(self, messages: list[str]) -> list[str]:
        """Hold back lines from the first marker on while the script holds the markers, for a broker that cannot."""
        messages, self._stash = self._stash + messages, []
        if self.held:
            at = next((at for at, line in enumerate(messages) if line.startswith("markers")), None)
            if at is not None:
                self._stash = [line for line in messages[at:] if line != "markers held"]
                return [*messages[:at], "markers held"] if at else []
        return messages

    def read(self) -> str:
        """The `read` line of the last record, which a starting coordinator loads."""
        assert self.last is not None
        return record(self.names.txn(self.last)).replace("append", "read", 1)

    def pass_over(self, to_the_end: bool = False) -> None:
        """Skip new records of the transaction log without lines. `to_the_end`: read only the last of them."""
        if to_the_end:
            self._next[self._log] = self._end_of(self._log) - 1
        while actual := list(self._records()):
            self.last = actual[-1]

    def back_to_prepared(self) -> Txn:
        """Return the prepared state in which the script holds the markers, and drop all later lines."""
        assert self._prepared is not None
        self._stash = []
        self._owing = self._prepared
        return self._prepared

    @property
    def passed_on(self) -> bool:
        """Whether the broker has written markers that the script still holds."""
        return bool(self._stash)

    def described(self) -> Any:
        reply = self.side.quiet("DescribeTransactions", 0, transactional_ids=[self.names.transactional_id])
        return reply.transaction_states[0]

    def _settled(self) -> list[Txn | None]:
        """New records. Waits until DescribeTransactions agrees with the last one and no markers are in progress."""
        actual: list[Txn | None] = []
        deadline = time.monotonic() + SETTLE_S_MAX
        while True:
            state = self.described()
            for each in self._records():
                actual.append(each)
                self.last = each
            problem = self._problem(state)
            if not problem:
                return actual
            assert time.monotonic() < deadline, f"{problem}: described as {state}, the last record is {self.last}"
            time.sleep(PAUSE_S)

    def _problem(self, state: Any) -> str:
        last = self.last
        if last is None:
            unknown = state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            return "" if unknown or not self.transcript else "known, and the log says that it is not"
        if last.phase in PREPARED and not self.held_here:
            return "the markers are under way"
        messages = (state.transaction_state, state.producer_id, state.producer_epoch)
        if messages != (last.phase.kafka_name, last.producer_id, last.producer_epoch):
            return "described as another"
        partitions = {(topic.topic, index) for topic in state.topics for index in topic.partitions}
        return "" if partitions == last.partitions or last.phase in PREPARED else "other partitions"

    # --- the logs

    def _records(self) -> Iterator[Txn | None]:
        for header, batch in self._batches(self._log):
            for each in read_records(header, batch, HEADER_SIZE) if not header.control else ():
                actual = read_record(each)
                if actual is not None and actual[0] == self.names.transactional_id:
                    yield actual[1]

    def markers(self, txn: Txn) -> list[str]:
        """Lines for the next marker of every partition; equal markers share a line."""
        partitions = txn.partitions
        commit = txn.phase is Phase.PREPARE_COMMIT
        if not partitions:
            return [
                f"markers {'commit' if commit else 'abort'} id={self.names.known(txn.producer_id)} "
                f"epoch={txn.producer_epoch} nowhere"
            ]
        same: dict[str, list[str]] = defaultdict(list)
        for partition in sorted(partitions, key=self.names.script_partition):
            self._wait_for(lambda at=partition: bool(self._markers_of(at, txn.producer_id)))  # type: ignore[misc]
            header, committed = self._markers_of(partition, txn.producer_id)[0]
            self._markers[partition].remove((header, committed))
            same[self.marker_line(header, committed)].append(self.script_name(partition))
        return [f"{line} {' '.join(where)}" for line, where in same.items()]

    def marker_line(self, header: BatchHeader, committed: bool) -> str:
        kind = "commit" if committed else "abort"
        return f"markers {kind} id={self.names.known(header.producer_id)} epoch={header.producer_epoch}"

    def new_markers(self, partition: Partition, producer_id: int) -> list[str]:
        """Lines for the markers of a producer in one partition that no line has had yet."""
        actual = self._markers_of(partition, producer_id)
        for each in actual:
            self._markers[partition].remove(each)
        return [f"{self.marker_line(*each)} {self.script_name(partition)}" for each in actual]

    def unexplained(self) -> list[str]:
        """Lines for markers that the script does not mention, in topics of this scenario."""
        for partition in list(self._next):
            if not partition[0].startswith("__"):
                self._read_markers(partition)
        return [
            f"{self.marker_line(*each)} {self.script_name(partition)}"
            for partition, left in self._markers.items()
            if not partition[0].startswith("__")
            for each in left
        ]

    def script_name(self, partition: Partition) -> str:
        return "{}-{}".format(*self.names.script_partition(partition))

    def _markers_of(self, partition: Partition, producer_id: int) -> list[tuple[BatchHeader, bool]]:
        self._read_markers(partition)
        return [each for each in self._markers[partition] if each[0].producer_id == producer_id]

    def _read_markers(self, partition: Partition) -> None:
        for header, batch in self._batches(partition):
            if header.control:
                (each,) = read_records(header, batch, HEADER_SIZE)
                actual = marker_of(each)
                assert actual is not None
                self._markers[partition].append((header, actual[0]))

    def _batches(self, partition: Partition) -> Iterator[tuple[BatchHeader, bytes]]:
        """New batches of a partition."""
        topic, index = partition
        wanted = {"partition": index, "fetch_offset": self._next[partition], "partition_max_bytes": 1 << 20}
        reply = self.side.quiet(
            "Fetch",
            12,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": [wanted]}],
        )
        actual = reply.responses[0].partitions[0]
        if actual.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.startswith("__"):
            return  # A broker may create internal topics on demand.
        assert not actual.error_code, f"{partition} cannot be read: {ErrorCode(actual.error_code).name}"
        data, at = bytes(actual.records or b""), 0
        while len(data) - at >= HEADER_SIZE:
            header = read_header(data, at)
            if at + header.size > len(data):
                break
            if header.base_offset >= self._next[partition]:
                yield header, data[at : at + header.size]
                self._next[partition] = header.next_offset
            at += header.size

    def _end_of(self, partition: Partition) -> int:
        topic, index = partition
        wanted = {"name": topic, "partitions": [{"partition_index": index, "timestamp": -1}]}
        reply = self.side.quiet("ListOffsets", 7, replica_id=-1, topics=[wanted])
        part = reply.topics[0].partitions[0]
        return max(int(part.offset), 0)

    def _wait_for(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLE_S_MAX
        while not ready():
            assert time.monotonic() < deadline, "a marker never came"
            time.sleep(PAUSE_S)
