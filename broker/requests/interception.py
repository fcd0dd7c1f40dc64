"""Gives interceptors access to responses, whether a handler returns them or sends them later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientRequest
    from stuntbroker.broker.requests.routes import Handler

OnAnswer = Callable[[Any], Any]
"""Called with a response; returns the response to send instead, or None to send nothing, or to send one later."""


def intercept_response(handle: Handler, request: ClientRequest, body: Any, version: int, on_answer: OnAnswer) -> Any:
    """Handle a request and pass its response through `on_answer`; return the response, or None if it comes later."""
    outer = request.before_reply

    def comes_later(answer: Any) -> None:
        request.before_reply = outer
        try:
            send(request, on_answer(answer))
        except Exception as fault:  # Must not raise into the caller that completed this request.
            request.handle_fault(fault)

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
