"""How an interceptor gets at an answer, whether it comes at once, later, or encoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stuntbroker.broker.connections.connection import Connection
    from stuntbroker.broker.requests.router import Handler

OnAnswer = Callable[[Any], Any]
"""Called with an answer; returns what is sent instead, or None when nothing is sent, or later."""


def handle_and_look(handle: Handler, connection: Connection, request: Any, version: int, on_answer: OnAnswer) -> Any:
    """Handle a request and pass its response through `on_answer`; return the response, or None if it comes later."""
    outer = connection.before_reply

    def comes_later(answer: Any) -> None:
        connection.before_reply = outer
        try:
            send(connection, on_answer(answer))
        except Exception as fault:  # Must not raise into the caller that completed this request.
            connection.goes_on_after(fault)

    connection.before_reply = comes_later
    answer = handle(connection, request, version)
    if answer is None:  # It comes later, or came already, and `comes_later` has seen or will see it.
        return None
    connection.before_reply = outer
    return on_answer(answer)


def send(connection: Connection, answer: Any) -> None:
    """Send an answer that comes later; nothing for None."""
    if isinstance(answer, bytes | bytearray):
        connection.reply_encoded(bytes(answer))
    elif answer is not None:
        connection.reply(answer)
