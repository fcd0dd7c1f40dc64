"""The application of KIP-691: reads numbers, writes each to a topic, and commits its position with it, exactly once.

After a fatal error, the application starts again with a new producer, as its operator would restart the process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from stuntbroker.client import CommitFailedError, FatalError, TransactionAbortableError, TransactionalProducer


class Application:
    """`inputs` numbers, which are written as "name number/partition"."""

    def __init__(
        self,
        inputs: int,
        committed_position: Callable[[], Awaitable[int]],
        topic: str = "t",
        name: str = "application",
        **options: Any,
    ) -> None:
        """`committed_position`: asks the broker where to begin. `name`: the transactional id and the group."""
        self.inputs = inputs
        self.topic = topic
        self.name = name
        self.processes = 0
        self.commits: list[int] = []
        self.fatal: list[FatalError] = []
        self.abortable: list[BaseException] = []
        self.skip_once = {1}
        """Numbers at which processing fails the first time, so that a transaction is aborted without any fault."""
        self._committed_position = committed_position
        self._options = {"transactional_id": name, "retry_backoff_ms": 1, **options}

    async def run(self, processes_max: int = 3) -> None:
        """Work until every input is committed."""
        while True:
            self.processes += 1
            assert self.processes <= processes_max, self.fatal
            try:
                await self._process()
                return
            except FatalError as error:
                self.fatal.append(error)

    async def _process(self) -> None:
        async with TransactionalProducer(**self._options) as producer:
            await self._init(producer)
            position = await self._committed_position()
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
                position = await self._committed_position()

    async def _init(self, producer: TransactionalProducer) -> None:
        try:
            await producer.init_transactions()
        except TransactionAbortableError as error:
            self.abortable.append(error)
            await producer.init_transactions()

    async def _work(self, producer: TransactionalProducer, position: int) -> None:
        for copy in range(2):
            await producer.send(self.topic, self._value(position, copy), partition=copy)
        await producer.flush()
        if position in self.skip_once:
            self.skip_once.remove(position)
            raise ValueError("an input that cannot be processed")
        await producer.send_offsets_to_transaction({(self.topic, 0): position + 1}, self.name)

    def _value(self, position: int, partition: int) -> bytes:
        return b"%s %d/%d" % (self.name.encode(), position, partition)

    def has_written(self, values: Iterable[bytes]) -> bool:
        """Whether these values have all of this application's output, in order for each partition; others are ignored."""
        own = [value for value in values if value.startswith(self.name.encode() + b" ")]
        return all(
            [value for value in own if value.endswith(b"/%d" % partition)]
            == [self._value(position, partition) for position in range(self.inputs)]
            for partition in range(2)
        )
