"""A broker with two-phase commit, and producers for it, whose process may end anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stuntbroker import run_broker
from stuntbroker.client import TransactionalProducer
from stuntbroker.fixture.broker import Broker


class Crash(Exception):
    """The process ends here."""


@contextmanager
def broker_at(level: int, **properties: Any) -> Iterator[Broker]:
    with run_broker(
        {"transaction.two.phase.commit.enable": True, "transaction.version": level, **properties},
        topics={"payments": 1, "others": 1, "two": 2},
    ) as broker:
        yield broker


def producer_of(broker: Broker, name: str = "payer", **options: Any) -> TransactionalProducer:
    return TransactionalProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=name, enable_2pc=True, retry_backoff_ms=2, **options
    )


async def crash(producer: TransactionalProducer) -> None:
    """What the end of a process does: connections are closed, and nothing is aborted."""
    await producer.stop(leave_open=True)
