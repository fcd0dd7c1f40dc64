"""Long requests are handled in slices, one per turn of the event loop, so that other requests are served in between.

The handler of a long request is a generator: it yields the cost of each step and returns the response, or None, as any handler
does, if the response comes later. If all steps fit into one slice, the response is sent immediately. Otherwise the request stays
open until its last slice, so that the responses of the connection keep their order. If the client disconnects meanwhile, the
remaining steps are still performed. If the broker stops, they are not: completed steps are in the journal, and there was no
response.

Steps that depend on a later result (of a transaction, for example) yield an Awaited, and continue when the result is available.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from stuntbroker.broker.connections.client_connection import ClientRequest
from stuntbroker.broker.requests.apis import OpaqueResponse
from stuntbroker.protocol.primitives import write_uvarint

if TYPE_CHECKING:
    from stuntbroker.broker.requests.routes import Route


class Awaited:
    """A result that may come later. `set` is called once, before or after the steps begin to wait."""

    __slots__ = ("_resume", "is_set", "value")

    def __init__(self) -> None:
        self.is_set = False
        self.value: Any = None
        self._resume: Callable[[], None] | None = None

    def set(self, value: Any) -> None:
        """Store the result, and continue the steps that wait for it."""
        assert not self.is_set
        self.is_set, self.value = True, value
        if self._resume is not None:
            self._resume()

    def then(self, resume: Callable[[], None]) -> None:
        """Call `resume` when the result is set, which must not have happened yet."""
        self._resume = resume


Response = TypeVar("Response")
Steps = Generator[int | Awaited, None, Response]
"""The steps of a request: each yields its cost, or an Awaited; the last one returns the response."""
UNFINISHED: Final = object()
"""Returned for a slice that has not reached the last step."""

SLICE_COST: Final = 1_000
"""Cost at which a slice ends, in units of 10 us, which is about the time to describe one partition."""
ENCODED_WHOLE_MAX: Final = 10
"""Number of elements of its list up to which a response is encoded in one step."""
ELEMENTS_AT_ONCE: Final = 100
"""Maximum number of elements of a longer list that are encoded in one step; their number must fit into one byte."""
STEP_BYTES: Final = 70_000
"""Approximate maximum of bytes that are encoded in one step, estimated from the preceding elements."""
BYTES_PER_UNIT: Final = 700
"""Encoded bytes that cost one unit."""
ELEMENT_COST: Final = 1
"""Cost of each topic in a request, and of each partition that is described."""
IDS_PER_STEP: Final = 200
"""Number of transactional ids that are listed in one step."""
IDS_COST: Final = 50
"""Cost of listing phase and producer id of IDS_PER_STEP ids."""
PARTITION_CHANGE_COST: Final = 16
"""Cost of each partition that is created or deleted, and of the configuration of a topic."""


class LongRequests:
    """The unfinished long requests of one broker; their slices run in turn.

    `call_in_next_turn` calls a function once, in the next turn of the event loop.
    """

    def __init__(self, call_in_next_turn: Callable[[Callable[[], None]], object]) -> None:
        self._call_in_next_turn = call_in_next_turn
        self._waiting: deque[tuple[ClientRequest, Steps[Any]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: ClientRequest, steps: Steps[Any]) -> None:
        """Run the next slice of a request in a later turn of the event loop."""
        self._waiting.append((request, steps))
        if len(self._waiting) == 1:
            # The garbage collector would scan the 300,000 objects of a long response for 100 ms. They are freed without it.
            gc.disable()
            self._call_in_next_turn(self._resume)

    def clear(self) -> None:
        """Drop all unfinished requests, because the broker stops."""
        self._waiting.clear()

    def _resume(self) -> None:
        """Run one slice of the request that has waited longest."""
        waiting = self._waiting
        if not waiting:  # The broker has stopped.
            gc.enable()
            return
        request, steps = waiting[0]
        response = None
        try:
            response = _slice(steps)
        except Exception as fault:  # A failing request ends its connection, not the broker.
            request.handle_fault(fault)
        waiting.popleft()
        if response is UNFINISHED:
            waiting.append((request, steps))
        if waiting:
            self._call_in_next_turn(self._resume)
        else:
            gc.enable()
        if isinstance(response, Awaited):
            response.then(lambda: self.add(request, steps))
        elif response is not None and response is not UNFINISHED:
            request.reply(response)


class SlicingServices(Protocol):
    """The part of the broker that slicing uses."""

    @property
    def long_requests(self) -> LongRequests:
        """The unfinished requests."""


class SlicedRequest(ClientRequest, Protocol):
    """A request that is handled in slices."""

    @property
    def broker(self) -> SlicingServices:
        """The broker that handles the request."""


def run_in_slices(request: SlicedRequest, steps: Steps[Response]) -> Response | None:
    """Run steps in slices; return their response, or None if `request.reply` is called later."""
    encoding = _and_encoded(request.route, steps)
    response = _slice(encoding)
    if response is UNFINISHED:
        request.broker.long_requests.add(request, encoding)
        return None
    if isinstance(response, Awaited):
        response.then(lambda: request.broker.long_requests.add(request, encoding))
        return None
    complete: Response = response
    return complete


class EncodedInSlices(OpaqueResponse):
    """A long response that was encoded in slices."""

    __slots__ = ("content",)

    def __init__(self, content: bytearray) -> None:
        self.content = content

    def encode(self, out: bytearray, version: int) -> None:
        """Append the response to `out`."""
        out += self.content


def _and_encoded(route: Route, steps: Steps[Any]) -> Steps[Any]:
    """Return the steps followed by those that encode a response with a long list; encoding a megabyte takes 15 ms."""
    response = yield from steps
    if response is None or route.in_parts or isinstance(response, EncodedInSlices):
        return response
    values = [(getattr(response, field), field) for field in getattr(response, "FIELDS", ())]
    count, field = max(((len(value), field) for value, field in values if isinstance(value, list)), default=(0, ""))
    return (yield from _encoded(response, field, route)) if count > ENCODED_WHOLE_MAX else response


def _encoded(response: Any, field: str, route: Route) -> Steps[Any]:
    """Encode a response with a list in the field `field`, one piece of the list per step."""
    elements: list[Any] = getattr(response, field)

    def encoded(some: list[Any]) -> bytearray:
        out = bytearray()
        setattr(response, field, some)
        response.encode(out, route.version)
        return out

    empty, single = encoded([]), encoded(elements[:1])
    differs = next(at for at, (byte, other) in enumerate(zip(empty, single, strict=False)) if byte != other)
    count_size = 1 if route.flexible_response else 4
    # The first difference is in the last byte of the number of elements.
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
    return EncodedInSlices(content)


def cost_of_change(is_synced: bool, partitions: int) -> int:
    """Return the cost of creating or deleting partitions of one topic. `is_synced`: each change is synced to disk."""
    if is_synced:
        return SLICE_COST  # The disk takes longer than anything else.
    return PARTITION_CHANGE_COST * partitions


def _slice(steps: Steps[Any]) -> Any:
    """Run steps until the slice is used up; return what the last step returns, an Awaited to wait for, or UNFINISHED."""
    left = SLICE_COST
    try:
        while left > 0:
            cost = next(steps)
            if not isinstance(cost, Awaited):
                left -= cost
            elif not cost.is_set:
                return cost
    except StopIteration as end:
        return end.value
    return UNFINISHED
