"""Waiting for a broker: containers, scripts, health checks and tests start it and its clients at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from stuntbroker.client.errors import AuthenticationFailed, ClientError, UnsupportedVersion
from stuntbroker.client.monotonic import monotonic_s

PAUSE_S: Final = 0.05
ATTEMPT_S_MIN: Final = 0.1
ATTEMPT_S_MAX: Final = 5.0


def wait_for_broker(
    attempt: Callable[[float], object],
    timeout_s: float,
    on_first_failure: Callable[[ClientError], object] | None = None,
) -> None:
    """Call `attempt`, with the seconds that it may take, until it succeeds.

    Raises its ClientError after `timeout_s`, or at once if the broker answers but refuses the client. `on_first_failure` is
    called with the first failure before the next attempt, if there is one.
    """
    deadline_s = monotonic_s() + timeout_s
    while True:
        try:
            attempt(max(ATTEMPT_S_MIN, min(ATTEMPT_S_MAX, deadline_s - monotonic_s())))
            return
        except (AuthenticationFailed, UnsupportedVersion):
            raise
        except ClientError as fault:
            if monotonic_s() + PAUSE_S >= deadline_s:
                raise
            if on_first_failure is not None:
                on_first_failure(fault)
                on_first_failure = None
        time.sleep(PAUSE_S)
