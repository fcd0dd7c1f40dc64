"""Producers of four languages that write payments, for tests that control the broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stuntbroker.fixture.broker import Broker
from tests.kit.programs.by_command import AioKafka, CallError, Client, ConfluentKafka, Program
from tests.kit.programs.programs import go_program, java_program

CLIENTS: dict[str, Callable[[], Client]] = {
    "java": lambda: Program(java_program()),
    "franz-go": lambda: Program(go_program()),
    "confluent-kafka": ConfluentKafka,
    "aiokafka": AioKafka,
}
SPEAKS_VERSION_2 = {"java", "franz-go"}
"""Clients that implement KIP-890, whose epoch rises with each transaction."""
GIVES_UP_WITHOUT_A_BROKER = {"franz-go"}
"""Clients whose commit fails while the broker is down, and that then request an abort, although the outcome is unknown."""
WITHOUT_GENERATIONS = {"aiokafka"}
"""Clients that send offsets without generation and member, as before KIP-447; only the transactional id fences them."""
MINUTE_MS = 60_000


class Payer:
    """A producer of a client, with shortcuts for frequent calls."""

    def __init__(self, client: Client, broker: Broker, name: str = "payer", transactional_id: str = "pay-1") -> None:
        self.client, self.name = client, name
        client.call(name, "open", broker.bootstrap, transactional_id, MINUTE_MS)

    def does(self, verb: str, *arguments: object) -> None:
        self.client.call(self.name, verb, *arguments)

    def pays(self, *partitions: int) -> None:
        """Begin a transaction with a record in each of these partitions."""
        self.does("begin")
        for partition in partitions:
            self.does("send", "paid", partition, str(partition))

    def is_refused(self, verb: str, *arguments: object) -> str:
        with pytest.raises(CallError) as refused:
            self.does(verb, *arguments)
        return str(refused.value)


def values(broker: Broker) -> list[bytes | None]:
    return sorted(broker.values("paid"), key=str)


BOTH = [b"0", b"1"]
