"""The table of errors against Apache Kafka's Java producer 4.3.1, row by row, and against the classes of KIP-1050."""

from __future__ import annotations

import pytest

from stuntbroker.client.producer.error_table import (
    DEFAULT_KINDS,
    FACTS,
    NO_FACTS,
    RANKS,
    RULES,
    TABLE,
    Fact,
    Kind,
    Request,
    failure_type,
    fatal_class,
    kind_of,
    worst,
)
from stuntbroker.client.transactional_errors import (
    ApplicationRecoverableError,
    AuthenticationError,
    AuthorizationError,
    FailureType,
    InvalidConfigurationError,
    InvalidProducerIdMappingError,
    ProducerFencedError,
    UnexpectedError,
    UnsupportedVersionError,
)
from stuntbroker.protocol.errors import RETRIABLE, ErrorCode

DRAFT = Fact.KIP_588_DRAFT
COLUMNS = (
    Request.INIT_PRODUCER_ID,
    Request.ADD_PARTITIONS,
    Request.ADD_OFFSETS,
    Request.TXN_OFFSET_COMMIT,
    Request.END_TXN_COMMIT,
    Request.END_TXN_ABORT,
    Request.FIND_COORDINATOR,
    Request.FIND_GROUP_COORDINATOR,
)
JAVA = """
      15   C C C C C C R R
      16   C C C C C C R R
       7   R R R C R R R R
      14   R R R R R R R R
      51   R R R R R R R R
       3   R R R R R R R R
      47   F F F F F F F F
      90   F F F F F F F F
      49   F F F F F F F F
      48   F F F F F F F F
      53   A F F F F F F F
      31   A A F F F F F F
      29   F A F F F F F F
      30   F A A A F F F A
      55   F A F F F F F F
      59   F B B F B B F F
     120   A A A A A F A A
      22   F A F A F F F F
      25   F A F A F F F F
      69   F A F A F F F F
     113   F A F A F F F F
      82   F A F A F F F F
      43   F A F F F F F F
      50   F A F F F F F F
      35   F A F F F F F F
      42   F A F F F F F F
      -1   F A F F F F F F
"""
"""A abortable, B abortable with a new epoch, F fatal, R retried, C retried after the coordinator was looked up."""
LETTERS = {
    Kind.RETRY: "R",
    Kind.REFRESH: "C",
    Kind.ABORTABLE: "A",
    Kind.ABORTABLE_WITH_BUMP: "B",
    Kind.ABORT_TO_DETERMINE_OUTCOME: "P",
    Kind.RECOVERABLE: "F",
    Kind.CONFIGURATION: "F",
    Kind.FATAL: "F",
}
DIFFERENCES = {
    # No transaction exists yet that the application could abort.
    (53, Request.INIT_PRODUCER_ID): "F",
    (31, Request.INIT_PRODUCER_ID): "F",
    # A time-out may be the reason, which is no fence.
    (47, Request.TXN_OFFSET_COMMIT): "B",
    (48, Request.END_TXN_COMMIT): "P",
    # Abortable in Java. Our client first ensures that an earlier EndTxn, whose response was lost, did not commit.
    (59, Request.END_TXN_COMMIT): "P",
    (120, Request.END_TXN_COMMIT): "P",
    (90, Request.END_TXN_COMMIT): "P",
}


def test_requests_to_coordinators_are_handled_as_in_java_but_for_the_listed_differences() -> None:
    differences = {}
    for row in JAVA.split("\n"):
        if not row.strip():
            continue
        code, *letters = row.split()
        assert len(letters) == len(COLUMNS)
        for request, letter in zip(COLUMNS, letters, strict=True):
            ours = LETTERS[kind_of(request, int(code))]
            if ours != letter:
                differences[int(code), request] = ours

    assert differences == DIFFERENCES


