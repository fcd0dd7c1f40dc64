"""Values for the templates of the web page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.control.nodes import nodes
from stuntbroker.control.observation import state
from stuntbroker.control.observation.log_reading import batches_from, records_in
from stuntbroker.control.rules.faults import texts_in
from stuntbroker.control.rules.points import POINTS, START
from stuntbroker.protocol.batches.compression import CompressionError
from stuntbroker.protocol.batches.records import BatchHeader, Record, marker_of
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.storage.producers import last_offset_of

if TYPE_CHECKING:
    from stuntbroker.control.host import BrokerHost
    from stuntbroker.storage.partition import PartitionLog

TABLE_ROWS_MAX: Final = 40
"""Maximum rows of a table on the first page, which is sent again after every change; the page says if there are more."""
PLACES_MAX: Final = 10
"""Maximum number of partitions, or other items, in a row of these tables."""
RULE_TEXT_MAX: Final = 300
"""Maximum number of characters shown of a rule; the API returns all of it."""
ROWS_MAX: Final = 200
"""Maximum rows of a table on other pages."""
REQUESTS_MAX: Final = 15
LAG_BATCHES_MAX: Final = 2_000
"""Maximum number of batches read to compute the lags of all groups, which takes a few milliseconds."""
TEXT_MAX: Final = 80
Aborted = dict[int, list[tuple[int, int]]]
"""Producer id -> (offset of the marker, first offset) of each aborted transaction, in order."""


def time_text(ms: int) -> str:
    """Format a time in ms since 1970, in UTC; return the number if it is out of range."""
    try:
        return datetime.fromtimestamp(ms // 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1_000:03}"
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def duration_text(ms: int) -> str:
    """Format a duration in ms in the largest unit of which it has at least two."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def overview(host: BrokerHost) -> dict[str, Any]:
    """Return the values of the first page."""
    control, broker = host.control, host.broker
    who = {id_: connection for connection, id_ in control.requests.producers() if id_}
    transactions = _transactions(host)
    for each in transactions:
        client = who.get(each["transactional_id"])
        each["client"] = "" if client is None else f"{client.client_id} at {client.peer}"
    fences = list(control.fences.fences)
    return {
        "kafka": ", ".join(str(listener.reachable) for listener in broker.listeners if listener.addresses),
        "now": time_text(broker.clock.now_ms()),
        "clock": control.clock.clock,
        "transactions": transactions,
        "transaction_count": broker.transactions.count(),
        "open_count": len(broker.transactions.open),
        "fences": fences[-TABLE_ROWS_MAX:][::-1],
        "partitions": list(islice(_partitions(host), TABLE_ROWS_MAX)),
        "groups": groups(host),
        "nodes": nodes(control) if broker.nodes.are_many else [],
        "faults": [
            control.injector.as_json(fault) for fault in islice(control.injector.faults.values(), TABLE_ROWS_MAX)
        ],
        "stops": [stop.as_json() for stop in islice(control.stops.stops.values(), TABLE_ROWS_MAX)],
        "rule_count": len(control.injector.faults) + len(control.stops.stops),
        "requests": [asdict(each) for each in list(control.requests.requests)[-REQUESTS_MAX:][::-1]],
        "findings": control.oracle.check(),
        "ended_count": control.oracle.transactions,
        "points": sorted(POINTS.keys() - START.keys()),
        "rows_max": TABLE_ROWS_MAX,
        "rule_max": RULE_TEXT_MAX,
        "places_max": PLACES_MAX,
        "time_text": time_text,
        "duration_text": duration_text,
    }


def _transactions(host: BrokerHost) -> list[dict[str, Any]]:
    """Return the transactional ids to show: first those with an open transaction, then others, sorted."""
    transactions = host.broker.transactions
    open_ids = sorted(actor.txn.transactional_id for actor in transactions.open)[:TABLE_ROWS_MAX]
    known = set(open_ids)
    others = (id_ for id_ in transactions.ids() if id_ not in known)
    shown = [*open_ids, *sorted(islice(others, TABLE_ROWS_MAX - len(open_ids)))]
    states = (state.transaction(host.broker, id_) for id_ in shown)
    return [each for each in states if each is not None]


def _partitions(host: BrokerHost) -> Iterator[dict[str, Any]]:
    """Yield the partitions, by topic; of internal topics only those that have had records."""
    for topic in sorted(host.broker.topics, key=lambda topic: topic.name):
        for log in topic.partitions:
            if not topic.is_internal or log.next_offset:
                shown = state.partition(host.broker, topic.name, log.index)
                if shown is not None:
                    yield {"topic": topic.name, "leader": topic.placements[log.index].leader, **shown}


def groups(host: BrokerHost) -> list[dict[str, Any]]:
    """Return every group with its committed offsets, and the lag of a read_committed consumer for each partition."""
    broker = host.broker
    shown = []
    batches_left = LAG_BATCHES_MAX
    for group in state.groups(broker)[:TABLE_ROWS_MAX]:
        places = []
        for topic in broker.groups.fetch_all(group["group_id"], require_stable=False):
            for part in topic.partitions:
                log = broker.topics.log(topic.name, part.partition)
                lag = None
                if log is not None and part.offset >= 0:
                    lag, read = committed_lag(log, part.offset, batches_left)
                    batches_left -= read
                places.append({"place": f"{topic.name}-{part.partition}", "offset": part.offset, "lag": lag})
        shown.append({**group, "places": places})
    return shown


