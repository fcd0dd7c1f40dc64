"""The types of properties without effect here: their values have to be ones that Kafka accepts."""

from __future__ import annotations

import re
from typing import Final

from stuntbroker.broker.configuration.dynamic_properties import (
    ASSIGNMENT_INTERVAL_MS_MAX,
    AT_LEAST,
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    SHORT,
)
from stuntbroker.protocol.primitives import INT16_MAX, INT32_MAX, INT64_MAX

_WHOLE_NUMBERS: Final = {SHORT: ("SHORT", INT16_MAX), INT: ("INT", INT32_MAX), LONG: ("LONG", INT64_MAX)}
"""Type -> its name in Kafka's messages, and its largest value."""


def problem_of_type(kind: int, text: str) -> str:
    """Return why a value is not of this type, in Kafka's words; an empty text if it is."""
    value = text.strip()
    if kind == BOOLEAN:
        return "" if value.lower() in ("true", "false") else "Expected value to be either true or false"
    if kind == DOUBLE:
        return "" if _is_decimal(value) else "Not a number of type DOUBLE"
    if kind not in _WHOLE_NUMBERS:
        return ""
    type_name, limit = _WHOLE_NUMBERS[kind]
    fits = re.fullmatch(r"[+-]?[0-9]{1,99}", value) and -limit - 1 <= int(value) <= limit
    return "" if fits else f"Not a number of type {type_name}"


def problem_of_value(name: str, kind: int, text: str) -> str:
    """As `problem_of_type`, for a value that is set while the broker runs: also checks its range."""
    if why := problem_of_type(kind, text):
        return why
    if name in AT_LEAST and int(text) < AT_LEAST[name]:
        return f"Value must be at least {AT_LEAST[name]}"
    if name.endswith(".assignment.interval.ms") and int(text) > ASSIGNMENT_INTERVAL_MS_MAX:
        return f"Value must be no more than {ASSIGNMENT_INTERVAL_MS_MAX}"
    return ""


def _is_decimal(value: str) -> bool:
    try:
        return value.isascii() and "_" not in value and float(value) is not None
    except ValueError:
        return False
