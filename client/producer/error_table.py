"""Error table of the transactional producer: what each error code means in the response to each request.

The table follows Apache Kafka's Java producer 4.3.1 (TransactionManager, Sender) except where a comment says so. `DEFAULT_KINDS`
applies to errors that no row names. Where the meaning of a code also depends on versions or on what happened before, `RULES`
replaces the kind that the table has.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, Flag, StrEnum
from typing import Final, NamedTuple

from stuntbroker.client.transactional_errors import (
    ApplicationRecoverableError,
    AuthenticationError,
    AuthorizationError,
    FailureType,
    FatalError,
    InvalidConfigurationError,
    InvalidProducerIdMappingError,
    ProducerFencedError,
    UnexpectedError,
    UnsupportedVersionError,
)
from stuntbroker.protocol.errors import RETRIABLE, DraftCode, ErrorCode


class Request(StrEnum):
    """Requests of a transactional producer, with separate entries for EndTxn (commit) and EndTxn (abort)."""

    FIND_COORDINATOR = "FindCoordinator"
    FIND_GROUP_COORDINATOR = "FindCoordinator (group)"
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    TXN_OFFSET_COMMIT = "TxnOffsetCommit"
    END_TXN_COMMIT = "EndTxn (commit)"
    END_TXN_ABORT = "EndTxn (abort)"
    PRODUCE = "Produce"


class Kind(Enum):
    """Reaction of the producer to an error code."""

    SUCCESS = "success: no reaction"
    RETRY = "sends the request again after a back-off"
    REFRESH = "looks up the leader or coordinator, then sends the request again"
    ABORTABLE = "raises TransactionAbortableError; commit_transaction raises CommitFailedError"
    ABORTABLE_WITH_BUMP = "like abortable, and requests a new epoch after the abort"
    SPLIT = "sends the records in smaller batches"
    ABORT_TO_DETERMINE_OUTCOME = "sends EndTxn (abort): if that succeeds it is abortable, else fatal"
    RECOVERABLE = "raises ApplicationRecoverableError: fatal"
    CONFIGURATION = "raises InvalidConfigurationError: fatal"
    FATAL = "raises UnexpectedError: fatal"


_E = ErrorCode
_REFRESHED: Final = (_E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR)
_COORDINATOR: Final[dict[int, Kind]] = {
    **dict.fromkeys(RETRIABLE, Kind.RETRY),
    **dict.fromkeys(_REFRESHED, Kind.REFRESH),
    _E.INVALID_PRODUCER_EPOCH: Kind.RECOVERABLE,
    _E.PRODUCER_FENCED: Kind.RECOVERABLE,
    _E.INVALID_PRODUCER_ID_MAPPING: Kind.RECOVERABLE,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Kind.CONFIGURATION,
    _E.CLUSTER_AUTHORIZATION_FAILED: Kind.CONFIGURATION,
    _E.UNSUPPORTED_VERSION: Kind.CONFIGURATION,
    _E.TRANSACTION_ABORTABLE: Kind.ABORTABLE,
}
"""Error codes with the same meaning for all requests to coordinators."""

TABLE: Final[dict[Request, dict[int, Kind]]] = {
    Request.FIND_COORDINATOR: {**_COORDINATOR, **dict.fromkeys(_REFRESHED, Kind.RETRY)},
    Request.FIND_GROUP_COORDINATOR: {
        **_COORDINATOR,
        **dict.fromkeys(_REFRESHED, Kind.RETRY),
        _E.GROUP_AUTHORIZATION_FAILED: Kind.ABORTABLE,
    },
    Request.INIT_PRODUCER_ID: {
        **_COORDINATOR,
        # Unlike Kafka: 53 and 31 are fatal here. Java calls them abortable, but there is no transaction yet to abort.
        _E.INVALID_TRANSACTION_TIMEOUT: Kind.CONFIGURATION,
        _E.TOPIC_AUTHORIZATION_FAILED: Kind.CONFIGURATION,
        _E.GROUP_AUTHORIZATION_FAILED: Kind.CONFIGURATION,
    },
    Request.ADD_PARTITIONS: {
        **_COORDINATOR,
        _E.TOPIC_AUTHORIZATION_FAILED: Kind.ABORTABLE,
        _E.OPERATION_NOT_ATTEMPTED: Kind.ABORTABLE,
        _E.UNKNOWN_PRODUCER_ID: Kind.ABORTABLE_WITH_BUMP,
        _E.INVALID_TXN_STATE: Kind.FATAL,
        _E.CLUSTER_AUTHORIZATION_FAILED: Kind.ABORTABLE,
        _E.UNSUPPORTED_VERSION: Kind.ABORTABLE,
    },
    Request.ADD_OFFSETS: {
        **_COORDINATOR,
        _E.GROUP_AUTHORIZATION_FAILED: Kind.ABORTABLE,
        _E.UNKNOWN_PRODUCER_ID: Kind.ABORTABLE_WITH_BUMP,
    },
    Request.TXN_OFFSET_COMMIT: {
        **_COORDINATOR,
        _E.REQUEST_TIMED_OUT: Kind.REFRESH,
        _E.GROUP_AUTHORIZATION_FAILED: Kind.ABORTABLE,
        _E.ILLEGAL_GENERATION: Kind.ABORTABLE,
        _E.UNKNOWN_MEMBER_ID: Kind.ABORTABLE,
        _E.FENCED_INSTANCE_ID: Kind.ABORTABLE,
        _E.GROUP_ID_NOT_FOUND: Kind.ABORTABLE,
        _E.STALE_MEMBER_EPOCH: Kind.ABORTABLE,
        _E.TOPIC_AUTHORIZATION_FAILED: Kind.CONFIGURATION,
        _E.UNSUPPORTED_FOR_MESSAGE_FORMAT: Kind.CONFIGURATION,
        # Unlike Kafka: Java calls 47 fatal here. The group coordinator also returns it when the transaction has timed out,
        # as leaders do for Produce, and the abort that follows shows which of the two it was (KIP-588, KIP-890).
        _E.INVALID_PRODUCER_EPOCH: Kind.ABORTABLE_WITH_BUMP,
    },
    Request.END_TXN_COMMIT: {
        **_COORDINATOR,
        # Unlike Kafka: abortable in Java. An earlier request without a response may have committed; then the abort is rejected.
        _E.UNKNOWN_PRODUCER_ID: Kind.ABORT_TO_DETERMINE_OUTCOME,
        _E.TRANSACTION_ABORTABLE: Kind.ABORT_TO_DETERMINE_OUTCOME,
        # Unlike Kafka: fatal in Java. A coordinator that aborted the transaction after its time-out returns one of these;
        # under transaction version 2, EndTxn (abort) then returns the next epoch, and is rejected for a fenced producer.
        _E.INVALID_TXN_STATE: Kind.ABORT_TO_DETERMINE_OUTCOME,
        _E.PRODUCER_FENCED: Kind.ABORT_TO_DETERMINE_OUTCOME,
    },
    Request.END_TXN_ABORT: {
        **_COORDINATOR,
        _E.UNKNOWN_PRODUCER_ID: Kind.ABORTABLE_WITH_BUMP,
        _E.TRANSACTION_ABORTABLE: Kind.FATAL,
    },
    Request.PRODUCE: {
        **dict.fromkeys(RETRIABLE, Kind.REFRESH),
        **dict.fromkeys(
            (
                _E.CORRUPT_MESSAGE,
                _E.NOT_ENOUGH_REPLICAS,
                _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                _E.REQUEST_TIMED_OUT,
                _E.CONCURRENT_TRANSACTIONS,
                _E.COORDINATOR_LOAD_IN_PROGRESS,
                _E.COORDINATOR_NOT_AVAILABLE,
                _E.NOT_COORDINATOR,
                _E.THROTTLING_QUOTA_EXCEEDED,
            ),
            Kind.RETRY,
        ),
        _E.DUPLICATE_SEQUENCE_NUMBER: Kind.SUCCESS,
        _E.MESSAGE_TOO_LARGE: Kind.SPLIT,
        _E.OUT_OF_ORDER_SEQUENCE_NUMBER: Kind.ABORTABLE_WITH_BUMP,
        # Unlike Kafka: Java sends the batch again if the log start offset has passed the last acknowledged record.
        _E.UNKNOWN_PRODUCER_ID: Kind.ABORTABLE_WITH_BUMP,
        _E.INVALID_PRODUCER_EPOCH: Kind.ABORTABLE_WITH_BUMP,
        _E.INVALID_TXN_STATE: Kind.ABORTABLE,
        _E.TRANSACTION_ABORTABLE: Kind.ABORTABLE,
        _E.INVALID_PRODUCER_ID_MAPPING: Kind.RECOVERABLE,
        _E.PRODUCER_FENCED: Kind.RECOVERABLE,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Kind.CONFIGURATION,
        _E.CLUSTER_AUTHORIZATION_FAILED: Kind.CONFIGURATION,
        _E.UNSUPPORTED_VERSION: Kind.CONFIGURATION,
    },
}
"""Request -> error code -> kind."""

DEFAULT_KINDS: Final[dict[Request, Kind]] = {
    **dict.fromkeys(Request, Kind.FATAL),
    Request.ADD_PARTITIONS: Kind.ABORTABLE,
    Request.PRODUCE: Kind.ABORTABLE,
}
"""Request -> kind of an error code that `TABLE` does not name."""

DRAFT_NAMES: Final[dict[int, str]] = {code: code.name for code in DraftCode}
"""Names of KIP-588's draft, if a broker announces that it follows the draft."""


