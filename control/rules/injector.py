"""Fault injection: an interceptor between router and handlers that carries out fault rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.requests.apis import NO_RESPONSE, OpaqueResponse
from stuntbroker.broker.requests.fetch_sessions import INITIAL_EPOCH
from stuntbroker.broker.requests.interception import intercept_response
from stuntbroker.broker.requests.partial_requests import refusal_about
from stuntbroker.broker.requests.personality import versions_of
from stuntbroker.broker.requests.plain_messages import Plain, error_answer, plain_request, readable_answer
from stuntbroker.control.observation.request_log import RequestLog
from stuntbroker.control.own_requests import NoResponseError, begin_newer_instance
from stuntbroker.control.rules.conditions import POLL_S, Term, read_condition, wait_until
from stuntbroker.control.rules.faults import (
    Fault,
    FaultError,
    Subject,
    Versions,
    check_place,
    matches,
    read_fault,
    texts_in,
)
from stuntbroker.control.rules.rule_ids import RuleIds
from stuntbroker.control.seed import seed
from stuntbroker.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.primitives import Buffer

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.topics import Topics
    from stuntbroker.broker.requests.routes import Handler
    from stuntbroker.broker.services import (
        Asking,
        HasConnections,
        HasEvents,
        HasFetchSessions,
        HasListeners,
        HasNodes,
        HasRouter,
        HasTopics,
    )
    from stuntbroker.control.clock import ClockControl
    from stuntbroker.control.observation.state import StatePorts
    from stuntbroker.control.own_requests import OwnRequestPorts
    from stuntbroker.control.seed import SeedPorts

    class Places(HasListeners, HasNodes, Protocol):
        """Parts of the broker that `places_of` uses."""

    class RequestPorts(HasFetchSessions, HasTopics, Protocol):
        """Parts of the broker that describe a request."""

    class Uses(
        StatePorts, SeedPorts, OwnRequestPorts, RequestPorts, Places, HasConnections, HasEvents, HasRouter, Protocol
    ):
        """Parts of the broker that this module uses."""


FAULTS_MAX: Final = 1_000
"""Maximum number of faults at the same time."""
CORRUPT_FROM: Final = 8
"""Bytes of a response's length and correlation id, which are not corrupted."""
REORDER: Final = "reorder"


def fields_of(request: Asking[RequestPorts], body: Any) -> Plain:
    """Return the fields of a request; an incremental fetch includes the partitions of its session (KIP-227)."""
    fields = plain_request(request.route.key, body)
    if fields.get("session_epoch", INITIAL_EPOCH) <= INITIAL_EPOCH:
        return fields
    session = request.broker.fetch_sessions.sessions.get(fields["session_id"])
    if session is None:
        return fields
    name, encode = ("topic_id", bytes.hex) if session.uses_ids else ("topic", str)
    named = {
        (each[name], part["partition"] if isinstance(part, dict) else part)
        for topics in (fields["topics"], fields["forgotten_topics_data"])
        for each in topics
        for part in each["partitions"]
    }
    remembered: dict[str, list[Plain]] = {}
    for topic, index in session.partitions:
        if (encode(topic), index) not in named:
            remembered.setdefault(encode(topic), []).append({"partition": index})
    topics = [
        {"topic": "", "topic_id": "", name: topic, "partitions": partitions} for topic, partitions in remembered.items()
    ]
    kept = {field: value for field, value in fields.items() if field != "forgotten_topics_data"}
    return {**kept, "topics": [*fields["topics"], *topics]}


def subject_of(request: Asking[RequestPorts], fields: Plain, version: int) -> Subject:
    """Return the properties of a request that rules match; topics given by id get their names."""
    fields = _with_names(request.broker.topics, fields)
    listener = request.listener
    return Subject(request.route.key, version, request.client_id, listener.name, fields, listener.node_id)


def _with_names(topics: Topics, fields: Plain) -> Plain:
    """Return the fields with the names of topics that are given by id, as in the groups of OffsetFetch."""
    for name, value in fields.items():
        if not (isinstance(value, list) and value and isinstance(value[0], dict)):
            continue
        if "topic_id" in value[0]:
            named = []
            for each in value:
                topic = topics.by_id(bytes.fromhex(each["topic_id"])) if each["topic_id"] else None
                named.append({**each, "topic": topic.name} if topic is not None else each)
            return {**fields, name: named}
        if name == "groups":
            return {**fields, name: [_with_names(topics, each) for each in value]}
    return fields


