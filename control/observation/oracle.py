"""Checker of transaction guarantees in a running broker: compares the logs with each other and with the broker's memory.

The oracle reads the bytes of the logs, from where the last check ended, and derives the state of transactions from them. Then it
checks this state, and compares it with the broker's memory:

- transaction log: each state is a valid successor of the previous one, and the epoch of a producer id never decreases;
- each partition: no record of an older producer epoch follows a newer one; each complete transaction has its marker in all its
  partitions, with the outcome that was decided, and no other marker has ended a part of it otherwise; the aborted-transaction
  index has exactly the aborted transactions; the last stable offset is the first offset of the first open transaction, and
  never decreases;
- offsets of groups: the committed offsets are those committed without a transaction, or in a committed transaction.

If records of a log are removed before they were read, checking continues from the end of the log; `skipped` counts such logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from stuntbroker.control.observation.log_reading import batches_from, records_in
from stuntbroker.control.observation.state import committed_offset
from stuntbroker.coordinator.records import read_record
from stuntbroker.coordinator.state import COMPLETED, EMPTY, PREPARE_COMMIT, PREPARED, SUCCESSORS, Txn
from stuntbroker.groups.offset_records import OffsetRecord
from stuntbroker.groups.records import read_record as read_group_record
from stuntbroker.protocol.batches.records import BatchHeader, Record, marker_of
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE, TopicPartition

if TYPE_CHECKING:
    from stuntbroker.broker.services import HasDataDir
    from stuntbroker.control.observation.state import StatePorts
    from stuntbroker.storage.partition import PartitionLog

    class Uses(HasDataDir, StatePorts, Protocol):
        """Parts of the broker that this module uses."""


FINDINGS_MAX: Final = 1_000
EXAMPLES_MAX: Final = 10

DecisionKey = tuple[int, int, int]
"""(producer id, epoch of the markers, time of the decision in ms); a marker has all three."""


class Finding(NamedTuple):
    """A violated guarantee."""

    kind: str
    text: str
    """Description of the violation and its place."""


@dataclass
class _Decision:
    """A decision to commit or abort a transaction, and the partitions that have no marker yet."""

    transactional_id: str
    commit: bool
    started_at_ms: int
    missing: set[TopicPartition]
    against: dict[TopicPartition, int] = field(default_factory=dict)
    """Partition -> offset of a marker with the other outcome."""
    is_complete: bool = False


class _UnexplainedMarker(NamedTuple):
    """A marker that ended a transaction in a partition without a coordinator's decision, such as an administrator's."""

    offset: int
    commit: bool
    at_ms: int


@dataclass
class _History:
    """State of a partition's transactions, from its log as far as it was read."""

    topic_id: bytes
    next_offset: int
    aborted_from: int
    """Offset from which the aborted-transaction index is compared."""
    last_stable_offset: int = 0
    epochs: dict[int, int] = field(default_factory=dict)
    """Producer id -> the highest epoch."""
    open_txns: dict[int, int] = field(default_factory=dict)
    """Producer id -> first offset."""
    unexplained: dict[int, _UnexplainedMarker] = field(default_factory=dict)
    """Producer id -> the last marker that ended a transaction without a decision."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of the marker)"""


@dataclass
class _Offsets:
    """Offsets read so far from a `__consumer_offsets` partition: (group, topic, partition) -> (log position, offset)."""

    committed: dict[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)
    pending: dict[int, dict[tuple[str, str, int], tuple[int, int]]] = field(default_factory=dict)
    """Producer id -> offsets in its open transaction."""
    seen: set[tuple[str, str, int]] = field(default_factory=set)
    is_partial: bool = False
    """Whether the beginning of the log was not read, so that other offsets may be committed."""


