"""`stuntbroker wait`: for health checks and scripts; asks what a client asks first."""

from __future__ import annotations

import sys
import time

from stuntbroker.cli.main import bootstrap, seconds
from stuntbroker.client.cluster import Cluster
from stuntbroker.client.errors import ClientError

PAUSE_S = 0.05
ATTEMPT_S_MIN = 0.1
ATTEMPT_S_MAX = 5.0


def wait(given: dict[str, list[str]]) -> int:
    """Wait for a broker; return 0 when it answers, 1 at the time-out."""
    addresses = bootstrap(given)
    timeout_s = seconds(given, "--timeout", 30)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with Cluster(addresses, max(ATTEMPT_S_MIN, min(ATTEMPT_S_MAX, deadline - time.monotonic()))) as cluster:
                cluster.broker_ids()
            return 0
        except ClientError as fault:
            if time.monotonic() + PAUSE_S >= deadline:
                where = ", ".join(map(str, addresses))
                sys.stderr.write(f"stuntbroker: no broker answers at {where} after {timeout_s:g} s: {fault}\n")
                return 1
        time.sleep(PAUSE_S)
