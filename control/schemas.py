"""The bodies of requests to the HTTP API, as JSON schemas."""

from __future__ import annotations

from typing import Final

from stuntbroker.control.conditions import FIELDS as CONDITION_FIELDS
from stuntbroker.control.faults import MATCH, TIMES_MS_MAX, VERBS, WHEN
from stuntbroker.control.late import KEYS
from stuntbroker.control.stops import ACTIONS
from stuntbroker.protocol.api_keys import APIS

ADVANCE_MS_MAX: Final = 366 * TIMES_MS_MAX
NUMBER: Final = {"type": "integer", "minimum": 0}
ADVANCE_BODY: Final = {
    "type": "object",
    "required": ["ms"],
    "additionalProperties": False,
    "properties": {"ms": {**NUMBER, "maximum": ADVANCE_MS_MAX}},
}
FAULT_BODY: Final = {
    "type": "object",
    "properties": {
        "match": {"type": "object", "description": f"with {', '.join(sorted(MATCH))}"},
        "when": {"type": "object", "description": f"with {', '.join(sorted(WHEN))}"},
        "do": {"type": "object", "description": f"one of {', '.join(VERBS)}"},
    },
    "required": ["do"],
}
STOP_BODY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "action": {"enum": list(ACTIONS)},
        "match": {"type": "object", "description": "what GET /v1/stops says of the point"},
        "nth": {"type": "integer", "minimum": 1},
        "times": {"type": "integer", "minimum": 0, "description": "0: every time; 1 without it"},
    },
}
WAIT_MS: Final = 10_000
WAIT_MS_MAX: Final = 600_000
WAIT_BODY: Final = {
    "type": "object",
    "properties": {"count": {**NUMBER, "minimum": 1}, "timeout_ms": {**NUMBER, "maximum": WAIT_MS_MAX}},
}
LATE_BODY: Final = {
    "type": "object",
    "required": ["api", "transactional_id"],
    "properties": {
        "api": {"enum": [APIS[key].name for key in KEYS]},
        "transactional_id": {"type": "string"},
        "version": NUMBER,
        "producer_id": NUMBER,
        "producer_epoch": NUMBER,
        "committed": {"type": "boolean"},
        "topic": {"type": "string"},
        "partition": NUMBER,
        "values": {"type": "array", "items": {"type": "string"}},
        "sequence": NUMBER,
    },
    "additionalProperties": False,
}
UNTIL_BODY: Final = {
    "type": "object",
    "required": ["until"],
    "additionalProperties": False,
    "properties": {
        "until": {"type": "object", "description": f"with {', '.join(sorted(CONDITION_FIELDS))}"},
        "timeout_ms": {**NUMBER, "maximum": WAIT_MS_MAX},
    },
}
PLAN_BODY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "about": {"type": "string"},
        "seed": NUMBER,
        "clock": {"type": "object", "properties": {"paused": {"type": "boolean"}}, "additionalProperties": False},
        "faults": {"type": "array", "items": FAULT_BODY},
        "stops": {"type": "array", "items": {"type": "object", "required": ["point"]}},
    },
}
SEED_BODY: Final = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "properties": {
        "ids": {"type": "object", "description": "transactional_id, producer_id, producer_epoch"},
        "hanging": {"type": "object", "description": "topic, partition, values, age_ms"},
        "next_producer_id": NUMBER,
        "next_offset": {"type": "object", "description": "topic, partition, offset"},
    },
}
