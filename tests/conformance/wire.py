"""Encode requests from plain values and decode replies, over plain sockets without a client library."""

from __future__ import annotations

import ast
import re
import select
import socket
import struct
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from stuntbroker.protocol import primitives
from stuntbroker.protocol.api_keys import APIS, Api
from stuntbroker.protocol.primitives import DecodeError, Message

API_VERSIONS: Final = 18
CLIENT_ID: Final = "conformance"
ANSWER_S_MAX: Final = 10.0
APIS_BY_NAME: Final = {api.name: api for api in APIS.values()}


class Closed:
    """Result when the broker closed the connection."""

    def __repr__(self) -> str:
        return "closed"


class NoResponse:
    """Result when the broker did not reply in time."""

    def __repr__(self) -> str:
        return "no answer"


CLOSED: Final = Closed()
NO_RESPONSE: Final = NoResponse()


class Link:
    """One connection: frames out, frames in."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # The next `receive` reports it.

    def send_frame(self, payload: bytes) -> None:
        self.send(struct.pack(">i", len(payload)) + payload)

    def has_answer(self, wait_s: float) -> bool:
        """Whether a reply, or the end of the connection, arrives within `wait_s`."""
        return bool(select.select([self._socket], [], [], wait_s)[0])

    def receive(self, wait_s: float = ANSWER_S_MAX) -> bytes | Closed | NoResponse:
        """The next frame, without its length."""
        deadline = time.monotonic() + wait_s
        try:
            size = struct.unpack(">i", self._exactly(4, deadline))[0]
            return self._exactly(size, deadline)
        except TimeoutError:
            return NO_RESPONSE
        except (ConnectionResetError, BrokenPipeError, EOFError):
            return CLOSED

    def _exactly(self, size: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            part = self._socket.recv(size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


def header(key: int, version: int, correlation: int, *, client_id: str | None = CLIENT_ID, flexible: bool) -> bytes:
    """Return a request header of version 1 or, if `flexible`, version 2."""
    start = struct.pack(">hhi", key, version, correlation)
    if client_id is None:
        client = struct.pack(">h", -1)
    else:
        client = struct.pack(">h", len(client_id.encode())) + client_id.encode()
    return start + client + (b"\x00" if flexible else b"")


@cache
def _module(api: Api, kind: str) -> ModuleType:
    return import_module(f"stuntbroker.protocol.messages.{api.module}_{kind.lower()}")


def request_body(api: Api, version: int, fields: dict[str, Any]) -> bytes:
    out = bytearray()
    module = _module(api, "Request")
    build(getattr(module, f"{api.name}Request"), fields).encode(out, version)
    return bytes(out)


def build(kind: type[Message], fields: dict[str, Any]) -> Message:
    """Build a message from fields whose nested structures are dicts and lists of dicts."""
    module = import_module(kind.__module__)
    known = _annotations(kind)
    created: dict[str, Any] = {}
    for name, value in fields.items():
        nested = next(
            (n for n in re.findall(r"\w+", known[name]) if n in vars(module) and _is_message(module, n)), None
        )
        if nested is None or value is None:
            created[name] = value
        elif isinstance(value, dict):
            created[name] = build(getattr(module, nested), value)
        else:
            created[name] = [build(getattr(module, nested), each) for each in value]
    return kind(**created)


@cache
def _annotations(kind: type[Message]) -> dict[str, str]:
    """Return the types of a message's fields from its source: compiled classes have none."""
    source = Path(primitives.__file__).parent / "messages" / f"{kind.__module__.rpartition('.')[2]}.py"
    classes = [each for each in ast.parse(source.read_text()).body if isinstance(each, ast.ClassDef)]
    (cls,) = (each for each in classes if each.name == kind.__name__)
    (init,) = (each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    return {each.arg: ast.unparse(each.annotation) for each in init.args.args if each.annotation is not None}


def _is_message(module: ModuleType, name: str) -> bool:
    actual = getattr(module, name)
    return isinstance(actual, type) and issubclass(actual, Message)


def read_reply(api: Api, version: int, frame: bytes) -> Any:
    """Decode a reply. Raises DecodeError if our codec would encode the message differently."""
    flexible = version >= api.flexible_from and api.key != API_VERSIONS
    start = 5 if flexible else 4
    if flexible and frame[4]:
        raise DecodeError("the response header has tagged fields", 4)
    kind = getattr(_module(api, "Response"), f"{api.name}Response")
    if api.key == API_VERSIONS and frame[4:6] == b"\x00\x23":
        version = 0  # UNSUPPORTED_VERSION is sent in version 0, which every client can read.
    if not api.version_min <= version <= api.version_max:
        raise DecodeError(f"{api.name} version {version} was answered", 0)
    message = kind.decode(frame, version, start)
    restarted = bytearray()
    message.encode(restarted, version)
    if bytes(restarted) != frame[start:]:
        raise DecodeError(f"{kind.__name__} v{version} is not what our codec writes: {frame[start:].hex()}", start)
    return message
