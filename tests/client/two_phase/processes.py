"""A broker with two-phase commit, and producers whose process may end at any step: simulated, or by SIGKILL."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from databases import Database, connect

import stuntbroker
from stuntbroker.client import TransactionalProducer
from stuntbroker.fixture.broker import Broker


@contextmanager
def broker_at(level: int, **properties: Any) -> Iterator[Broker]:
    with stuntbroker.broker(
        {"transaction.two.phase.commit.enable": True, "transaction.version": level, **properties},
        topics={"payments": 1, "others": 1, "two": 2},
    ) as broker:
        yield broker


def producer_of(broker: Broker, name: str = "payer", **options: Any) -> TransactionalProducer:
    return producer_at(broker.bootstrap, name, **options)


def producer_at(bootstrap: str, name: str = "payer", **options: Any) -> TransactionalProducer:
    return TransactionalProducer(
        bootstrap_servers=bootstrap, transactional_id=name, enable_2pc=True, retry_backoff_ms=2, **options
    )


async def crash(producer: TransactionalProducer) -> None:
    """Close the producer's connections without an abort, as the end of its process does."""
    await producer.stop(leave_open=True)


STEPS = ("begin", "send", "prepare", "write", "decide", "complete")
"""Steps of a payment, after each of which its process may end."""


def has_record(number: int) -> bool:
    """Whether a payment writes a record. A transaction without records is also prepared, but no request ends it."""
    return number % 4 > 0


class Payer:
    """Runs processes that make payments, one after the other; each is killed in the middle of a payment.

    They are forked from a process that has imported what they need, so that a thousand of them take seconds.
    """

    def __init__(self, broker: Broker, database: str) -> None:
        command = [sys.executable, __file__, broker.bootstrap, database]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # A payment may hang.
        self._process.communicate(timeout=60)

    def pay_and_be_killed(self, first: int, payments: int, step: str) -> None:
        """Complete the prepared transaction, make payments from number `first` on, and be killed after a step of the next one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{first} {payments} {step}\n")
        self._process.stdin.flush()
        ended = self._process.stdout.readline()
        assert ended == f"{-signal.SIGKILL}\n", f"the process ended with {ended!r}"


def _fork_payers(bootstrap: str, database: str) -> None:
    for line in sys.stdin:
        first, payments, step = line.split()
        process_id = os.fork()
        if process_id == 0:
            try:
                asyncio.run(_run(bootstrap, connect(database), int(first), int(payments), step))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)  # It was not killed.
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])}\n")
        sys.stdout.flush()


async def _run(bootstrap: str, database: Database, first: int, payments: int, step: str) -> None:
    producer = producer_at(bootstrap)
    await producer.start()
    await producer.init_transactions(keep_prepared_txn=True)
    await producer.complete_transaction(database.state())
    for number in range(first, first + payments):
        await _payment(producer, database, number, None)
    await _payment(producer, database, first + payments, step)


async def _payment(producer: TransactionalProducer, database: Database, number: int, last: str | None) -> None:
    """Make one payment in the database and in the topic; kill this process after the step `last`."""

    def after(step: str) -> None:
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)

    await producer.begin_transaction()
    after("begin")
    if has_record(number):
        await producer.send_and_wait("payments", b"%d" % number, partition=0)
    after("send")
    state = await producer.prepare_transaction()
    after("prepare")
    database.write(number, state)
    after("write")
    database.commit()
    after("decide")
    assert await producer.complete_transaction(state)
    after("complete")


if __name__ == "__main__":
    _fork_payers(*sys.argv[1:])
