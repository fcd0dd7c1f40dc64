"""Validation of the properties about permissions. Loaded only when one of them is given."""

from __future__ import annotations

import re
from typing import Final

AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
    "io.confluent.kafka.security.authorizer.ConfluentServerAuthorizer",
)
"""Classes of Kafka's authorizer: of this release, of older ones, and that of cp-server."""
USER_TYPE: Final = "User:"
"""Beginning of a principal."""
_NEXT_ENTRY: Final = re.compile(r",\s*(\w+:)?User:")


def problem_of_authorizer(text: str) -> str:
    """Return what is wrong with the class of an authorizer; empty if it is valid."""
    if text and text not in AUTHORIZERS:
        return f"{text!r} is not implemented: give {AUTHORIZERS[0]}, or leave it out to allow everything"
    return ""


def problem_of_super_users(text: str) -> str:
    """Return what is wrong with a list of `User:NAME`, separated by semicolons; empty if it is valid."""
    wrong = next((entry for entry in map(str.strip, text.split(";")) if entry and ":" not in entry), None)
    return "" if wrong is None else f"{wrong!r} is not User:NAME; several are separated by semicolons"


def problem_of_principals(text: str) -> str:
    """Return what is wrong with a list of `User:NAME` or, for one listener, `LISTENER:User:NAME`; empty if it is valid.

    The entries are separated by semicolons, as a distinguished name has commas.
    """
    for entry in filter(None, map(str.strip, text.split(";"))):
        if not entry.startswith(USER_TYPE) and not entry.partition(":")[2].startswith(USER_TYPE):
            return f"{entry!r} is neither User:NAME nor LISTENER:User:NAME"
        if _NEXT_ENTRY.search(entry):
            return f"{entry!r}: entries are separated by semicolons"
    return ""
