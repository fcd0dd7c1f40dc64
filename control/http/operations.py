"""Shared parts of the HTTP API's operations: their description, reading requests, error responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stuntbroker.broker.connections.listener import CannotListen
from stuntbroker.control.documents import parse_json
from stuntbroker.control.rules.faults import FaultError
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.control.control import Control
    from stuntbroker.control.host import BrokerHost

BODY_MAX: Final = 1 << 20
PROBLEM: Final = "application/problem+json"
JSON, YAML = "application/json", "application/yaml"
Subject = TypeVar("Subject")
"""First argument of an operation: the Control of a broker, or a BrokerHost."""


class TextConvertor(Convertor[str]):
    """Path parameter at the end of a path; may contain slashes and line feeds, as clients choose the ids."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return the text as it is in the path."""
        return value

    def to_string(self, value: str) -> str:
        """Return the text as it is in the path."""
        return value


register_url_convertor("text", TextConvertor())


class Problem(Exception):
    """An error response: status, what is wrong, and what to do."""

    def __init__(self, status: int, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    summary: str
    returns: dict[str, Any]
    """Schema of the response."""
    answer: Callable[[Control, Request], Awaitable[Any]] | None
    body: dict[str, Any] | None = None
    """Schema of the request's body."""
    media_types: tuple[str, ...] = (JSON,)
    """Media types of the body."""
    query: tuple[str, ...] = ()
    """Query parameters, all whole numbers."""
    host_handler: Callable[[BrokerHost, Request], Awaitable[Any]] | None = None
    """Used instead of `answer` by operations on a BrokerHost."""
    needs_body: bool = True
    """Whether the body is required."""


def guarded(
    answer: Callable[[Subject, Request], Awaitable[Any]], refusal_status: int
) -> Callable[[Subject, Request], Awaitable[Any]]:
    """Wrap an operation so that failures become problem+json; `refusal_status` is the status for a FaultError."""

    async def guarded_answer(subject: Subject, request: Request) -> Any:
        try:
            return await answer(subject, request)
        except FaultError as fault:
            raise Problem(refusal_status, str(fault), fault.hint) from fault
        except CannotListen as fault:
            raise Problem(503, f"the broker cannot listen: {fault}", "another process uses the port: end it") from fault
        except (StorageError, OSError) as fault:
            hint = "is the disk full, or does a stop make it fail?"
            raise Problem(503, f"it cannot be done: {fault}", hint) from fault

    return guarded_answer


async def content_of(request: Request) -> bytes:
    """Return the body of a request. Raises Problem if it is too long."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > BODY_MAX:
            raise Problem(413, f"the body has more than {BODY_MAX} bytes", "send less at a time")
    return bytes(content)


async def body_of(request: Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """Return the JSON object in the body of a request. Raises Problem."""
    content = await content_of(request)
    if not content and may_be_empty:
        return {}
    try:
        body = parse_json(content)
    except ValueError as fault:
        raise Problem(400, f"the body is not JSON: {fault!s:.200}", "send a JSON object") from fault
    if not isinstance(body, dict):
        raise Problem(400, "the body must be a JSON object", "GET /v1/openapi.json shows the one of each request")
    return body


def check_query(request: Request, known: Collection[str]) -> None:
    """Raise Problem for an unknown query parameter, which would have no effect."""
    if unknown := request.query_params.keys() - set(known):
        hint = f"it takes {', '.join(known)}" if known else "it takes none"
        raise Problem(400, f"there is no query parameter {', '.join(sorted(unknown))}", hint)


def number_of(request: Request, name: str, default: int) -> int:
    """Return the whole number of a query parameter, or `default` without one. Raises Problem."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Problem(400, f"{name}={text!r} is not a whole number", f"as ?{name}=100")
    return int(text)


def problem_response(status: int, detail: str, hint: str) -> Response:
    """Return an error response (problem+json)."""
    body = {"status": status, "title": HTTPStatus(status).phrase, "detail": detail, "hint": hint}
    return JSONResponse(body, status, media_type=PROBLEM)
