"""Producer state of a partition: sequence numbers, epochs and open transactions (Kafka: ProducerStateManager).

The snapshot file `<20-digit offset>.snapshot` has the state as of that offset: int16 version 1, uint32 CRC-32C of byte 6 to
the end, then an array of entries, each with only the last batch of its producer.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Final, NamedTuple

from stuntbroker.protocol.batches.records import SEQUENCE_MAX, TRANSACTIONAL, BatchHeader, add_sequence
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.producer_snapshot import ProducerEntry, ProducerSnapshot
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.protocol.transaction_states import EPOCH_MAX, TRANSACTION_V2

BATCHES_REMEMBERED: Final = 5
SNAPSHOT_VERSION: Final = 1

OK = ErrorCode.NONE
TXN_OPEN: Final = 0
"""The producer's transaction is open in this partition and accepts its records without verification."""
TXN_STALE_EPOCH: Final = 1
"""The partition has seen a newer epoch of the producer."""
TXN_NOT_OPEN: Final = 2
"""The partition has no open transaction that accepts records of this epoch."""


class RememberedBatch:
    """A data batch of a producer, by which a batch that is sent again is recognised."""

    __slots__ = ("first_offset", "first_sequence", "last_offset", "last_sequence", "timestamp_ms")

    # No constructor: a call with five arguments takes twice the time, and every appended batch is remembered.
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class Producer:
    """One producer id in one partition. Offsets are -1 where there are none."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "rejects_new_records",
        "txn_first_offset",
    )

    def __init__(
        self, epoch: int, last_timestamp: int, coordinator_epoch: int = -1, txn_first_offset: int = -1
    ) -> None:
        self.epoch = epoch
        self.batches: list[RememberedBatch] = []
        """The last batches of this epoch, at most BATCHES_REMEMBERED, oldest first."""
        self.next_sequence = 0
        """Base sequence number expected of the next batch."""
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = txn_first_offset
        self.rejects_new_records = False
        """Whether the open transaction accepts no more records (KIP-939). Not in snapshots: the transaction log restores it."""

    @property
    def last_sequence(self) -> int:
        """Sequence number of the producer's last record, -1 when none is known."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def has_open_txn(self) -> bool:
        """Whether the producer has an open transaction in this partition."""
        return self.txn_first_offset >= 0

    def txn_status(self, epoch: int) -> int:
        """Return TXN_OPEN, TXN_STALE_EPOCH or TXN_NOT_OPEN, as `ProducerStates.txn_status`."""
        if self.epoch != epoch:
            return TXN_STALE_EPOCH if self.epoch > epoch else TXN_NOT_OPEN
        return TXN_NOT_OPEN if self.txn_first_offset < 0 or self.rejects_new_records else TXN_OPEN

    def remember(self, sequence: int, delta: int, base_offset: int, timestamp: int) -> None:
        """Remember an appended batch of `delta` + 1 records."""
        batches = self.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        last = sequence + delta
        if last < SEQUENCE_MAX:
            self.next_sequence = last + 1
        else:
            last = add_sequence(sequence, delta)
            self.next_sequence = add_sequence(last, 1)
        batch = RememberedBatch()
        batch.first_sequence = sequence
        batch.last_sequence = last
        batch.first_offset = base_offset
        batch.last_offset = base_offset + delta
        batch.timestamp_ms = timestamp
        batches.append(batch)
        self.last_timestamp = timestamp


class UnresolvedFirstBatch(NamedTuple):
    """A transaction's first batch in a partition, added or verified by the coordinator but not appended (KIP-890, KIP-939).

    The batch was refused, or was a duplicate. Until a transactional batch of the producer is appended, no batch with a
    higher sequence number may be appended before it.
    """

    epoch: int
    lowest_sequence: int
    starts_at_zero: bool
    """`opens_transaction` of `admit` for the first batch that was remembered: whether it came in Produce 12 or later."""
    since_ms: int


