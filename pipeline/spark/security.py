"""Security of the connections of a query: the options `kafka.security.protocol`, `kafka.sasl.*` and `kafka.ssl.*`.

They are the properties of Kafka's clients with the prefix `kafka.`, as in Spark's own source and sink. Files that they name
must exist on the driver and on every executor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from stuntbroker.client.security_properties import PLAINTEXT, PROPERTIES, PROTOCOL, SecurityError, security_of
from stuntbroker.protocol.addresses import SECURITY_PROTOCOLS

PREFIX: Final = "kafka."
OTHERS: Final = ("sasl.", "ssl.")
"""Beginnings of the names of the other properties."""
SecurityProperties: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values of properties. A tuple, because options are pickled for the executors, and are keys of caches."""


def is_security_option(name: str) -> bool:
    """Return whether an option, whose name is in lower case, is about security."""
    return name.startswith((PREFIX + PROTOCOL, *(PREFIX + other for other in OTHERS)))


def security_properties(options: Mapping[str, str]) -> SecurityProperties:
    """Return the properties in a query's options, none for PLAINTEXT. Names of options must be in lower case.

    Raises SecurityError if no connection can be made with them. The message has no value except that of the protocol and the
    mechanism, as a value may be a password.
    """
    given = {name.removeprefix(PREFIX): value for name, value in options.items() if is_security_option(name)}
    for name in sorted(given.keys() - set(PROPERTIES)):
        raise SecurityError(f"option {PREFIX}{name} is not supported; there are {', '.join(PROPERTIES)}")
    protocol = given.get(PROTOCOL, "").strip().upper() or PLAINTEXT
    others = sorted(given.keys() - {PROTOCOL})
    if protocol == PLAINTEXT and others:
        raise SecurityError(
            f"option {PREFIX}{others[0]} has no effect without TLS or SASL: set {PREFIX}{PROTOCOL} to "
            f"{', '.join(each for each in SECURITY_PROTOCOLS if each != PLAINTEXT)}, or remove the option"
        )
    if protocol == PLAINTEXT:
        return ()
    try:
        security_of(given)
    except SecurityError as fault:
        raise SecurityError(f"option {PREFIX}{fault}") from None
    return tuple(sorted(given.items()))
