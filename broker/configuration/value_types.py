"""The types of properties without effect here: their values have to be ones that Kafka accepts."""

from __future__ import annotations

import re
from typing import Final

from stuntbroker.broker.configuration.dynamic_properties import AT_LEAST, BOOLEAN, DOUBLE, INT, LONG, SHORT
from stuntbroker.protocol.primitives import INT16_MAX, INT32_MAX, INT64_MAX

_WHOLE_NUMBERS: Final = {SHORT: ("SHORT", INT16_MAX), INT: ("INT", INT32_MAX), LONG: ("LONG", INT64_MAX)}
"""Type -> its name in Kafka's messages, and its largest value."""
_DOUBLE: Final = re.compile(
    r"[+-]?(NaN|Infinity"
    r"|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?"
    r"|0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?)"
)
"""What Java reads as a double."""


def problem_of_value(name: str, kind: int, text: str) -> str:
    """Return why Kafka refuses a value of a property of this type, in its words; an empty text if it accepts it."""
    value = text.strip()
    if kind == BOOLEAN:
        return "" if value.lower() in ("true", "false") else "Expected value to be either true or false"
    if kind == DOUBLE:
        return "" if _DOUBLE.fullmatch(value) else "Not a number of type DOUBLE"
    if kind not in _WHOLE_NUMBERS:
        return ""
    type_name, limit = _WHOLE_NUMBERS[kind]
    if not re.fullmatch(r"[+-]?[0-9]{1,99}", value) or not -limit - 1 <= int(value) <= limit:
        return f"Not a number of type {type_name}"
    if name in AT_LEAST and int(value) < AT_LEAST[name]:
        return f"Value must be at least {AT_LEAST[name]}"
    return ""
