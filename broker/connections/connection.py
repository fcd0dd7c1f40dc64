"""One client connection: receives frames and sends responses in order.

A frame is an int32 length and that many bytes: api key, api version, correlation id, client id, tagged fields (flexible versions
only), then the request. The receive buffer starts small and grows as bytes arrive. For a large frame, address space of
the declared length is reserved, so that its bytes need not be moved. Memory is used, and counted, only as the bytes arrive.

Requests of a connection are handled one at a time. While one waits (a long poll, a join, a sync of the disk), no further frame
is read, so responses keep their order without a queue. If a client does not read its responses, its requests are not read.
"""

from __future__ import annotations

import asyncio
import mmap
from functools import partial
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.connections.read_pace import READ_AT_ONCE
from stuntbroker.broker.connections.request_memory import SMALL_BUFFER_BYTES_MAX
from stuntbroker.broker.requests.apis import NO_RESPONSE
from stuntbroker.broker.requests.request import Request
from stuntbroker.protocol.api_keys import API_VERSIONS
from stuntbroker.protocol.primitives import Buffer, DecodeError, skip_tags

if TYPE_CHECKING:
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.security.authentication import Authentication
    from stuntbroker.broker.services import Services

BUFFER_BYTES_INITIAL: Final = 4_096
COPIED_FRAME_BYTES_MAX: Final = 8_192
"""Frames below this many bytes are copied out of the receive buffer; larger ones are decoded in place."""
GROWTH: Final = 8
KEPT_BYTES_MAX: Final = 65_536
"""Bytes above which a buffer is reserved for a whole frame, and released when its connection is idle."""
HEADER_MIN: Final = 10
START_SIZE: Final = 12
"""Bytes of a frame's length, api key, api version and correlation id."""
CLIENT_ID_AT: Final = 8
NO_CLIENT_ID: Final = b"\xff\xff"
# Unlike Kafka: Kafka keeps the whole client id.
CLIENT_ID_LENGTH_MAX: Final = 255
"""Characters of a client id that are kept, because it is part of member ids and log events."""
_unpack_i: Final = Struct(">i").unpack_from
_unpack_start: Final = Struct(">ihhi").unpack_from
_unpack_h: Final = Struct(">h").unpack_from
_pack_start: Final = Struct(">ii").pack_into
_EMPTY_HEAD: Final = bytes(8)
_EMPTY_FLEXIBLE_HEAD: Final = bytes(9)


