"""Requests that continue after their handler has returned; interceptors get their responses here, as they get all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientRequest, Requester
    from stuntbroker.broker.requests.routes import Handler

OnAnswer = Callable[[Any], Any]
"""Called with a response; returns the response to send instead, or None to send nothing, or to send one later."""


def continue_request(request: Requester, proceed: Callable[[Any], object], answer: Any) -> None:
    """Call `proceed` with an answer that came later. An exception ends this request, not the one that is being handled now."""
    try:
        proceed(answer)
    except Exception as fault:
        request.handle_fault(fault)


def intercept_response(handle: Handler, request: ClientRequest, body: Any, version: int, on_answer: OnAnswer) -> Any:
    """Handle a request and pass its response through `on_answer`; return the response, or None if it comes later."""
    outer = request.before_reply

    def comes_later(answer: Any) -> None:
        request.before_reply = outer
        continue_request(request, lambda response: send(request, on_answer(response)), answer)

    request.before_reply = comes_later
    answer = handle(request, body, version)
    if answer is None:  # The response comes later, or was sent already: `comes_later` handles it.
        return None
    request.before_reply = outer
    return on_answer(answer)


def send(request: ClientRequest, answer: Any) -> None:
    """Send a response that comes later; do nothing for None."""
    if answer is not None:
        request.reply(answer)
