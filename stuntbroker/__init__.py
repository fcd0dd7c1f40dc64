"""A stunt double for a Kafka broker.

    import stuntbroker

    with stuntbroker.broker(topics={"orders": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

Its packages ("rooms"), each a folder at the root of the project:

    protocol      bytes <-> messages, record batches, error codes; no I/O
    storage       records <-> files
    coordinator   what a transaction may do: pure rules, and an actor per transactional id
    groups        consumer groups and their offsets, built the same way
    broker        the server: connections, requests, topics, configuration, and the ports of the rooms above
    security      keystores, TLS contexts and JAAS, for servers and clients
    client        speaks to any broker from outside: the transactional producer and consumer, administration
    control       time, faults and observation under a test's control, over HTTP
    fixture       brokers for tests: the context manager and the pytest plug-in
    pipeline      sink, source and audit for Spark
    cli           the command `stuntbroker`, and Kafka's commands
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stuntbroker.fixture.run import broker

__all__ = ["broker"]


class _CallableRoom(ModuleType):
    """The package `broker`, which can also be called: `stuntbroker.broker(...)` runs a broker."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return the context manager. It is imported on first use, so that importing the package is cheap."""
        from stuntbroker.fixture.run import broker

        return broker(*arguments, **named)

    def __reduce__(self) -> Any:
        return import_module, (self.__name__,)


import_module("stuntbroker.broker").__class__ = _CallableRoom
