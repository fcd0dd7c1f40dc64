"""Commands that wait for a broker say so."""

from __future__ import annotations

import sys
from collections.abc import Callable

from stuntbroker.client.commands.waiting import wait_for_broker


def wait_and_say_so(attempt: Callable[[float], object], timeout_s: float) -> None:
    """Wait as `wait_for_broker`, and print the first failure, so that a person sees what the command is waiting for."""
    wait_for_broker(
        attempt,
        timeout_s,
        lambda fault: sys.stderr.write(f"stuntbroker: {fault}; trying again for {timeout_s:g} s\n"),
    )
