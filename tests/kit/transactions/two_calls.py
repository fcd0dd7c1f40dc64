"""Begin and end a transaction, with one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from tests.kit.rig import Client


def begin(
    client: Client, transactional_id: str = "pay", timeout_ms: int = 60_000, partitions: Sequence[int] = (0,)
) -> Any:
    """Open a transaction; return the response to InitProducerId."""
    given = client.ask(InitProducerIdRequest(transactional_id, timeout_ms), 4)
    add(client, given, transactional_id, partitions)
    return given


def add(
    client: Client, given: Any, transactional_id: str = "pay", partitions: Sequence[int] = (0,), topic: str = "t"
) -> None:
    """Add partitions of a topic, which opens a transaction; `given` has producer id and epoch."""
    topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
    client.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=topics,
        ),
        3,
    )


def end(client: Client, given: Any, transactional_id: str = "pay") -> int:
    request = EndTxnRequest(transactional_id, given.producer_id, given.producer_epoch, True)
    code: int = client.ask(request, 4).error_code
    return code