class Connection(asyncio.BufferedProtocol):
    """One client's connection: receives frames, passes each request to its handler, and sends the responses in order."""

    __slots__ = (
        "_client_id_raw",
        "_client_id_stop",
        "_has_received",
        "_is_handling_frames",
        "_is_held",
        "_is_writing_paused",
        "_empty_view",
        "_high",
        "_leaving",
        "_low",
        "_routes",
        "_seen_high",
        "_turn",
        "_view",
        "_waits_to_read",
        "active_ms",
        "authentication",
        "broker",
        "client_id",
        "host",
        "is_paused",
        "listener",
        "local",
        "peer",
        "principal",
        "request",
        "room",
        "transport",
    )

    def __init__(self, broker: Services, listener: Listener) -> None:
        self.broker = broker
        self.listener = listener
        """The listener that the client connected to."""
        self.transport: Any = None
        self._view = self._empty_view = memoryview(bytearray(BUFFER_BYTES_INITIAL))
        """The receive buffer, and the part of it that one read may fill if the buffer is empty."""
        self.room = BUFFER_BYTES_INITIAL
        """Usable bytes of the receive buffer; further bytes are only reserved address space."""
        self._low = self._high = 0
        self._is_handling_frames = self._is_writing_paused = self._is_held = self.is_paused = False
        """`is_paused`: whether no request is handled, because the client does not read, or because of `hold`."""
        self._turn = broker.turn
        self._routes = broker.router.of(listener.personality).routes
        self._client_id_raw: bytes = NO_CLIENT_ID
        """Encoded client id with its length, for comparison: nearly all requests of a connection have the same one."""
        self._client_id_stop = HEADER_MIN
        self.client_id: str = ""
        self.principal = listener.principal
        """Principal of the client, for the authorizer."""
        self.authentication: Authentication | None = None
        """State of the client's authentication; None on listeners without SASL."""
        self.host = ""
        self.local: tuple[str, int] = ("", 0)
        """Address of the client, and the local address (host, port) that it connected to."""
        self.request: Request | None = None
        """The request in progress; the next one is handled when it is answered."""
        self._leaving: Any = None
        """The transport of a closed connection that still sends pending responses."""
        self.active_ms = 0
        """Time at which `was_active` last returned True, by the clock's `client_ms`."""
        self._seen_high = 0
        self._has_received = False
        """Whether a request has arrived since the last call of `was_active`."""
        self._waits_to_read = False
        """Whether reading is paused until memory is available, or until the next turn."""

    # --- called by the event loop

    def connection_made(self, transport: Any) -> None:
        """Record the addresses of the client. Called by the event loop."""
        self.transport = transport
        peer = transport.get_extra_info("peername") or ("", 0)
        local = transport.get_extra_info("sockname") or ("", 0)
        self.host = peer[0]
        self.peer: str = f"{peer[0]}:{peer[1]}"
        self.local = (local[0], local[1])
        if self.listener.node_id in self.broker.closed_nodes or not self.broker.connections.admit(self):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self.broker.config["stuntbroker.write.buffer.bytes"])

    def get_buffer(self, hint: int) -> memoryview:
        """Return the buffer for the next bytes. Called by the event loop."""
        high = self._high
        if not high:
            return self._empty_view
        if high == self.room:  # `_handle_frames` makes room for a partly received request, or pauses reading.
            self._make_room(max(high - self._low + 1, high))
            high = self._high
        return self._view[high : min(self.room, high + READ_AT_ONCE)]

    def buffer_updated(self, count: int) -> None:
        """Handle all complete frames in the buffer. Called by the event loop after `count` more bytes."""
        high = self._high = self._high + count
        if not self.is_busy and not self.is_paused:
            if high == count >= START_SIZE:
                size, key, version, correlation = _unpack_start(self._view, 0)
                if size + 4 == high and size <= self.broker.frame_size_max:  # One whole frame, as nearly always.
                    self._low, self._is_handling_frames, self._has_received = high, True, True
                    if self._frame(4, high, key, version, correlation) and not self.is_busy:
                        self._low = self._high = 0
                    self._is_handling_frames = False
                    return
            self._handle_frames()
        elif high == self.room:
            self.transport.pause_reading()  # The client has sent more requests ahead than fit into the buffer.

    def eof_received(self) -> bool:
        """Let asyncio close the transport: a client that has closed its side gets no more responses."""
        return False

    def connection_lost(self, fault: Exception | None) -> None:
        """Forget the client, and notify the waiting request, if any. Called by the event loop."""
        self.transport = self._leaving = None
        self._end_request()
        self.broker.connections.forget(self)

    def pause_writing(self) -> None:
        """Stop handling requests, because the client does not read its responses. Called by the event loop."""
        self._is_writing_paused = self.is_paused = True

    def resume_writing(self) -> None:
        """Resume handling requests, unless the connection is held. Called by the event loop."""
        self._is_writing_paused = False
        self._resume()

    def hold(self) -> None:
        """Stop handling requests until `release`, for a snapshot."""
        self._is_held = self.is_paused = True

    def release(self) -> None:
        """End `hold`."""
        self._is_held = False
        self._resume()

    def _resume(self) -> None:
        self.is_paused = self._is_writing_paused or self._is_held
        if not self.is_paused:
            self._resume_after_pause()

    def _resume_after_pause(self) -> None:
        """Handle the requests that arrived during a pause."""
        if not self.is_busy and not self._is_handling_frames:
            self._continue()

    # --- frames

    def _make_room(self, room: int, reserved: int = 0) -> None:
        """Move the received bytes that were not handled yet to a new buffer with `room` usable bytes.

        The old buffer is never reused, because a waiting request may still refer to it. `reserved`: bytes to which the new
        buffer can grow without moving its content.
        """
        size = max(room, reserved)
        # The pages of a mapping are allocated when they are first written to; a bytearray is zeroed immediately.
        memory = (
            bytearray(size) if size <= KEPT_BYTES_MAX else mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        )
        view = memoryview(memory)
        left = self._high - self._low
        view[:left] = self._view[self._low : self._high]
        self._view, self._empty_view = view, view[: min(room, READ_AT_ONCE)]
        self._low, self._high = 0, left
        before, self.room = self.room, room
        # Last, because it may resume other connections, which inspect this one.
        self.broker.request_memory.resize(self, before, room)

    def _grow(self, room: int, frame: int) -> None:
        """Enlarge the buffer to `room` bytes for a frame of `frame` bytes, or pause reading if the memory limit is reached."""
        memory = self.broker.request_memory
        if room > self.room and not memory.admit_resize(self, self.room, room):
            self._wait_to_read()
        elif not self._low and frame <= len(self._view):
            memory.resize(self, self.room, room)
            self.room = room
        else:
            self._make_room(room, frame if room > KEPT_BYTES_MAX else 0)

    def _wait_to_read(self) -> None:
        if not self._waits_to_read:
            self._waits_to_read = True
            self.transport.pause_reading()

    def read_on(self) -> None:
        """Resume reading a partly received request, because memory is available or the next turn has begun."""
        if self._waits_to_read and self.transport is not None:
            self._waits_to_read = False
            self._seen_high = -1
            self.transport.resume_reading()
            if not self.is_busy and not self.is_paused:
                self._handle_frames()

    def has_stalled(self) -> bool:
        """Return whether a partly received request has not grown since the last call."""
        if self._waits_to_read or self.is_busy:
            self._seen_high = -1  # The client cannot continue, because the broker is not reading from it.
            return False
        before, self._seen_high = self._seen_high, self._high
        return before == self._high > SMALL_BUFFER_BYTES_MAX

    def _handle_frames(self) -> None:
        """Handle the complete frames in the buffer, until one is not answered immediately."""
        self._is_handling_frames = True
        try:
            low, high = self._low, self._high
            while not self.is_paused:
                left = high - low
                if left >= START_SIZE:
                    size, key, version, correlation = _unpack_start(self._view, low)
                elif left >= 4:
                    size, key, version, correlation = _unpack_i(self._view, low)[0], 0, 0, 0
                else:
                    break
                if not 0 <= size <= self.broker.frame_size_max:
                    from stuntbroker.broker.connections.first_bytes import refusal_reason

                    reason = refusal_reason(bytes(self._view[low : low + 4]))
                    self.fail("frame_refused", reason=reason, size=size, size_max=self.broker.frame_size_max)
                    return
                stop = low + 4 + size
                if stop > high:
                    # Only a full buffer grows, so that a frame that arrives in small pieces is not copied for each of them.
                    if stop > self.room and (low or high == self.room):
                        self._grow(max(self.room, min(4 + size, GROWTH * max(left, BUFFER_BYTES_INITIAL))), 4 + size)
                    if left > KEPT_BYTES_MAX and not self.broker.read_pace.count_read(self):
                        self._wait_to_read()
                    return
                self._low, self._has_received = stop, True
                if not self._frame(low + 4, stop, key, version, correlation) or self.is_busy:
                    return
                if stop == high:
                    break
                low = stop
            if self._low == high:
                self._low = self._high = 0
                if self.room > KEPT_BYTES_MAX and self.broker.request_memory.is_short:
                    self.release_buffer()
        finally:
            self._is_handling_frames = False

    def _frame(self, low: int, stop: int, key: int, version: int, correlation: int) -> bool:
        """Decode one request and pass it to its handler; return False if the connection was closed."""
        size = stop - low
        if size < HEADER_MIN:
            self.fail("request_malformed", reason="the frame is shorter than a request header")
            return False
        frame: Buffer = self._view[low:stop].tobytes() if size < COPIED_FRAME_BYTES_MAX else self._view[low:stop]
        served = self._routes.get(key << 16 | version) or self.broker.router.resolve(
            key, version, self.listener.personality
        )
        try:
            pos = self._client_id_stop
            if frame[CLIENT_ID_AT:pos] != self._client_id_raw:
                pos = self._read_client_id(frame)
            if served is None:
                return self._not_served(key, version, correlation)
            if served.flexible_request:
                pos = pos + 1 if not frame[pos] else skip_tags(frame, pos)
            body = served.decode(frame, version, pos)
        except (DecodeError, IndexError) as fault:
            self.fail("request_malformed", api_key=key, api_version=version, reason=str(fault))
            return False
        request = self.request = Request(self, self.broker, served, correlation)
        try:
            if served.reads and self._turn.armed:
                self._turn.flush()
            response = served.handle(request, body, version)
        except Exception as fault:  # A failing request ends its connection, not the broker.
            return request.handle_fault(fault)
        if response is not None:
            request.is_open = False
            self._send(request, response)
        return self.transport is not None

    def _read_client_id(self, frame: Buffer) -> int:
        """Decode a client id that has changed; return the position after it. Raises DecodeError."""
        length: int = _unpack_h(frame, CLIENT_ID_AT)[0]
        stop = HEADER_MIN + max(length, 0)
        if stop > len(frame):
            raise DecodeError("the client id runs past the end", HEADER_MIN)
        self._client_id_raw = bytes(frame[CLIENT_ID_AT:stop])
        self._client_id_stop = stop
        self.client_id = str(self._client_id_raw[2:], "utf-8", "replace")[:CLIENT_ID_LENGTH_MAX]
        return stop

    def _not_served(self, key: int, version: int, correlation: int) -> bool:
        if key == API_VERSIONS:
            from stuntbroker.broker.requests.personality import unsupported_version

            self.broker.turn.end()
            self._turn.deliver(self.transport, unsupported_version(correlation, self.listener.personality))
            return True
        self.fail("request_not_served", api_key=key, api_version=version)
        return False

    # --- responses

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""
        return self.request is not None

    def answer(self, response: Any) -> None:
        """Send the response to the request in progress, and handle the next one."""
        request = self.request
        if request is None:
            return
        self._send(request, response)
        if not self._is_handling_frames and not self.is_busy:  # It is still in progress while the disk syncs.
            self._continue()

    def _send(self, request: Request, response: Any) -> None:
        self.request = None
        if response is NO_RESPONSE:
            return
        served = request.route
        parts: list[Buffer] = []
        out = bytearray(_EMPTY_FLEXIBLE_HEAD if served.flexible_response else _EMPTY_HEAD)
        try:
            if served.in_parts:
                parts = response.encode_parts(out, served.version)
            else:
                response.encode(out, served.version)
        except StructError as fault:  # A message with a very long name can exceed the maximum length of a string.
            self.fail("response_dropped", api_key=served.key, api_version=served.version, reason=str(fault))
            return
        except Exception as fault:
            self.broker.events.error("request_crashed", api_key=served.key, api_version=served.version, exc_info=fault)
            self.close()
            return
        size = sum(map(len, parts)) if len(parts) > 1 else len(out)
        _pack_start(out, 0, size - 4, request.correlation)
        self._send_when_durable(request, out, parts)

    def _send_when_durable(self, request: Request, out: bytes | bytearray, parts: list[Buffer]) -> None:
        """Send the response once everything appended before is as durable as configured.

        `parts`: the response, beginning with `out`, if it has more than one part.
        """
        turn = self._turn
        if turn.armed and len(parts) <= 1:
            turn.answer(self.transport, out)
            return
        if turn.armed:
            turn.end()
            if turn.armed:  # The write has failed: nothing is answered any more.
                return
        syncer = self.broker.syncer
        if syncer is None or syncer.is_all_synced:
            self._deliver(out, parts)
            return
        self.request = request  # The next one waits until the disk has synced.
        syncer.when_synced(partial(self._synced, request, out, parts))

    def _synced(self, request: Request, out: bytes | bytearray, parts: list[Buffer]) -> None:
        if self.request is request:
            self.request = None
            self._deliver(out, parts)
            self._continue()

    def _deliver(self, out: bytes | bytearray, parts: list[Buffer]) -> None:
        if len(parts) <= 1:
            self._turn.deliver(self.transport, out)
        elif sum(map(len, parts)) < COPIED_FRAME_BYTES_MAX:
            self._turn.deliver(self.transport, b"".join(parts))
        else:
            self._deliver_large(parts)

    def _deliver_large(self, parts: list[Buffer]) -> None:
        self._turn.deliver_parts(self.transport, parts)

    def _continue(self) -> None:
        """Handle the frames that have arrived meanwhile."""
        if self.transport is None:
            return
        if self._high == self.room and not self._waits_to_read:
            self.transport.resume_reading()
        self._handle_frames()

    # --- closing

    def fail(self, event: str, **facts: Any) -> None:
        """Log one event and close the connection, as Kafka does for requests that it cannot answer."""
        self.broker.events.warning(event, client=self.peer, client_id=self.client_id, **facts)
        self.close()

    def close(self) -> None:
        """Close the connection after all responses have been sent."""
        self._end_request()
        if self.transport is not None:
            if self.broker.turn.armed:
                self.broker.turn.end()  # Earlier responses are sent first.
            self._leaving, self.transport = self.transport, None
            self._leaving.close()

    def _end_request(self) -> None:
        request, self.request = self.request, None
        if request is not None:
            request.closed()

    def abort(self) -> None:
        """Close the connection immediately, without sending pending responses."""
        self.close()
        if self._leaving is not None:
            self._leaving.abort()

    def was_active(self) -> bool:
        """Return whether a request has arrived since the last call, or is in progress."""
        has_received, self._has_received = self._has_received, False
        return has_received or self.is_busy

    def release_buffer(self) -> None:
        """Replace a large receive buffer that is not in use by a small one."""
        if self.room > KEPT_BYTES_MAX and self._low == self._high and not self.is_busy:
            self._low = self._high = 0
            self._make_room(BUFFER_BYTES_INITIAL)