class Fact(Flag):
    """What the meaning of an error code may depend on, beside the request. The values of the members have no meaning."""

    NO_NEW_EPOCH = 1
    KIP_588_DRAFT = 2
    ASKS_FOR_NEW_EPOCH = 4
    NOT_STARTED = 8
    PREPARED = 16
    ABORTING = 32
    EARLIER_BATCH_OPEN = 64
    SHARED = 128
    UNSPLITTABLE = 256


NO_FACTS: Final = Fact(0)
FACTS: Final[dict[Fact, str]] = {
    Fact.KIP_588_DRAFT: "the broker follows KIP-588's draft (profile `kip-588`)",
    Fact.ASKS_FOR_NEW_EPOCH: "InitProducerId requests a new epoch after a transaction: there is nothing to abort",
    Fact.NOT_STARTED: "no request of the transaction is known to have reached a broker: there is nothing to abort",
    Fact.EARLIER_BATCH_OPEN: "an earlier batch of the partition has no response yet, and is sent again first",
    Fact.SHARED: "several producers write to the transaction: another one may have used this sequence number",
    Fact.UNSPLITTABLE: "the batch cannot be split: it is a single record, or was given to `send_batch`",
    Fact.ABORTING: "the producer aborts",
    Fact.PREPARED: "the producer commits a prepared transaction, which it does not abort if the commit is refused",
    Fact.NO_NEW_EPOCH: "the coordinator has no InitProducerId 3, and the cluster no transaction version 2",
}
"""Fact -> its description, in the order of `RULES`."""