class AbortedTxn(NamedTuple):
    """One entry of the aborted-transaction index: the offsets that an aborted transaction spans in a partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    last_stable_offset: int
    """First offset of the oldest other transaction that was open at the marker; if none was, the offset after the marker."""


last_offset_of: Final = attrgetter("last_offset")


def aborted_between(aborted: list[AbortedTxn], offset: int, end_offset: int) -> list[AbortedTxn]:
    """Return the entries of an aborted-transaction index for a read_committed read of [offset, end_offset), in marker order."""
    overlapping = []
    for entry in aborted[bisect_left(aborted, offset, key=last_offset_of) :]:
        if entry.first_offset < end_offset:
            overlapping.append(entry)
        if entry.last_stable_offset >= end_offset:
            break
    return overlapping


class ProducerStates:
    """Every producer of a partition, and the transactions that are open in it."""

    __slots__ = ("unresolved_batches", "open_txns", "producers")

    def __init__(self) -> None:
        self.unresolved_batches: dict[int, UnresolvedFirstBatch] = {}
        self.producers: dict[int, Producer] = {}
        self.open_txns: dict[int, int] = {}
        """Producer id -> first offset of its open transaction, in order of that offset."""

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of the oldest open transaction; None if none is open."""
        for offset in self.open_txns.values():
            return offset
        return None

    def admit(self, header: BatchHeader, opens_transaction: bool) -> RememberedBatch | ErrorCode:
        """Decide whether a client's batch may be appended: return OK, an error, or the remembered batch that it duplicates.

        `opens_transaction`: the batch opens a transaction of transaction version 2 (KIP-890).
        """
        if self.unresolved_batches and header.producer_id in self.unresolved_batches:
            return self._admit_unresolved(header)
        producer = self.producers.get(header.producer_id)
        sequence = header.base_sequence
        if producer is None:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if opens_transaction and sequence else OK
        epoch, stored = header.producer_epoch, producer.epoch
        batches = producer.batches
        if epoch != stored:
            if epoch < stored:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if sequence and stored != -1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif batches:
            if sequence != producer.next_sequence:
                repeated = self._repeated(batches, sequence, add_sequence(sequence, header.last_offset_delta))
                if repeated is not None or stored != -1:
                    return repeated or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif sequence and stored != -1:
            # A marker bumped the epoch; no batch of this epoch is known.
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer.has_open_txn and not header.attributes & TRANSACTIONAL:
            return ErrorCode.INVALID_TXN_STATE
        return OK

    def _admit_unresolved(self, header: BatchHeader) -> RememberedBatch | ErrorCode:
        """As `admit`, for a producer that has an unresolved first batch in this partition."""
        producer_id = header.producer_id
        unresolved = self.unresolved_batches.pop(producer_id)
        verdict = self.admit(header, unresolved.starts_at_zero)
        self.unresolved_batches[producer_id] = unresolved
        if header.base_sequence > unresolved.lowest_sequence and verdict in (OK, ErrorCode.INVALID_TXN_STATE):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return verdict

    @staticmethod
    def _repeated(batches: list[RememberedBatch], first: int, last: int) -> RememberedBatch | None:
        for batch in batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """Update the producer state for a data batch that was appended to the log."""
        producer_id, epoch, timestamp = header.producer_id, header.producer_epoch, header.max_timestamp
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(epoch, timestamp)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches = []
        if header.base_sequence >= 0:
            producer.remember(header.base_sequence, header.last_offset_delta, base_offset, timestamp)
        producer.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL:
            self.open_txn(producer, producer_id, base_offset)
            if self.unresolved_batches:
                self.unresolved_batches.pop(producer_id, None)

    def open_txn(self, producer: Producer, producer_id: int, base_offset: int) -> None:
        """Open the producer's transaction in this partition at `base_offset`, unless it is already open."""
        if producer.txn_first_offset < 0:
            producer.txn_first_offset = self.open_txns[producer_id] = base_offset

    def has_open_txn(self, header: BatchHeader) -> bool:
        """Whether the batch's transaction is open in this partition (Kafka: hasOngoingTransaction)."""
        producer = self.producers.get(header.producer_id)
        return producer is not None and producer.has_open_txn and producer.epoch == header.producer_epoch

    def txn_status(self, producer_id: int, epoch: int) -> int:
        """Return TXN_OPEN (the producer may append without asking its coordinator), TXN_STALE_EPOCH or TXN_NOT_OPEN."""
        producer = self.producers.get(producer_id)
        return TXN_NOT_OPEN if producer is None else producer.txn_status(epoch)

    def continues(self, producer: Producer | None, header: BatchHeader) -> bool:
        """Whether a transactional batch continues the sequence of `producer` in its epoch, so that `admit` would return OK."""
        return (
            producer is not None
            and producer.next_sequence == header.base_sequence
            and producer.epoch == header.producer_epoch
            and not self.unresolved_batches
        )

    def rejects_new_records(self, producer_id: int) -> bool:
        """Whether the producer's open transaction accepts no more records."""
        producer = self.producers.get(producer_id)
        return producer is not None and producer.rejects_new_records

    def mark_unresolved(self, header: BatchHeader, starts_at_zero: bool, now_ms: int) -> None:
        """Remember a transaction's first batch in this partition as unresolved, unless it opened the transaction here.

        Called for each batch for which the coordinator adds or verifies the partition, after its append (`renew_unresolved`:
        before) or its refusal. A refused batch opens no transaction, and neither does a duplicate, which is answered as written.
        Kafka remembers each such batch before it asks the coordinator, and forgets it when a transactional batch is appended
        (VerificationStateEntry). `starts_at_zero` and `now_ms` count only if the producer has no unresolved batch yet.
        """
        if self.has_open_txn(header):
            return
        epoch, sequence = header.producer_epoch, header.base_sequence
        known = self.unresolved_batches.get(header.producer_id)
        if known is None:
            known = UnresolvedFirstBatch(epoch, sequence, starts_at_zero, now_ms)
        elif epoch > known.epoch or (epoch == known.epoch and sequence < known.lowest_sequence):
            known = known._replace(epoch=epoch, lowest_sequence=sequence)
        self.unresolved_batches[header.producer_id] = known

    def renew_unresolved(self, header: BatchHeader) -> None:
        """Count the sequence number and epoch of a first batch before its append is tried, if another one is unresolved.

        A Produce request that is not verified lacks this step: the unresolved batch stays as it is, even for a newer epoch.
        """
        if header.producer_id in self.unresolved_batches:
            self.mark_unresolved(header, False, 0)

    def reject_new_records(self, producer_id: int) -> None:
        """Let the producer's open transaction accept no more records."""
        if producer_id in self.open_txns:
            self.producers[producer_id].rejects_new_records = True

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> ErrorCode:
        """Return OK or the error of a marker. From transaction version 2 on, its epoch must be a new one (KIP-1228)."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return OK
        if transaction_version >= TRANSACTION_V2:
            repeats = epoch == producer.epoch and (not producer.has_open_txn or epoch == EPOCH_MAX)
            if epoch <= producer.epoch and not repeats:
                return ErrorCode.INVALID_PRODUCER_EPOCH
        elif epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return OK

    def marker_appended(
        self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp_ms: int, offset: int, commit: bool
    ) -> AbortedTxn | None:
        """End the producer's transaction; return its aborted-transaction entry if it was open and is aborted, else None.

        The producer's unresolved first batch is forgotten, unless Produce 12 or later sent it and the marker has its epoch:
        EndTxn 5 bumps the epoch with every transaction, so such a marker ends the previous transaction (KIP-890).
        """
        if self.unresolved_batches:
            unresolved = self.unresolved_batches.get(producer_id)
            if unresolved is not None and not (unresolved.starts_at_zero and unresolved.epoch == epoch):
                del self.unresolved_batches[producer_id]
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(epoch, timestamp_ms)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches = []
            producer.next_sequence = 0
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp_ms
        first, producer.txn_first_offset = producer.txn_first_offset, -1
        producer.rejects_new_records = False
        if first < 0:
            return None
        del self.open_txns[producer_id]
        if commit:
            return None
        unstable = self.first_unstable_offset()
        return AbortedTxn(producer_id, first, offset, offset + 1 if unstable is None else unstable)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were idle for `expiration_ms` and have no open transaction."""
        old = [
            producer_id
            for producer_id, producer in self.producers.items()
            if not producer.has_open_txn and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in old:
            del self.producers[producer_id]
        self.unresolved_batches = {
            producer_id: unresolved
            for producer_id, unresolved in self.unresolved_batches.items()
            if now_ms - unresolved.since_ms < expiration_ms
        }

    def expiry_due_ms(self, expiration_ms: int) -> int | None:
        """Return the time in ms since 1970 from which `expire` may forget a producer; None if no producer can expire."""
        last_ms = [each.last_timestamp for each in self.producers.values() if not each.has_open_txn]
        last_ms += [each.since_ms for each in self.unresolved_batches.values()]
        return min(last_ms) + expiration_ms if last_ms else None

    def snapshot(self) -> bytes:
        """Return all producers in the format of Kafka's `.snapshot` files."""
        entries = []
        for producer_id, producer in self.producers.items():
            last = producer.batches[-1] if producer.batches else None
            entries.append(
                ProducerEntry(
                    producer_id,
                    producer.epoch,
                    last.last_sequence if last else -1,
                    last.last_offset if last else -1,
                    last.last_offset - last.first_offset if last else 0,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.txn_first_offset,
                )
            )
        out = bytearray(SNAPSHOT_VERSION.to_bytes(2, "big"))
        ProducerSnapshot(0, entries).encode(out, SNAPSHOT_VERSION)
        out[2:6] = crc32c(memoryview(out)[6:]).to_bytes(4, "big")
        return bytes(out)

    @classmethod
    def from_snapshot(cls, data: bytes) -> ProducerStates:
        """Decode the content of a snapshot file. Raises DecodeError if it is damaged."""
        if data[:2] != SNAPSHOT_VERSION.to_bytes(2, "big") or len(data) < 10:
            raise DecodeError("not a producer snapshot of version 1", 0)
        if int.from_bytes(data[2:6], "big") != crc32c(data[6:]):
            raise DecodeError("wrong CRC in a producer snapshot", 2)
        # Unlike Kafka: Kafka forgets producers whose records are all below the log start, and their open transactions.
        states = cls()
        opened = []
        for entry in ProducerSnapshot.decode(data, SNAPSHOT_VERSION, 2).producer_entries:
            producer = Producer(entry.epoch, entry.timestamp, entry.coordinator_epoch, entry.current_txn_first_offset)
            if entry.last_offset >= 0:
                producer.next_sequence = add_sequence(entry.last_sequence, 1)
                first = entry.last_sequence - entry.offset_delta
                batch = RememberedBatch()
                batch.first_sequence = first if first >= 0 else first + SEQUENCE_MAX + 1
                batch.last_sequence = entry.last_sequence
                batch.first_offset = entry.last_offset - entry.offset_delta
                batch.last_offset = entry.last_offset
                batch.timestamp_ms = entry.timestamp
                producer.batches.append(batch)
            states.producers[entry.producer_id] = producer
            if producer.has_open_txn:
                opened.append((producer.txn_first_offset, entry.producer_id))
        states.open_txns = {producer_id: offset for offset, producer_id in sorted(opened)}
        return states
