"""The application of KIP-691: reads numbers, writes each to a topic, and commits its position with it, exactly once.

A process that ends because of a fatal error is started anew with a new producer, as its operator would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stuntbroker.client import CommitFailedError, FatalError, TransactionAbortableError, TransactionalProducer

TOPIC = "t"
GROUP = "readers"


class Application:
    """`inputs` numbers. `position` is where the next process would begin; a test tells it from the broker."""

    def __init__(self, inputs: int, committed_position: Callable[[], int], **options: Any) -> None:
        self.inputs = inputs
        self.processes = 0
        self.commits: list[int] = []
        self.fatal: list[FatalError] = []
        self.abortable: list[BaseException] = []
        self.skip_once = {1}
        """Numbers at which processing fails the first time, so that a transaction is aborted without any fault."""
        self._committed_position = committed_position
        self._options = {"transactional_id": "application", "retry_backoff_ms": 1, **options}

    async def run(self, processes_max: int = 3) -> None:
        """Work until every input is committed."""
        while self._committed_position() < self.inputs:
            self.processes += 1
            assert self.processes <= processes_max, self.fatal
            try:
                await self._process()
            except FatalError as error:
                self.fatal.append(error)

    async def _process(self) -> None:
        async with TransactionalProducer(**self._options) as producer:
            await self._init(producer)
            position = self._committed_position()
            while position < self.inputs:
                await producer.begin_transaction()
                try:
                    await self._work(producer, position)
                    should_commit = True
                except Exception as error:
                    self.abortable.append(error)
                    should_commit = False
                try:
                    if should_commit:
                        await producer.commit_transaction()
                        self.commits.append(position)
                        position += 1
                        continue
                except CommitFailedError as error:
                    self.abortable.append(error)
                await producer.abort_transaction()
                position = self._committed_position()

    async def _init(self, producer: TransactionalProducer) -> None:
        try:
            await producer.init_transactions()
        except TransactionAbortableError as error:
            self.abortable.append(error)
            await producer.init_transactions()

    async def _work(self, producer: TransactionalProducer, position: int) -> None:
        for copy in range(2):
            await producer.send(TOPIC, b"%d/%d" % (position, copy), partition=copy)
        await producer.flush()
        if position in self.skip_once:
            self.skip_once.remove(position)
            raise ValueError("an input that cannot be processed")
        await producer.send_offsets_to_transaction({(TOPIC, 0): position + 1}, GROUP)

    def has_written(self, values: list[bytes]) -> bool:
        """Whether these are what has to be read in the end: two partitions, of which either may be written first."""
        expected = [b"%d" % position for position in range(self.inputs)]
        return all([value[:-2] for value in values if value.endswith(b"/%d" % copy)] == expected for copy in range(2))
