"""A claim, which one caller at a time can hold."""

from __future__ import annotations

from typing import Final

_OWNER: Final = "owner"


class Claim:
    """Held by one caller at a time, until it is released. Unlike with a lock, no caller waits for it.

    A signal handler may raise an exception between any two steps of a caller, which can release the claim even if it does not
    know yet whether it has it.
    """

    def __init__(self) -> None:
        self._callers: dict[str, object] = {}

    def take(self, caller: object) -> bool:
        """Take the claim unless another caller has it; return whether this one has it now."""
        return self._callers.setdefault(_OWNER, caller) is caller

    def is_of(self, caller: object) -> bool:
        """Return whether a caller has the claim."""
        return self._callers.get(_OWNER) is caller

    def release(self, caller: object) -> None:
        """Release the claim, if this caller has it."""
        if self.is_of(caller):
            del self._callers[_OWNER]
