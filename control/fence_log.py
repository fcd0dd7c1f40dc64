"""Every answer that told a producer that it is fenced, with the reason and what the client should do."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.protocol.api_keys import APIS

if TYPE_CHECKING:
    from stuntbroker.broker.fences import Fences, Refusal

FENCES_KEPT: Final = 1_000
ADVICE: Final = {
    "newer_instance": "Another instance has this transactional id now. Stop this one, or give each instance an id of its own.",
    "epoch_exhausted": "Another instance has this transactional id now. Stop this one, or give each instance an id of its own.",
    "timeout": "The transaction was open for longer than transaction.timeout.ms and was aborted. Abort, and begin anew; "
    "where work between begin and commit takes long, raise the time-out.",
    "admin": "An administrator ended the transaction or fenced its producer. Abort, or make a new producer.",
    "unknown": "It was fenced before the last start of the broker, or long ago. Make a new producer.",
}
"""What to do, by cause."""


class FenceLog:
    """The last `FENCES_KEPT` fencing answers, each with an id."""

    def __init__(self, fences: Fences) -> None:
        self._number = 0
        self.fences: deque[dict[str, Any]] = deque(maxlen=FENCES_KEPT)
        fences.refused = self._refused

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
            if fence.by_client:
                entry |= {"by_client_id": fence.by_client_id, "by_client": fence.by_client}
        self.fences.append(entry)

    def of(self, transactional_id: str) -> list[dict[str, Any]]:
        """Those of one transactional id."""
        return [fence for fence in self.fences if fence["transactional_id"] == transactional_id]
