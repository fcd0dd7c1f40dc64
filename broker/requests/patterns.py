"""Regular expressions of clients, matched with RE2 as in Kafka: the time is linear in the length of the text.

RE2 is installed with the extra `re2`. Without it, only patterns that mean the same in Python (SIMPLE) are accepted: Python's
syntax differs from RE2's, and some of its matches would take years.
"""

from __future__ import annotations

import re
from typing import Any, Final

# Unlike Kafka: Kafka accepts patterns of any length, nested repeats above 1,000 in total, and escaped letters that are not ASCII;
# it refuses two groups of the same name.
LENGTH_MAX: Final = 10_000
MEMORY_MAX: Final = 2 << 20
"""Maximum bytes of a compiled pattern; compiling a larger one would block the event loop for too long."""
SIMPLE: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\[^A-Za-z0-9_\s]|\.\*)*", re.ASCII)
"""Letters, digits, `_`, `-`, escaped punctuation, and `.*`."""
SIMPLE_STARS_MAX: Final = 2
"""Maximum number of `.*` in a simple pattern; with more, Python's matcher would backtrack too much."""
_SINGLE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class PatternError(ValueError):
    """The text is not a valid pattern, or needs RE2, which is not installed."""


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
            raise PatternError("\\C is not supported, as in Kafka")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True  # Captured groups are not used, and would take a hundred times as long.
        options.max_mem = MEMORY_MAX
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as fault:
            raise PatternError(str(fault)) from fault

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        return self._compiled.fullmatch(text) is not None


def _without_re2(text: str) -> re.Pattern[str]:
    if not SIMPLE.fullmatch(text) or text.count(".*") > SIMPLE_STARS_MAX:
        raise PatternError(
            "without RE2, a pattern may contain only letters, digits, _, -, escaped punctuation and .* twice: "
            "pip install 'stuntbroker[re2]' for all others"
        )
    return re.compile(text)
