"""Transactions of two requests that were encoded before: more than this, no client can have one after another on its event loop.

One connection, one protocol, one future for each response. Nothing is decoded, retried, buffered or checked while the time
is taken.
"""

import asyncio
import time
from struct import pack
from typing import TypeVar

from stuntbroker.protocol.api_keys import END_TXN, INIT_PRODUCER_ID, PRODUCE
from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.headers import request_header, response_body_at
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.primitives import Message
from stuntbroker.protocol.request_values import ACKS_ALL
from stuntbroker.protocol.versions import PRODUCE_V2_FROM

INIT_VERSION = END_VERSION = 5
"""Versions of InitProducerId and EndTxn: from 5 on, EndTxn gives each transaction an epoch of its own (KIP-890)."""
LENGTH = 4
"""Bytes of the length before a request or response."""
TIMEOUT_MS = 60_000

Answer = TypeVar("Answer", bound=Message)


class _Responses(asyncio.Protocol):
    """Resolves the future of the only request in flight."""

    waiter: asyncio.Future[bytes]

    def data_received(self, data: bytes) -> None:
        self.waiter.set_result(data)


async def measure(address: tuple[str, int], topic: str, value: bytes, count: int) -> dict[str, float]:
    """Run transactions of one record; return their rate, and the CPU time of one in us."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(_Responses, *address)

    def ask(frame: bytes) -> asyncio.Future[bytes]:
        protocol.waiter = loop.create_future()
        transport.write(frame)
        return protocol.waiter

    identity = f"bare-{time.time_ns()}"
    answer = await ask(_frame(INIT_PRODUCER_ID, INIT_VERSION, InitProducerIdRequest(identity, TIMEOUT_MS)))
    owner = _read(answer, INIT_PRODUCER_ID, InitProducerIdResponse)
    warm_up = count // 20
    frames = []
    for epoch in range(owner.producer_epoch, owner.producer_epoch + warm_up + count):
        batch = build_batch(
            [(None, value)],
            time.time_ns() // 1_000_000,
            producer_id=owner.producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
        produce = ProduceRequest(identity, ACKS_ALL, TIMEOUT_MS, data)
        end = EndTxnRequest(identity, owner.producer_id, epoch, True)
        frames.append((_frame(PRODUCE, PRODUCE_V2_FROM, produce), _frame(END_TXN, END_VERSION, end)))

    for produce_frame, end_frame in frames[:warm_up]:
        await ask(produce_frame)
        await ask(end_frame)
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    for produce_frame, end_frame in frames[warm_up:]:
        await ask(produce_frame)
        answer = await ask(end_frame)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s

    ended = _read(answer, END_TXN, EndTxnResponse)
    # A transaction that failed would have kept its epoch, and the next ones would have been refused.
    if ended.error_code or ended.producer_epoch != owner.producer_epoch + len(frames):
        raise RuntimeError(f"not every transaction was committed: {ended}")
    transport.close()
    return {"transactions_per_s": count / wall_s, "cpu_us_per_transaction": cpu_s / count * 1e6}


def _frame(key: int, version: int, message: Message) -> bytes:
    body = bytearray(request_header(key, version, 0, b"bare"))
    message.encode(body, version)
    return pack(">i", len(body)) + bytes(body)


def _read(data: bytes, key: int, answer: type[Answer]) -> Answer:
    frame = data[LENGTH:]
    return answer.decode(frame, INIT_VERSION, response_body_at(frame, key, INIT_VERSION))