OFFSETS = (Request.TXN_OFFSET_COMMIT,)
PRODUCE = (Request.PRODUCE,)
ANY_COORDINATOR = (Request.ADD_PARTITIONS, Request.ADD_OFFSETS, Request.TXN_OFFSET_COMMIT, Request.END_TXN_ABORT)
PROPOSED: dict[tuple[int, tuple[Request, ...]], str] = {
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ANY_COORDINATOR): "A",
    (ErrorCode.UNKNOWN_PRODUCER_ID, PRODUCE): "A",
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, PRODUCE): "F",
    (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, PRODUCE): "F",
    (ErrorCode.UNSUPPORTED_VERSION, PRODUCE): "F",
    (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, PRODUCE): "F",
    (ErrorCode.INVALID_RECORD, PRODUCE): "A",
    (ErrorCode.INVALID_REQUIRED_ACKS, PRODUCE): "A",
    (ErrorCode.RECORD_LIST_TOO_LARGE, PRODUCE): "A",
    (ErrorCode.INVALID_TOPIC_EXCEPTION, PRODUCE): "A",
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, (Request.ADD_PARTITIONS, Request.TXN_OFFSET_COMMIT, Request.PRODUCE)): "F",
    (ErrorCode.GROUP_AUTHORIZATION_FAILED, (Request.ADD_OFFSETS, Request.TXN_OFFSET_COMMIT)): "F",
    (ErrorCode.FENCED_INSTANCE_ID, OFFSETS): "F",
    (ErrorCode.ILLEGAL_GENERATION, OFFSETS): "F",
    (ErrorCode.UNKNOWN_MEMBER_ID, OFFSETS): "F",
    (ErrorCode.INVALID_PRODUCER_EPOCH, PRODUCE): "A",
    (ErrorCode.INVALID_PRODUCER_EPOCH, ANY_COORDINATOR): "F",
    (ErrorCode.PRODUCER_FENCED, ANY_COORDINATOR): "F",
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, PRODUCE): "A",
    (ErrorCode.INVALID_TXN_STATE, ANY_COORDINATOR): "F",
}
"""The table that KIP-691 proposes: (error, requests) -> A abortable, F fatal."""
NOT_AS_PROPOSED = {
    # As in Java 4.3.1, which did not follow the KIP here (docs/client.md).
    *((ErrorCode.INVALID_PRODUCER_ID_MAPPING, request) for request in ANY_COORDINATOR),
    *((ErrorCode.TOPIC_AUTHORIZATION_FAILED, request) for request in (Request.ADD_PARTITIONS, Request.PRODUCE)),
    (ErrorCode.GROUP_AUTHORIZATION_FAILED, Request.ADD_OFFSETS),
    (ErrorCode.GROUP_AUTHORIZATION_FAILED, Request.TXN_OFFSET_COMMIT),
    (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, Request.PRODUCE),
    *((code, Request.TXN_OFFSET_COMMIT) for code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION)),
    (ErrorCode.UNKNOWN_MEMBER_ID, Request.TXN_OFFSET_COMMIT),
    # A time-out may be the reason, which is no fence.
    (ErrorCode.INVALID_PRODUCER_EPOCH, Request.TXN_OFFSET_COMMIT),
}


def test_errors_have_the_classes_of_kip_691_but_for_the_listed_differences() -> None:
    differences = {
        (code, request)
        for (code, requests), proposed in PROPOSED.items()
        for request in requests
        if LETTERS[kind_of(request, code)].replace("B", "A") != proposed
    }

    assert differences == NOT_AS_PROPOSED


def test_every_retriable_code_is_retried_by_requests_to_coordinators() -> None:
    for request in COLUMNS:
        not_retried = {code for code in RETRIABLE if kind_of(request, code) not in (Kind.RETRY, Kind.REFRESH)}
        assert not_retried == set(), request


def test_unknown_error_codes_are_fatal_except_in_produce_and_add_partitions() -> None:
    unknown = 999

    abortable = {request for request in Request if kind_of(request, unknown) is Kind.ABORTABLE}

    assert abortable == {Request.ADD_PARTITIONS, Request.PRODUCE}
    assert {kind_of(request, unknown) for request in Request} == {Kind.ABORTABLE, Kind.FATAL}
    assert set(DEFAULT_KINDS) == set(TABLE) == set(Request)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (46, Kind.SUCCESS),
        (10, Kind.SPLIT),
        (45, Kind.ABORTABLE_WITH_BUMP),
        (47, Kind.ABORTABLE_WITH_BUMP),
        (59, Kind.ABORTABLE_WITH_BUMP),
        (48, Kind.ABORTABLE),
        (120, Kind.ABORTABLE),
        (49, Kind.RECOVERABLE),
        (90, Kind.RECOVERABLE),
        (53, Kind.CONFIGURATION),
        (31, Kind.CONFIGURATION),
        (35, Kind.CONFIGURATION),
        *((code, Kind.ABORTABLE) for code in (29, 87, 17, 18, 21, 32, 43, 76)),
        *((code, Kind.REFRESH) for code in (3, 5, 6, 13, 56, 74, 100)),
        *((code, Kind.RETRY) for code in (2, 7, 14, 19, 20, 51)),
    ],
)
def test_the_response_to_a_batch_is_handled_as_in_java(code: int, kind: Kind) -> None:
    assert kind_of(Request.PRODUCE, code) is kind


