"""Produce requests of one producer that have no response yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from stuntbroker.client.connections.connections import Connections, Link
from stuntbroker.client.connections.exchanges import Exchange
from stuntbroker.client.producer.batches import Batch
from stuntbroker.client.producer.produce_requests import produce_request
from stuntbroker.client.producer.session import Session
from stuntbroker.client.requests import Call
from stuntbroker.client.transactional_errors import DisconnectedError
from stuntbroker.protocol.api_keys import PRODUCE
from stuntbroker.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.versions import PRODUCE_NAMES_MAX, PRODUCE_V2_FROM

PRODUCE_FROM: Final = 3
"""First version of Produce with record batches that can be transactional."""

OnResponse = Callable[[Batch, PartitionProduceResponse], None]
OnFailure = Callable[[list[Batch], Exception], None]


class _Sent:
    """A Produce request without a response, and its batches by partition."""

    __slots__ = ("exchange", "places")

    def __init__(self, places: dict[TopicPartition, Batch]) -> None:
        self.places = places
        self.exchange: Exchange | None = None


class InFlight:
    """Sends Produce requests, and passes on what comes of their batches. Only opening a connection takes a task.

    `on_response` is called for each batch that has a response and is not resolved yet; `on_failure` for the batches of a
    request that could not be sent or handled, or has no response; `on_end` after each of these.
    """

    def __init__(
        self,
        session: Session,
        connections: Connections,
        timeout_ms: int,
        on_response: OnResponse,
        on_failure: OnFailure,
        on_end: Callable[[], None],
    ) -> None:
        self._session = session
        self._connections = connections
        self._timeout_ms = timeout_ms
        self._on_response = on_response
        self._on_failure = on_failure
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._sent: set[_Sent] = set()
        self._waiters: list[asyncio.Future[None]] = []

    def send(self, leader: int, batches: list[Batch]) -> None:
        """Send sealed batches of different partitions to their leader. Calls nothing back before it returns."""
        for batch in batches:
            batch.mark_sent()
        link = self._connections.open_link(leader)
        if link is not None:
            self._send_over(link, batches)
        else:
            task = self._loop.create_task(self._connect_and_send(leader, batches))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect_and_send(self, leader: int, batches: list[Batch]) -> None:
        try:
            await asyncio.sleep(0)  # An eager task begins while the caller of `send` may hold a lock.
            link = await self._connections.link(leader)
        except Exception as fault:
            self._fail(batches, fault)
            return
        except BaseException:
            self._return(batches)
            raise
        # Others have expired meanwhile, and have no data any more.
        live = [batch for batch in batches if not batch.is_resolved]
        if live:
            self._send_over(link, live)
        if len(live) < len(batches):
            self._return([batch for batch in batches if batch.is_resolved])

    def _send_over(self, link: Link, batches: list[Batch]) -> None:
        is_version_2 = self._session.is_version_2
        least = PRODUCE_V2_FROM if is_version_2 else PRODUCE_FROM
        most = PRODUCE_NAMES_MAX if is_version_2 else PRODUCE_V2_FROM - 1
        request, places = produce_request(self._session.transactional_id, self._timeout_ms, batches)
        sent = _Sent(places)
        self._sent.add(sent)
        end = partial(self._end, sent)
        try:
            call = Call(PRODUCE, link.version(PRODUCE, least, most), request, ProduceResponse)
            sent.exchange = link.wire.start(call, end)
        except Exception as fault:
            self._loop.call_soon(end, None, fault)

    def _end(self, sent: _Sent, answer: ProduceResponse | None, fault: Exception | None) -> None:
        if sent not in self._sent:
            return  # This was closed meanwhile.
        self._sent.discard(sent)
        if answer is None:
            assert fault is not None
            self._fail(list(sent.places.values()), fault)
            return
        try:
            self._handle(sent.places, answer)
        except Exception as unexpected:
            self._fail(list(sent.places.values()), unexpected)
        else:
            self._after()

    def _handle(self, places: dict[TopicPartition, Batch], answer: ProduceResponse) -> None:
        for topic in answer.responses:
            for part in topic.partition_responses:
                batch = places.pop((topic.name, part.index), None)
                if batch is not None:
                    batch.mark_returned()
                    if not batch.is_resolved:  # It may have expired meanwhile.
                        self._on_response(batch, part)
        if places:
            raise DisconnectedError("Produce: the response does not name the partition")

    def _fail(self, batches: list[Batch], fault: Exception) -> None:
        for batch in batches:
            batch.mark_returned()
        try:
            self._on_failure(batches, fault)
        finally:
            self._after()

    def _return(self, batches: list[Batch]) -> None:
        """End batches without a request."""
        for batch in batches:
            batch.mark_returned()
        self._after()

    def _after(self) -> None:
        self._on_end()
        if self._waiters and not self._sent:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until no request is without a response."""
        while self._connecting or self._sent:
            if self._connecting:
                await asyncio.wait(self._connecting)
            else:
                waiter = self._loop.create_future()
                self._waiters.append(waiter)
                await waiter

    async def close(self) -> None:
        """Wait for no response any more: nothing is called back from now on."""
        tasks = tuple(self._connecting)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for sent in self._sent:
            if sent.exchange is not None:
                sent.exchange.forget()
        self._sent.clear()
