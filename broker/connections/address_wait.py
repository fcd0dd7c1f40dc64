"""Holds requests of external clients until a container with a random mapped port knows its advertised address.

For `stuntbroker.mapped.address.wait.ms` after the start, requests whose response has the broker's address are held if they came
through the gateway of the container, until `stuntbroker advertise` sets the address. Other clients do not wait. An address that
was set before a restart does not count, because the container has another port now.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.protocol.api_keys import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA

if TYPE_CHECKING:
    from stuntbroker.broker.requests.routes import Handler
    from stuntbroker.broker.services import Asking, HasConfig, HasConfigChanges, HasRouter, HasTimers

    class Uses(HasConfig, HasConfigChanges, HasRouter, HasTimers, Protocol):
        """The parts of the broker that this module uses."""


WITH_ADDRESSES: Final = (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER)


class AddressWait:
    """Holds requests until the address is set or the time is over; then handles them and removes its interceptors."""

    def __init__(self, broker: Uses, wait_ms: int) -> None:
        self._broker = broker
        self._kept: list[partial[Any]] = []
        for key in WITH_ADDRESSES:
            broker.router.add_interceptor(self._intercept, key)
        broker.on_config_change.append(self._end_if_address_is_set)
        self._timer = broker.timers.call_later(wait_ms, self._end)

    def _intercept(self, handle: Handler, request: Asking[Uses], body: Any, version: int) -> Any:
        if not request.listener.needs_mapped_address(request.connection.local, request.host):
            return handle(request, body, version)
        self._kept.append(partial(request.handle_later, handle, body, version))
        return None

    def _end_if_address_is_set(self) -> None:
        if self._broker.config["stuntbroker.mapped.address"]:
            self._timer.cancel()
            self._end()

    def _end(self) -> None:
        for key in WITH_ADDRESSES:
            self._broker.router.remove_interceptor(self._intercept, key)
        self._broker.on_config_change.remove(self._end_if_address_is_set)
        for handle in self._kept:
            handle()
        self._kept.clear()
