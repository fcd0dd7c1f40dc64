"""Loads the modules that the usual requests need, so that no request waits until they are read.

Starting does not wait for them: `stuntbroker serve` loads them one by one after its ready line, and `stuntbroker fork-server`,
which starts many brokers, before the first of them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import suppress
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
    "stuntbroker.broker.metadata.topic_creation",
    "stuntbroker.broker.configuration.config_view",
    *(API_VERSIONS, METADATA, CREATE_TOPICS),
    *(INIT_PRODUCER_ID, FIND_COORDINATOR, PRODUCE, ADD_PARTITIONS_TO_TXN, END_TXN),
    *(FETCH, LIST_OFFSETS),
    *("stuntbroker.broker.group_ports", "stuntbroker.groups.coordinator"),
    *(JOIN_GROUP, SYNC_GROUP, HEARTBEAT, OFFSET_FETCH),
    *(ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, OFFSET_COMMIT, LEAVE_GROUP),
    *(LIST_TRANSACTIONS, DESCRIBE_TRANSACTIONS, LIST_GROUPS, DESCRIBE_GROUPS),
)
"""Modules, and API keys for their handlers and messages, in the order in which clients need them.

They serve a transactional producer, a consumer in a group, and the check for what a test has left open.
"""
FIRST_AFTER_S: Final = 0.05
"""Time from the ready line to the first module, in seconds: many clients start at the ready line, and are not to wait."""
PAUSE_S: Final = 0.002
"""Time between two modules, in seconds, for the requests that have arrived meanwhile."""


def usual_modules() -> Iterator[str]:
    """Yield the names of the modules, in the order in which clients need them."""
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


def load_when_ready(loop: asyncio.AbstractEventLoop) -> None:
    """Load them one by one, between the requests of clients. What cannot be loaded is reported by the request that needs it."""
    names = usual_modules()

    def load_next() -> None:
        name = next((name for name in names if name not in sys.modules), None)
        if name is not None:
            with suppress(ImportError, OSError):  # For instance, no file can be opened for want of descriptors.
                import_module(name)
                loop.call_later(PAUSE_S, load_next)

    loop.call_later(FIRST_AFTER_S, load_next)
