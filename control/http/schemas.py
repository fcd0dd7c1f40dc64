"""JSON schemas of the request bodies of the HTTP API."""

from __future__ import annotations

from typing import Any, Final

from stuntbroker.control.delayed_requests import KEYS
from stuntbroker.control.nodes import NODE_STATES
from stuntbroker.control.rules.conditions import FIELDS as CONDITION_FIELDS
from stuntbroker.control.rules.faults import ADVANCE_MS_MAX, HIGHEST, NUMBERS, TEXT_MAX, TEXTS, TIMES_MS_MAX, VERBS
from stuntbroker.control.rules.points import ACTIONS
from stuntbroker.protocol.api_keys import APIS

NUMBER: Final = {"type": "integer", "minimum": 0}
ADVANCE_BODY: Final = {
    "type": "object",
    "required": ["ms"],
    "additionalProperties": False,
    "properties": {"ms": {**NUMBER, "maximum": ADVANCE_MS_MAX}},
}
NUMBER_MAX: Final = 1 << 31
TEXT: Final = {"type": "string", "maxLength": TEXT_MAX, "description": "* and ? are wildcards"}
API: Final = {"type": "string", "description": "Kafka's name of an API; * and ? are wildcards"}
COUNT: Final = {"type": "integer", "minimum": 1, "maximum": NUMBER_MAX}
DURATION_MS: Final = {**NUMBER, "maximum": TIMES_MS_MAX}
MATCH_BODY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "api": {"anyOf": [API, {"type": "array", "items": API}]},
        **dict.fromkeys(TEXTS, TEXT),
        **{name: {**NUMBER, "maximum": NUMBER_MAX} for name in NUMBERS},
    },
}
WHEN_BODY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "nth": COUNT,
        "times": {**COUNT, "minimum": 0},
        "after_ms": DURATION_MS,
        "seed": {**NUMBER, "maximum": 1 << 63},
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
    },
}
ERROR: Final = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
HOLD: Final = {"anyOf": [{"const": True}, {"type": "object", "required": ["until"]}]}
VALUES: Final[dict[str, dict[str, Any]]] = {
    "error": ERROR,
    "hold": HOLD,
    **{verb: {**NUMBER, "maximum": highest} for verb, highest in HIGHEST.items()},
}
DO_BODY: Final = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "properties": {
        verb: {**VALUES.get(verb, {"const": True}), "description": meaning} for verb, meaning in VERBS.items()
    },
}
FAULT_BODY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"match": MATCH_BODY, "when": WHEN_BODY, "do": DO_BODY},
    "required": ["do"],
}
STOP_PROPERTIES: Final = {
    "action": {"enum": list(ACTIONS)},
    "match": {"type": "object", "description": "fields of the point in GET /v1/stops"},
    "nth": {"type": "integer", "minimum": 1},
    "times": {"type": "integer", "minimum": 0, "description": "default 1; 0: every time"},
}
STOP_BODY: Final = {"type": "object", "additionalProperties": False, "properties": STOP_PROPERTIES}
PLANNED_STOP_BODY: Final = {
    **STOP_BODY,
    "required": ["point"],
    "properties": {"point": {"type": "string", "description": "one of GET /v1/stops"}, **STOP_PROPERTIES},
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
        "transactional_id": {"type": "string", "minLength": 1},
        "version": NUMBER,
        "producer_id": NUMBER,
        "producer_epoch": NUMBER,
        "coordinator_epoch": {**NUMBER, "description": "coordinator epoch in the marker; default 0"},
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
        "until": {"type": "object", "minProperties": 1, "description": f"with {', '.join(sorted(CONDITION_FIELDS))}"},
        "timeout_ms": {**NUMBER, "maximum": WAIT_MS_MAX},
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
        "next_sequence": {
            "type": "object",
            "description": "topic, partition, producer_id, producer_epoch, sequence",
        },
        "coordinator_epoch": {"type": "object", "description": "transactional_id, epoch"},
    },
}

NODE_PROPERTIES: Final = {
    "state": {"enum": list(NODE_STATES)},
    "slow_ms": {**DURATION_MS, "description": "delay of every request to the node; 0: none"},
}
NODE_BODY: Final = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": NODE_PROPERTIES,
}
PLANNED_NODE_BODY: Final = {
    "type": "object",
    "minProperties": 2,
    "required": ["id"],
    "additionalProperties": False,
    "properties": {"id": NUMBER, **NODE_PROPERTIES},
}
MOVE_BODY: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["node"],
    "additionalProperties": False,
    "properties": {
        "topic": {"type": "string"},
        "partition": NUMBER,
        "group": {"type": "string", "description": "group whose coordinator moves"},
        "transactional_id": {"type": "string", "description": "id whose coordinator moves"},
        "node": {**NUMBER, "description": "id of the new leader or coordinator"},
        "load_ms": {**DURATION_MS, "description": "time for which the new coordinator loads its state"},
    },
}
PLAN_BODY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "about": {"type": "string"},
        "seed": NUMBER,
        "seeds": {"type": "array", "items": SEED_BODY},
        "clock": {
            "type": "object",
            "properties": {"paused": {"type": "boolean"}, "advance_ms": {**NUMBER, "maximum": ADVANCE_MS_MAX}},
            "additionalProperties": False,
        },
        "faults": {"type": "array", "items": FAULT_BODY},
        "stops": {"type": "array", "items": PLANNED_STOP_BODY},
        "nodes": {"type": "array", "items": PLANNED_NODE_BODY},
        "moves": {"type": "array", "items": MOVE_BODY},
    },
}
PLAN_OR_NAME_BODY: Final = {
    "anyOf": [
        PLAN_BODY,
        {
            "type": "object",
            "required": ["plan"],
            "additionalProperties": False,
            "properties": {"plan": {"type": "string", "description": "name of a built-in plan"}},
        },
    ]
}
NAME: Final = {"type": "string", "maxLength": TEXT_MAX}
SNAPSHOT_BODY: Final = {"type": "object", "additionalProperties": False, "properties": {"name": NAME}}
RESTORE_BODY: Final = {
    "type": "object",
    "required": ["snapshot"],
    "additionalProperties": False,
    "properties": {"snapshot": {**NAME, "description": "the id or the name of a snapshot"}},
}
FORKS_AT_ONCE_MAX: Final = 100
FORK_BODY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "snapshot": {**NAME, "description": "id or name of a snapshot; default: the current state"},
        "count": {"type": "integer", "minimum": 1, "maximum": FORKS_AT_ONCE_MAX},
    },
}
EXACTLY_ONCE_BODY: Final = {
    "type": "object",
    "required": ["input", "output"],
    "additionalProperties": False,
    "properties": {
        "input": {"type": "string", "description": "a topic"},
        "output": {"type": "string", "description": "a topic"},
        "key": {
            "type": "string",
            "pattern": "^(key|value|header:.*)$",
            "description": "the part of a record that is compared; default: the value",
        },
    },
}
