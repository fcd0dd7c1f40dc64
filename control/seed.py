"""Seeds: rare states, such as the last producer epochs, large offsets, or a hanging transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.cluster.moves import change_leader
from stuntbroker.control.rules.faults import FaultError, check_number, check_text, part_of
from stuntbroker.protocol.batches.records import SEQUENCE_MAX, TRANSACTIONAL, build_batch
from stuntbroker.protocol.primitives import INT32_MAX, INT64_MAX
from stuntbroker.protocol.topic_names import TXN_STATE
from stuntbroker.protocol.transaction_states import EPOCH_LAST
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.cluster.moves import MovePorts
    from stuntbroker.broker.services import (
        HasClock,
        HasSyncer,
        HasTurn,
    )

    class SeedPorts(HasClock, HasSyncer, HasTurn, MovePorts, Protocol):
        """Parts of the broker that this module uses."""


KINDS: Final = {
    "ids": {"transactional_id", "producer_id", "producer_epoch"},
    "hanging": {"topic", "partition", "values", "age_ms"},
    "next_producer_id": set(),
    "next_offset": {"topic", "partition", "offset"},
    "next_sequence": {"topic", "partition", "producer_id", "producer_epoch", "sequence"},
    "coordinator_epoch": {"transactional_id", "epoch"},
}
"""Kinds of seeds, and the fields of each."""
PRODUCER_ID_MAX: Final = 1 << 62
"""Highest producer id that a seed may set, which leaves enough higher ids."""
AGE_MS: Final = 3_600_000
"""Default age: tools report a transaction as hanging if it is much older than the maximum time-out."""
AGE_MS_MAX: Final = 366 * 24 * 3_600_000
COORDINATOR_EPOCH_MAX: Final = INT32_MAX - 1_000
"""Highest coordinator epoch that a seed may set; later leader changes increase it."""
OFFSET_MAX: Final = INT64_MAX - 1_000_000
"""Highest offset that a seed may set, which leaves room for later records."""


def read_seed(rule: Any) -> tuple[str, dict[str, Any]]:
    """Parse a seed; return its kind and fields. Raises FaultError for values that are invalid for every broker."""
    given = part_of({"seed": rule}, "seed", set(KINDS))
    if len(given) != 1:
        raise FaultError("a seed has one part", f"one of {', '.join(KINDS)}")
    (kind,) = given
    if kind == "next_producer_id":
        check_number(given, "seed", kind, 0, PRODUCER_ID_MAX)
        return kind, given
    fields = part_of(given, kind, KINDS[kind])
    for name in ("transactional_id", "topic"):
        check_text(fields, kind, name)
    check_number(fields, kind, "partition", 0, INT32_MAX)
    check_number(fields, kind, "producer_epoch", 0, EPOCH_LAST)
    check_number(fields, kind, "producer_id", 0, PRODUCER_ID_MAX)
    check_number(fields, kind, "age_ms", 0, AGE_MS_MAX)
    check_number(fields, kind, "offset", 0, OFFSET_MAX)
    check_number(fields, kind, "epoch", 0, COORDINATOR_EPOCH_MAX)
    check_number(fields, kind, "sequence", 0, SEQUENCE_MAX)
    values = fields.get("values", ["hanging"])
    if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
        raise FaultError(f"{kind}.values must be a list of texts", 'as ["one", "two"]')
    return kind, fields


def seed(broker: SeedPorts, rule: Any) -> dict[str, Any]:
    """Set a rare state, and return it. Raises FaultError, after which nothing has changed, and StorageError.

    The state survives a restart once `wait_until_durable` has returned.
    """
    kind, fields = read_seed(rule)
    if kind == "next_producer_id":
        return _set_next_producer_id(broker, fields)
    if kind == "ids":
        return _set_ids(broker, fields)
    if kind == "coordinator_epoch":
        return _raise_coordinator_epoch(broker, fields)
    if kind == "next_sequence":
        return _append_preceding_record(broker, fields)
    return (_append_hanging_transaction if kind == "hanging" else _set_next_offset)(broker, fields)


def is_already_seeded(broker: SeedPorts, rule: Any) -> bool:
    """Return whether the broker has reached or passed a seed's state, for example because an earlier start seeded it.

    Raises FaultError.
    """
    kind, fields = read_seed(rule)
    if kind == "next_producer_id":
        return bool(broker.transactions.producer_ids.next >= fields[kind])
    if kind == "coordinator_epoch":
        if "transactional_id" not in fields or "epoch" not in fields:
            return False
        topic = broker.topics.internal_topic(TXN_STATE)
        epoch = topic.partitions[topic.partition_of(fields["transactional_id"])].leader_epoch
        return bool(epoch >= fields["epoch"])
    if kind == "ids":
        txn = broker.transactions.state_of(fields.get("transactional_id", ""))
        if txn is None:
            return False
        producer_id, epoch = fields.get("producer_id", txn.producer_id), fields.get("producer_epoch", 0)
        return (txn.producer_id, txn.producer_epoch) >= (producer_id, epoch)
    log = _log(broker, fields)
    if kind == "next_offset":
        return bool(log.log_start_offset >= fields.get("offset", 0) > 0)
    known = log.producers.producers
    if kind == "next_sequence":
        producer = known.get(fields.get("producer_id", -1))
        return producer is not None and producer.epoch >= fields.get("producer_epoch", 0)
    return any(each.has_open_txn and _owner_of(broker, id_) is None for id_, each in known.items())


def _set_ids(broker: SeedPorts, fields: dict[str, Any]) -> dict[str, Any]:
    """Set the last producer id and epoch of a transactional id."""
    id_ = fields.get("transactional_id")
    if not id_:
        raise FaultError("ids.transactional_id is missing", 'as {"transactional_id": "pay-1", "producer_epoch": 32765}')
    before = broker.transactions.state_of(id_)
    if before is not None and fields.get("producer_id", before.producer_id) == before.producer_id:
        # Partitions refuse epochs lower than the last one of the producer id.
        check_number(fields, "ids", "producer_epoch", max(0, before.producer_epoch), EPOCH_LAST)
    producer_id = fields.get("producer_id")
    ids = broker.transactions.producer_ids
    if producer_id is not None and (owner := _owner_of(broker, producer_id)) not in (None, id_):
        raise FaultError(f"producer id {producer_id} belongs to {owner!r}", "give a producer id that no other id has")
    if broker.transactions.is_in_use(id_):
        raise FaultError(f"the transaction of {id_!r} is open", "end it before")
    if producer_id is not None and producer_id >= ids.next:
        _advance_producer_ids(broker, producer_id + 1)  # The broker never gives this id to another producer.
    default = 0 if before is None or producer_id is not None else max(0, before.producer_epoch)
    txn = broker.transactions.set_ids(id_, producer_id, fields.get("producer_epoch", default))
    return {"transactional_id": id_, "producer_id": txn.producer_id, "producer_epoch": txn.producer_epoch}


def _owner_of(broker: SeedPorts, producer_id: int) -> str | None:
    """Return the transactional id that has, had or will have a producer id; None if there is none."""
    for id_ in broker.transactions.ids():
        txn = broker.transactions.state_of(id_)
        if txn is not None and producer_id in (txn.producer_id, txn.previous_producer_id, txn.next_producer_id):
            return id_
    return None


def _raise_coordinator_epoch(broker: SeedPorts, fields: dict[str, Any]) -> dict[str, Any]:
    """Raise the coordinator epoch of a transactional id: the leader epoch of its transaction log partition."""
    id_ = fields.get("transactional_id")
    if not id_:
        raise FaultError(
            "coordinator_epoch.transactional_id is missing", 'as {"transactional_id": "pay-1", "epoch": 5}'
        )
    topic = broker.topics.internal_topic(TXN_STATE)
    index = topic.partition_of(id_)
    lowest = topic.partitions[index].leader_epoch + 1
    check_number(fields, "coordinator_epoch", "epoch", lowest, COORDINATOR_EPOCH_MAX)
    epoch = fields.get("epoch", lowest)
    change_leader(broker, topic, index, topic.placements[index].leader, leader_epoch=epoch)
    return {"transactional_id": id_, "partition": index, "epoch": epoch}


def _append_hanging_transaction(broker: SeedPorts, fields: dict[str, Any]) -> dict[str, Any]:
    """Append records of a transaction that the coordinator does not know, so that the last stable offset stays before them."""
    log = _log(broker, fields)
    values = fields.get("values", ["hanging"])
    producer_id = broker.transactions.producer_ids.take()
    records = [(None, value.encode()) for value in values]
    written_at_ms = broker.clock.now_ms() - fields.get("age_ms", AGE_MS)
    batch = build_batch(
        records, written_at_ms, producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
    )
    return {"producer_id": producer_id, "producer_epoch": 0, "first_offset": log.append_own(batch)}


def _set_next_producer_id(broker: SeedPorts, given: dict[str, Any]) -> dict[str, Any]:
    check_number(given, "seed", "next_producer_id", broker.transactions.producer_ids.next, PRODUCER_ID_MAX)
    _advance_producer_ids(broker, given["next_producer_id"])
    return {"next_producer_id": given["next_producer_id"]}


def _advance_producer_ids(broker: SeedPorts, producer_id: int) -> None:
    ids = broker.transactions.producer_ids
    before, ids.next = ids.next, producer_id
    try:
        ids.peek()  # Reserves a block of ids in the journal, which survives a restart.
    except StorageError:
        ids.next = before
        raise


def _set_next_offset(broker: SeedPorts, fields: dict[str, Any]) -> dict[str, Any]:
    """Set the offset of the first record of an empty partition."""
    log = _log(broker, fields)
    offset = fields.get("offset", 0)
    if log.next_offset or log.segments:
        raise FaultError(f"{log.topic}-{log.index} has had records", "give a partition that never had a record")
    log.log_start_offset = log.next_offset = offset
    try:
        log.create_first_segment()  # The next start reads the offset from the name of the first segment.
        broker.data_dir.write_start_offsets()
    except StorageError:
        if not log.segments:
            log.log_start_offset = log.next_offset = 0
        raise
    return {"topic": log.topic, "partition": log.index, "next_offset": log.next_offset}


def _append_preceding_record(broker: SeedPorts, fields: dict[str, Any]) -> dict[str, Any]:
    """Append a record with the preceding sequence, so that the producer's next one is `sequence`."""
    log = _log(broker, fields)
    producer_id = fields.get("producer_id")
    if producer_id is None:
        raise FaultError("next_sequence.producer_id is missing", "GET /v1/transactions lists producer ids")
    known = log.producers.producers.get(producer_id)
    lowest = 0 if known is None else max(0, known.epoch)
    check_number(fields, "next_sequence", "producer_epoch", lowest, EPOCH_LAST)
    epoch, sequence = fields.get("producer_epoch", lowest), fields.get("sequence", 0)
    before = sequence - 1 if sequence else SEQUENCE_MAX
    batch = build_batch(
        [(None, b"seeded")], broker.clock.now_ms(), producer_id=producer_id, producer_epoch=epoch, base_sequence=before
    )
    if known is not None and known.has_open_txn:  # Its marker could not be written after a record of a later epoch.
        raise FaultError(
            f"the transaction of producer {producer_id} is open in {log.topic}-{log.index}", "end it before"
        )
    if producer_id >= broker.transactions.producer_ids.next:
        _advance_producer_ids(broker, producer_id + 1)
    offset = log.append_own(batch)
    return {"producer_id": producer_id, "producer_epoch": epoch, "next_sequence": sequence, "offset": offset}


def _log(broker: SeedPorts, fields: dict[str, Any]) -> Any:
    name, index = fields.get("topic", ""), fields.get("partition", 0)
    topic, log = broker.topics.get(name), broker.topics.log(name, index)
    if topic is None or log is None:
        raise FaultError(f"there is no partition {name}-{index}", "GET /v1/topics lists them")
    if topic.is_internal:
        raise FaultError(f"{name} is an internal topic", "give a topic of yours")
    return log


async def wait_until_durable(broker: SeedPorts) -> None:
    """Wait until the seeded records are written, and synced with durability power. Raises StorageError."""
    broker.turn.flush()
    if broker.syncer is not None:
        synced = asyncio.Event()
        broker.syncer.when_synced(synced.set)
        await synced.wait()
