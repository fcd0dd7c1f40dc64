"""`stuntbroker wait`: waits until a broker answers the first requests of a client, for health checks and scripts."""

from __future__ import annotations

import sys
import time

from stuntbroker.cli.arguments import bootstrap, seconds
from stuntbroker.client.cluster import Cluster
from stuntbroker.client.errors import ClientError, Unreachable
from stuntbroker.protocol.addresses import Address, parse_bootstrap

PAUSE_S = 0.05
ATTEMPT_S_MIN = 0.1
ATTEMPT_S_MAX = 5.0


def wait(given: dict[str, list[str]]) -> int:
    """Wait for a broker; return 0 when it answers, 1 at the time-out."""
    addresses = None if "--container" in given else bootstrap(given)
    timeout_s = seconds(given, "--timeout", 30)
    deadline = time.monotonic() + timeout_s
    where = "in this container" if addresses is None else f"at {', '.join(map(str, addresses))}"
    while True:
        try:
            attempt_s = max(ATTEMPT_S_MIN, min(ATTEMPT_S_MAX, deadline - time.monotonic()))
            with Cluster(addresses or _in_this_container(), attempt_s) as cluster:
                cluster.broker_ids()
            return 0
        except ClientError as fault:
            if time.monotonic() + PAUSE_S >= deadline:
                sys.stderr.write(f"stuntbroker: no broker answers {where} after {timeout_s:g} s: {fault}\n")
                return 1
        time.sleep(PAUSE_S)


def _in_this_container() -> list[Address]:
    """Return the address where `serve --container` listens. Raises Unreachable before the broker is ready."""
    from stuntbroker.cli.serving import container

    listening = container.listening_at()
    if listening is None:
        raise Unreachable("it is not ready")
    return parse_bootstrap(listening)
