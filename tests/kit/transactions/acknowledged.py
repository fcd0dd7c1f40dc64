"""Records what a broker has acknowledged to its clients, and finds contradictions after a crash and a restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stuntbroker.protocol.batches.records import CONTROL
from tests.kit.groups.group_requests import Pair, end, fetch_offset, init
from tests.kit.logs import Seen, committed, records_in
from tests.kit.rig import Client, Rig

TOPIC, COMPACTED = "records", "compacted"
Place = tuple[str, int]
"""Topic and partition."""
PLACES: tuple[Place, ...] = ((TOPIC, 0), (TOPIC, 1), (COMPACTED, 0))
"""Partitions that the clients write to; each other topic has one partition and may be deleted."""
RETENTION_MS = 123_456_789_012
"""Retention time of the topics that come and go."""
PADDING = b"."
"""Fills the values of some records, to make them longer."""


@dataclass
class Transaction:
    """A transaction of one producer; its number is the offset that it commits."""

    number: int
    offered: set[bytes] = field(default_factory=set)
    """Values in requests that were sent."""
    values: dict[bytes, tuple[Place, int]] = field(default_factory=dict)
    """Acknowledged value -> where it was written, with its offset."""
    offset_sent: bool = False
    offset_acknowledged: bool = False
    commit_sent: bool | None = None
    """Whether its end was requested as a commit (True) or as an abort (False)."""
    end_acknowledged: bool = False


@dataclass
class Acknowledged:
    """Facts that a restarted broker must know."""

    records: dict[Place, dict[int, bytes]] = field(default_factory=dict)
    """Offset -> value of records outside transactions."""
    newest: dict[bytes, int] = field(default_factory=dict)
    """Key -> the last number written to it in the compacted topic."""
    newest_sent: dict[bytes, int] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)
    """Log start offsets after DeleteRecords."""
    starts_sent: dict[Place, int] = field(default_factory=dict)
    transactions: dict[str, list[Transaction]] = field(default_factory=dict)
    """Transactional id -> its transactions, oldest first."""
    producers: dict[str, Pair] = field(default_factory=dict)
    """Transactional id -> its last producer id and epoch."""
    owners: dict[int, str] = field(default_factory=dict)
    """Producer id -> the only transactional id that it was ever given to."""
    offsets: dict[str, int] = field(default_factory=dict)
    """Group -> its last committed offset."""
    offsets_sent: dict[str, int] = field(default_factory=dict)
    topics: dict[str, bool] = field(default_factory=dict)
    """Name -> whether the topic exists; no entry while a request to create or delete it is pending."""


class Inspection:
    """Reads a restarted broker; `wrong` has a sentence for each contradiction."""

    def __init__(self, rig: Rig, facts: Acknowledged, kept_id: str) -> None:
        """`kept_id`: the transactional id with two-phase commit."""
        self.wrong: list[str] = []
        self._rig, self._facts, self._kept_id = rig, facts, kept_id
        self._client: Client = rig.client()
        self._starts = {place: rig.log(*place).log_start_offset for place in PLACES}
        self._readable = self._committed()
        self._check_records()
        self._check_compacted()
        self._check_topics()
        self._check_offsets()
        for name, transactions in facts.transactions.items():
            self._check_transactions(name, transactions)
        self._check_prepared()
        self._check_producers()
        self._check_nothing_hangs()

    def _committed(self) -> set[bytes]:
        self._rig.broker.turn.end()
        return {plain(each) for place in PLACES for each in committed(self._rig.log(*place))}

    def _check_records(self) -> None:
        for place, expected in self._facts.records.items():
            log = self._rig.broker.topics.log(*place)
            actual = {} if log is None else {each.offset: plain(each) for each in data_of(log)}
            start = 0 if log is None else log.log_start_offset
            if not self._facts.starts.get(place, 0) <= start <= self._facts.starts_sent.get(place, 0):
                self.wrong.append(f"{place} starts at {start}, acknowledged {self._facts.starts.get(place, 0)}")
            for offset, value in expected.items():
                if offset >= start and actual.get(offset) != value:
                    self.wrong.append(f"{place}, {offset}: {value!r} acknowledged, {actual.get(offset)!r} found")

    def _check_compacted(self) -> None:
        actual = {each.key: int(plain(each)) for each in data_of(self._rig.log(COMPACTED, 0)) if is_number(each)}
        for key, number in self._facts.newest.items():
            if not number <= actual.get(key, -1) <= self._facts.newest_sent[key]:
                self.wrong.append(f"{key!r}: {number} acknowledged, {actual.get(key)} found")

    def _check_topics(self) -> None:
        for name, exists in self._facts.topics.items():
            topic = self._rig.broker.topics.get(name)
            if (topic is not None) != exists:
                self.wrong.append(f"topic {name}: acknowledged that it exists: {exists}")
            elif topic is not None and topic.partitions[0].config.retention_ms != RETENTION_MS:
                self.wrong.append(f"topic {name} has lost its configuration: {topic.partitions[0].config}")

    def _check_offsets(self) -> None:
        for group, sent in self._facts.offsets_sent.items():
            code, offset = fetch_offset(self._client, topic=TOPIC, group=group)
            if code or not self._facts.offsets.get(group, -1) <= offset <= sent:
                self.wrong.append(f"{group}: {offset} (error {code}), acknowledged {self._facts.offsets.get(group)}")

    def _check_transactions(self, name: str, transactions: list[Transaction]) -> None:
        code, offset = fetch_offset(self._client, topic=TOPIC, group=group_of(name))
        least, most = -1, {-1}
        for each in transactions:
            there = each.offered & self._readable
            is_committed = each.commit_sent is True and (each.end_acknowledged or bool(there) or offset == each.number)
            if is_committed and (missing := {v for v in self._not_deleted(each) if v not in there}):
                self.wrong.append(f"{name}: {missing} of {each} cannot be read")
            if there and each.commit_sent is not True:
                self.wrong.append(f"{name}: {there} of {each} can be read")
            if is_committed and each.offset_acknowledged:
                least, most = each.number, {each.number}
            elif is_committed and each.offset_sent:
                most.add(each.number)
        if code or offset < least or offset not in most:
            self.wrong.append(f"{name}: offset {offset} (error {code}), committed {least}, possible {most}")

    def _not_deleted(self, transaction: Transaction) -> list[bytes]:
        """Return the acknowledged values, without those that DeleteRecords has deleted."""
        return [value for value, (place, offset) in transaction.values.items() if offset >= self._starts[place]]

    def _check_prepared(self) -> None:
        """With two-phase commit, only the application ends a transaction, after a restart too."""
        transactions = self._facts.transactions.get(self._kept_id)
        if not transactions or transactions[-1].commit_sent is not None or not transactions[-1].values:
            return
        owner = self._facts.producers[self._kept_id]
        answer = init(self._client, self._kept_id, two_phase=True, keep=True, version=6)
        if (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) != owner:
            self.wrong.append(f"the transaction of {owner} was not kept: {answer}")
            return
        answer = end(self._client, self._kept_id, (answer.producer_id, answer.producer_epoch))
        if answer.error_code:
            self.wrong.append(f"the transaction of {owner} cannot be committed: {answer}")
        elif missing := set(self._not_deleted(transactions[-1])) - self._committed():
            self.wrong.append(f"{missing} of the kept transaction cannot be read")
        self._facts.producers[self._kept_id] = answer.producer_id, answer.producer_epoch

    def _check_producers(self) -> None:
        owners = self._facts.owners
        for name in self._facts.transactions.keys() | self._facts.producers.keys():
            before = self._facts.producers.get(name, (-1, -1))
            answer = init(self._client, name)
            after = answer.producer_id, answer.producer_epoch
            if answer.error_code or after <= before or owners.get(after[0], name) != name:
                self.wrong.append(f"{name}: acknowledged {before}, then {answer}")
        if (answer := init(self._client, None)).producer_id in owners:
            self.wrong.append(f"the producer id of {answer} belongs to {owners[answer.producer_id]}")

    def _check_nothing_hangs(self) -> None:
        self._rig.broker.turn.end()
        for place in (*PLACES, ("__consumer_offsets", 0)):
            log = self._rig.broker.topics.log(*place)
            if log is not None and log.last_stable_offset != log.next_offset:
                self.wrong.append(f"{place}: a transaction is open at {log.last_stable_offset} for ever")


def group_of(transactional_id: str) -> str:
    """Return the group whose offsets a producer commits."""
    return f"group of {transactional_id}"


def plain(record: Seen) -> bytes:
    """Return a record's value without its padding."""
    assert record.value is not None
    return record.value.rstrip(PADDING)


def is_number(record: Seen) -> bool:
    """Whether a record of the compacted topic was written outside transactions."""
    return record.key is not None and record.key.startswith(b"key")


def data_of(log: Any) -> list[Seen]:
    """Return all records of a log, without markers."""
    batches = [(header, bytes(data)) for header, data in log.batches() if not header.attributes & CONTROL]
    return [record for header, data in batches for record in records_in(header, data)]