class Rule(NamedTuple):
    """A kind that replaces another one while a fact holds."""

    fact: Fact
    requests: frozenset[Request]
    replaced: int | Kind
    """An error code, or the kind of any code."""
    kind: Kind


_ANY: Final = frozenset(Request)
_TO_COORDINATOR: Final = _ANY - {Request.PRODUCE}
_INIT: Final = frozenset({Request.INIT_PRODUCER_ID, Request.FIND_COORDINATOR})
_COMMIT: Final = frozenset({Request.END_TXN_COMMIT, Request.FIND_COORDINATOR})
_ABORT: Final = frozenset({Request.END_TXN_ABORT})
_FIND: Final = frozenset({Request.FIND_COORDINATOR})
_PRODUCE: Final = frozenset({Request.PRODUCE})

RULES: Final = (
    Rule(Fact.KIP_588_DRAFT, _TO_COORDINATOR, DraftCode.TRANSACTION_TIMED_OUT, Kind.ABORTABLE_WITH_BUMP),
    Rule(Fact.KIP_588_DRAFT, _TO_COORDINATOR, DraftCode.PRODUCER_FENCED, Kind.RECOVERABLE),
    # Unlike Kafka: Java has none of ASKS_FOR_NEW_EPOCH, NOT_STARTED, ABORTING and PREPARED (docs/differences.md).
    Rule(Fact.ASKS_FOR_NEW_EPOCH, _INIT, Kind.ABORTABLE, Kind.RETRY),
    Rule(Fact.ASKS_FOR_NEW_EPOCH, _INIT, Kind.ABORTABLE_WITH_BUMP, Kind.RECOVERABLE),
    Rule(Fact.NOT_STARTED, _ABORT, _E.INVALID_TXN_STATE, Kind.SUCCESS),
    Rule(Fact.EARLIER_BATCH_OPEN, _PRODUCE, _E.OUT_OF_ORDER_SEQUENCE_NUMBER, Kind.RETRY),
    Rule(Fact.SHARED, _PRODUCE, _E.DUPLICATE_SEQUENCE_NUMBER, Kind.ABORTABLE),
    Rule(Fact.UNSPLITTABLE, _PRODUCE, Kind.SPLIT, Kind.ABORTABLE),
    Rule(Fact.ABORTING, _FIND, Kind.ABORTABLE, Kind.FATAL),
    *(
        Rule(Fact.PREPARED, _COMMIT, kind, Kind.RECOVERABLE)
        for kind in (Kind.ABORT_TO_DETERMINE_OUTCOME, Kind.ABORTABLE, Kind.ABORTABLE_WITH_BUMP)
    ),
    Rule(Fact.NO_NEW_EPOCH, _ANY, Kind.ABORTABLE_WITH_BUMP, Kind.RECOVERABLE),
)
"""Applied in this order: each rule replaces the kind that the previous rules have returned."""

