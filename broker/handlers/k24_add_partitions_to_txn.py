"""AddPartitionsToTxn, key 24, versions 0-5: adds partitions to transactions.

v2 may return PRODUCER_FENCED. v3 flexible. v4 several transactions, and VerifyOnly (in Kafka only between brokers). v5 may
also return TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.metadata.unknown_topics import not_attempted
from stuntbroker.broker.requests.slices import ELEMENT_COST, Awaited, Steps, run_in_slices
from stuntbroker.broker.transactions.coordinator_errors import coordinator_code
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import AddPartitions, Reply, Verify
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from stuntbroker.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from stuntbroker.protocol.transaction_states import TRANSACTION_V0, TRANSACTION_V2
from stuntbroker.protocol.versions import SEVERAL_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasTopics, HasTransactions

    class Uses(HasLongRequests, HasTopics, HasTransactions, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 24
VERSIONS = range(0, 6)
MANY_FROM: Final = SEVERAL_FROM[KEY]
PARTITIONS_PER_UNIT: Final = 5
"""Added partitions that cost one slice unit."""

Results = list[AddPartitionsToTxnTopicResult]


def handle(request: Asking[Uses], body: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnResponse | None:
    """Add partitions to transactions, or verify them; None when the response comes later."""
    if version < MANY_FROM:
        transaction = AddPartitionsToTxnTransaction(
            body.v3_and_below_transactional_id,
            body.v3_and_below_producer_id,
            body.v3_and_below_producer_epoch,
            False,
            body.v3_and_below_topics,
        )

        def answered(results: Results) -> None:
            request.reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

        _add(request, transaction, version, answered)
        return None
    return run_in_slices(request, _add_all(request, body, version))


def _add_all(request: Asking[Uses], body: AddPartitionsToTxnRequest, version: int) -> Steps[AddPartitionsToTxnResponse]:
    # Unlike Kafka: a request without transactions gets a response; Kafka never answers it.
    answers: list[Awaited] = []
    for transaction in body.transactions:
        answer = Awaited()
        answers.append(answer)
        if transaction.verify_only:
            _verify(request, transaction, answer.set)
        else:
            _add(request, transaction, version, answer.set)
        yield ELEMENT_COST + sum(len(topic.partitions) for topic in transaction.topics) // PARTITIONS_PER_UNIT
    for answer in answers:
        yield answer
    results = zip(body.transactions, answers, strict=True)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transaction.transactional_id, answer.value) for transaction, answer in results
        ]
    )


def _add(
    request: Asking[Uses],
    transaction: AddPartitionsToTxnTransaction,
    version: int,
    answer: Callable[[Results], None],
) -> None:
    broker = request.broker
    internal = {topic.name for topic in transaction.topics if (t := broker.topics.get(topic.name)) and t.is_internal}
    if version < MANY_FROM and internal:
        answer(
            _results(
                transaction.topics,
                lambda name, index: (
                    ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    if name in internal
                    else not_attempted(broker.topics, name, index)
                ),
            )
        )
        return
    if _answer_missing(broker, transaction, answer):
        return

    def done(reply: Reply) -> None:
        error = reply.error
        if error:
            identity = Identity(transaction.producer_id, transaction.producer_epoch)
            error = coordinator_code(request, transaction.transactional_id, identity, error, KEY, version)
        answer(_results(transaction.topics, lambda name, index: error))

    partitions = frozenset((topic.name, index) for topic in transaction.topics for index in topic.partitions)
    client_version = TRANSACTION_V2 if version >= MANY_FROM else TRANSACTION_V0
    add = AddPartitions(transaction.producer_id, transaction.producer_epoch, partitions, client_version)
    broker.transactions.ask(request, transaction.transactional_id, add, done)


def _answer_missing(
    broker: Uses, transaction: AddPartitionsToTxnTransaction, answer: Callable[[Results], None]
) -> bool:
    """Answer with errors if one of the partitions does not exist, adding none of them; return whether it answered."""
    wanted = ((topic.name, index) for topic in transaction.topics for index in topic.partitions)
    if all(broker.topics.log(*place) is not None for place in wanted):
        return False
    answer(_results(_without_duplicates(transaction.topics), partial(not_attempted, broker.topics)))
    return True


def _verify(
    request: Asking[Uses], transaction: AddPartitionsToTxnTransaction, answer: Callable[[Results], None]
) -> None:
    broker = request.broker
    if _answer_missing(broker, transaction, answer):
        return
    errors: dict[tuple[str, int], int] = {}
    wanted = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    if not wanted:
        answer([])
    left = len(set(wanted))
    identity = Identity(transaction.producer_id, transaction.producer_epoch)

    def done(partition: tuple[str, int], reply: Reply) -> None:
        errors[partition] = coordinator_code(
            request, transaction.transactional_id, identity, reply.error, KEY, MANY_FROM
        )
        if len(errors) == left:
            answer(_results(_without_duplicates(transaction.topics), lambda name, index: errors[name, index]))

    for partition in dict.fromkeys(wanted):
        broker.transactions.ask(
            request,
            transaction.transactional_id,
            Verify(transaction.producer_id, transaction.producer_epoch, partition),
            partial(done, partition),
        )


def _without_duplicates(topics: Sequence[AddPartitionsToTxnTopic]) -> list[AddPartitionsToTxnTopic]:
    """Return each requested partition once, grouped by topic, as Kafka's per-partition results are."""
    unique: dict[str, dict[int, None]] = {}
    for topic in topics:
        for index in topic.partitions:
            unique.setdefault(topic.name, {})[index] = None
    return [AddPartitionsToTxnTopic(name, list(indexes)) for name, indexes in unique.items()]


def _results(topics: Sequence[AddPartitionsToTxnTopic], error: Callable[[str, int], int]) -> Results:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(index, error(topic.name, index)) for index in topic.partitions],
        )
        for topic in topics
    ]
