"""One of the two brokers in a case: it sends the case's requests and records the replies."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import DecodeError, Message
from tests.conformance.shape import Names, shape
from tests.conformance.wire import (
    ANSWER_S_MAX,
    APIS_BY_NAME,
    CLOSED,
    Closed,
    Link,
    NoResponse,
    header,
    read_reply,
    request_body,
)

SETTLE_S_MAX: Final = 20.0
COORDINATORS: Final = 12
"""Number of names that together hit all four partitions of each coordinator's topic."""
PAUSE_S: Final = 0.02
NOT_READY: Final = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
})  # fmt: skip
BUSY: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})


@dataclass(frozen=True, slots=True)
class Step:
    """A reply of a broker, labelled with its request."""

    label: str
    reply: Any


@dataclass(slots=True)
class Side:
    """The connections to one broker, and the replies recorded by one case."""

    address: str
    own: str
    """A prefix for names of topics, groups and transactional ids that no other case and no other run uses."""
    steps: list[Step] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    _links: dict[str, Link] = field(default_factory=dict)
    _waiting: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)
    _correlation: int = 0

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    # --- requests that are compared

    def ask(
        self,
        api: str,
        version: int,
        note: str = "",
        *,
        retry: Collection[int] = (),
        on: str = "main",
        **fields: Any,
    ) -> Any:
        """Send a request and record the reply; retry while the reply contains an error of `retry`."""
        reply = self.quiet(api, version, retry=retry, on=on, **fields)
        self.note(f"{api} v{version} {note}".strip(), reply)
        return reply

    def note(self, label: str, reply: Any) -> None:
        messages = repr(reply) if isinstance(reply, Closed | NoResponse) else shape(reply, self.names)
        self.steps.append(Step(f"{len(self.steps)}: {label}", messages))

    def table(self, label: str, values: dict[str, Any]) -> None:
        """Record values to be compared by name, regardless of their order."""
        self.steps.append(Step(f"{len(self.steps)}: {label}", values))

    # --- requests that are not

    def quiet(self, api: str, version: int, *, retry: Collection[int] = (), on: str = "main", **fields: Any) -> Any:
        deadline = time.monotonic() + SETTLE_S_MAX
        while True:
            self.send(api, version, on=on, **fields)
            reply = self.hear(on)
            if time.monotonic() > deadline or not errors_of(reply) & (NOT_READY | set(retry)):
                return reply
            time.sleep(PAUSE_S)

    def until(self, ready: Callable[[Any], bool], api: str, version: int, **fields: Any) -> Any:
        """Repeat a request, without recording it, until `ready` accepts the reply; return that reply."""
        deadline = time.monotonic() + SETTLE_S_MAX
        while True:
            reply = self.quiet(api, version, **fields)
            if not isinstance(reply, Closed | NoResponse) and ready(reply):
                return reply
            assert time.monotonic() < deadline, f"{api} v{version} never became as it must be: {reply}"
            time.sleep(PAUSE_S)

    # --- the two halves of a request

    def send(self, api: str, version: int, *, on: str = "main", **fields: Any) -> None:
        known = APIS_BY_NAME[api]
        body = request_body(known, version, fields)
        self._correlation += 1
        self.link(on).send_frame(
            header(known.key, version, self._correlation, flexible=version >= known.flexible_from) + body
        )
        self._waiting.setdefault(on, []).append((api, str(self._correlation), version))

    def hear(self, on: str = "main", wait_s: float = ANSWER_S_MAX) -> Any:
        """Return the reply to the oldest unanswered request of a connection."""
        api, correlation, version = self._waiting[on].pop(0)
        frame = self.link(on).receive(wait_s)
        if isinstance(frame, Closed | NoResponse):
            self.drop(on)
            return frame
        if struct.unpack_from(">i", frame)[0] != int(correlation):
            raise DecodeError("the correlation id is another request's", 0)
        return read_reply(APIS_BY_NAME[api], version, frame)

    def hear_and_note(self, note: str = "", on: str = "main", wait_s: float = ANSWER_S_MAX) -> Any:
        api, _, version = self._waiting[on][0]
        reply = self.hear(on, wait_s)
        self.note(f"{api} v{version} {note}".strip(), reply)
        return reply

    # --- bytes

    def raw(self, payload: bytes, note: str, *, wait_s: float = ANSWER_S_MAX, whole: bool = False) -> None:
        """Send a frame (or, with `whole`, any bytes) on a new connection; record the bytes of the reply."""
        link = Link(self.address)
        try:
            if whole:
                link.send(payload)
            else:
                link.send_frame(payload)
            answer = link.receive(wait_s)
        finally:
            link.close()
        messages = repr(answer) if isinstance(answer, Closed | NoResponse) else answer.hex()
        self.steps.append(Step(f"{len(self.steps)}: {note}", messages))

    def raw_prefix(self, payload: bytes, note: str) -> None:
        """Like `raw`, but record only the correlation id and the next two bytes of the reply."""
        self.raw(payload, note)
        step = self.steps.pop()
        self.steps.append(Step(step.label, step.reply if step.reply in ("closed", "no answer") else step.reply[:12]))

    def link(self, on: str = "main") -> Link:
        if on not in self._links:
            self._links[on] = Link(self.address)
        return self._links[on]

    def drop(self, on: str = "main") -> None:
        if on in self._links:
            self._links.pop(on).close()
        self._waiting.pop(on, None)

    # --- what most cases begin with

    def name(self, what: str) -> str:
        return f"{self.own}-{what}"

    def topic(self, what: str = "t", partitions: int = 1, **configs: str) -> str:
        """Create a topic and wait until it is usable; return its name."""
        name = self.name(what)
        given = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        self.quiet(
            "CreateTopics",
            7,
            timeout_ms=10_000,
            topics=[{"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": given}],
        )
        self.wait_for_topic(name, partitions)
        return name

    def wait_for_topic(self, name: str, partitions: int = 1) -> None:
        wanted = [{"name": name, "partitions": [{"partition_index": at, "timestamp": -2} for at in range(partitions)]}]
        self.until(lambda r: errors_of(r) == {0}, "ListOffsets", 7, replica_id=-1, topics=wanted)

    def topic_id(self, name: str) -> bytes:
        reply = self.quiet("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
        actual: bytes = reply.topics[0].topic_id
        return actual


def prepare(address: str) -> None:
    """Wait until the coordinators of a new broker are ready, and use up producer id 0, which `shape` cannot rename."""
    side = Side(address, "prepare")
    try:
        side.quiet("FindCoordinator", 2, key="g", key_type=0)
        side.quiet("FindCoordinator", 2, key="t", key_type=1)
        for number in range(COORDINATORS):
            side.quiet("InitProducerId", 1, transactional_id=f"prepare-{number}", transaction_timeout_ms=1_000)
            group = f"prepare-{number}"
            side.quiet("OffsetFetch", 7, group_id=group, topics=[{"name": "none", "partition_indexes": [0]}])
            side.quiet("DescribeGroups", 5, groups=[group])
    finally:
        side.close()


def errors_of(reply: Any) -> set[int]:
    """Return all error codes in a reply."""
    if isinstance(reply, list | tuple):
        return {code for each in reply for code in errors_of(each)}
    if not isinstance(reply, Message):
        return set()
    own = {getattr(reply, name) for name in reply.FIELDS if name.endswith("error_code")}
    return own.union(*(errors_of(getattr(reply, name)) for name in reply.FIELDS))


__all__ = ["BUSY", "CLOSED", "Side", "Step", "errors_of", "prepare"]
