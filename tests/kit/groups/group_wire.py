"""Send group requests of any version to any broker, each client on its own connection."""

from __future__ import annotations

import importlib
import re
import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from stuntbroker.protocol.primitives import Message
from tests.kit.groups.group_world import subscription

KEYS = {
    #                       key, first flexible version
    "offset_commit":        (8, 8),
    "offset_fetch":         (9, 6),
    "find_coordinator":     (10, 3),
    "join_group":           (11, 6),
    "heartbeat":            (12, 4),
    "leave_group":          (13, 4),
    "sync_group":           (14, 4),
    "describe_groups":      (15, 5),
    "list_groups":          (16, 3),
    "create_topics":        (19, 5),
    "delete_topics":        (20, 4),
    "init_producer_id":     (22, 2),
    "add_offsets_to_txn":   (25, 3),
    "end_txn":              (26, 3),
    "txn_offset_commit":    (28, 3),
    "delete_groups":        (42, 2),
    "offset_delete":        (47, 99),
}  # fmt: skip
ANSWER_S_MAX = 20
SILENCE_S = 0.2
MEMBER_ID = re.compile(r"([\w]+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def message(api: str, name: str, /, *arguments: Any, **fields: Any) -> Any:
    """Return a structure of an API's request; the name "Request" stands for the request itself."""
    module = importlib.import_module(f"stuntbroker.protocol.messages.{api}_request")
    camel = "".join(part.capitalize() for part in api.split("_"))
    return getattr(module, f"{camel}Request" if name == "Request" else name)(*arguments, **fields)


class Wire:
    def __init__(self, address: str, client_id: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_S_MAX)
        self._client_id = client_id.encode()
        self._requests: tuple[str, int] = ("", 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def send(self, api: str, version: int, *arguments: Any, **fields: Any) -> None:
        key, flexible_from = KEYS[api]
        client_id = struct.pack(">h", len(self._client_id)) + self._client_id
        out = bytearray(struct.pack(">hhi", key, version, 1) + client_id)
        if version >= flexible_from:
            out.append(0)
        message(api, "Request", *arguments, **fields).encode(out, version)
        self._socket.sendall(struct.pack(">i", len(out)) + out)
        self._requests = api, version

    def receive(self) -> Any:
        api, version = self._requests
        frame = self._read(struct.unpack(">i", self._read(4))[0])
        module = importlib.import_module(f"stuntbroker.protocol.messages.{api}_response")
        camel = "".join(part.capitalize() for part in api.split("_"))
        start = 5 if version >= KEYS[api][1] else 4
        return getattr(module, f"{camel}Response").decode(frame, version, start)

    def ask(self, api: str, version: int, *arguments: Any, **fields: Any) -> Any:
        self.send(api, version, *arguments, **fields)
        return self.receive()

    def is_silent(self) -> bool:
        self._socket.settimeout(SILENCE_S)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
            return False
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(ANSWER_S_MAX)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise EOFError(f"the broker hung up on {self._requests}")
            data += piece
        return data


class Transcript:
    """Responses as lines of text, normalised for values that differ between runs: member ids, topic ids, order of lists."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.topic_ids: dict[bytes, str] = {}
        self._member_ids: dict[str, str] = {}

    def add(self, label: str, answer: Any) -> Any:
        self.lines.append(f"{label}: {self._plain(answer)}")
        return answer

    def _plain(self, value: Any) -> str:
        """Return a value as text; lists are sorted, and the partitions of a topic that occurs twice are merged."""
        if isinstance(value, str):
            return repr(MEMBER_ID.sub(self._member, value))
        if isinstance(value, bytes):
            return self.topic_ids.get(value) or value.hex()
        if isinstance(value, list | tuple):
            return f"[{', '.join(sorted(self._merged(value)))}]"
        if isinstance(value, Message):
            fields = ", ".join(f"{name}={self._plain(getattr(value, name))}" for name in value.FIELDS)
            return f"({fields})"
        return repr(value)

    def _merged(self, values: Sequence[Any]) -> list[str]:
        if not values or not hasattr(values[0], "partitions"):
            return [self._plain(value) for value in values]
        places = []
        for topic in values:
            name = f"{topic.name}{self._plain(getattr(topic, 'topic_id', b''))}"
            places += [f"{name}{self._plain(partition)}" for partition in topic.partitions]
        return places

    def _member(self, actual: re.Match[str]) -> str:
        number = len(self._member_ids) + 1
        return self._member_ids.setdefault(actual[0], f"<{actual[1]} {number}>")


def join_fields(member_id: str = "", group_id: str = "g", version: int = 9, **changes: Any) -> dict[str, Any]:
    names = changes.pop("protocols", ("range",))
    return {
        "group_id": group_id,
        "member_id": member_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 5_000 if version else -1,
        "protocol_type": "consumer",
        "protocols": [message("join_group", "JoinGroupRequestProtocol", name, subscription("t")) for name in names],
        **changes,
    }


def sync_fields(
    member_id: str, generation: int, group_id: str = "g", given: Sequence[str] = (), **changes: Any
) -> dict[str, Any]:
    """Return the fields of a SyncGroup request; each member id in `given` is assigned b"mine"."""
    return {
        "group_id": group_id,
        "generation_id": generation,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [message("sync_group", "SyncGroupRequestAssignment", each, b"mine") for each in given],
        **changes,
    }


def commit_fields(group_id: str, *places: tuple[str | bytes, int], metadata: str | None = "m", **changes: Any) -> Any:
    topics = [
        message(
            "offset_commit",
            "OffsetCommitRequestTopic",
            *((topic, bytes(16)) if isinstance(topic, str) else ("", topic)),
            [message("offset_commit", "OffsetCommitRequestPartition", number, 5, committed_metadata=metadata)],
        )
        for topic, number in places
    ]
    return {"group_id": group_id, "topics": topics, **changes}


def leavers(*members: tuple[str, str | None]) -> list[Any]:
    return [message("leave_group", "MemberIdentity", *member) for member in members]
