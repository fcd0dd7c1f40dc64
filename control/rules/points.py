"""Table of the named points of requests, transactions and disk writes at which a test can set a stop."""

from __future__ import annotations

from typing import Final, NamedTuple

from stuntbroker.control.rules.faults import MATCH as REQUEST_MATCH
from stuntbroker.coordinator.state import Phase

PARK, FAIL, KILL = ACTIONS = ("park", "fail", "kill")


class Point(NamedTuple):
    """A named point in the broker at which a test can set a stop."""

    text: str
    """State of the broker at this point."""
    match: frozenset[str]
    """Fields that the `match` of a stop may have."""
    apis: tuple[str, ...] = ()
    """APIs whose requests pass this point; empty for points of all requests, and for points outside requests."""
    actions: tuple[str, ...] = ACTIONS
    """Actions that are possible at this point. A disk write cannot be parked, and cannot fail after it was made."""


REQUESTS: Final = {
    "produce": ("Produce", "its records are appended"),
    "producer.init": ("InitProducerId", ""),
    "txn.add_partitions": ("AddPartitionsToTxn", ""),
    "txn.add_offsets": ("AddOffsetsToTxn", ""),
    "txn.end": ("EndTxn", ""),
    "offsets.stage": ("TxnOffsetCommit", "its offsets are pending in the transaction"),
    "offsets.commit": ("OffsetCommit", "its offsets are committed"),
    "offsets.fetch": ("OffsetFetch", ""),
    "fetch": ("Fetch", ""),
    "group.join": ("JoinGroup", ""),
    "group.sync": ("SyncGroup", ""),
    "group.heartbeat": ("Heartbeat", ""),
    "group.leave": ("LeaveGroup", ""),
    "coordinator.find": ("FindCoordinator", ""),
    "metadata": ("Metadata", ""),
    "topic.create": ("CreateTopics", "the topics exist"),
    "topic.delete": ("DeleteTopics", "the topics are deleted"),
    "markers.write": ("WriteTxnMarkers", "its markers are written"),
}
"""Name of a point, to which `.before` and `.after` are added -> the API, and the effect visible at `.after`."""


FILES: Final = {
    "log.write.before": "the appends of this turn of the event loop are not written to the log files yet",
    "log.write.after": "the appends of this turn are written, and no response is sent yet",
    "log.sync.before": "with durability power: the written files are not synced yet",
    "log.sync.after": "the written files are synced, and no response is sent yet",
    "segment.roll.before": "a partition's log is to begin a segment",
    "segment.roll.after": "the new segment has an empty file",
    "segment.delete.before": "retention is to delete a segment",
    "segment.delete.after": "the files of the segment are deleted",
    "snapshot.write.before": "a snapshot of a partition's producers is to be written",
    "snapshot.write.after": "the snapshot is written",
    "journal.write.before": "a change of topics, configurations, features or producer ids is to be written to the journal",
    "journal.write.after": "the change is in the journal, and not applied in memory yet",
    "compaction.swap.before": "a cleaned segment is written, and is to replace the segments that it was built from",
    "compaction.swap.middle": "the old segments are deleted, and the cleaned one does not have its name yet",
    "compaction.swap.after": "the cleaned segment has its name, and no index yet",
}
"""Points of disk writes, at which nothing can be parked."""


START: Final = {
    "start.replay.before": "the logs are open, and the transaction log is not replayed yet",
    "start.replay.after": "every transactional id is restored, and prepared transactions are not completed yet",
    "start.finish.after": "prepared transactions are completed, and the broker accepts no connections yet",
}
"""Points of the broker's start, for plans given to `serve`; a running broker does not pass them."""


def _points() -> dict[str, Point]:
    points = {
        "request.before": Point("a request is decoded, and not handled yet", frozenset(REQUEST_MATCH)),
        "request.after": Point("a request is handled, and its response is not sent yet", frozenset(REQUEST_MATCH)),
    }
    on_request = frozenset(REQUEST_MATCH.keys() - {"api"})
    for name, (api, effect) in REQUESTS.items():
        points[f"{name}.before"] = Point(f"{api} is decoded, and not handled yet", on_request, (api,))
        done = f"{api} is handled{': ' if effect else ''}{effect}; its response is not sent yet"
        points[f"{name}.after"] = Point(done, on_request, (api,))
    of_id = frozenset({"transactional_id", "request"})
    for phase in Phase:
        name = phase.kafka_name
        points[f"txn.{name}.before"] = Point(f"the state {name} is decided, and not in the transaction log yet", of_id)
        points[f"txn.{name}.after"] = Point(
            f"the state {name} is in the transaction log, and no later effect is performed yet", of_id
        )
    of_marker = frozenset({"transactional_id", "topic", "partition"})
    points["txn.marker.before"] = Point("the marker of a partition is the next one to be written", of_marker)
    points["txn.marker.after"] = Point("the marker of a partition is written, and the next one is not yet", of_marker)
    points["txn.offsets.before"] = Point("the offsets of a transaction are pending, and not applied yet", of_marker)
    points["txn.offsets.after"] = Point("the offsets of a transaction are applied", of_marker)
    of_log = frozenset({"topic", "partition"})
    for name, text in FILES.items():
        has_log = name.partition(".")[0] in ("segment", "snapshot", "compaction")
        actions = (FAIL, KILL) if name.endswith(".before") else (KILL,)
        points[name] = Point(text, of_log if has_log else frozenset(), actions=actions)
    for name, text in START.items():
        points[name] = Point(text, frozenset(), actions=(FAIL, KILL) if name.endswith(".before") else (KILL,))
    points["txn.reply"] = Point(
        "all effects of the request are performed, and the coordinator has not replied yet", of_id
    )
    return points


POINTS: Final = _points()
REQUEST_POINTS: Final = frozenset(name for name, point in POINTS.items() if "client_id" in point.match)
BEFORE, AFTER = (frozenset(name for name in REQUEST_POINTS if name.endswith(side)) for side in (".before", ".after"))
