"""Waiting for a broker: containers, scripts and health checks start it and its clients at the same time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from stuntbroker.client.errors import AuthenticationFailed, ClientError, UnsupportedVersion

PAUSE_S: Final = 0.05
ATTEMPT_S_MIN: Final = 0.1
ATTEMPT_S_MAX: Final = 5.0


def wait_for_broker(attempt: Callable[[float], object], timeout_s: float, *, says_first_failure: bool = False) -> None:
    """Call `attempt`, with the seconds that it may take, until it succeeds.

    Raises its ClientError after `timeout_s`, or at once if the broker answers but refuses the client. `says_first_failure`: print
    one line about the first failure, so that a person sees what the command is waiting for.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            attempt(max(ATTEMPT_S_MIN, min(ATTEMPT_S_MAX, deadline_s - time.monotonic())))
            return
        except (AuthenticationFailed, UnsupportedVersion):
            raise
        except ClientError as fault:
            if time.monotonic() + PAUSE_S >= deadline_s:
                raise
            if says_first_failure:
                sys.stderr.write(f"stuntbroker: {fault}; trying again for {timeout_s:g} s\n")
                says_first_failure = False
        time.sleep(PAUSE_S)