def places_of(broker: Places) -> tuple[dict[str, Versions], set[int]]:
    """Return what a broker's rules may refer to: the versions served by each listener, by name, and the node ids."""
    listeners = {listener.name: versions_of(listener.personality) for listener in broker.listeners}
    return listeners, set(broker.nodes.by_id)


def read_release(fault: Fault) -> list[Term]:
    """Return the condition that releases a fault's held requests; empty if only a test releases them. Raises FaultError."""
    if fault.verb != "hold" or fault.value is True:
        return []
    if fault.value.keys() != {"until"}:
        raise FaultError("do.hold must be true, or have until", 'as {"until": {"topic": "orders", "end_offset": 5}}')
    return read_condition(fault.value["until"])


class _Intercepted:
    """An intercepted request, which a fault may hold."""

    def __init__(self, handle: Handler, request: Asking[Uses], body: Any, version: int, fields: Plain) -> None:
        self.handle = handle
        self.request = request
        self.body = body
        self.version = version
        self.fields = fields
        self.route = request.route

    def handle_later(self) -> None:
        """Handle and answer a held request; the response is dropped if the connection is closed."""
        self.request.handle_later(self.handle, self.body, self.version)

    def intercept_response(self, on_answer: Callable[[Any], Any]) -> Any:
        return intercept_response(self.handle, self.request, self.body, self.version, on_answer)


