"""JSON schemas of the responses of the HTTP API; tests check each operation against its schema.

A later release may add fields to a response, but never removes any.
"""

from __future__ import annotations

from typing import Any, Final

from stuntbroker.control.http.schemas import FAULT_BODY, PLANNED_NODE_BODY, PLANNED_STOP_BODY
from stuntbroker.control.rules.faults import VERBS
from stuntbroker.control.rules.points import ACTIONS
from stuntbroker.coordinator.state import Phase
from stuntbroker.groups.classic.state import GroupState

Schema = dict[str, Any]


def record(required: Schema, optional: Schema | None = None) -> Schema:
    """Return the schema of an object with required and optional properties."""
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def list_of(items: Schema) -> Schema:
    """Return the schema of an array of `items`."""
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
ANY_OBJECT: Final[Schema] = {"type": "object"}
ADDRESS: Final[Schema] = {"type": "string", "description": "HOST:PORT"}
AT_MS: Final[Schema] = {"type": "integer", "description": "ms since 1970, by the broker's clock"}
PLACE: Final[Schema] = record({"topic": TEXT, "partition": NUMBER})

PROBLEM_ANSWER: Final = record({"status": NUMBER, "title": TEXT, "detail": TEXT, "hint": TEXT})
CLOCK: Final = record(
    {
        "now_ms": AT_MS,
        "ahead_ms": {**NUMBER, "description": "ms by which the broker's clock is ahead of the machine's clock"},
        "paused": FLAG,
    }
)
RESET: Final = record({"now_ms": AT_MS})
FAULT: Final = record(
    {
        "id": TEXT,
        "match": ANY_OBJECT,
        "when": ANY_OBJECT,
        "do": {"type": "object", "minProperties": 1, "maxProperties": 1, "properties": {verb: {} for verb in VERBS}},
        "matched": NUMBER,
        "fired": NUMBER,
        "held": {**NUMBER, "description": "number of requests that the fault holds"},
    }
)
FAULTS: Final = record({"faults": list_of(FAULT)})
RELEASED: Final = record(
    {"released": {**NUMBER, "description": "number of requests or transactions that were resumed"}}
)
STOP: Final = record(
    {
        "id": TEXT,
        "point": TEXT,
        "action": {"enum": list(ACTIONS)},
        "match": ANY_OBJECT,
        "nth": NUMBER,
        "times": {**NUMBER, "description": "0: every time"},
        "matched": NUMBER,
        "fired": NUMBER,
        "parked": {**list_of(TEXT), "description": "transactional ids, or requests"},
    }
)
STOPS: Final = record({"stops": list_of(STOP)})
POINT: Final = record({"text": TEXT, "actions": list_of({"enum": list(ACTIONS)}), "match": list_of(TEXT)})
POINTS_AND_STOPS: Final = record({"points": {"type": "object", "additionalProperties": POINT}, "stops": list_of(STOP)})
PLAN: Final = record(
    {
        "clock": record({"paused": FLAG}),
        "faults": list_of(FAULT_BODY),
        "stops": list_of(PLANNED_STOP_BODY),
        "nodes": list_of(PLANNED_NODE_BODY),
    }
)
PLANS: Final = record({"plans": {"type": "object", "additionalProperties": record({"about": TEXT})}})
UNTIL: Final = record({"until": ANY_OBJECT})
SEED: Final = {"type": "object", "minProperties": 1, "description": "the resulting state"}
LATE_REQUEST: Final = record(
    {
        "api": TEXT,
        "version": NUMBER,
        "errors": {**list_of(TEXT), "description": "Kafka's names"},
        "answer": {**ANY_OBJECT, "description": "all fields of the response"},
    }
)
NODE: Final = record(
    {
        "id": NUMBER,
        "rack": or_null(TEXT),
        "state": {"enum": ["running", "stopped"]},
        "slow_ms": NUMBER,
        "listeners": {"type": "object", "additionalProperties": ADDRESS},
        "connections": NUMBER,
        "leads": {"type": "object", "additionalProperties": NUMBER, "description": "topic: number of led partitions"},
    }
)
NODES: Final = record({"controller": or_null(NUMBER), "nodes": list_of(NODE)})
MOVED_PARTITION: Final = record({"topic": TEXT, "partition": NUMBER, "node": NUMBER, "leader_epoch": NUMBER})
SNAPSHOT: Final = record(
    {
        "id": TEXT,
        "name": TEXT,
        "now_ms": AT_MS,
        "files": NUMBER,
        "bytes": NUMBER,
        "parked": {**list_of(TEXT), "description": "transactional ids that are parked at a stop"},
    }
)
SNAPSHOTS: Final = record({"snapshots": list_of(SNAPSHOT)})
FORK: Final = record(
    {
        "id": TEXT,
        "kafka": ADDRESS,
        "nodes": list_of(ADDRESS),
        "listeners": {"type": "object", "additionalProperties": ADDRESS},
        "control": {"type": "string", "format": "uri"},
    }
)
FORKS: Final = record({"forks": list_of(FORK)})
REQUEST: Final = record(
    {
        "number": NUMBER,
        "at_ms": AT_MS,
        "api": TEXT,
        "version": NUMBER,
        "client_id": TEXT,
        "client": ADDRESS,
        "fields": ANY_OBJECT,
        "state": {
            **TEXT,
            "description": "waits, answered, closed (without a response), or the verb of the fault that took the request",
        },
        "took_ms": {**NUMBER, "description": "-1: no response was sent"},
        "errors": {**list_of(TEXT), "description": "error codes in the response, by Kafka's names"},
        "fault": {**TEXT, "description": "id of the fault that took the request, or empty"},
        "listener": {**TEXT, "description": "name of the listener that received the request"},
        "node": {**NUMBER, "description": "id of the node that received the request"},
    }
)
REQUESTS: Final = record({"requests": list_of(REQUEST)})
FENCE: Final = record(
    {
        "id": TEXT,
        "transactional_id": TEXT,
        "client_id": TEXT,
        "client": ADDRESS,
        "request": {**TEXT, "description": "the API whose response had the fencing error"},
        "at_ms": AT_MS,
        "cause": TEXT,
        "advice": TEXT,
    },
    {
        "fenced_before_ms": {**NUMBER, "description": "ms from the fence to the response"},
        "first_seen_ms": AT_MS,
        "by_client_id": TEXT,
        "by_client": ADDRESS,
    },
)
FENCED: Final = record(
    {"at_ms": AT_MS, "cause": TEXT, "producer_id": NUMBER, "producer_epoch": NUMBER},
    {"by_client_id": TEXT, "by_client": ADDRESS},
)
FENCES: Final = record({"fences": list_of(FENCE)})
_TRANSACTION: Final[Schema] = {
    "transactional_id": TEXT,
    "phase": {"enum": [phase.kafka_name for phase in Phase]},
    "is_open": FLAG,
    "producer_id": NUMBER,
    "producer_epoch": NUMBER,
    "timeout_ms": or_null(NUMBER),
    "partitions": list_of(PLACE),
    "coordinator": {**NUMBER, "description": "id of the node; -1: none"},
}
_WHILE_OPEN: Final[Schema] = {"started_at_ms": AT_MS, "age_ms": NUMBER}
TRANSACTION: Final = record(_TRANSACTION, _WHILE_OPEN)
TRANSACTIONS: Final = record({"transactions": list_of(TRANSACTION)})
TRANSACTION_WITH_TIMELINE: Final = record(
    {**_TRANSACTION, "fenced": list_of(FENCED), "fences": list_of(FENCE), "requests": list_of(REQUEST)}, _WHILE_OPEN
)
OFFSET: Final[Schema] = {"topic": TEXT, "partition": NUMBER, "offset": NUMBER}
GROUP: Final = record(
    {
        "group_id": TEXT,
        "coordinator": NUMBER,
        "state": {"enum": [state.value for state in GroupState]},
        "generation": NUMBER,
        "members": list_of(
            record({"member_id": TEXT, "instance_id": or_null(TEXT), "client_id": TEXT, "client_host": TEXT})
        ),
        "offsets": list_of(record(OFFSET)),
        "staged_offsets": {**list_of(record({**OFFSET, "producer_id": NUMBER})), "description": "not committed yet"},
    }
)
GROUPS: Final = record({"groups": list_of(GROUP)})
OPEN_TRANSACTION: Final = record(
    {
        "producer_id": NUMBER,
        "first_offset": NUMBER,
        "transactional_id": {**or_null(TEXT), "description": "null: no coordinator knows the transaction, which hangs"},
    }
)
PARTITION: Final = record(
    {
        "partition": NUMBER,
        "leader": NUMBER,
        "leader_epoch": NUMBER,
        "replicas": list_of(NUMBER),
        "in_sync": list_of(NUMBER),
        "log_start_offset": NUMBER,
        "last_stable_offset": NUMBER,
        "end_offset": NUMBER,
        "open_transactions": list_of(OPEN_TRANSACTION),
    }
)
TOPICS: Final = record({"topics": list_of(record({"name": TEXT, "internal": FLAG, "partitions": list_of(PARTITION)}))})
_PRODUCER: Final[Schema] = {"client_id": TEXT, "client": ADDRESS, "transactional_id": or_null(TEXT)}
CLIENTS: Final = record(
    {"clients": list_of(record({**_PRODUCER, "listener": TEXT, "node": NUMBER, "is_producer": FLAG}))}
)
LEFT_OPEN: Final = record(
    {
        "transactions": list_of(TRANSACTION),
        "groups": list_of(GROUP),
        "producers": list_of(record(_PRODUCER)),
        "faults": list_of(FAULT),
        "stops": list_of(STOP),
    }
)
_FINDINGS: Final[Schema] = {"findings": list_of(record({"kind": TEXT, "text": TEXT}))}
FINDINGS: Final = record(_FINDINGS)
CHECK: Final = record(
    {
        **_FINDINGS,
        "transactions": {**NUMBER, "description": "number of transactions that have ended since the start"},
        "checks": NUMBER,
        "skipped": {**NUMBER, "description": "number of logs that were cleaned before they were read"},
    }
)
