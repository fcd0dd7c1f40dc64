"""Loads the modules that the usual requests need, so that no request waits until they are read.

Starting does not wait for them: `stuntbroker serve` loads them one by one after its ready line, while it has nothing else to
do, and `stuntbroker fork-server`, which starts many brokers, before the first of them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final

from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    APIS,
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)

USUAL: Final = (
    "structlog",  # The broker logs each topic that it creates.
    *("stuntbroker.broker.group_ports", "stuntbroker.groups.coordinator"),
    "stuntbroker.broker.metadata.topic_creation",
    "stuntbroker.broker.configuration.config_view",
    *(API_VERSIONS, METADATA, CREATE_TOPICS),
    *(INIT_PRODUCER_ID, FIND_COORDINATOR, PRODUCE, ADD_PARTITIONS_TO_TXN, END_TXN),
    *(FETCH, LIST_OFFSETS),
    *(JOIN_GROUP, SYNC_GROUP, HEARTBEAT, OFFSET_FETCH),
    *(ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, OFFSET_COMMIT, LEAVE_GROUP),
    *(LIST_TRANSACTIONS, DESCRIBE_TRANSACTIONS, LIST_GROUPS, DESCRIBE_GROUPS),
)
"""Modules, and API keys for their handlers and messages: those that take longest, then in the order in which clients need them.

They serve a transactional producer, a consumer in a group, and the check for what a test has left open.
"""
PAUSE_S: Final = 0.005
"""Time between two modules, in seconds."""
BUSY_CPU_S: Final = 0.0005
"""CPU time of a pause, in seconds, from which on the broker is busy, and loads nothing."""


def usual_modules() -> Iterator[str]:
    """Yield the names of the modules, in the order of `USUAL`."""
    for usual in USUAL:
        if isinstance(usual, str):
            yield usual
            continue
        messages = f"stuntbroker.protocol.messages.{APIS[usual].module}"
        yield from (f"{messages}_request", f"{messages}_response")
        yield f"stuntbroker.broker.handlers.{SERVED[usual].handler}"


def load_usual_modules() -> None:
    """Load them all now."""
    for name in usual_modules():
        import_module(name)


def load_while_idle(loop: asyncio.AbstractEventLoop, cpu_s: Callable[[], float] = time.process_time) -> None:
    """Load them one by one while no requests arrive. What cannot be loaded is reported by the request that needs it.

    `cpu_s`: returns the CPU time of this process, in seconds.
    """
    names = usual_modules()

    def load_next(cpu_before_s: float) -> None:
        if cpu_s() - cpu_before_s < BUSY_CPU_S:
            name = next((name for name in names if name not in sys.modules), None)
            if name is None:
                return
            try:
                import_module(name)
            except (ImportError, OSError):  # For instance, no file can be opened for want of descriptors.
                return
        pause()

    def pause() -> None:
        loop.call_later(PAUSE_S, load_next, cpu_s())

    pause()
