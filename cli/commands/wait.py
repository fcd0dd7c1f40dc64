"""`stuntbroker wait`: waits until a broker answers the first requests of a client, for health checks and scripts."""

from __future__ import annotations

import json
import socket
import sys
from typing import TYPE_CHECKING

from stuntbroker.cli.arguments import bootstrap, seconds
from stuntbroker.cli.client_security import security
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.waiting import wait_for_broker
from stuntbroker.client.errors import AuthenticationFailed, ClientError, Unreachable, UnsupportedVersion
from stuntbroker.protocol.addresses import Address, parse_bootstrap

if TYPE_CHECKING:
    from stuntbroker.client.security import Security


def wait(given: dict[str, list[str]]) -> int:
    """Wait for a broker; return 0 when it answers, 1 at the time-out or when it refuses the client."""
    addresses = None if "--container" in given else bootstrap(given)
    reason = _wait(addresses, security(given), seconds(given, "--timeout", 30))
    if "--json" in given:
        sys.stdout.write(json.dumps({"is_ready": not reason, "reason": reason}, indent=2) + "\n")
    if reason:
        sys.stderr.write(f"stuntbroker: {reason}\n")
    return 1 if reason else 0


def _wait(addresses: list[Address] | None, secured_by: Security | None, timeout_s: float) -> str:
    """Wait for a broker, None for the one in this container; return an empty text, or why it does not answer."""
    where = "in this container" if addresses is None else f"at {', '.join(map(str, addresses))}"

    def attempt(attempt_s: float) -> None:
        if addresses is None:
            _check_this_container(attempt_s)
        else:
            ask(addresses, attempt_s, secured_by)

    try:
        wait_for_broker(attempt, timeout_s)
    except (AuthenticationFailed, UnsupportedVersion) as fault:
        return str(fault)
    except ClientError as fault:
        return f"no broker answers {where} after {timeout_s:g} s: {fault}"
    return ""


def ask(addresses: list[Address], timeout_s: float, secured_by: Security | None = None) -> None:
    """Ask a broker for its metadata. Raises ClientError."""
    with Cluster(addresses, timeout_s, security=secured_by) as cluster:
        cluster.broker_ids()


def _check_this_container(timeout_s: float) -> None:
    """Check that the broker of `serve --container` answers or, with TLS or SASL, lets a client connect. Raises ClientError."""
    from stuntbroker.cli.serving import container

    listening = container.listening_at()
    if listening is None:
        raise Unreachable("it is not ready")
    (address,) = parse_bootstrap(listening.address)
    if not listening.is_secured:
        ask([address], timeout_s)
        return
    try:
        socket.create_connection(address, timeout_s).close()
    except OSError as fault:
        raise Unreachable(f"cannot connect to {address}: {fault.strerror or fault}") from fault