def committed_lag(log: PartitionLog, offset: int, batches_max: int) -> tuple[int | None, int]:
    """Return (records from `offset` on that a read_committed consumer gets now, batches read to count them).

    The number of records is None if there are more than `batches_max` batches.
    """
    aborted = _aborted_behind(log, offset)
    end, count, read = log.last_stable_offset, 0, 0
    for header, _ in batches_from(log, offset):
        if header.base_offset >= end:
            break
        if read == batches_max:
            return None, read
        read += 1
        if header.control or (header.transactional and _is_aborted(aborted, header)):
            continue
        count += header.count - max(0, offset - header.base_offset)
    return count, read


def _aborted_behind(log: PartitionLog, offset: int) -> Aborted:
    """Return the aborted transactions that end at or after an offset."""
    aborted: Aborted = {}
    for each in log.aborted[bisect_left(log.aborted, offset, key=last_offset_of) :]:
        aborted.setdefault(each.producer_id, []).append((each.last_offset, each.first_offset))
    return aborted


def _is_aborted(aborted: Aborted, header: BatchHeader) -> bool:
    """Whether a transactional batch belongs to an aborted transaction."""
    ended = aborted.get(header.producer_id, [])
    at = bisect_left(ended, (header.base_offset, -1))
    return at < len(ended) and ended[at][1] <= header.base_offset


def transaction(host: BrokerHost, transactional_id: str) -> dict[str, Any] | None:
    """Return a transactional id's state, and its requests and fences in the order of time; None if it is unknown."""
    control = host.control
    shown = state.transaction(host.broker, transactional_id)
    if shown is None:
        return None
    requests = [
        {"at_ms": each.at_ms, "request": each}
        for each in control.requests.requests
        if transactional_id in texts_in("transactional_id", each.fields)
    ]
    fences = [{"at_ms": each["at_ms"], "fence": each} for each in control.fences.of(transactional_id)]
    moments = [{"at_ms": each["at_ms"], "fenced": each} for each in control.fences.fencing_history_of(transactional_id)]
    events: list[dict[str, Any]] = sorted([*moments, *requests, *fences], key=lambda event: event["at_ms"])
    texts = {"time_text": time_text, "duration_text": duration_text, "now_ms": host.broker.clock.now_ms()}
    return {"transaction": shown, "events": events[-ROWS_MAX:], "rows_max": ROWS_MAX, **texts}


def partition(host: BrokerHost, topic: str, index: int, offset: int | None) -> dict[str, Any] | None:
    """Return a partition's records from `offset` on (None: the last ones), with markers; None if there is no partition."""
    log = host.broker.topics.log(topic, index)
    if log is None:
        return None
    start = max(log.log_start_offset, log.next_offset - ROWS_MAX) if offset is None else offset
    rows: list[dict[str, Any]] = []
    aborted = _aborted_behind(log, start)
    for header, batch in batches_from(log, start):
        try:
            rows += list(_rows(header, records_in(header, batch), start, _outcome(log, aborted, header)))
        except (DecodeError, CompressionError) as fault:
            rows.append(
                {"offset": header.base_offset, "text": f"cannot be read: {fault}", "state": "", "is_marker": False}
            )
        if len(rows) >= ROWS_MAX:
            break
    described = {"topic": topic, "index": index, "start": log.log_start_offset, "end": log.next_offset}
    described |= {"time_text": time_text, "now_ms": host.broker.clock.now_ms()}
    return {**described, "rows": rows[:ROWS_MAX], "last_stable_offset": log.last_stable_offset}


def _rows(header: BatchHeader, records: Iterable[Record], start: int, outcome: str) -> Iterator[dict[str, Any]]:
    """Yield rows for a batch's records from an offset on, at most ROWS_MAX. `outcome`: that of its transaction."""
    for record in islice((each for each in records if each.offset >= start), ROWS_MAX):
        marker = marker_of(record) if header.control else None
        yield {
            "offset": record.offset,
            "time": time_text(record.timestamp) if record.timestamp >= 0 else "",
            "producer": f"{header.producer_id}:{header.producer_epoch}" if header.producer_id >= 0 else "",
            "key": _text(record.key),
            "value": _text(record.value),
            "is_marker": header.control,
            "state": ("commit" if marker.commit else "abort") if marker is not None else outcome,
        }


def _outcome(log: PartitionLog, aborted: Aborted, header: BatchHeader) -> str:
    """Return the outcome of a batch's transaction; empty for a batch outside a transaction."""
    if header.control or not header.transactional:
        return ""
    if header.base_offset >= log.producers.open_txns.get(header.producer_id, log.next_offset):
        return "open"
    return "aborted" if _is_aborted(aborted, header) else "committed"


def _text(content: bytes | None) -> str:
    if content is None:
        return "null"
    text = content[: 2 * TEXT_MAX].decode("utf-8", "backslashreplace")
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
