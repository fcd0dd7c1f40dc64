"""Adapter that lets aiokafka's connection send our messages, for every API and version with a codec.

aiokafka gets version (`prepare`), header and body from a request, and the decoded response from its response type. These
calls replace aiokafka's own transactional requests, which exist at version 0 only.
"""

from __future__ import annotations

from io import BytesIO
from struct import unpack_from
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.headers import request_header, response_body_at
from stuntbroker.protocol.primitives import Message

Answer = TypeVar("Answer", bound=Message)


class _Header:
    """key int16 | version int16 | correlation id int32 | client id | tags, if flexible"""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def encode(self) -> bytes:
        return self._data


class _AnswerHeader(NamedTuple):
    correlation_id: int


class _AnswerType(Generic[Answer]):
    """Decoder of a response body, which follows the header."""

    __slots__ = ("_message", "_version")

    def __init__(self, message: type[Answer], version: int) -> None:
        self._message = message
        self._version = version

    def decode(self, frame: BytesIO) -> Answer:
        return self._message.decode(frame.getvalue(), self._version, frame.tell())


class Call(Generic[Answer]):
    """One request at one version, with the interfaces of aiokafka's classes `Request` and `RequestStruct`."""

    __slots__ = ("API_KEY", "API_VERSION", "RESPONSE_TYPE", "_message")
    ALLOW_UNKNOWN_API_VERSION: ClassVar = True

    def __init__(self, key: int, version: int, message: Message, answer: type[Answer]) -> None:
        self.API_KEY = key
        self.API_VERSION = version
        self.RESPONSE_TYPE = _AnswerType(answer, version)
        self._message = message

    def __repr__(self) -> str:
        return f"{APIS[self.API_KEY].name} v{self.API_VERSION}"

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Call[Answer]:
        """Return the call itself: its version has already been negotiated."""
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _Header:
        """Return the request header for aiokafka's connection."""
        return _Header(request_header(self.API_KEY, self.API_VERSION, correlation_id, client_id.encode()))

    def encode(self) -> bytearray:
        """Return the body of the request."""
        out = bytearray()
        self.encode_into(out)
        return out

    def encode_into(self, out: bytearray) -> None:
        """Append the body of the request."""
        self._message.encode(out, self.API_VERSION)

    def parse_response_header(self, frame: BytesIO) -> _AnswerHeader:
        """Read the response header from a frame, and leave the frame at the body."""
        data: Any = frame.getvalue()
        frame.seek(response_body_at(data, self.API_KEY, self.API_VERSION))
        return _AnswerHeader(*unpack_from(">i", data))
