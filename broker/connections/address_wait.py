"""A container with a random mapped port learns its address only when it runs: until then, clients from outside wait.

For the time of `stuntbroker.mapped.address.wait.ms` from the start on, requests that are answered with an address are kept when
they come through the gateway of the container, until `stuntbroker advertise` has set it. Other clients do not wait. An address
set before a restart does not count: the container has another port now.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.protocol.api_keys import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA

if TYPE_CHECKING:
    from stuntbroker.broker.requests.router import Handler
    from stuntbroker.broker.services import Asking, HasConfig, HasConfigChanges, HasRouter, HasTimers

    class Uses(HasConfig, HasConfigChanges, HasRouter, HasTimers, Protocol):
        """What is used of the broker."""


WITH_ADDRESSES: Final = (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER)


class AddressWait:
    """Holds requests until the address is set or the time is over, then releases them and removes itself."""

    def __init__(self, broker: Uses, wait_ms: int) -> None:
        self._broker = broker
        self._kept: list[partial[Any]] = []
        for key in WITH_ADDRESSES:
            broker.router.add_interceptor(self._intercept, key)
        broker.on_config_change.append(self._look)
        self._timer = broker.timers.call_later(wait_ms, self._end)

    def _intercept(self, handle: Handler, connection: Asking[Uses], request: Any, version: int) -> Any:
        if not connection.listener.needs_mapped_address(connection.local, connection.host):
            return handle(connection, request, version)
        self._kept.append(partial(connection.handle_later, handle, request, version))
        return None

    def _look(self) -> None:
        if self._broker.config["stuntbroker.mapped.address"]:
            self._timer.cancel()
            self._end()

    def _end(self) -> None:
        for key in WITH_ADDRESSES:
            self._broker.router.remove_interceptor(self._intercept, key)
        self._broker.on_config_change.remove(self._look)
        for handle in self._kept:
            handle()
        self._kept.clear()
