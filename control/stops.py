"""Named points of requests, transactions and disk writes, at which a test parks them, fails them, or kills the broker.

A stop is a point with an action. *park* holds a transaction or a request at the point until the test releases it; other
transactions and requests proceed. *fail* raises a StorageError at the point. *kill* ends the process at the point: everything
before the point is in the files, nothing after it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stuntbroker.broker.topic_names import OFFSETS, TXN_STATE
from stuntbroker.control.faults import MATCH as REQUEST_MATCH
from stuntbroker.control.faults import FaultError, check_number, check_text, match_as_json, matches, part_of, read_match
from stuntbroker.control.injector import subject_of
from stuntbroker.control.interception import handle_and_look, send
from stuntbroker.control.messages import plain_request
from stuntbroker.coordinator.requests import Append, Effect, Reply, Request, WriteMarkers
from stuntbroker.coordinator.state import PREPARE_COMMIT, Phase, TopicPartition, Txn
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection
    from stuntbroker.broker.router import Handler
    from stuntbroker.broker.server import Broker
    from stuntbroker.coordinator.actor import Actor

PARK, FAIL, KILL = ACTIONS = ("park", "fail", "kill")
Resume = Callable[[], Any]
STOPS_MAX: Final = 1_000


class Point(NamedTuple):
    """A place in the broker at which a test can stop something."""

    text: str
    """State of the broker at this point."""
    match: frozenset[str]
    """Names that the `match` of a stop may have."""
    apis: tuple[str, ...] = ()
    """Requests that pass this point; empty for a point of all requests, and for points that are not of requests."""
    actions: tuple[str, ...] = ACTIONS
    """A disk write cannot be parked without parking the whole broker, and cannot fail after it was done."""


REQUESTS: Final = {
    "produce": ("Produce", "its records are appended"),
    "producer.init": ("InitProducerId", ""),
    "txn.add_partitions": ("AddPartitionsToTxn", ""),
    "txn.add_offsets": ("AddOffsetsToTxn", ""),
    "txn.end": ("EndTxn", ""),
    "offsets.stage": ("TxnOffsetCommit", "its offsets are staged in the transaction"),
    "offsets.commit": ("OffsetCommit", "its offsets are committed"),
    "offsets.fetch": ("OffsetFetch", ""),
    "fetch": ("Fetch", ""),
    "group.join": ("JoinGroup", ""),
    "group.sync": ("SyncGroup", ""),
    "group.heartbeat": ("Heartbeat", ""),
    "group.leave": ("LeaveGroup", ""),
    "coordinator.find": ("FindCoordinator", ""),
    "metadata": ("Metadata", ""),
    "topic.create": ("CreateTopics", "they are there"),
    "topic.delete": ("DeleteTopics", "they are gone"),
    "markers.write": ("WriteTxnMarkers", "its markers are written"),
}
"""Points of one kind of request, each with a `.before` and an `.after`: the API, and the effect that `.after` sees."""


FILES: Final = {
    "log.write.before": "the appends of this turn of the event loop are not written to the log files yet",
    "log.write.after": "they are written, and no request is answered yet",
    "log.sync.before": "with durability power: the written files are not synced yet",
    "log.sync.after": "they are synced, and no request is answered yet",
    "segment.roll.before": "a partition's log is to begin a segment",
    "segment.roll.after": "the new segment has its file, and nothing is in it",
    "segment.delete.before": "retention is to delete a segment",
    "segment.delete.after": "the files of the segment are deleted",
    "snapshot.write.before": "a snapshot of a partition's producers is to be written",
    "snapshot.write.after": "the snapshot is written",
    "journal.write.before": "a change of topics, configurations, features or producer ids is to be written to the journal",
    "journal.write.after": "the change is in the journal, and not applied in memory yet",
    "compaction.swap.before": "a cleaned segment is written, and is to take the place of others",
    "compaction.swap.middle": "the old segments are deleted, and the cleaned one does not have its name yet",
    "compaction.swap.after": "the cleaned segment has its name, and no index yet",
}
"""Points on the way to the disk, where nothing can be parked."""


def _points() -> dict[str, Point]:
    points = {
        "request.before": Point("a request is decoded, and not carried out yet", frozenset(REQUEST_MATCH)),
        "request.after": Point("a request is carried out, and not answered yet", frozenset(REQUEST_MATCH)),
    }
    on_request = frozenset(REQUEST_MATCH - {"api"})
    for name, (api, effect) in REQUESTS.items():
        points[f"{name}.before"] = Point(f"{api} is decoded, and not carried out yet", on_request, (api,))
        done = f"{api} is carried out{': ' if effect else ''}{effect}, and not answered yet"
        points[f"{name}.after"] = Point(done, on_request, (api,))
    of_id = frozenset({"transactional_id", "request"})
    for phase in Phase:
        name = phase.kafka_name
        points[f"txn.{name}.before"] = Point(f"the state {name} is decided, and not in the transaction log yet", of_id)
        points[f"txn.{name}.after"] = Point(
            f"the state {name} is in the transaction log, and nothing later is done yet", of_id
        )
    of_marker = frozenset({"transactional_id", "topic", "partition"})
    points["txn.marker.before"] = Point("the marker of a partition is the next one to be written", of_marker)
    points["txn.marker.after"] = Point("the marker of a partition is written, and the next one is not yet", of_marker)
    points["txn.offsets.before"] = Point("the offsets of a transaction are staged, and not applied yet", of_marker)
    points["txn.offsets.after"] = Point("the offsets of a transaction are applied", of_marker)
    of_log = frozenset({"topic", "partition"})
    for name, text in FILES.items():
        has_log = name.partition(".")[0] in ("segment", "snapshot", "compaction")
        actions = (FAIL, KILL) if name.endswith(".before") else (KILL,)
        points[name] = Point(text, of_log if has_log else frozenset(), actions=actions)
    points["txn.reply"] = Point("everything is done, and the coordinator has not replied yet", of_id)
    return points


POINTS: Final = _points()
REQUEST_POINTS: Final = frozenset(name for name, point in POINTS.items() if "client_id" in point.match)
BEFORE, AFTER = (frozenset(name for name in REQUEST_POINTS if name.endswith(side)) for side in (".before", ".after"))


@dataclass
class Stop:
    """A point with an action."""

    id: str
    point: str
    action: str
    match: dict[str, Any]
    nth: int
    times: int
    """0: every time."""
    matched: int = 0
    fired: int = 0
    parked: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    """Each parked transactional id or request, and the function that resumes it."""

    def fires(self) -> bool:
        """Whether this is the time for it; counts it."""
        self.matched += 1
        if self.matched < self.nth or (self.times and self.fired >= self.times):
            return False
        self.fired += 1
        return True

    def as_json(self) -> dict[str, Any]:
        """The rule with its id, its counts, and the names of what it has parked."""
        return {
            "id": self.id,
            "point": self.point,
            "action": self.action,
            "match": match_as_json(self.match),
            "nth": self.nth,
            "times": self.times,
            "matched": self.matched,
            "fired": self.fired,
            "parked": [description for description, _ in self.parked],
        }


def read_stop(id_: str, point: str, rule: Any) -> Stop:
    """The stop that a rule describes. Raises FaultError."""
    known = POINTS.get(point)
    if known is None:
        raise FaultError(f"there is no point {point!r}", "GET /v1/stops lists them")
    if not isinstance(rule, dict) or rule.keys() - {"action", "match", "nth", "times"}:
        raise FaultError("a stop has action, match, nth and times", 'as {"action": "park", "match": {}, "times": 1}')
    action = rule.get("action", PARK)
    if action not in ACTIONS:
        raise FaultError(f"there is no action {action!r}", f"one of {', '.join(ACTIONS)}")
    if action not in known.actions:
        raise FaultError(f"at {point} there is no {action}", f"there is {' and '.join(known.actions)}")
    match = read_match(part_of(rule, "match", set(known.match)))
    check_text(match, "match", "request")
    if known.apis:
        match = read_match({**match, "api": list(known.apis)})
    check_number(rule, "stop", "nth", 1, 1 << 31)
    check_number(rule, "stop", "times", 0, 1 << 31)
    return Stop(id_, point, action, match, rule.get("nth", 1), rule.get("times", 1))


def _end_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(128 + signal.SIGKILL)  # In a container it may be the first process, which no signal of its own ends.


class Stops:
    """The stops of one broker."""

    def __init__(self, broker: Broker, kill: Callable[[], None] | None = None) -> None:
        """`kill` ends the process; a test of ours gives another."""
        self._broker = broker
        self._number = 0
        self.stops: dict[str, Stop] = {}
        self._kill = kill or _end_this_process
        self._changed = asyncio.Event()
        self._intercepts = False
        self._ending: dict[str, str] = {}
        """Request that ends the transaction whose markers are being written, by transactional id."""

    # --- the stops

    def add(self, point: str, rule: Any) -> Stop:
        """Add a stop at a point. Raises FaultError."""
        if len(self.stops) >= STOPS_MAX:
            raise FaultError(f"there are {STOPS_MAX} stops already", "remove those that are not needed any more")
        stop = read_stop(f"stop-{self._number + 1}", point, rule)
        self._number += 1
        self.stops[stop.id] = stop
        self._update_hooks()
        return stop

    def remove(self, id_: str) -> Stop | None:
        """Remove a stop and resume everything that it has parked; None when no stop has this id."""
        stop = self.stops.pop(id_, None)
        if stop is not None:
            self._update_hooks()
            self.release(stop)
        return stop

    def named(self, name: str) -> list[Stop]:
        """The stop of an id, or all at a point."""
        return [stop for stop in self.stops.values() if name in (stop.id, stop.point)]

    def release(self, stop: Stop) -> int:
        """Resume everything that a stop has parked; return how many there were."""
        parked, stop.parked = stop.parked, []
        for _, resume in parked:
            try:
                resume()
            except StorageError as fault:  # Who asked is answered by the coordinator.
                self._broker.events.error("stop_released_into_a_fault", stop=stop.id, reason=str(fault))
        return len(parked)

    async def wait(self, stops: Collection[Stop], count: int, timeout_s: float) -> bool:
        """Wait until stops have fired `count` times together; False when they have not in this time of the machine."""
        if sum(stop.fired for stop in stops) >= count:
            return True

        async def fired() -> None:
            while sum(stop.fired for stop in stops) < count:
                self._changed.clear()
                await self._changed.wait()

        try:
            await asyncio.wait_for(fired(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _update_hooks(self) -> None:
        """Hook into requests, transactions and disk writes only where there are stops."""
        transactions, router = self._broker.transactions, self._broker.router
        points = {stop.point for stop in self.stops.values()}
        self._broker.data_dir.points.on_pass = None if points.isdisjoint(FILES) else self.on_storage_point
        transactions.use_stops(None if points <= FILES.keys() | REQUEST_POINTS else self)
        if points.isdisjoint(REQUEST_POINTS) is self._intercepts:
            self._intercepts = not self._intercepts
            (router.add_interceptor if self._intercepts else router.remove_interceptor)(self.intercept)

    # --- passing

    def _apply(
        self, points: Collection[str], is_matching: Callable[[Stop], bool], description: str, resume: Resume
    ) -> bool:
        """Apply the stops at these points of one moment. True when one has parked the caller. Raises StorageError for `fail`."""
        fired = [stop for stop in self.stops.values() if stop.point in points and is_matching(stop) and stop.fires()]
        if not fired:
            return False
        self._changed.set()
        if any(stop.action == KILL for stop in fired):
            self._end_process()
        for stop in fired:
            if stop.action == FAIL:
                raise StorageError(f"{stop.id} has it fail at {stop.point}")
        for stop in reversed(fired):  # The caller is parked at each of them in turn.
            resume = partial(self._park, stop, description, resume)
        resume()
        return True

    def _park(self, stop: Stop, description: str, resume: Resume) -> None:
        if stop.id in self.stops:
            stop.parked.append((description, resume))
        else:  # The stop was removed while the caller was parked at another one.
            resume()

    def _end_process(self) -> None:
        log_of_ids = self._broker.topics.get(TXN_STATE)
        for log in log_of_ids.partitions if log_of_ids is not None else ():
            if log.records or log.deferred:
                log.settle()  # Complete records otherwise wait for the next write to their file.
        self._broker.turn.flush()  # Writes the appends of this turn, and sends no answers.
        self._kill()

    # --- files

    def on_storage_point(self, point: str, topic: str, partition: int) -> None:
        """See `storage.points.OnPass`. A kill writes nothing more: appends that are not written yet are lost."""
        for stop in list(self.stops.values()):
            if stop.point != point or not fnmatchcase(topic, stop.match.get("topic", "*")):
                continue
            if stop.match.get("partition", partition) == partition and stop.fires():
                self._changed.set()
                if stop.action == KILL:
                    self._kill()  # Does not return, but in our own tests.
                raise StorageError(f"{stop.id} has it fail at {point}")

    # --- requests

    def intercept(self, handle: Handler, connection: Connection, request: Any, version: int) -> Any:
        """Stop a request before it is carried out, or before it is answered."""
        fields = plain_request(connection.route.key, request)
        subject = subject_of(connection, fields, version)
        description = f"{APIS[subject.key].name} of {subject.client_id or connection.peer}"

        def apply(points: Collection[str], resume: Resume) -> bool:
            return self._apply(points, lambda stop: matches(stop.match, subject), description, resume)

        def answered(answer: Any) -> Any:
            try:
                parked = apply(AFTER, partial(send, connection, answer))
            except StorageError as fault:  # It may be answered from within another request, which it must not end.
                connection.fail("request_failed", api_key=subject.key, api_version=version, reason=str(fault))
                return None
            return None if parked else answer

        def carry_out(connection: Connection, request: Any, version: int) -> Any:
            return handle_and_look(handle, connection, request, version, answered)

        if apply(BEFORE, partial(connection.handle_later, carry_out, request, version)):
            return None
        return carry_out(connection, request, version)

    # --- transactions

    def hold(self, actor: Actor, request: Request, effects: tuple[Effect, ...], position: int, resume: Resume) -> bool:
        """Apply the stops after `position` effects of a request. True when one has parked the request. Raises StorageError."""
        if position < len(effects) and isinstance(effects[position], WriteMarkers):
            self._ending[actor.txn.transactional_id] = type(request).__name__
        points = []
        if position:
            done = effects[position - 1]
            if isinstance(done, Append | WriteMarkers):
                points.append(f"txn.{actor.txn.phase.kafka_name}.after")
        if position < len(effects):
            following = effects[position]
            if isinstance(following, Append):
                points.append(f"txn.{following.txn.phase.kafka_name}.before")
            elif isinstance(following, Reply):
                points.append("txn.reply")
        return self._apply_to_transaction(actor.txn, points, type(request).__name__, None, resume)

    def _apply_to_transaction(
        self, txn: Txn, points: Collection[str], request: str, place: TopicPartition | None, resume: Resume
    ) -> bool:
        def is_matching(stop: Stop) -> bool:
            for name, wanted in stop.match.items():
                if name == "partition":
                    if place is None or place[1] != wanted:
                        return False
                else:
                    text = {"transactional_id": txn.transactional_id, "request": request}.get(
                        name, place[0] if place else ""
                    )
                    if not fnmatchcase(text, wanted):
                        return False
            return True

        return self._apply(points, is_matching, txn.transactional_id, resume)

    def write_markers(
        self, txn: Txn, write: Callable[[Iterable[TopicPartition]], None], on_written: Resume, on_failed: Resume
    ) -> None:
        """Write the markers of a transaction one by one, by topic and partition."""
        places = sorted(txn.partitions)
        request = self._ending.pop(txn.transactional_id, "")
        complete = "txn.CompleteCommit.before" if txn.phase is PREPARE_COMMIT else "txn.CompleteAbort.before"

        def guarded(step: Resume) -> None:
            try:
                step()
            except StorageError as fault:
                facts = {"transactional_id": txn.transactional_id, "fault": str(fault)}
                self._broker.events.error("txn_not_finished", **facts)
                on_failed()

        def apply(side: str, place: TopicPartition, resume: Resume) -> None:
            points = [f"txn.marker.{side}", *([f"txn.offsets.{side}"] if place[0] == OFFSETS else [])]
            if not self._apply_to_transaction(txn, points, "", place, partial(guarded, resume)):
                resume()

        def begin(index: int) -> None:
            if index < len(places):
                apply("before", places[index], partial(finish, index))
            elif not self._apply_to_transaction(txn, [complete], request, None, on_written):
                self._broker.timers.soon(on_written)  # Outside `guarded`: a later failure is not one of the markers.

        def finish(index: int) -> None:
            write([places[index]])
            apply(
                "after", places[index], partial(self._broker.timers.soon, partial(guarded, partial(begin, index + 1)))
            )

        self._broker.timers.soon(partial(guarded, partial(begin, 0)))
