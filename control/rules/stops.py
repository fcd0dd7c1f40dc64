"""Named points of requests, transactions and disk writes, at which a test parks them, fails them, or kills the broker.

A stop is a point with an action. *park* holds a transaction or a request at the point until the test releases it; other
transactions and requests proceed. *fail* raises a StorageError at the point. *kill* ends the process at the point: everything
before the point is in the files, nothing after it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, get_args

from stuntbroker.broker.requests.interception import intercept_response, send
from stuntbroker.control.rules.faults import (
    FaultError,
    check_number,
    check_place,
    check_text,
    match_as_json,
    matches,
    part_of,
    read_match,
)
from stuntbroker.control.rules.injector import fields_of, places_of, subject_of
from stuntbroker.control.rules.points import (
    ACTIONS,
    AFTER,
    BEFORE,
    FAIL,
    FILES,
    KILL,
    PARK,
    POINTS,
    REQUEST_POINTS,
    START,
)
from stuntbroker.control.rules.rule_ids import RuleIds
from stuntbroker.control.rules.wildcards import matches_pattern
from stuntbroker.coordinator.requests import Append, Effect, MarkersWritten, Reply, Request, WriteMarkers
from stuntbroker.coordinator.state import COMPLETION, Txn
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE, TopicPartition
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.requests.routes import Handler
    from stuntbroker.broker.services import (
        Asking,
        HasDataDir,
        HasEvents,
        HasRouter,
        HasTimers,
        HasTransactions,
        HasTurn,
    )
    from stuntbroker.control.rules.injector import Places, RequestPorts
    from stuntbroker.coordinator.actor import Actor, AfterMarkers, Suspended

    class Uses(Places, RequestPorts, HasDataDir, HasEvents, HasRouter, HasTimers, HasTransactions, HasTurn, Protocol):
        """Parts of the broker that this module uses."""


Resume = Callable[[], Any]
STOPS_MAX: Final = 1_000
COORDINATOR_REQUESTS: Final = [kind.__name__ for kind in get_args(Request)]
"""Values of `match.request`."""


@dataclass(frozen=True)
class ParkedTransaction:
    """State of a parked transaction, with which a copy of the broker can park it at the same place."""

    transactional_id: str
    request: Request
    effects: tuple[Effect, ...]
    position: int
    """Number of effects performed, including WriteMarkers while the markers are being written."""
    txn: Txn
    """Current state of the id; a new id is not in the transaction log yet."""
    marker: tuple[int, bool] | None = None
    """While markers are written: index of the partition, in order of topic and partition, and whether it has its marker."""


class Parked(NamedTuple):
    """A parked request or transaction."""

    description: str
    """Transactional id, or API and client of a request."""
    resume: Resume
    transaction: ParkedTransaction | None
    """None for a request."""


@dataclass
class Stop:
    """A stop rule: a point with an action, and counts."""

    id: str
    point: str
    action: str
    match: dict[str, Any]
    nth: int
    times: int
    """0: every time."""
    matched: int = 0
    fired: int = 0
    parked: list[Parked] = field(default_factory=list)

    def fires(self) -> bool:
        """Count a match; return whether the stop fires."""
        self.matched += 1
        if self.matched < self.nth or (self.times and self.fired >= self.times):
            return False
        self.fired += 1
        return True

    def as_json(self) -> dict[str, Any]:
        """Return the rule with its id, its counts, and what it has parked."""
        return {
            "id": self.id,
            "point": self.point,
            "action": self.action,
            "match": match_as_json(self.match),
            "nth": self.nth,
            "times": self.times,
            "matched": self.matched,
            "fired": self.fired,
            "parked": [each.description for each in self.parked],
        }

    def without_parked(self) -> Stop:
        """Return the same rule with the same counts, which has nothing parked."""
        return replace(self, match=dict(self.match), parked=[])


def read_stop(id_: str, point: str, rule: Any) -> Stop:
    """Parse a stop rule. Raises FaultError."""
    known = POINTS.get(point)
    if known is None:
        raise FaultError(f"there is no point {point!r}", "GET /v1/stops lists them")
    if not isinstance(rule, dict) or rule.keys() - {"action", "match", "nth", "times"}:
        raise FaultError("a stop has action, match, nth and times", 'as {"action": "park", "match": {}, "times": 1}')
    action = rule.get("action", PARK)
    if action not in ACTIONS:
        raise FaultError(f"there is no action {action!r}", f"one of {', '.join(ACTIONS)}")
    if action not in known.actions:
        raise FaultError(f"{action} is not possible at {point}", f"possible: {', '.join(known.actions)}")
    match = read_match(part_of(rule, "match", set(known.match)))
    check_text(match, "match", "request")
    if not any(matches_pattern(name, match.get("request", "*")) for name in COORDINATOR_REQUESTS):
        hint = f"the coordinator has {', '.join(COORDINATOR_REQUESTS)}"
        raise FaultError(f"there is no request {match['request']!r}", hint)
    if known.apis:
        match = read_match({**match, "api": list(known.apis)})
    check_number(rule, "stop", "nth", 1, 1 << 31)
    check_number(rule, "stop", "times", 0, 1 << 31)
    return Stop(id_, point, action, match, rule.get("nth", 1), rule.get("times", 1))


def _end_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(128 + signal.SIGKILL)  # As process 1 of a container, the process is immune to its own signals.


def arm_start(broker: Uses, rules: Iterable[tuple[str, Any]]) -> None:
    """Install a plan's stops at the points of a broker's start, before it starts: (point, rule). Raises FaultError."""
    stops = [read_stop("", point, rule) for point, rule in rules if point in START]

    def passing(point: str, topic: str, partition: int) -> None:
        for stop in stops:
            if stop.point == point and stop.fires():
                if stop.action == KILL:
                    _end_this_process()
                raise _failure("the plan", point)

    if stops:
        broker.data_dir.points.on_pass = passing


def _failure(name: str, point: str) -> StorageError:
    return StorageError(f"{name} makes the operation fail at {point}")


class Stops:
    """The stops of one broker."""

    def __init__(self, broker: Uses, kill: Callable[[], None] | None = None, has_process: bool = True) -> None:
        """`kill` ends the process (replaced in unit tests). `has_process`: the broker is alone in its process, which may end."""
        self._broker = broker
        self._has_process = has_process
        self.ids = RuleIds("stop")
        self.stops: dict[str, Stop] = {}
        self._kill = kill or _end_this_process
        self._intercepts = False
        self._ending: dict[str, ParkedTransaction] = {}
        """Transactional id -> the request that ends it, and whose markers are to be written next."""
        self._resumed: dict[str, tuple[Stop, ParkedTransaction]] = {}
        """Transactional id -> transaction that was parked between two markers in the snapshot of this copy."""

    # --- the stops

    def read(self, point: str, rule: Any) -> Stop:
        """Parse a stop rule, and check that it fits this running broker. Raises FaultError."""
        if point in START:
            raise FaultError("a running broker does not pass this point", "give the stop in serve --plan")
        stop = read_stop(self.ids.next, point, rule)
        if stop.action == KILL and not self._has_process:
            raise FaultError(
                "a fork has no process of its own that could be killed", "park at the point, and fork again"
            )
        check_place(stop.match, *places_of(self._broker))
        return stop

    def add(self, point: str, rule: Any) -> Stop:
        """Add a stop at a point. Raises FaultError."""
        if len(self.stops) >= STOPS_MAX:
            raise FaultError(f"there are {STOPS_MAX} stops already", "remove those that are not needed any more")
        stop = self.read(point, rule)
        self.ids.use_next()
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
        """Return the stop with an id, or all stops at a point."""
        return [stop for stop in self.stops.values() if name in (stop.id, stop.point)]

    def unfired(self) -> list[Stop]:
        """Return the stops that never fired."""
        return [stop for stop in self.stops.values() if not stop.fired]

    def release(self, stop: Stop) -> int:
        """Resume everything that a stop has parked; return how many there were."""
        parked, stop.parked = stop.parked, []
        for each in parked:
            try:
                each.resume()
            except StorageError as fault:  # The coordinator returns the error to the client.
                self._broker.events.error("stop_release_failed", stop=stop.id, reason=str(fault))
        return len(parked)

    def _update_hooks(self) -> None:
        """Hook into requests, transactions and disk writes only where there are stops."""
        transactions, router = self._broker.transactions, self._broker.router
        points = {stop.point for stop in self.stops.values()}
        self._broker.data_dir.points.on_pass = None if points.isdisjoint(FILES) else self.on_storage_point
        transactions.use_stops(None if points <= FILES.keys() | START.keys() | REQUEST_POINTS else self)
        if points.isdisjoint(REQUEST_POINTS) is self._intercepts:
            self._intercepts = not self._intercepts
            (router.add_interceptor if self._intercepts else router.remove_interceptor)(self.intercept)

    # --- copies

    def parked_transactions(self) -> list[tuple[str, ParkedTransaction]]:
        """Return each parked transaction with the id of its stop."""
        return [
            (stop.id, each.transaction)
            for stop in self.stops.values()
            for each in stop.parked
            if each.transaction is not None
        ]

    def take_over(
        self, stops: Iterable[Stop], parked: Iterable[tuple[tuple[str, ParkedTransaction], Suspended]]
    ) -> None:
        """Copy the stops of a snapshot, and park the transactions that were parked in it."""
        for each in stops:
            if each.action == KILL and not self._has_process:
                continue
            self.stops[each.id] = each.without_parked()
            self.ids.skip_to(each.id)
        self._update_hooks()
        for (stop_id, transaction), suspended in parked:
            stop = self.stops[stop_id]
            if transaction.marker is None:
                self._park(stop, transaction.transactional_id, transaction, suspended.resume)
                continue
            write_markers = transaction.effects[transaction.position - 1]
            assert isinstance(write_markers, WriteMarkers)
            self._resumed[transaction.transactional_id] = stop, transaction
            suspended.write_markers(write_markers.txn)

    # --- passing

    def _apply(
        self,
        points: Collection[str],
        is_matching: Callable[[Stop], bool],
        description: str,
        resume: Resume,
        transaction: ParkedTransaction | None = None,
    ) -> bool:
        """Apply the stops at points that coincide; return True if one has parked the caller. Raises StorageError for `fail`."""
        fired = [stop for stop in self.stops.values() if stop.point in points and is_matching(stop) and stop.fires()]
        if not fired:
            return False
        if any(stop.action == KILL for stop in fired):
            self._end_process()
        for stop in fired:
            if stop.action == FAIL:
                raise _failure(stop.id, stop.point)
        for stop in reversed(fired):  # The caller is parked at each of them in turn.
            resume = partial(self._park, stop, description, transaction, resume)
        resume()
        return True

    def _park(self, stop: Stop, description: str, transaction: ParkedTransaction | None, resume: Resume) -> None:
        if stop.id in self.stops:
            stop.parked.append(Parked(description, resume, transaction))
        else:  # The stop was removed while the caller was parked at another one.
            resume()

    def _end_process(self) -> None:
        log_of_ids = self._broker.topics.get(TXN_STATE)
        for log in log_of_ids.partitions if log_of_ids is not None else ():
            if log.own_records or log.deferred:
                log.flush_buffered()  # Complete records otherwise wait for the next write to their file.
        self._broker.turn.flush()  # Writes the appends of this turn, and sends no answers.
        self._kill()

    # --- files

    def on_storage_point(self, point: str, topic: str, partition: int) -> None:
        """Apply the stops at a point of disk writes (`storage.points.OnPass`). A kill loses appends that are not written yet."""
        for stop in list(self.stops.values()):
            if stop.point != point or not matches_pattern(topic, stop.match.get("topic", "*")):
                continue
            if stop.match.get("partition", partition) == partition and stop.fires():
                if stop.action == KILL:
                    self._kill()  # Only a `kill` replaced by a unit test returns.
                raise _failure(stop.id, point)

    # --- requests

    def intercept(self, handle: Handler, request: Asking[Uses], body: Any, version: int) -> Any:
        """Stop a request before it is carried out, or before it is answered."""
        fields = fields_of(request, body)
        subject = subject_of(request, fields, version)
        description = f"{APIS[subject.key].name} of {subject.client_id or request.peer}"

        def apply(points: Collection[str], resume: Resume) -> bool:
            return self._apply(points, lambda stop: matches(stop.match, subject), description, resume)

        def answered(answer: Any) -> Any:
            try:
                parked = apply(AFTER, partial(send, request, answer))
            except StorageError as fault:
                # The response may be sent while another request is handled, which must not fail.
                request.fail("request_failed", api_key=subject.key, api_version=version, reason=str(fault))
                return None
            return None if parked else answer

        def carry_out(request: Asking[Uses], body: Any, version: int) -> Any:
            return intercept_response(handle, request, body, version, answered)

        if apply(BEFORE, partial(request.handle_later, carry_out, body, version)):
            return None
        return carry_out(request, body, version)

    # --- transactions

    def hold(self, actor: Actor, request: Request, effects: tuple[Effect, ...], position: int, resume: Resume) -> bool:
        """Apply the stops after `position` effects of a request; return True if one has parked it. Raises StorageError."""
        transactional_id = actor.txn.transactional_id
        if position < len(effects) and isinstance(effects[position], WriteMarkers):
            self._ending[transactional_id] = ParkedTransaction(
                transactional_id, request, effects, position + 1, actor.txn
            )
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
        transaction = ParkedTransaction(transactional_id, request, effects, position, actor.txn)
        return self.apply_to_transaction(transaction, points, type(request).__name__, None, resume)

    def apply_to_transaction(
        self,
        transaction: ParkedTransaction,
        points: Collection[str],
        request: str,
        place: TopicPartition | None,
        resume: Resume,
    ) -> bool:
        """Apply the stops at points of a transaction; return True if one has parked the transaction. Raises StorageError."""
        transactional_id = transaction.transactional_id

        def is_matching(stop: Stop) -> bool:
            for name, wanted in stop.match.items():
                if name == "partition":
                    if place is None or place[1] != wanted:
                        return False
                else:
                    text = {"transactional_id": transactional_id, "request": request}.get(
                        name, place[0] if place else ""
                    )
                    if not matches_pattern(text, wanted):
                        return False
            return True

        return self._apply(points, is_matching, transactional_id, resume, transaction)

    def write_markers(
        self, txn: Txn, write: Callable[[Iterable[TopicPartition]], None], following: AfterMarkers
    ) -> None:
        """Write the markers of a transaction one by one, by topic and partition."""
        stop, transaction = self._resumed.pop(txn.transactional_id, (None, None))
        if transaction is None:
            unknown = ParkedTransaction(txn.transactional_id, MarkersWritten(), (WriteMarkers(txn),), 1, txn)
            transaction = self._ending.pop(txn.transactional_id, unknown)
        writing = _MarkerWriting(self, self._broker, txn, transaction, write, following)
        if stop is None:
            writing.start()
        else:
            assert transaction.marker is not None
            self._park(stop, txn.transactional_id, transaction, writing.from_place(*transaction.marker))


class _MarkerWriting:
    """Writes the markers of one transaction, and applies the stops before and after each marker."""

    def __init__(
        self,
        stops: Stops,
        broker: Uses,
        txn: Txn,
        transaction: ParkedTransaction,
        write: Callable[[Iterable[TopicPartition]], None],
        following: AfterMarkers,
    ) -> None:
        self._stops = stops
        self._broker = broker
        self._txn = txn
        self._transaction = transaction
        self._write = write
        self._on_written = following.written
        self._on_failed = following.failed
        self._places = sorted(txn.partitions)

    def start(self) -> None:
        """Schedule the first marker for the next turn of the event loop."""
        self._soon(partial(self._begin, 0))

    def from_place(self, index: int, is_written: bool) -> Resume:
        """Return the function that resumes a transaction parked before or after writing marker `index`."""
        if index == len(self._places):
            return self._on_written
        following = partial(self._soon, partial(self._begin, index + 1)) if is_written else partial(self._finish, index)
        return partial(self._guarded, following)

    def _soon(self, step: Resume) -> None:
        self._broker.timers.soon(partial(self._guarded, step))

    def _guarded(self, step: Resume) -> None:
        try:
            step()
        except StorageError as fault:
            facts = {"transactional_id": self._txn.transactional_id, "fault": str(fault)}
            self._broker.events.error("txn_not_completed", **facts)
            self._on_failed()

    def _apply(self, side: str, index: int, resume: Resume) -> None:
        place = self._places[index]
        points = [f"txn.marker.{side}", *([f"txn.offsets.{side}"] if place[0] == OFFSETS else [])]
        transaction = replace(self._transaction, marker=(index, side == "after"))
        if not self._stops.apply_to_transaction(transaction, points, "", place, partial(self._guarded, resume)):
            resume()

    def _begin(self, index: int) -> None:
        if index < len(self._places):
            self._apply("before", index, partial(self._finish, index))
            return
        complete = f"txn.{COMPLETION[self._txn.phase].kafka_name}.before"
        request = type(self._transaction.request).__name__
        transaction = replace(self._transaction, marker=(index, False))
        if not self._stops.apply_to_transaction(transaction, [complete], request, None, self._on_written):
            self._broker.timers.soon(self._on_written)  # Outside `_guarded`: a later failure is not one of the markers.

    def _finish(self, index: int) -> None:
        self._write([self._places[index]])
        self._apply("after", index, partial(self._soon, partial(self._begin, index + 1)))
