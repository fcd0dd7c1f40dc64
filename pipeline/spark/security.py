"""Options of TLS and SASL, which neither the source nor the sink supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROTOCOL: Final = "kafka.security.protocol"
PREFIXES: Final = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")


def unsupported_security(options: Mapping[str, str]) -> str | None:
    """Return the error message for options that enable TLS or SASL; None if there are none. Names must be in lower case.

    The message contains no option value except the protocol, as a value may be a password.
    """
    for name in sorted(options):
        protocol = options[name].strip().upper() if name == PROTOCOL else None
        if name.startswith(PREFIXES) and protocol not in ("", "PLAINTEXT"):
            what = name if protocol is None else f"{name}={protocol}"
            return f"option {what}: TLS and SASL are not supported, remove the option and use a PLAINTEXT listener of the brokers"
    return None
