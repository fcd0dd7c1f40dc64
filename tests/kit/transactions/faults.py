"""What may go wrong with a request of a transactional producer, and the response that refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from stuntbroker.client.producer.error_table import Kind, Request
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from stuntbroker.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from stuntbroker.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from stuntbroker.protocol.primitives import Message


class Fault(NamedTuple):
    """What goes wrong with a request: an error code, or a connection that breaks when `code` is None."""

    code: int | None
    is_applied: bool = False


Script = Callable[[str, int], Fault | None]
"""(name of a request, how many of it there were, with this one) -> what goes wrong with it."""

CASES = [
    pytest.param(level, request, id=f"level {level}, {request.value}")
    for level in (1, 2)
    for request in Request
    if not (level == 2 and request in (Request.ADD_PARTITIONS, Request.ADD_OFFSETS))
]
"""(transaction version, request of a producer)"""

FATAL = {Kind.RECOVERABLE, Kind.CONFIGURATION, Kind.FATAL}
"""Kinds of errors that stop a process."""


def fault_of(request: Request, code: ErrorCode) -> Fault:
    """Return the fault of an error code; a broker says of no batch that it has it already unless it has."""
    return Fault(code, is_applied=(request, code) == (Request.PRODUCE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER))


def name_of(request: Message) -> str:
    """Return the name that the client's error table has for a request."""
    match type(request).__name__.removesuffix("Request"), request:
        case "FindCoordinator", finding:
            return "FindCoordinator" if finding.key_type else "FindCoordinator (group)"  # type: ignore[attr-defined]
        case "EndTxn", ending:
            return f"EndTxn ({'commit' if ending.committed else 'abort'})"  # type: ignore[attr-defined]
        case name, _:
            return name


def refusal(request: Any, code: int) -> Message:
    """Return a response with this code for each partition; FindCoordinator up to version 3, AddPartitionsToTxn too."""
    match type(request).__name__:
        case "ProduceRequest":
            return ProduceResponse(
                [
                    TopicProduceResponse(
                        topic.name,
                        partition_responses=[
                            PartitionProduceResponse(each.index, code, -1) for each in topic.partition_data
                        ],
                        topic_id=topic.topic_id,
                    )
                    for topic in request.topic_data
                ]
            )
        case "AddPartitionsToTxnRequest":
            topics = [
                AddPartitionsToTxnTopicResult(
                    topic.name, [AddPartitionsToTxnPartitionResult(number, code) for number in topic.partitions]
                )
                for topic in request.v3_and_below_topics
            ]
            return AddPartitionsToTxnResponse(0, results_by_topic_v3_and_below=topics)
        case "TxnOffsetCommitRequest":
            return TxnOffsetCommitResponse(
                0,
                [
                    TxnOffsetCommitResponseTopic(
                        topic.name,
                        partitions=[
                            TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ],
            )
        case "FindCoordinatorRequest":
            return FindCoordinatorResponse(0, code, None, -1)
        case "InitProducerIdRequest":
            return InitProducerIdResponse(0, code, -1, -1)
        case "AddOffsetsToTxnRequest":
            return AddOffsetsToTxnResponse(0, code)
        case "EndTxnRequest":
            return EndTxnResponse(0, code)
        case name:
            raise ValueError(f"no refusal of a {name}")
