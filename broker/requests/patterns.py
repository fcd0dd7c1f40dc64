"""Regular expressions that clients send, matched as Kafka does: by RE2, in time that grows with the text only.

RE2 is the extra `re2` of this package. Without it only patterns are taken that every matcher reads alike (SIMPLE); any other is
refused: Python's own expressions mean other things, and some run for years.
"""

from __future__ import annotations

import re
from typing import Any, Final

# Unlike Kafka: it takes patterns of any length, repeats nested above 1,000 in all, and escaped letters that are not ASCII; and it
# refuses two groups of one name.
LENGTH_MAX: Final = 10_000
MEMORY_MAX: Final = 2 << 20
"""Bytes that a compiled pattern may take: to compile one that takes more would stop everybody for too long."""
SIMPLE: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\[^A-Za-z0-9_\s]|\.\*)*", re.ASCII)
"""Letters, digits, `_`, `-`, escaped punctuation, and `.*`."""
SIMPLE_STARS_MAX: Final = 2
"""Most `.*` in a simple pattern: with more, Python's matcher would try too many ways."""
_SINGLE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class PatternError(ValueError):
    """The text is not a pattern, or RE2 is not installed; it says which."""


class Pattern:
    """A compiled pattern. Raises PatternError."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise PatternError(f"a pattern of {len(text)} characters is longer than {LENGTH_MAX}")
        try:
            import re2  # Loaded by the first pattern.
        except ImportError:
            self._compiled: Any = _without_re2(text)
            return
        if _SINGLE_BYTE.search(text):
            raise PatternError("\\C is not taken: Kafka's RE2 does not know it")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True  # Groups cost a hundred times as much, and nobody asks what they matched.
        options.max_mem = MEMORY_MAX
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as fault:
            raise PatternError(str(fault)) from fault

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        return self._compiled.fullmatch(text) is not None


def _without_re2(text: str) -> re.Pattern[str]:
    if not SIMPLE.fullmatch(text) or text.count(".*") > SIMPLE_STARS_MAX:
        raise PatternError(
            "without RE2 a pattern may have letters, digits, _, -, escaped punctuation and .* twice: "
            "pip install 'stuntbroker[re2]' for all others"
        )
    return re.compile(text)
