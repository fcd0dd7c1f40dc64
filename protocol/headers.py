"""Headers of requests and responses: from an API's first flexible version on, they end with tagged fields (KIP-482)."""

from __future__ import annotations

from struct import Struct

from stuntbroker.protocol.api_keys import API_VERSIONS, APIS
from stuntbroker.protocol.primitives import Buffer, skip_tags

_REQUEST_HEADER = Struct(">hhih")
_CORRELATION_ID_SIZE = 4


def has_flexible_request_header(key: int, version: int) -> bool:
    """Return whether the header of a request ends with tagged fields."""
    return version >= APIS[key].flexible_from


def has_flexible_response_header(key: int, version: int) -> bool:
    """Return whether the header of a response ends with tagged fields: never that of ApiVersions (KIP-511)."""
    return version >= APIS[key].flexible_from and key != API_VERSIONS


def request_header(key: int, version: int, correlation_id: int, client_id: bytes) -> bytes:
    """Encode the header of a request, without tagged fields in it."""
    header = _REQUEST_HEADER.pack(key, version, correlation_id, len(client_id)) + client_id
    return header + b"\x00" if has_flexible_request_header(key, version) else header


def response_body_at(frame: Buffer, key: int, version: int) -> int:
    """Return the position of the body in a response, which begins with the correlation id. Raises IndexError."""
    at = _CORRELATION_ID_SIZE
    return skip_tags(frame, at) if has_flexible_response_header(key, version) else at
