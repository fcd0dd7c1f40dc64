"""A broker without sockets: connections over fake transports, a manual clock, and recorded events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import import_module
from pathlib import Path
from struct import pack, unpack_from
from traceback import format_exception
from typing import Any

from stuntbroker.broker.clock import ManualClock
from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.connections.connection import Connection
from stuntbroker.broker.connections.listener import listeners_of
from stuntbroker.broker.observation.events import Events
from stuntbroker.broker.server import Broker
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.primitives import Message
from stuntbroker.storage.disk import LOCAL_DISK, Disk
from stuntbroker.storage.memory_disk import MemoryDisk

API_VERSIONS = 18
START_MS = 1_700_000_000_000
MEMORY_FOLDER = "/data"
"""The data folder on a disk in memory."""
KEYS = {api.name: key for key, api in APIS.items()}


class KeptEvents(Events):
    """Records every event as (name, facts)."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[str, dict[str, Any]]] = []

    def _emit(self, level: str, event: str, fields: dict[str, Any]) -> None:
        self.kept.append((event, fields))

    def names(self) -> list[str]:
        """Return the names of all events, oldest first."""
        return [name for name, _ in self.kept]

    def crashes(self) -> list[str]:
        """Return the broker's internal errors (crashed requests and failed timers), each kind once."""
        actual: dict[str, str] = {}
        for name, facts in self.kept:
            if name in ("request_crashed", "timer_failed") and "exc_info" in facts:
                lines = "".join(format_exception(facts["exc_info"])[-3:])
                where = f"{facts['api_key']} v{facts['api_version']}" if "api_key" in facts else "a timer"
                actual[f"{where} {lines.splitlines()[0]}"] = f"{where}: {lines}"
        return list(actual.values())


class FakeTransport:
    """Transport of a connection. `stuck`: the client does not read, so that all data stays in the write buffer."""

    def __init__(self, peer: tuple[str, int] = ("127.0.0.1", 50_000), local: tuple[str, int] = ("127.0.0.1", 9_092)):
        self.names: dict[str, Any] = {"peername": peer, "sockname": local, "peercert": None}
        self.sent = bytearray()
        self.unsent = 0
        self.stuck = False
        self.high = 1 << 62
        self.closed = False
        self.aborted = False
        self.handle_closed = False
        """The client has closed the connection and the event loop our end; uvloop then refuses every write."""
        self.reading = True
        self.protocol: Connection | None = None

    def get_extra_info(self, name: str) -> Any:
        """Return an address, or the certificate, of the client."""
        return self.names[name]

    def set_write_buffer_limits(self, high: int) -> None:
        """Set the bytes of unsent data above which the connection is paused."""
        self.high = high

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data, or keep it while the client is stuck. Raises RuntimeError as uvloop does, after `close_unnoticed`."""
        if self.handle_closed:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
        self.sent += data
        if self.stuck:
            before, self.unsent = self.unsent, self.unsent + len(data)
            if before <= self.high < self.unsent:
                assert self.protocol is not None
                self.protocol.pause_writing()

    def writelines(self, parts: list[Any]) -> None:
        """Send several pieces."""
        self.write(b"".join(parts))

    def read_again(self) -> None:
        """Let the client read all sent data, which resumes a paused connection."""
        assert self.protocol is not None
        self.stuck = False
        paused, self.unsent = self.unsent > self.high, 0
        if paused:
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        """Stop reading from the client."""
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        """Read from the client again."""
        self.reading = True

    def is_closing(self) -> bool:
        """Return whether the connection is closed."""
        return self.closed

    def close(self) -> None:
        """Close the connection."""
        self.closed = True

    def abort(self) -> None:
        """Close the connection without sending what is left."""
        self.closed = self.aborted = True


def frame(request: Message, version: int, correlation: int = 7, client_id: bytes | None = b"test") -> bytes:
    """Return the frame of a request; the message's class determines the API."""
    api = APIS[KEYS[type(request).__name__.removesuffix("Request")]]
    out = bytearray(pack(">hhih", api.key, version, correlation, -1 if client_id is None else len(client_id)))
    out += client_id or b""
    if version >= api.flexible_from:
        out.append(0)
    request.encode(out, version)
    return pack(">i", len(out)) + out


def raw_frame(body: bytes) -> bytes:
    """Return the frame of an encoded request."""
    return pack(">i", len(body)) + body


def cut(sent: bytes | bytearray) -> list[bytes]:
    """Split sent bytes into frames, without their lengths."""
    actual, pos = [], 0
    while pos < len(sent):
        (size,) = unpack_from(">i", sent, pos)
        assert pos + 4 + size <= len(sent), "an answer is not whole"
        actual.append(bytes(sent[pos + 4 : pos + 4 + size]))
        pos += 4 + size
    return actual


def decode(answer: bytes, key: int, version: int) -> Any:
    """Decode the response in a frame, skipping its header."""
    api = APIS[key]
    response = getattr(import_module(f"stuntbroker.protocol.messages.{api.module}_response"), f"{api.name}Response")
    return response.decode(answer, version, 5 if version >= api.flexible_from and key != API_VERSIONS else 4)


