"""Plays a scenario against our broker: in this process, over TCP, with a manual clock and markers that can be held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

from stuntbroker.broker.server import Broker
from stuntbroker.coordinator.actor import AfterMarkers
from stuntbroker.coordinator.state import Txn
from tests.conformance.side import Side
from tests.kit.rig import Rig, running_rig
from tests.scenarios.observer import INTERNAL_PARTITIONS, Names, Observer
from tests.scenarios.script import Command, Script

NEVER_MS: Final = 2**31 - 1
"""Interval of the sweeps. The script starts each sweep itself."""
ANSWER_S_MAX: Final = 20.0


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_S_MAX)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class HeldMarkers:
    """Stop points that keep transactions prepared: markers wait, as for a partition without a leader."""

    def __init__(self, broker: Broker) -> None:
        self._soon = broker.timers.soon

    def hold(self, *effect: object) -> bool:
        """Let every effect of a request pass."""
        return False

    def write_markers(self, txn: Txn, write: object, following: AfterMarkers) -> None:
        """Write nothing."""
        self._soon(following.waiting)


class OurHand:
    """Controls our broker for one scenario. The broker runs inside this context manager."""

    def __init__(self, loop: Loop, data_dir: Path, script: Script) -> None:
        self._loop = loop
        self._data_dir = data_dir
        self._properties = {
            "transaction.version": str(script.transaction_version),
            "stuntbroker.initial.producer.id": "1000",
            "stuntbroker.initial.producer.epoch": str(script.first_epoch),
            "stuntbroker.profile": script.facts.get("profile", "kafka"),
            "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
            "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(NEVER_MS),
            "transaction.remove.expired.transaction.cleanup.interval.ms": str(NEVER_MS),
        }
        self._holds_markers = False
        self._running: AbstractAsyncContextManager[Rig]
        self._rig: Rig

    def __enter__(self) -> OurHand:
        self._start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop()

    def _start(self) -> None:
        self._running = running_rig(self._data_dir, self._properties)
        self._rig = self._loop.run(self._running.__aenter__())

    def _stop(self) -> None:
        self._loop.run(self._running.__aexit__(None, None, None))

    def restart(self) -> None:
        """Stop the broker and start it on the same folder, which writes held markers."""
        now_ms = self._rig.clock.ms
        self._stop()
        self._holds_markers = False
        self._start()
        self._rig.clock.ms = now_ms

    # --- what a player needs

    @property
    def address(self) -> str:
        at = self._rig.broker.listeners[0].addresses[0]
        return f"{at.host}:{at.port}"

    @property
    def holds_markers(self) -> bool:
        return self._holds_markers

    @property
    def retried(self) -> frozenset[int]:
        return frozenset()

    def timeout_ms(self, asked_ms: int, soon: bool) -> int:
        return asked_ms

    def hold(self) -> None:
        self._holds_markers = True
        broker = self._rig.broker
        self._do(partial(broker.transactions.use_stops, HeldMarkers(broker)))

    def release(self) -> None:
        self._holds_markers = False
        self._do(partial(self._rig.broker.transactions.use_stops, None))
        self._sweep()

    def now_ms(self) -> int:
        return self._rig.clock.ms

    def wait(self, ms: int) -> None:
        self._rig.clock.ms += ms

    def sweep(self, observer: Observer, overdue: bool) -> None:
        self._sweep()

    def _sweep(self) -> None:
        for _ in range(2):  # The second one writes the records that the first one deferred.
            self._do(self._rig.broker.transactions.sweep)

    def expire(self, observer: Observer, overdue: bool) -> None:
        self._do(self._rig.broker.transactions.expire)

    def _do(self, work: Any) -> None:
        async def done() -> None:
            work()

        self._loop.run(done())

    def seed(self, side: Side, names: Names, epoch: int) -> bool:
        return False  # A broker property sets the epoch.

    def restarts(self, command: Command, observer: Observer) -> bool:
        return command.words == ["restart"]