_FATAL_CLASSES: Final[dict[int, type[FatalError]]] = {
    _E.INVALID_PRODUCER_EPOCH: ProducerFencedError,
    _E.PRODUCER_FENCED: ProducerFencedError,
    _E.INVALID_PRODUCER_ID_MAPPING: InvalidProducerIdMappingError,
    _E.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    _E.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    _E.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    _E.UNSUPPORTED_VERSION: UnsupportedVersionError,
    _E.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationError,
    **dict.fromkeys(
        (
            _E.INVALID_TOPIC_EXCEPTION,
            _E.RECORD_LIST_TOO_LARGE,
            _E.OFFSET_METADATA_TOO_LARGE,
            _E.INVALID_REQUIRED_ACKS,
            _E.UNSUPPORTED_SASL_MECHANISM,
            _E.ILLEGAL_SASL_STATE,
            _E.INVALID_REPLICATION_FACTOR,
            _E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ),
        InvalidConfigurationError,
    ),
    **dict.fromkeys((_E.ILLEGAL_GENERATION, _E.UNKNOWN_MEMBER_ID, _E.FENCED_INSTANCE_ID), ApplicationRecoverableError),
}
"""KIP-1050's class of an error code, whatever the request was."""
_CLASS_OF_KIND: Final[dict[Kind, type[FatalError]]] = {
    Kind.RECOVERABLE: ApplicationRecoverableError,
    Kind.CONFIGURATION: InvalidConfigurationError,
}

# Unlike Kafka: of the partitions of AddPartitionsToTxn, Java takes the first error that is retriable or final.
RANKS: Final[dict[Kind, int]] = {
    Kind.SUCCESS: 0,
    Kind.RETRY: 1,
    Kind.REFRESH: 2,
    Kind.SPLIT: 3,
    Kind.ABORTABLE: 4,
    Kind.ABORTABLE_WITH_BUMP: 5,
    Kind.ABORT_TO_DETERMINE_OUTCOME: 6,
    Kind.RECOVERABLE: 7,
    Kind.CONFIGURATION: 8,
    Kind.FATAL: 9,
}
"""Rank of each kind: of several partitions, the one with the highest rank decides.

OPERATION_NOT_ATTEMPTED ranks below every other error: it only says that another partition has failed.
"""

_REJECTED: Final = frozenset(
    {
        _E.MESSAGE_TOO_LARGE,
        _E.INVALID_TOPIC_EXCEPTION,
        _E.RECORD_LIST_TOO_LARGE,
        _E.TOPIC_AUTHORIZATION_FAILED,
        _E.INVALID_TIMESTAMP,
        _E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        _E.POLICY_VIOLATION,
        _E.UNSUPPORTED_COMPRESSION_TYPE,
        _E.INVALID_RECORD,
    }
)
_UNDELIVERED: Final = frozenset(RETRIABLE) | {_E.INVALID_REQUIRED_ACKS}


def kind_of(request: Request, code: int, facts: Fact = NO_FACTS) -> Kind:
    """Return the kind of an error code in the response to a request, while these facts hold. 0 is SUCCESS."""
    if not code:
        return Kind.SUCCESS
    kind = TABLE[request].get(code, DEFAULT_KINDS[request])
    for rule in RULES if facts else ():
        if rule.fact in facts and request in rule.requests and rule.replaced in (code, kind):
            kind = rule.kind
    return kind


def worst(request: Request, codes: Iterable[int], facts: Fact = NO_FACTS) -> int:
    """Return the most severe of the partitions' error codes in a response, 0 if all are 0: see RANKS."""

    def rank(code: int) -> tuple[bool, bool, int, int]:
        return bool(code), code != _E.OPERATION_NOT_ATTEMPTED, RANKS[kind_of(request, code, facts)], -code

    return max(codes, key=rank, default=0)


def fatal_class(kind: Kind, code: int, facts: Fact = NO_FACTS) -> type[FatalError]:
    """Return the class of the error that is raised for a fatal kind."""
    if Fact.KIP_588_DRAFT in facts and code in DRAFT_NAMES and kind is Kind.RECOVERABLE:
        return ProducerFencedError
    return _FATAL_CLASSES.get(code) or _CLASS_OF_KIND.get(kind, UnexpectedError)


def failure_type(code: int) -> FailureType:
    """Return why records were not written, for the error code of their batch."""
    if code in _REJECTED:
        return FailureType.MESSAGE_REJECTED
    return FailureType.DELIVERY_FAILED if code in _UNDELIVERED else FailureType.TRANSACTION_FAILED
