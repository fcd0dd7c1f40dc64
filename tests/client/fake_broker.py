"""A fake broker whose responses a test determines: of any version, invalid, late, or none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from importlib import import_module
from struct import pack, unpack, unpack_from
from types import TracebackType
from typing import Any, Self

from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from stuntbroker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from stuntbroker.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stuntbroker.protocol.primitives import Message, skip_tags

API_VERSIONS, METADATA, FIND_COORDINATOR = 18, 3, 10
UNSUPPORTED_VERSION = 35

Handler = Callable[[Any, int], Message | bytes | None]
"""(request, version) -> the response, the bytes of a whole frame, or None, which closes the connection."""


class FakeBroker:
    """Broker 1, and others at the same address if a test adds them; topic `t` has partitions 0 and 1."""

    def __init__(self) -> None:
        self.versions = {key: (api.version_min, api.version_max) for key, api in APIS.items()}
        self.handlers: dict[int, Handler] = {
            API_VERSIONS: self._api_versions, METADATA: self.metadata, FIND_COORDINATOR: self._find_coordinator,
        }  # fmt: skip
        self.seen: list[tuple[str, int, Any]] = []
        """(API, version, request), without ApiVersions."""
        self.leaders = {0: 1, 1: 1}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # It is closed already.
        for thread in self._threads:
            thread.join(10)

    def names(self) -> list[str]:
        return [name for name, _, _ in self.seen]

    def _accept(self) -> None:
        while True:
            try:
                each, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(each)
            self._threads.append(threading.Thread(target=self._serve, args=(each,), daemon=True))
            self._threads[-1].start()

    def _serve(self, each: socket.socket) -> None:
        with each, each.makefile("rb") as stream:
            try:
                while len(head := stream.read(4)) == 4:
                    answer = self._answer(stream.read(unpack(">i", head)[0]))
                    if answer is None:
                        return
                    each.sendall(answer)
            except OSError:
                return

    def _answer(self, frame: bytes) -> bytes | None:
        key, version, correlation_id, length = unpack_from(">hhih", frame)
        api = APIS[key]
        at = 10 + length
        if key == API_VERSIONS and not self.versions[key][0] <= version <= self.versions[key][1]:
            answer: Message | bytes | None = ApiVersionsResponse(UNSUPPORTED_VERSION, self._known())
            version = 0
        else:
            at = skip_tags(frame, at) if version >= api.flexible_from else at
            module = import_module(f"stuntbroker.protocol.messages.{api.module}_request")
            request = getattr(module, f"{api.name}Request").decode(frame, version, at)
            if key != API_VERSIONS:
                self.seen.append((api.name, version, request))
            answer = self.handlers[key](request, version)
        if not isinstance(answer, Message):
            return answer
        body = bytearray(pack(">i", correlation_id))
        if version >= api.flexible_from and key != API_VERSIONS:
            body.append(0)
        answer.encode(body, version)
        return pack(">i", len(body)) + body

    def _known(self) -> list[ApiVersion]:
        return [ApiVersion(key, low, high) for key, (low, high) in self.versions.items()]

    def _api_versions(self, request: Any, version: int) -> Message:
        return ApiVersionsResponse(0, self._known())

    def metadata(self, request: Any, version: int) -> Message:
        brokers = [MetadataResponseBroker(1, *self.address)]
        topics = []
        for name in ["t"] if request.topics is None else [each.name for each in request.topics]:
            partitions = [
                MetadataResponsePartition(0, index, leader, 0, [1], [1]) for index, leader in self.leaders.items()
            ]
            topics.append(
                MetadataResponseTopic(0, name, partitions=partitions) if name == "t" else MetadataResponseTopic(3, name)
            )
        return MetadataResponse(0, brokers, "cluster", 1, topics)

    def _find_coordinator(self, request: Any, version: int) -> Message:
        if version < 4:
            return FindCoordinatorResponse(0, 0, "NONE", 1, *self.address)
        actual = [Coordinator(key, 1, *self.address) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=actual)


class HandClock:
    """A clock that advances only by calls of `sleep`."""

    def __init__(self) -> None:
        self.s = 0.0
        self.slept: list[float] = []

    def now_s(self) -> float:
        return self.s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.s += seconds