class Injector:
    """The faults of one broker. Intercepts the requests of all APIs while there are faults."""

    def __init__(self, broker: Uses, log: RequestLog, clock: ClockControl) -> None:
        self._broker = broker
        self._log = log
        self._clock = clock
        self.ids = RuleIds("fault")
        self.faults: dict[str, Fault] = {}
        self._kept: dict[str, list[_Intercepted]] = {}
        """Fault id -> requests that it holds, or that wait for the next one (`reorder`)."""
        self._waiting: set[asyncio.Future[None]] = set()
        """Tasks that wait for a release condition, or that precede a request."""

    # --- the rules

    def read(self, rule: Any) -> Fault:
        """Parse a fault rule, and check that requests of this broker can match it. Raises FaultError."""
        fault = read_fault(self.ids.next, rule, self._broker.clock.monotonic_ms())
        read_release(fault)
        check_place(fault.match, *places_of(self._broker))
        return fault

    def add(self, rule: Any) -> Fault:
        """Add a fault. Raises FaultError."""
        if len(self.faults) >= FAULTS_MAX:
            raise FaultError(f"there are {FAULTS_MAX} faults already", "remove those that are not needed any more")
        fault = self.read(rule)
        self.ids.use_next()
        if not self.faults:
            self._broker.router.add_interceptor(self.intercept)
        self.faults[fault.id] = fault
        if not fault.is_slow_node:  # The delay of a slow node stays last, so that more specific faults fire first.
            for slow in [each for each in self.faults.values() if each.is_slow_node]:
                self.faults[slow.id] = self.faults.pop(slow.id)
        return fault

    def take_over(self, faults: Iterable[Fault]) -> None:
        """Copy the faults of a snapshot with their counts; their `created_at_ms` is relative to the snapshot."""
        now_ms = self._broker.clock.monotonic_ms()
        for fault in faults:
            if not self.faults:
                self._broker.router.add_interceptor(self.intercept)
            copied = self.faults[fault.id] = deepcopy(fault)
            copied.created_at_ms += now_ms
            self.ids.skip_to(fault.id)

    def remove(self, id_: str) -> Fault | None:
        """Remove a fault, and carry out the requests that it holds; None if there is no fault with this id."""
        fault = self.faults.pop(id_, None)
        if fault is None:
            return None
        self.release(id_)
        if not self.faults:
            self._broker.router.remove_interceptor(self.intercept)
        return fault

    def release(self, id_: str) -> int:
        """Carry out the requests that a fault holds, in the order of arrival; return how many there were."""
        kept = self._kept.pop(id_, [])
        for each in kept:
            each.handle_later()
        return len(kept)

    def forget(self) -> None:
        """Drop the held requests, as their broker has ended."""
        self._kept.clear()
        for waiting in self._waiting:
            waiting.cancel()

    def held(self, id_: str) -> int:
        """Return the number of requests that a fault holds."""
        return len(self._kept.get(id_, ()))

    def unfired(self) -> list[Fault]:
        """Return the faults that never fired, except the delay of a slow node, which may never apply."""
        return [fault for fault in self.faults.values() if not fault.fired and not fault.is_slow_node]

    def as_json(self, fault: Fault) -> dict[str, Any]:
        """Return a fault with its id, its counts, and the number of requests that it holds."""
        return {**fault.as_json(), "held": self.held(fault.id)}

    # --- requests

    def intercept(self, handle: Handler, request: Asking[Uses], body: Any, version: int) -> Any:
        """Apply the first fault that fires for a request."""
        logged = self._log.current.get(request.connection)
        fields = fields_of(request, body)
        subject = subject_of(request, fields, version)
        now_ms = self._broker.clock.monotonic_ms()
        for fault in list(self.faults.values()):
            if fault.verb == REORDER and fault.id in self._kept and matches(fault.match, subject):
                return self._overtakes(fault, _Intercepted(handle, request, body, version, fields))
            if fault.fires(subject, now_ms):
                if logged is not None:
                    logged.fault, logged.state = fault.id, fault.verb
                return ACTIONS[fault.verb](self, fault, _Intercepted(handle, request, body, version, fields))
        return handle(request, body, version)

    def _answer_of(self, fault: Fault, intercepted: _Intercepted, code: int) -> Any:
        if intercepted.route.key == PRODUCE and intercepted.fields.get("acks") == 0:
            return NO_RESPONSE
        if code:
            return refusal_about(intercepted.route.key, intercepted.version, intercepted.fields, code)
        return error_answer(intercepted.route.key, intercepted.fields, code)

    def _error(self, fault: Fault, intercepted: _Intercepted) -> Any:
        return self._answer_of(fault, intercepted, int(fault.value))

    def _respond_only(self, fault: Fault, intercepted: _Intercepted) -> Any:
        answer = self._answer_of(fault, intercepted, ErrorCode.NONE)
        if isinstance(answer, InitProducerIdResponse):  # A valid producer id that no coordinator knows.
            answer.producer_id, answer.producer_epoch = self._broker.transactions.producer_ids.take(), 0
        return answer

    def _delay_ms(self, fault: Fault, intercepted: _Intercepted) -> Any:
        self._broker.timers.call_later(fault.value, intercepted.handle_later)

    def _no_response(self, fault: Fault, intercepted: _Intercepted) -> Any:
        return None

    def _close(self, fault: Fault, intercepted: _Intercepted) -> Any:
        intercepted.request.connection.abort()

    def _lose_response(self, fault: Fault, intercepted: _Intercepted) -> Any:
        return intercepted.intercept_response(lambda answer: intercepted.request.connection.abort())

    def _throttle_ms(self, fault: Fault, intercepted: _Intercepted) -> Any:
        def throttled(answer: Any) -> Any:
            response = readable_answer(intercepted.route.key, intercepted.version, answer)
            if response is None or "throttle_time_ms" not in response.FIELDS:
                return answer
            response.throttle_time_ms = fault.value  # type: ignore[attr-defined]
            return response

        return intercepted.intercept_response(throttled)

    def _duplicate(self, fault: Fault, intercepted: _Intercepted) -> Any:
        def first(answer: Any) -> Any:
            def second(_answer: Any) -> Any:
                return answer

            return intercepted.intercept_response(second)

        return intercepted.intercept_response(first)

    def _hold(self, fault: Fault, intercepted: _Intercepted) -> Any:
        kept = self._kept.setdefault(fault.id, [])
        kept.append(intercepted)
        if len(kept) == 1 and (terms := read_release(fault)):
            self._run_task(self._release_when(fault, kept, terms))

    async def _release_when(self, fault: Fault, kept: list[_Intercepted], terms: list[Term]) -> None:
        """Release a fault's held requests when its condition is true, unless a test released them before."""
        while self._kept.get(fault.id) is kept:
            if not await wait_until(lambda: self._broker, terms, 0):
                self.release(fault.id)
                return
            await asyncio.sleep(POLL_S)

    def _advance_ms(self, fault: Fault, intercepted: _Intercepted) -> Any:
        self._handle_after(lambda: self._clock.advance(fault.value), intercepted)

    def _producer_epoch(self, fault: Fault, intercepted: _Intercepted) -> Any:
        if intercepted.route.key == INIT_PRODUCER_ID and (id_ := intercepted.fields["transactional_id"]):
            try:
                seed(self._broker, {"ids": {"transactional_id": id_, "producer_epoch": fault.value}})
            except FaultError as refusal:  # The epoch is higher already, or the transaction is open.
                self._broker.events.info("producer_epoch_not_set", transactional_id=id_, reason=str(refusal))
        return intercepted.handle(intercepted.request, intercepted.body, intercepted.version)

    def _newer_instance(self, fault: Fault, intercepted: _Intercepted) -> Any:
        ids = sorted(texts_in("transactional_id", intercepted.fields))
        if not ids:
            return intercepted.handle(intercepted.request, intercepted.body, intercepted.version)
        self._handle_after(lambda: self._begin_newer_instances(ids), intercepted)

    async def _begin_newer_instances(self, ids: list[str]) -> None:
        for id_ in ids:
            try:
                await begin_newer_instance(self._broker, id_)
            except NoResponseError as fault:
                self._broker.events.error("newer_instance_failed", transactional_id=id_, reason=str(fault))

    def _handle_after(self, work: Callable[[], Coroutine[Any, Any, None]], intercepted: _Intercepted) -> None:
        """Carry out a request after `work`."""

        async def work_first() -> None:
            try:
                await work()
            except Exception as fault:  # Nothing else would end the request.
                intercepted.request.handle_fault(fault)
                return
            intercepted.handle_later()

        self._run_task(work_first())

    def _run_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._waiting.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Future[None]) -> None:
        self._waiting.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._broker.events.error("fault_failed", exc_info=fault)

    def _reorder(self, fault: Fault, intercepted: _Intercepted) -> Any:
        return self._hold(fault, intercepted)

    def _overtakes(self, fault: Fault, intercepted: _Intercepted) -> Any:
        """Carry out a request before the one that `reorder` holds, which follows after this one's response."""

        def answered(answer: Any) -> Any:
            self._broker.timers.soon(lambda: self.release(fault.id))
            return answer

        return intercepted.intercept_response(answered)

    def _corrupt(self, fault: Fault, intercepted: _Intercepted) -> Any:
        def corrupted(answer: Any) -> Any:
            return answer if answer is NO_RESPONSE else _CorruptResponse(answer)

        return intercepted.intercept_response(corrupted)


ACTIONS: Final[dict[str, Callable[[Injector, Fault, _Intercepted], Any]]] = {
    "error": Injector._error,
    "respond_only": Injector._respond_only,
    "delay_ms": Injector._delay_ms,
    "no_response": Injector._no_response,
    "close": Injector._close,
    "lose_response": Injector._lose_response,
    "throttle_ms": Injector._throttle_ms,
    "duplicate": Injector._duplicate,
    "hold": Injector._hold,
    "advance_ms": Injector._advance_ms,
    "producer_epoch": Injector._producer_epoch,
    "newer_instance": Injector._newer_instance,
    "reorder": Injector._reorder,
    "corrupt": Injector._corrupt,
}
"""What each verb of a fault does with a request: returns the response, or None if there is none yet."""


class _CorruptResponse(OpaqueResponse):
    """A response whose bytes after the correlation id are corrupt."""

    def __init__(self, response: Any) -> None:
        self.response = response

    def encode(self, out: bytearray, version: int) -> None:
        self.response.encode(out, version)
        for at in range(CORRUPT_FROM, len(out)):
            out[at] ^= 0x40

    def encode_parts(self, out: bytearray, version: int) -> list[Buffer]:
        self.encode(out, version)
        return [out]