class Client:
    """One connection of a broker, driven by hand."""

    def __init__(self, broker: Broker, listener: int = 0, **names: tuple[str, int]) -> None:
        self.transport = FakeTransport(**names)
        self.broker = broker
        self.connection = broker.new_connection(broker.listeners[listener])
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def feed(self, data: bytes | memoryview, step: int = 1 << 30) -> int:
        """Feed bytes to the broker, at most `step` at a time, as long as it reads; return how many it has read."""
        connection, at = self.connection, 0
        while at < len(data) and not self.transport.closed and self._is_read():
            room = connection.get_buffer(-1)
            count = min(len(room), len(data) - at, step)
            room[:count] = data[at : at + count]
            at += count
            connection.buffer_updated(count)
        return at

    def _is_read(self) -> bool:
        """Whether the broker reads, now or in the next turn."""
        if not self.transport.reading:
            self.broker.read_pace.begin_turn()
        return self.transport.reading

    def answers(self) -> list[bytes]:
        """End the turn of the event loop, and return the frames sent since the last call."""
        self.broker.turn.end()
        actual = cut(self.transport.sent)
        self.transport.sent.clear()
        return actual

    def ask(self, request: Message, version: int, **header: Any) -> Any:
        """Send a request that is answered in the same turn, and return the response."""
        self.feed(frame(request, version, **header))
        actual = self.answers()
        assert len(actual) == 1, (actual, self.transport.closed, self.broker.events)
        answer = actual[0]
        return decode(answer, KEYS[type(request).__name__.removesuffix("Request")], version)

    def disconnect(self) -> None:
        """Let the client close the connection."""
        self.transport.closed = self.transport.handle_closed = True
        self.connection.connection_lost(None)

    def close_unnoticed(self) -> None:
        """Close the transport from the client's end; the connection is notified later (`disconnect`)."""
        self.transport.closed = self.transport.handle_closed = True


class Rig:
    """A broker, its clock, its events, and the errors that the event loop reported."""

    def __init__(self, broker: Broker, clock: ManualClock, events: KeptEvents) -> None:
        self.broker = broker
        self.clock = clock
        self.events = events
        self.faults: list[dict[str, Any]] = []

    def client(self, listener: int = 0, **names: tuple[str, int]) -> Client:
        """Connect a client to a listener, by its index. `names`: `peer` and `local`, the addresses (host, port)."""
        return Client(self.broker, listener, **names)

    def topic(self, name: str, partitions: int = 1, **configs: str) -> Any:
        """Return a topic, created if it does not exist. `configs`: properties with underscores for dots."""
        actual = self.broker.topics.get(name)
        created = {key.replace("_", "."): value for key, value in configs.items()}
        return actual or self.broker.topics.create(name, partitions, created)

    def logs(self, topic: str) -> Any:
        """Return the logs of all partitions of a topic."""
        actual = self.broker.topics.get(topic)
        assert actual is not None
        return actual.partitions

    def log(self, topic: str, index: int) -> Any:
        """Return the log of a partition."""
        return self.logs(topic)[index]

    def actor(self, transactional_id: str) -> Any:
        """Return the actor of a transactional id; None if there is none."""
        return self.broker.transactions.actor_of(transactional_id)

    def pass_time(self, ms: int) -> None:
        """Advance the clock and run all timers that are due."""
        self.broker.timers.pass_time(self.clock, ms)


class SyncedAtOnce:
    """An `executor` for a rig, in place of the sync thread, that syncs immediately, so that no response waits."""

    def __call__(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        work()
        done(None)

    def finish(self) -> None:
        """Do nothing: no sync is ever in flight."""


@contextlib.asynccontextmanager
async def running_rig(
    data_dir: Path | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "process",
    executor: Any = None,
    truncate_damaged: bool = False,
    clock: Any = None,
    disk: Disk | None = None,
) -> AsyncIterator[Rig]:
    """Run a broker; afterwards, check that the event loop reported no error and no request or timer crashed.

    The data are on `disk`, else in the folder `data_dir`, else on a new disk in memory. `executor` replaces the sync thread;
    its `finish()` completes pending and future syncs. `clock` is a manual clock by default.
    """
    if disk is None:
        disk = MemoryDisk() if data_dir is None else LOCAL_DISK
    clock, events = clock or ManualClock(START_MS), KeptEvents()
    config = BrokerConfig(properties or {})
    listeners = listeners_of(config, port=None if config["listeners"] else 0)
    path = MEMORY_FOLDER if data_dir is None else str(data_dir)
    broker = Broker(
        config, path, durability, events, clock, truncate_damaged, listeners, disk=disk, sync_executor=executor
    )
    rig = Rig(broker, clock, events)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, facts: rig.faults.append(facts))
    try:
        await broker.start()
    except BaseException:
        broker.data_dir.abandon()
        raise
    try:
        yield rig
    finally:
        if executor is not None:
            executor.finish()
        await broker.stop()
    assert not rig.faults, repr(rig.faults)
    crashes = events.crashes()
    assert not crashes, "\n".join(crashes)


async def turn(times: int = 3) -> None:
    """Let the event loop run ready callbacks, `times` times."""
    for _ in range(times):
        await asyncio.sleep(0)
