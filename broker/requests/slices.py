"""Long requests are worked off in slices: one slice a turn of the event loop, and everybody else is served between two.

A handler with a lot to do is a generator that yields before every step what the last one cost, and returns the response. A
single step, and what fits into one slice, is answered at once. Otherwise the connection's request stays open until the last
slice, so its answers keep their order. A client that goes away meanwhile has asked nevertheless: the work goes on. When the
broker stops it does not: what was done is in the journal, and nothing was promised.

Steps that depend on an answer which may come later (of a transaction, for example) yield an Awaited, and continue when the answer
is there.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.connections.client_connection import ClientConnection
from stuntbroker.protocol.primitives import write_uvarint
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.observation.events import Events
    from stuntbroker.broker.requests.router import Route


class Awaited:
    """An answer that may come later. `set` is called once, before or after the steps begin to wait."""

    __slots__ = ("_go_on", "is_there", "value")

    def __init__(self) -> None:
        self.is_there = False
        self.value: Any = None
        self._go_on: Callable[[], None] | None = None

    def set(self, value: Any) -> None:
        """Store the answer, and continue the steps that wait for it."""
        self.is_there, self.value = True, value
        if self._go_on is not None:
            self._go_on()

    def then(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when the answer comes. It must not be there yet."""
        self._go_on = go_on


Steps = Generator[int | Awaited, None, Any]
ANSWERED_ELSEWHERE: Final = object()
"""Returned by steps that have sent their response themselves."""

SLICE_COST: Final = 1_000
"""Cost of one slice, except for its last step, in units of 10 us, about the time to describe one partition."""
ENCODED_WHOLE_MAX: Final = 10
"""Elements of the list in a response up to which the response is encoded in one step."""
ELEMENTS_AT_ONCE: Final = 100
"""Elements of a longer list that are encoded in one step at most. Their number takes one byte."""
STEP_BYTES: Final = 70_000
"""Bytes that are encoded in one step, as far as the elements before say how long the next ones are."""
BYTES_PER_UNIT: Final = 700
"""Bytes that are encoded in a unit of a slice's cost."""
SEEN: Final = 1
"""For every topic, whatever becomes of it, and for every partition that is described."""
IDS_PER_STEP: Final = 200
"""Transactional ids that are looked through in one step."""
IDS_COST: Final = 50
"""Cost of such a step: phase and producer id of IDS_PER_STEP ids."""
CREATED: Final = 16
"""For every partition that is made or deleted, and for the configuration of a topic."""


class LongRequests:
    """The unfinished requests of one broker, of which it runs one slice each in turn.

    `call_in_next_turn` calls a function once, in the next turn of the event loop.
    """

    def __init__(self, call_in_next_turn: Callable[[Callable[[], None]], object], events: Events) -> None:
        self._call_in_next_turn = call_in_next_turn
        self._events = events
        self._waiting: deque[tuple[ClientConnection, Steps]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: ClientConnection, steps: Steps) -> None:
        """Do the next slice of a request in a turn of its own."""
        self._waiting.append((connection, steps))
        if len(self._waiting) == 1:
            # The garbage collector would search the 300,000 objects of a long answer for 100 ms. They are freed without it.
            gc.disable()
            self._call_in_next_turn(self._go_on)

    def clear(self) -> None:
        """Forget all of them: the broker stops."""
        self._waiting.clear()

    def _go_on(self) -> None:
        """Do one slice of the request that has waited longest."""
        waiting = self._waiting
        if not waiting:  # The broker has stopped.
            gc.enable()
            return
        connection, steps = waiting[0]
        route, response = connection.route, None
        try:
            response = _slice(steps)
            is_over = response is not None
        except StorageError as fault:
            is_over = True
            connection.fail("request_failed", api_key=route.key, api_version=route.version, reason=str(fault))
        except Exception as fault:  # As in Connection: one request's mistake ends its connection, not the broker.
            is_over = True
            self._events.error("request_crashed", api_key=route.key, api_version=route.version, exc_info=fault)
            connection.close()
        waiting.popleft()
        if not is_over:
            waiting.append((connection, steps))
        if waiting:
            self._call_in_next_turn(self._go_on)
        else:
            gc.enable()
        if isinstance(response, Awaited):
            response.then(lambda: self.add(connection, steps))
        elif response is not None and response is not ANSWERED_ELSEWHERE:
            connection.reply(response)