@pytest.mark.parametrize(
    ("facts", "request_kind", "code", "before", "after"),
    [
        (DRAFT, Request.ADD_OFFSETS, 90, Kind.RECOVERABLE, Kind.ABORTABLE_WITH_BUMP),
        (DRAFT, Request.END_TXN_COMMIT, 90, Kind.ABORT_TO_DETERMINE_OUTCOME, Kind.ABORTABLE_WITH_BUMP),
        (DRAFT, Request.END_TXN_ABORT, 91, Kind.FATAL, Kind.RECOVERABLE),
        (DRAFT, Request.PRODUCE, 90, Kind.RECOVERABLE, Kind.RECOVERABLE),
        (DRAFT | Fact.NO_NEW_EPOCH, Request.ADD_OFFSETS, 90, Kind.RECOVERABLE, Kind.RECOVERABLE),
        (DRAFT | Fact.PREPARED, Request.END_TXN_COMMIT, 90, Kind.ABORT_TO_DETERMINE_OUTCOME, Kind.RECOVERABLE),
        (Fact.ASKS_FOR_NEW_EPOCH, Request.INIT_PRODUCER_ID, 120, Kind.ABORTABLE, Kind.RETRY),
        (Fact.ASKS_FOR_NEW_EPOCH, Request.FIND_COORDINATOR, 120, Kind.ABORTABLE, Kind.RETRY),
        (Fact.ASKS_FOR_NEW_EPOCH | DRAFT, Request.INIT_PRODUCER_ID, 90, Kind.RECOVERABLE, Kind.RECOVERABLE),
        (Fact.NOT_STARTED, Request.END_TXN_ABORT, 48, Kind.FATAL, Kind.SUCCESS),
        (
            Fact.NOT_STARTED,
            Request.END_TXN_COMMIT,
            48,
            Kind.ABORT_TO_DETERMINE_OUTCOME,
            Kind.ABORT_TO_DETERMINE_OUTCOME,
        ),
        (Fact.EARLIER_BATCH_OPEN, Request.PRODUCE, 45, Kind.ABORTABLE_WITH_BUMP, Kind.RETRY),
        (Fact.SHARED, Request.PRODUCE, 46, Kind.SUCCESS, Kind.ABORTABLE),
        (Fact.UNSPLITTABLE, Request.PRODUCE, 10, Kind.SPLIT, Kind.ABORTABLE),
        (Fact.ABORTING, Request.FIND_COORDINATOR, 120, Kind.ABORTABLE, Kind.FATAL),
        (Fact.ABORTING, Request.FIND_GROUP_COORDINATOR, 30, Kind.ABORTABLE, Kind.ABORTABLE),
        (Fact.PREPARED, Request.END_TXN_COMMIT, 48, Kind.ABORT_TO_DETERMINE_OUTCOME, Kind.RECOVERABLE),
        (Fact.PREPARED, Request.FIND_COORDINATOR, 120, Kind.ABORTABLE, Kind.RECOVERABLE),
        (Fact.PREPARED, Request.END_TXN_COMMIT, 51, Kind.RETRY, Kind.RETRY),
        (Fact.NO_NEW_EPOCH, Request.PRODUCE, 47, Kind.ABORTABLE_WITH_BUMP, Kind.RECOVERABLE),
        (Fact.NO_NEW_EPOCH, Request.PRODUCE, 120, Kind.ABORTABLE, Kind.ABORTABLE),
    ],
)
def test_facts_about_the_broker_and_the_transaction_replace_the_kind_of_an_error(
    facts: Fact, request_kind: Request, code: int, before: Kind, after: Kind
) -> None:
    assert kind_of(request_kind, code) is before
    assert kind_of(request_kind, code, facts) is after
    assert kind_of(request_kind, 0, facts) is Kind.SUCCESS


