"""What to do about an address on which a broker cannot listen."""

from __future__ import annotations

import errno
import socket


def listening_advice(fault: OSError, port_from: str, host_from: str = "--host") -> str:
    """Return advice for an address that cannot be bound; `port_from`, `host_from`: options that gave it."""
    if isinstance(fault, socket.gaierror):
        return f"give a {host_from} that can be resolved"
    match fault.errno:
        case errno.EADDRINUSE:
            return f"stop the process that uses the port, or give another {port_from}"
        case errno.EACCES:
            return f"this user may not use the port: give another {port_from}, 1024 or higher"
        case errno.EADDRNOTAVAIL:
            return (
                f"no interface of this machine has the address: give another {host_from} (0.0.0.0 for all interfaces)"
            )
    return f"give another {host_from} or {port_from}"