class SlicingServices(Protocol):
    """The part of the broker that slicing uses."""

    @property
    def long_requests(self) -> LongRequests:
        """The unfinished requests."""


class SlicedConnection(ClientConnection, Protocol):
    """A connection whose request is worked off in slices."""

    @property
    def broker(self) -> SlicingServices:
        """The broker that it belongs to."""


def run_in_slices(connection: SlicedConnection, steps: Steps) -> Any:
    """The response of `steps`; None when it comes later, by `connection.reply`."""
    steps = _and_encoded(connection.route, steps)
    response = _slice(steps)
    if response is ANSWERED_ELSEWHERE:
        return None
    if response is None:
        connection.broker.long_requests.add(connection, steps)
    elif isinstance(response, Awaited):
        response.then(lambda: connection.broker.long_requests.add(connection, steps))
        return None
    return response


class _Encoded:
    """A long response that was encoded in slices."""

    __slots__ = ("content",)

    def __init__(self, content: bytearray) -> None:
        self.content = content

    def encode(self, out: bytearray, version: int) -> None:
        out += self.content


def _and_encoded(route: Route, steps: Steps) -> Steps:
    """`steps`, and then those of encoding the response when it has a long list: a megabyte takes 15 ms."""
    response = yield from steps
    if response is None or response is ANSWERED_ELSEWHERE or route.in_parts or isinstance(response, _Encoded):
        return response
    values = [(getattr(response, field), field) for field in getattr(response, "__slots__", ())]
    count, field = max(((len(value), field) for value, field in values if isinstance(value, list)), default=(0, ""))
    return (yield from _encoded(response, field, route)) if count > ENCODED_WHOLE_MAX else response


def _encoded(response: Any, field: str, route: Route) -> Steps:
    """Encode a response that has a list in one of its fields, a piece of the list at a time."""
    elements: list[Any] = getattr(response, field)

    def encoded(some: list[Any]) -> bytearray:
        out = bytearray()
        setattr(response, field, some)
        response.encode(out, route.version)
        return out

    empty, single = encoded([]), encoded(elements[:1])
    differs = next(at for at, (byte, other) in enumerate(zip(empty, single, strict=False)) if byte != other)
    count_size = 1 if route.flexible_response else 4
    # The number of elements is what differs first, in its last byte.
    head = differs + 1 - count_size
    tail = len(empty) - head - count_size
    content = empty[:head]
    if route.flexible_response:
        write_uvarint(content, len(elements) + 1)
    else:
        content += len(elements).to_bytes(4, "big")
    start, at_once = 0, 1
    while start < len(elements):
        part = encoded(elements[start : start + at_once])
        # Freeing hundreds of thousands of objects at once takes 50 ms: each is freed when it is encoded.
        elements[start : start + at_once] = [None] * len(elements[start : start + at_once])
        content += part[head + count_size : len(part) - tail]
        yield 1 + len(part) // BYTES_PER_UNIT
        start += at_once
        at_once = max(1, min(2 * at_once, ELEMENTS_AT_ONCE, STEP_BYTES * at_once // len(part)))
    content += empty[head + count_size :]
    return _Encoded(content)


def cost_of_change(is_synced: bool, partitions: int) -> int:
    """Return the cost of creating or deleting partitions of one topic. `is_synced`: each change is synced to disk."""
    if is_synced:
        return SLICE_COST  # The disk takes longer than anything else.
    return CREATED * partitions


def _slice(steps: Steps) -> Any:
    """Step until they cost too much or have to wait; the response when it was the last one, or what they wait for."""
    left = SLICE_COST
    try:
        while left > 0:
            cost = next(steps)
            if not isinstance(cost, Awaited):
                left -= cost
            elif not cost.is_there:
                return cost
    except StopIteration as end:
        return end.value
    return None
