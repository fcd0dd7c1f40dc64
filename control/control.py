"""The parts of test control for one broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stuntbroker.control.clock import ClockControl, TestClock
from stuntbroker.control.observation.fence_log import FENCING_APIS, FenceLog
from stuntbroker.control.observation.oracle import Oracle
from stuntbroker.control.observation.request_log import RequestLog
from stuntbroker.control.rules.injector import Injector
from stuntbroker.control.rules.stops import Stops

if TYPE_CHECKING:
    from stuntbroker.broker.server import Broker


class Control:
    """Clock, faults, stops and logs of a started broker, whose clock must be a TestClock."""

    def __init__(self, broker: Broker, has_process: bool = True) -> None:
        """`has_process`: the broker is alone in its process, which a stop may kill."""
        assert isinstance(broker.clock, TestClock)
        self.broker = broker
        self.clock = ClockControl(broker.clock, broker)
        # First, as the others must see a request only when it is handled.
        broker.router.add_interceptor(self.clock.intercept)
        self.requests = RequestLog(broker)
        broker.router.add_interceptor(self.requests.intercept)
        self.injector = Injector(broker, self.requests, self.clock)
        self.stops = Stops(broker, has_process=has_process)
        self.oracle = Oracle(broker)
        self.node_lock = asyncio.Lock()
        """Held while a node is stopped or started."""
        self.fences = FenceLog(broker.transactions.fences)
        for key in FENCING_APIS:
            broker.router.add_interceptor(self.fences.intercept, key)

    def remove_rules(self) -> None:
        """Remove all stops and faults; the requests and transactions that they hold are resumed."""
        for id_ in list(self.stops.stops):
            self.stops.remove(id_)
        for id_ in list(self.injector.faults):
            self.injector.remove(id_)
