"""What the page of a broker shows, as plain values for its templates."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.control import state
from stuntbroker.control.faults import texts_in
from stuntbroker.control.log_reading import batches_from, records_in
from stuntbroker.control.points import POINTS
from stuntbroker.protocol.batches.compression import CompressionError
from stuntbroker.protocol.batches.records import marker_of
from stuntbroker.protocol.primitives import DecodeError

if TYPE_CHECKING:
    from stuntbroker.control.host import BrokerHost
    from stuntbroker.storage.partition import PartitionLog

ROWS_MAX: Final = 200
"""Rows of a table; the page says how many there are."""
REQUESTS_MAX: Final = 15
LAG_BATCHES_MAX: Final = 10_000
"""Batches that are read for the lag of a partition."""
TEXT_MAX: Final = 80


def time_text(ms: int) -> str:
    """A time in ms since 1970, as people read it, in UTC."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1_000:03}"


def duration_text(ms: int) -> str:
    """A duration in ms, in the largest unit of which there are two."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def overview(host: BrokerHost) -> dict[str, Any]:
    """Everything on the first page."""
    control, broker = host.control, host.broker
    who = {id_: connection for connection, id_ in control.requests.producers() if id_}
    transactions = state.transactions(broker)
    for each in transactions:
        client = who.get(each["transactional_id"])
        each["client"] = "" if client is None else f"{client.client_id} at {client.peer}"
    transactions.sort(key=lambda each: (not each["is_open"], each["transactional_id"]))
    fences = list(control.fences.fences)
    topics = state.topics(broker)
    return {
        "kafka": ", ".join(
            str(listener.addresses[0].reachable()) for listener in broker.listeners if listener.addresses
        ),
        "now": time_text(broker.clock.now_ms()),
        "clock": control.clock.clock,
        "transactions": transactions[:ROWS_MAX],
        "transaction_count": len(transactions),
        "open_count": sum(each["is_open"] for each in transactions),
        "fences": fences[-ROWS_MAX:][::-1],
        "partitions": [
            {"topic": topic["name"], "internal": topic["internal"], **partition}
            for topic in topics
            for partition in topic["partitions"]
            if not topic["internal"] or partition["end_offset"]
        ][:ROWS_MAX],
        "groups": groups(host),
        "faults": [
            {**fault.as_json(), "held": control.injector.held(fault.id)} for fault in control.injector.faults.values()
        ],
        "stops": [stop.as_json() for stop in control.stops.stops.values()],
        "requests": [asdict(each) for each in list(control.requests.requests)[-REQUESTS_MAX:][::-1]],
        "findings": control.oracle.check(),
        "ended_count": control.oracle.transactions,
        "points": sorted(POINTS),
        "time_text": time_text,
        "duration_text": duration_text,
    }


def groups(host: BrokerHost) -> list[dict[str, Any]]:
    """Every group, and for each partition that it has committed in, what a read_committed reader will still get."""
    broker = host.broker
    shown = []
    for group in state.groups(broker):
        places = []
        for topic in broker.groups.fetch_all(group["group_id"], require_stable=False):
            for part in topic.partitions:
                log = broker.topics.log(topic.name, part.partition)
                lag = None if log is None or part.offset < 0 else committed_lag(log, part.offset)
                places.append({"place": f"{topic.name}-{part.partition}", "offset": part.offset, "lag": lag})
        shown.append({**group, "places": places})
    return shown[:ROWS_MAX]


def committed_lag(log: PartitionLog, offset: int) -> int | None:
    """How many records from `offset` on a read_committed consumer gets now; None when there are too many to count."""
    aborted = [(each.producer_id, each.first_offset, each.last_offset) for each in log.aborted]
    end, count = log.last_stable_offset, 0
    for number, (header, _) in enumerate(batches_from(log, offset)):
        if number == LAG_BATCHES_MAX:
            return None
        if header.base_offset >= end:
            break
        if header.control or any(
            header.transactional and producer_id == header.producer_id and first <= header.base_offset < last
            for producer_id, first, last in aborted
        ):
            continue
        count += header.count - max(0, offset - header.base_offset)
    return count


def transaction(host: BrokerHost, transactional_id: str) -> dict[str, Any] | None:
    """One transactional id: its state, and its requests and fences in the order in which they came. None when it is unknown."""
    control = host.control
    shown = state.transaction(host.broker, transactional_id)
    if shown is None:
        return None
    requests = [
        {"at_ms": each.at_ms, "request": each, "fence": None}
        for each in control.requests.requests
        if transactional_id in texts_in("transactional_id", each.fields)
    ]
    fences = [{"at_ms": each["at_ms"], "request": None, "fence": each} for each in control.fences.of(transactional_id)]
    events = sorted([*requests, *fences], key=lambda event: event["at_ms"])
    return {"transaction": shown, "events": events[-ROWS_MAX:], "time_text": time_text, "duration_text": duration_text}


def partition(host: BrokerHost, topic: str, index: int, offset: int | None) -> dict[str, Any] | None:
    """The records of a partition from `offset` on, or the last ones, with control records in their place. None without it."""
    log = host.broker.topics.log(topic, index)
    if log is None:
        return None
    outcomes: dict[int, list[dict[str, Any]]] = {}
    rows: list[dict[str, Any]] = []
    start = max(log.log_start_offset, log.next_offset - ROWS_MAX) if offset is None else offset
    for header, batch in batches_from(log, log.log_start_offset):
        try:
            records = list(records_in(header, batch))
        except (DecodeError, CompressionError) as fault:
            rows.append(
                {"offset": header.base_offset, "text": f"cannot be read: {fault}", "state": "", "is_marker": False}
            )
            continue
        for record in records:
            row: dict[str, Any] = {
                "offset": record.offset,
                "time": time_text(record.timestamp) if record.timestamp >= 0 else "",
                "producer": f"{header.producer_id}:{header.producer_epoch}" if header.producer_id >= 0 else "",
                "key": _text(record.key),
                "value": _text(record.value),
                "is_marker": header.control,
                "state": "",
            }
            if header.control:
                marker = marker_of(record)
                row["state"] = "" if marker is None else "commit" if marker[0] else "abort"
                for each in outcomes.pop(header.producer_id, []):
                    each["state"] = "committed" if row["state"] == "commit" else "aborted"
            elif header.transactional:
                row["state"] = "open"
                outcomes.setdefault(header.producer_id, []).append(row)
            rows.append(row)
        if len(rows) >= 100 * ROWS_MAX:
            rows = rows[-50 * ROWS_MAX :]
    shown = [row for row in rows if row["offset"] >= start][:ROWS_MAX]
    described = {"topic": topic, "index": index, "rows": shown, "start": log.log_start_offset, "end": log.next_offset}
    return {**described, "last_stable_offset": log.last_stable_offset}


def _text(content: bytes | None) -> str:
    if content is None:
        return "null"
    text = content[: 2 * TEXT_MAX].decode("utf-8", "backslashreplace")
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
