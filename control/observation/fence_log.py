"""Log of responses that fenced a producer, with the cause and advice for the client.

The responses carry cause and advice too: Produce in its error message, which Kafka's clients show, the others in a tagged field
that Kafka's clients skip and `stuntbroker.client` reads.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.requests.interception import intercept_response
from stuntbroker.broker.requests.plain_messages import error_codes, readable_answer
from stuntbroker.broker.transactions.fences import FENCING
from stuntbroker.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    APIS,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientRequest
    from stuntbroker.broker.requests.routes import Handler, Route
    from stuntbroker.broker.transactions.fences import Fence, Fences, Refusal

FENCES_KEPT: Final = 1_000
ADVICE: Final = {
    "newer_instance": "Another instance has this transactional id now. Stop this one, or give each instance an id of its own.",
    "epoch_exhausted": "Another instance has this transactional id now. Stop this one, or give each instance an id of its own.",
    "timeout": "The transaction was open for longer than transaction.timeout.ms and was aborted. Abort, and begin a new "
    "transaction; if the abort is refused, as below transaction.version 2, create a new producer. "
    "If the work takes long, raise the time-out.",
    "group_generation": "The consumer has left its group, or the group has a newer generation: another member may have its "
    "partitions. Abort, and continue from the committed offsets; if the abort is refused, create a new producer.",
    "admin": "An administrator ended the transaction or fenced its producer. Abort, or create a new producer.",
    "late_request": "The producer was not fenced: a delayed request of its earlier transaction was refused. Do nothing.",
    "id_expired": "The transactional id was not used for transactional.id.expiration.ms, and has expired. Create a new producer.",
    "coordinator_move": "The marker was sent by a former coordinator; the present one ends the transaction. Do nothing; "
    "to abort by hand, use the coordinator epoch that describe-producers shows.",
    "unknown": "The producer was fenced before the last start of the broker, or long ago. Create a new producer.",
}
"""Advice for the client, by cause."""
FENCING_APIS: Final = (
    PRODUCE,
    INIT_PRODUCER_ID,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    WRITE_TXN_MARKERS,
    TXN_OFFSET_COMMIT,
)
"""APIs whose responses can tell a producer that it is fenced."""
MESSAGES_FROM: Final = 8
"""First version of Produce with an error message for each partition."""
PENDING_FENCES_MAX: Final = 1_000
"""Maximum number of fences whose response has not been sent yet; some never are."""


class FenceLog:
    """The last `FENCES_KEPT` fencing answers, each with an id."""

    def __init__(self, fences: Fences) -> None:
        self._number = 0
        self.fences: deque[dict[str, Any]] = deque(maxlen=FENCES_KEPT)
        self._unexplained: dict[tuple[str, int], dict[str, Any]] = {}
        """(client address, API key) -> fence to add to the response."""
        self._fencing_history: deque[tuple[str, dict[str, Any]]] = deque(maxlen=FENCES_KEPT)
        """(transactional id, when and why its producer was fenced), even if that producer sent no request since."""
        fences.refused = self._refused
        fences.added = self._added

    def _refused(self, refusal: Refusal) -> None:
        self._number += 1
        fence = refusal.fence
        cause = "unknown" if fence is None else fence.cause
        entry: dict[str, Any] = {
            "id": f"fence-{self._number}",
            "transactional_id": refusal.transactional_id,
            "client_id": refusal.client_id,
            "client": refusal.client,
            "request": APIS[refusal.api_key].name,
            "at_ms": refusal.at_ms,
            "cause": cause,
            "advice": ADVICE[cause],
        }
        if fence is not None:
            entry["fenced_before_ms"] = refusal.fenced_before_ms
            if refusal.first_seen_ms >= 0:
                entry["first_seen_ms"] = refusal.first_seen_ms
            if fence.by_client:
                entry |= {"by_client_id": fence.by_client_id, "by_client": fence.by_client}
        self.fences.append(entry)
        self._unexplained[refusal.client, refusal.api_key] = entry
        if len(self._unexplained) > PENDING_FENCES_MAX:
            del self._unexplained[next(iter(self._unexplained))]

    def _added(self, transactional_id: str, fence: Fence, now_ms: int) -> None:
        moment: dict[str, Any] = {
            "at_ms": now_ms,
            "cause": fence.cause,
            "producer_id": fence.last.producer_id,
            "producer_epoch": fence.last.producer_epoch,
        }
        if fence.by_client:
            moment |= {"by_client_id": fence.by_client_id, "by_client": fence.by_client}
        self._fencing_history.append((transactional_id, moment))

    def fencing_history_of(self, transactional_id: str) -> list[dict[str, Any]]:
        """Return when and why producers of a transactional id were fenced, even if they sent no request since."""
        return [moment for id_, moment in self._fencing_history if id_ == transactional_id]

    def intercept(self, handle: Handler, request: ClientRequest, body: Any, version: int) -> Any:
        """Add the reason to a response that returns a fencing error."""
        explain = partial(self._explain, (request.peer, request.route.key), request.route, version)
        return intercept_response(handle, request, body, version, explain)

    def _explain(self, key: tuple[str, int], route: Route, version: int, answer: Any) -> Any:
        fence = self._unexplained.pop(key, None)
        if fence is None:
            return answer
        # Unlike Kafka: the response has the cause and advice; Kafka's has only the error code.
        response: Any = readable_answer(route.key, version, answer)
        if response is None:
            return answer
        if route.key != PRODUCE:
            if any(True for _ in error_codes(response)):
                response.fence_reason = reason(fence)
            return response
        if version >= MESSAGES_FROM:
            for topic in getattr(response, "responses", ()):
                for part in topic.partition_responses:
                    if part.error_code in FENCING:
                        part.error_message = reason(fence)
        return response

    def of(self, transactional_id: str) -> list[dict[str, Any]]:
        """Return the fences of one transactional id."""
        return [fence for fence in self.fences if fence["transactional_id"] == transactional_id]


def reason(fence: dict[str, Any]) -> str:
    """Return a line about a fence: cause, client that fenced, time, advice and the fence's id."""
    who = f" by {fence['by_client_id']!r} at {fence['by_client']}" if "by_client" in fence else ""
    when = f" {fence['fenced_before_ms']} ms before" if fence.get("fenced_before_ms") else ""
    return f"{fence['cause']}{who}{when}. {fence['advice']} ({fence['id']})"
