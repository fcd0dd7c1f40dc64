"""Makes random calls of a producer under faults, and checks its reported outcomes against the committed records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from stuntbroker.client import FatalError, OperationTimedOutError, TransactionAbortableError, TransactionalProducer

PARTITIONS = 2
CANCELLED = 0.15
"""Probability that a call is cancelled soon after it began."""


class RandomCalls:
    """Transactions of random size and order of calls, each with values of its own: "number:place" to partition place % 2.

    A fatal error ends a producer, and the next transaction is that of a new one, as after a restart of the application.
    """

    def __init__(
        self,
        chance: random.Random,
        transactions: int,
        topic: str,
        options: Mapping[str, Any],
        time_out: Callable[[], bool] = lambda: False,
        group: str = "group",
        fencing: float = 0.0,
    ) -> None:
        """`options`: of the producer. `time_out`: lets the open transaction time out, and says whether there was one.

        `fencing`: probability that another instance takes over before a transaction ends.
        """
        self.reported: list[list[bytes]] = []
        """Values of the transactions whose commit was reported as done."""
        self.unknown: list[list[bytes]] = []
        """Values of transactions whose commit raised a fatal error, so that they may be committed or aborted."""
        self.fatal = 0
        self.cancelled = 0
        """Calls that were cancelled while they were pending."""
        self.timed_out = 0
        self.fenced = 0
        """Transactions that another instance has taken over."""
        self._chance = chance
        self._transactions = transactions
        self._topic = topic
        self._options = options
        self._time_out = time_out
        self._group = group
        self._fencing = fencing

    async def run(self) -> None:
        """Run the transactions with as many producers as fatal errors make necessary."""
        done = 0
        while done < self._transactions:
            async with TransactionalProducer(
                retry_backoff_ms=1,
                max_batch_size=self._chance.choice([1, 200, 16384]),
                linger_ms=self._chance.choice([0, 0, 1]),
                **self._options,
            ) as producer:
                try:
                    await self._repeated(producer.init_transactions)
                    while done < self._transactions:
                        await self._transaction(producer, done)
                        done += 1
                except TransactionAbortableError:
                    continue  # init_transactions raised it, so there is no transaction to abort.
                except FatalError:
                    self.fatal += 1
                    done += 1

    async def _transaction(self, producer: TransactionalProducer, number: int) -> None:
        values = [b"%d:%d" % (number, place) for place in range(self._chance.randrange(1, 12))]
        await producer.begin_transaction()
        try:
            for place, value in enumerate(values):
                await producer.send(self._topic, value, partition=place % PARTITIONS)
                if self._chance.random() < 0.1:
                    await asyncio.sleep(0)
                if self._chance.random() < 0.05:
                    await self._repeated(producer.flush)
            if self._chance.random() < 0.5:
                await producer.send_offsets_to_transaction({(self._topic, 0): number + 1}, self._group)
            if self._chance.random() < 0.03:
                self.timed_out += self._time_out()
            if self._chance.random() < self._fencing:
                await self._take_over()
            if self._chance.random() < 0.2:
                await self._repeated(producer.abort_transaction)
                return
            self.unknown.append(values)
            await self._repeated(producer.commit_transaction)
        except TransactionAbortableError:
            if self.unknown and self.unknown[-1] is values:
                self.unknown.pop()
            await self._repeated(producer.abort_transaction)
        else:
            self.reported.append(self.unknown.pop())

    async def _take_over(self) -> None:
        """Initialise another instance with the transactional id, as after a pause of this one."""
        async with TransactionalProducer(retry_backoff_ms=1, **self._options) as other:
            await self._repeated(other.init_transactions)
        self.fenced += 1

    async def _repeated(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call; a time-out, and a cancellation, is followed by the same call."""
        while True:
            task = asyncio.ensure_future(call())
            if self._chance.random() < CANCELLED:
                for _ in range(self._chance.randrange(5)):
                    await asyncio.sleep(0)
                self.cancelled += task.cancel()
            try:
                await task
                return
            except OperationTimedOutError:
                continue
            except asyncio.CancelledError:
                current = asyncio.current_task()
                assert current is not None
                if current.cancelling():
                    raise

    def problems(self, committed: Sequence[bytes]) -> list[str]:
        """Return the contradictions between the reports and the committed values, which are in order for each partition."""
        by_transaction: dict[bytes, list[bytes]] = {}
        for value in committed:
            by_transaction.setdefault(value.split(b":")[0], []).append(value)
        wrong = []
        for values in self.reported:
            actual = by_transaction.pop(values[0].split(b":")[0], [])
            for partition in range(PARTITIONS):
                written = [value for value in actual if int(value.split(b":")[1]) % PARTITIONS == partition]
                if written != values[partition::PARTITIONS]:
                    wrong.append(f"committed {actual}, sent {values}")
        for values in self.unknown:
            actual = by_transaction.pop(values[0].split(b":")[0], [])
            if actual and sorted(actual) != sorted(values):
                wrong.append(f"a part of {values} is committed: {actual}")
        return wrong + [f"committed without a success: {values}" for values in by_transaction.values()]
