"""Who fenced a producer: kept until the fenced producer comes back, so that one line of the log can say why it is refused.

    producer_fenced transactional_id=pay-1 client_id=worker client=10.0.0.7:4711 cause=newer_instance by_client_id=worker-2
        by_client=10.0.0.8:4812 fenced_before_ms=1203

| cause | what happened |
|---|---|
| newer_instance | another client called InitProducerId with this transactional id |
| epoch_exhausted | the same, and as the epochs were used up it got another producer id |
| timeout | the transaction was open for longer than its time-out, and the coordinator aborted it |
| admin | an administrator ended the transaction, or fenced its producer |
| unknown | it was before the last start of the broker, or too many were fenced since |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from stuntbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

FENCES_MAX: Final = 10_000
"""Transactional ids of which the last fence is kept."""
ADMIN_CLIENT: Final = "adminclient"
"""How the client ids of Apache Kafka's admin clients begin."""
OUR_ADMIN_CLIENT: Final = "stuntbroker"
"""The client id of `stuntbroker txn`; those of our producers have more behind it."""
FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


class Fence(NamedTuple):
    """Why a producer was fenced: the cause, and the client that caused it, where it was one."""

    cause: str
    by_client_id: str
    by_client: str
    """Address of who fenced; empty for the broker itself."""
    at_ms: int
    """Monotonic."""


class Refusal(NamedTuple):
    """An answer that told a producer that it is fenced."""

    transactional_id: str
    client_id: str
    client: str
    """Address of the producer that was refused."""
    api_key: int
    """Of the request that was refused."""
    at_ms: int
    """Since 1970."""
    fence: Fence | None
    """None where it is not known any more why."""
    fenced_before_ms: int


class Fences:
    """The last fence of each transactional id."""

    def __init__(self) -> None:
        self._unlogged: dict[str, Fence] = {}
        self._logged: dict[str, Fence | None] = {}
        self.refused: Callable[[Refusal], None] | None = None
        """Called with every answer that tells a producer that it is fenced, not only with the first that is logged."""

    def add(self, transactional_id: str, cause: str, connection: Connection | None, now_ms: int) -> None:
        """Note that the producers of this id are fenced from now on, by a client or by the broker itself."""
        by_client_id, by_client = ("", "") if connection is None else (connection.client_id, connection.peer)
        self._logged.pop(transactional_id, None)
        self._unlogged.pop(transactional_id, None)
        self._unlogged[transactional_id] = Fence(cause, by_client_id, by_client, now_ms)
        if len(self._unlogged) > FENCES_MAX:
            del self._unlogged[next(iter(self._unlogged))]

    def log_refusal(self, connection: Connection, transactional_id: str) -> None:
        """Write one line for a producer that is refused, the first time after it was fenced."""
        broker = connection.broker
        is_first = transactional_id not in self._logged
        fence = self._unlogged.pop(transactional_id, None) if is_first else self._logged[transactional_id]
        if self.refused is not None:
            before_ms = -1 if fence is None else broker.clock.monotonic_ms() - fence.at_ms
            self.refused(
                Refusal(
                    transactional_id,
                    connection.client_id,
                    connection.peer,
                    connection.route.key,
                    broker.clock.now_ms(),
                    fence,
                    before_ms,
                )
            )
        if not is_first:
            return
        self._logged[transactional_id] = fence
        if len(self._logged) > FENCES_MAX:
            del self._logged[next(iter(self._logged))]
        facts: dict[str, object] = {"cause": "unknown"}
        if fence is not None:
            facts = {"cause": fence.cause, "fenced_before_ms": broker.clock.monotonic_ms() - fence.at_ms}
            if fence.by_client:
                facts |= {"by_client_id": fence.by_client_id, "by_client": fence.by_client}
        broker.events.warning(
            "producer_fenced",
            transactional_id=transactional_id,
            client_id=connection.client_id,
            client=connection.peer,
            **facts,
        )


def cause_of(connection: Connection, is_same_producer_id: bool) -> str:
    """Why an InitProducerId request without a producer id of its own fences whoever had the transactional id."""
    if connection.client_id.startswith(ADMIN_CLIENT) or connection.client_id == OUR_ADMIN_CLIENT:
        return "admin"
    return "newer_instance" if is_same_producer_id else "epoch_exhausted"
