"""Everything that a test has in its hands of one broker, put together."""

from __future__ import annotations

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
    """The clock, the faults and the logs of a broker that has started, and whose clock is a TestClock."""

    def __init__(self, broker: Broker, has_process: bool = True) -> None:
        """`has_process`: the process is this broker's alone, and a stop may end it."""
        assert isinstance(broker.clock, TestClock)
        self.broker = broker
        self.clock = ClockControl(broker.clock, broker)
        broker.router.add_interceptor(
            self.clock.intercept
        )  # Before all others, which see a request when it is handled.
        self.requests = RequestLog(broker)
        broker.router.add_interceptor(self.requests.intercept)
        self.injector = Injector(broker, self.requests, self.clock)
        self.stops = Stops(broker, has_process=has_process)
        self.oracle = Oracle(broker)
        self.fences = FenceLog(broker.transactions.fences)
        for key in FENCING_APIS:
            broker.router.add_interceptor(self.fences.intercept, key)

    def remove_rules(self) -> None:
        """Remove all stops and faults; requests and transactions that they keep go on."""
        for id_ in list(self.stops.stops):
            self.stops.remove(id_)
        for id_ in list(self.injector.faults):
            self.injector.remove(id_)