class Oracle:
    """The checker of one broker, for what happens after its construction."""

    def __init__(self, broker: Uses) -> None:
        self._broker = broker
        self.findings: list[Finding] = []
        self.checks = 0
        """Number of checks so far."""
        self.skipped = 0
        """Number of logs that were cleaned before they were read."""
        self.transactions = 0
        """Number of transactions that have ended."""
        self._txns: dict[str, Txn] = {}
        self._decisions: dict[DecisionKey, list[_Decision]] = {}
        """A key has several decisions if a producer ends two transactions in a millisecond, with the same epoch."""
        self._histories: dict[TopicPartition, _History] = {}
        self._offsets: dict[int, _Offsets] = {}
        for log in broker.data_dir.logs.values():
            self._histories[log.name] = self._beginning(log)

    def check(self) -> list[Finding]:
        """Read new log entries, check them, and return all violations since construction, oldest first."""
        self.checks += 1
        logs = sorted(self._broker.data_dir.logs.items(), key=lambda item: item[0][0] != TXN_STATE)
        for log in [log for _, log in logs]:
            log.flush_buffered()
        for _, log in logs:  # The transaction log first: its decisions explain the markers.
            self._read(log)
        gone = self._histories.keys() - self._broker.data_dir.logs.keys()
        for place in gone:
            del self._histories[place]
            self._forget_missing(place)
        self._check_decisions()
        self._check_offsets()
        return self.findings

    def _report(self, kind: str, text: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(kind, text))

    # --- reading

    def _topic_id(self, log: PartitionLog) -> bytes:
        topic = self._broker.topics.get(log.topic)
        return b"" if topic is None else topic.id

    def _beginning(self, log: PartitionLog) -> _History:
        """Return the initial state for a log that had records before the oracle started."""
        history = _History(self._topic_id(log), log.next_offset, log.next_offset, log.last_stable_offset)
        history.epochs = {producer_id: producer.epoch for producer_id, producer in log.producers.producers.items()}
        history.open_txns = dict(log.producers.open_txns)
        if log.topic == OFFSETS:
            self._offsets[log.index] = _Offsets(is_partial=log.next_offset > 0)
        return history

    def _read(self, log: PartitionLog) -> None:
        history = self._histories.get(log.name)
        topic_id = self._topic_id(log)
        if history is None or history.topic_id != topic_id:
            if history is not None:
                self._forget_missing(log.name)
            history = self._histories[log.name] = _History(topic_id, 0, 0)
        if log.log_start_offset > history.next_offset:
            self._forget_missing(log.name)
        expected = history.next_offset
        for header, batch in batches_from(log, history.next_offset):
            if header.base_offset != expected and (log.topic == TXN_STATE or header.base_offset > expected):
                self.skipped += 1
                self._histories[log.name] = self._beginning(log)
                self._forget_missing(log.name)
                if log.topic == TXN_STATE:
                    self._txns.clear()
                    self._decisions.clear()
                return
            expected = header.next_offset
            if log.topic == TXN_STATE and not header.control:
                self._read_states(header, batch)
            elif header.control:
                self._read_marker(log, history, header, batch)
            else:
                self._read_batch(log, history, header)
                if log.topic == OFFSETS:
                    self._read_commits(log.index, header, batch)
            history.next_offset = expected
        self._compare(log, history)

    def _read_states(self, header: BatchHeader, batch: Buffer) -> None:
        for record in records_in(header, batch):
            state = read_record(record)
            if state is None:
                continue
            transactional_id, after = state
            before = self._txns.pop(transactional_id, None)
            if after is None:
                continue
            self._txns[transactional_id] = after
            if before is not None:
                self._check_step(before, after)
            key = after.producer_id, after.producer_epoch, after.updated_at_ms
            if after.phase in PREPARED:
                decision = _Decision(
                    transactional_id, after.phase is PREPARE_COMMIT, after.started_at_ms, set(after.partitions)
                )
                self._decisions.setdefault(key, []).append(decision)
            elif after.phase in COMPLETED and before is not None and before.phase in PREPARED:
                self.transactions += 1
                ended = before.producer_id, before.producer_epoch, before.updated_at_ms
                for decision in self._decisions.get(ended, ()):
                    decision.is_complete = True

    def _check_step(self, before: Txn, after: Txn) -> None:
        name = after.transactional_id
        if after.phase not in SUCCESSORS[before.phase]:
            self._report(
                "transition",
                f"{name}: {after.phase.kafka_name} follows {before.phase.kafka_name} in the transaction log",
            )
        fell = after.producer_id == before.producer_id and after.producer_epoch < before.producer_epoch
        if fell and after.phase is not EMPTY:
            self._report(
                "epoch_moved_back",
                f"{name}: producer {after.producer_id} has epoch {after.producer_epoch} after {before.producer_epoch}",
            )

    def _read_batch(self, log: PartitionLog, history: _History, header: BatchHeader) -> None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producer_id < 0:
            return
        highest = history.epochs.get(producer_id, -1)
        if epoch < highest:
            self._report(
                "fenced_record",
                f"{log.topic}-{log.index} offset {header.base_offset}: a record of producer {producer_id} with epoch "
                f"{epoch}, which epoch {highest} had fenced",
            )
        history.epochs[producer_id] = max(epoch, highest)
        if header.transactional:
            history.open_txns.setdefault(producer_id, header.base_offset)

    def _read_marker(self, log: PartitionLog, history: _History, header: BatchHeader, batch: Buffer) -> None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        (record,) = records_in(header, batch)
        marker = marker_of(record)
        if marker is None:
            return
        commit = marker.commit
        history.epochs[producer_id] = max(epoch, history.epochs.get(producer_id, -1))
        first = history.open_txns.pop(producer_id, None)
        if first is not None and not commit:
            history.aborted.append((producer_id, first, header.base_offset))
        if log.topic == OFFSETS:
            self._end_commits(log.index, producer_id, commit)
        for decision in self._decisions.get((producer_id, epoch, header.max_timestamp), ()):
            if log.name in decision.missing:  # Otherwise an administrator's marker, or a repeated one.
                if decision.commit is commit:
                    decision.missing.discard(log.name)
                else:
                    decision.against[log.name] = header.base_offset
                self._check_whole(log, history.unexplained.pop(producer_id, None), decision)
                return
        if first is not None:
            history.unexplained[producer_id] = _UnexplainedMarker(header.base_offset, commit, header.max_timestamp)

    def _check_whole(self, log: PartitionLog, marker: _UnexplainedMarker | None, decision: _Decision) -> None:
        """Report a marker that ended a part of a transaction before its coordinator decided otherwise."""
        if marker is None or marker.commit is decision.commit or marker.at_ms < decision.started_at_ms:
            return
        self._report(
            "torn",
            f"{log.topic}-{log.index} offset {marker.offset}: {_outcome(marker.commit)} a part of a transaction of "
            f"{decision.transactional_id} that the coordinator has {_outcome(decision.commit)}",
        )

    def _forget_missing(self, place: TopicPartition) -> None:
        """Expect no markers in a partition whose log cannot be read completely."""
        for decisions in self._decisions.values():
            for decision in decisions:
                decision.missing.discard(place)

    # --- comparing

    def _compare(self, log: PartitionLog, history: _History) -> None:
        place = f"{log.topic}-{log.index}"
        start = log.log_start_offset
        own = min(history.open_txns.values(), default=log.next_offset)
        shown = log.last_stable_offset
        if own >= start and own != shown:
            self._report("last_stable_offset", f"{place}: the last stable offset is {shown}, and should be {own}")
        if shown < history.last_stable_offset:
            self._report(
                "last_stable_offset_moved_back",
                f"{place}: the last stable offset is {shown} after {history.last_stable_offset}",
            )
        history.last_stable_offset = shown
        known = log.producers.producers
        if len(history.epochs) > len(known):  # A producer that has expired may begin with any epoch.
            history.epochs = {each: epoch for each, epoch in history.epochs.items() if each in known}
        aborted_from = max(history.aborted_from, start)
        indexed = {(each.producer_id, each.first_offset, each.last_offset) for each in log.aborted}
        for producer_id, first, last in history.aborted:
            if last >= aborted_from and (producer_id, first, last) not in indexed:
                self._report(
                    "aborted_readable",
                    f"{place}: offsets {first} to {last} of producer {producer_id} are aborted, and can be read as committed",
                )
        for producer_id, first, last in indexed - set(history.aborted):
            if last >= aborted_from:
                self._report(
                    "committed_hidden",
                    f"{place}: offsets {first} to {last} of producer {producer_id} are hidden as aborted, and are not",
                )
        history.aborted.clear()
        history.aborted_from = log.next_offset

    def _check_decisions(self) -> None:
        for key, decisions in list(self._decisions.items()):
            for decision in [each for each in decisions if each.is_complete]:
                decisions.remove(decision)
                for topic, index in sorted(decision.missing & self._histories.keys()):
                    self._report_missing(key[0], decision, topic, index)
            if not decisions:
                del self._decisions[key]

    def _report_missing(self, producer_id: int, decision: _Decision, topic: str, index: int) -> None:
        outcome, offset = _outcome(decision.commit), decision.against.get((topic, index))
        if offset is None:
            self._report(
                "marker_missing",
                f"{topic}-{index}: {decision.transactional_id} is complete, and its {outcome} transaction of producer "
                f"{producer_id} has no marker here",
            )
        else:
            self._report(
                "marker_against_decision",
                f"{topic}-{index} offset {offset}: {_outcome(not decision.commit)} a transaction of "
                f"{decision.transactional_id} that the coordinator has {outcome}",
            )

    # --- offsets of groups

    def _read_commits(self, index: int, header: BatchHeader, batch: Buffer) -> None:
        offsets = self._offsets.setdefault(index, _Offsets())
        for record in records_in(header, batch):
            commit = read_group_record(record.offset, record.key, record.value)
            if not isinstance(commit, OffsetRecord):
                continue
            key = commit.group_id, *commit.place
            offsets.seen.add(key)
            if commit.offset is None:
                offsets.committed.pop(key, None)
                for pending in offsets.pending.values():
                    pending.pop(key, None)
            elif header.transactional:
                offsets.pending.setdefault(header.producer_id, {})[key] = record.offset, commit.offset.offset
            else:
                offsets.committed[key] = record.offset, commit.offset.offset

    def _end_commits(self, index: int, producer_id: int, commit: bool) -> None:
        offsets = self._offsets.setdefault(index, _Offsets())
        for key, pending in offsets.pending.pop(producer_id, {}).items():
            known = offsets.committed.get(key)
            if commit and (known is None or known[0] < pending[0]):  # The offset later in the log wins.
                offsets.committed[key] = pending

    def _check_offsets(self) -> None:
        offsets_topic = self._broker.topics.get(OFFSETS)
        for partition, offsets in self._offsets.items():
            if offsets_topic is not None and not offsets_topic.placements[partition].is_loaded:
                continue  # Its coordinator is not loaded, so the offsets cannot be fetched.
            for key in offsets.seen:
                group_id, topic, index = key
                known = offsets.committed.get(key)
                if known is None and offsets.is_partial:
                    continue
                expected = None if known is None else known[1]
                shown = committed_offset(self._broker, group_id, (topic, index))
                if shown != expected:
                    self._report(
                        "committed_offset",
                        f"group {group_id}, {topic}-{index}: the committed offset is {shown}, and should be {expected}",
                    )

    # --- exactly-once processing of an application

    def exactly_once(self, source: str, target: str, key: str) -> list[Finding]:
        """Compare the committed records of two topics by `key`: "key", "value", or "header:NAME". Raises LookupError."""
        wanted, actual = (Counter(self._values(topic, key)) for topic in (source, target))
        findings = []
        for kind, more, less, text in (
            ("lost", wanted, actual, f"are in {source}, and not in {target}"),
            ("too_many", actual, wanted, f"are in {target} more often than in {source}"),
        ):
            difference = more - less
            if difference:
                examples = ", ".join(f"{value!r}" for value in list(difference)[:EXAMPLES_MAX])
                findings.append(Finding(kind, f"{difference.total()} {text}: {examples}"))
        return findings

    def _values(self, name: str, key: str) -> Iterator[bytes | None]:
        topic = self._broker.topics.get(name)
        if topic is None:
            raise LookupError(f"there is no topic {name!r}")
        for log in topic.partitions:
            for record in _committed(log):
                if key == "key":
                    yield record.key
                elif key == "value":
                    yield record.value
                else:
                    yield dict(record.headers).get(key.removeprefix("header:"))


def _outcome(commit: bool) -> str:
    return "committed" if commit else "aborted"


def _committed(log: PartitionLog) -> Iterator[Record]:
    """Yield the records that a read_committed consumer gets, according to the markers in the log."""
    waiting: dict[int, list[tuple[BatchHeader, Buffer]]] = {}
    for header, batch in batches_from(log, 0):
        if header.control:
            (record,) = records_in(header, batch)
            marker = marker_of(record)
            if marker is None:
                continue  # A control record of another kind ends no transaction.
            commit, ended = marker.commit, waiting.pop(header.producer_id, [])
            for each in ended if commit else ():
                yield from records_in(*each)
        elif header.transactional:
            waiting.setdefault(header.producer_id, []).append((header, batch))
        else:
            yield from records_in(header, batch)