def test_every_rule_applies_to_a_cell_and_every_fact_is_described_in_the_order_of_the_rules() -> None:
    for rule in RULES:
        others = DRAFT if rule.replaced is Kind.ABORTABLE_WITH_BUMP else NO_FACTS
        codes = [*ErrorCode, 90, 91]
        assert any(
            kind_of(request, code, rule.fact | others) is rule.kind is not kind_of(request, code, others)
            for request in rule.requests
            for code in codes
        ), rule
    assert list(FACTS) == list(dict.fromkeys(rule.fact for rule in RULES))
    assert set(FACTS) == set(Fact)


@pytest.mark.parametrize(
    ("request_kind", "codes", "expected"),
    [
        (Request.ADD_PARTITIONS, [], 0),
        (Request.ADD_PARTITIONS, [0, 0], 0),
        (Request.ADD_PARTITIONS, [3, 55], 3),
        (Request.ADD_PARTITIONS, [55, 51, 55], 51),
        (Request.ADD_PARTITIONS, [0, 55], 55),
        (Request.ADD_PARTITIONS, [3, 16], 16),
        (Request.ADD_PARTITIONS, [29, 3, 55], 29),
        (Request.ADD_PARTITIONS, [29, 59], 59),
        (Request.ADD_PARTITIONS, [29, 90], 90),
        (Request.ADD_PARTITIONS, [90, 49], 49),
        (Request.ADD_PARTITIONS, [90, 48, 53], 48),
        (Request.TXN_OFFSET_COMMIT, [22, 51], 22),
        (Request.TXN_OFFSET_COMMIT, [22, 49], 49),
    ],
)
def test_the_worst_of_several_partitions_decides_in_any_order(
    request_kind: Request, codes: list[int], expected: int
) -> None:
    assert worst(request_kind, codes) == worst(request_kind, reversed(codes)) == expected


def test_the_worst_of_several_partitions_depends_on_the_draft() -> None:
    assert worst(Request.ADD_PARTITIONS, [29, 91]) == 29
    assert worst(Request.ADD_PARTITIONS, [91, 29], DRAFT) == 91


def test_every_kind_has_a_rank() -> None:
    assert set(RANKS) == set(Kind)


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        (Kind.RECOVERABLE, 90, ProducerFencedError),
        (Kind.RECOVERABLE, 47, ProducerFencedError),
        (Kind.RECOVERABLE, 49, InvalidProducerIdMappingError),
        (Kind.RECOVERABLE, 59, ApplicationRecoverableError),
        (Kind.CONFIGURATION, 53, AuthorizationError),
        (Kind.CONFIGURATION, 35, UnsupportedVersionError),
        (Kind.CONFIGURATION, 50, InvalidConfigurationError),
        (Kind.FATAL, 48, UnexpectedError),
        (Kind.FATAL, 53, AuthorizationError),
        (Kind.FATAL, 22, ApplicationRecoverableError),
        (Kind.FATAL, 43, InvalidConfigurationError),
        (Kind.FATAL, 58, AuthenticationError),
    ],
)
def test_a_fatal_error_has_the_class_that_says_what_to_do(kind: Kind, code: int, expected: type[Exception]) -> None:
    assert fatal_class(kind, code) is expected


def test_an_error_code_of_the_draft_is_a_fence_only_when_the_broker_follows_the_draft() -> None:
    assert fatal_class(Kind.RECOVERABLE, 91, DRAFT) is ProducerFencedError
    assert fatal_class(Kind.FATAL, 91) is UnexpectedError


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, FailureType.MESSAGE_REJECTED),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, FailureType.MESSAGE_REJECTED),
        (ErrorCode.INVALID_RECORD, FailureType.MESSAGE_REJECTED),
        (ErrorCode.NOT_ENOUGH_REPLICAS, FailureType.DELIVERY_FAILED),
        (ErrorCode.REQUEST_TIMED_OUT, FailureType.DELIVERY_FAILED),
        (ErrorCode.PRODUCER_FENCED, FailureType.TRANSACTION_FAILED),
        (ErrorCode.INVALID_TXN_STATE, FailureType.TRANSACTION_FAILED),
        (ErrorCode.TRANSACTION_ABORTABLE, FailureType.TRANSACTION_FAILED),
    ],
)
def test_a_record_that_failed_says_which_kind_of_failure_it_was(code: ErrorCode, expected: FailureType) -> None:
    assert failure_type(code) is expected
