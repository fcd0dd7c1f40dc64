"""`stuntbroker advertise`: sets the advertised address of a container whose mapped port is known only when it runs."""

from __future__ import annotations

import contextlib
import time
from typing import Final

from stuntbroker.cli.arguments import UsageError, bootstrap, seconds
from stuntbroker.cli.client_security import security
from stuntbroker.cli.commands.verbs import (
    COMMAND_TIMEOUT_S,
    COMMON_USAGE,
    Operation,
    Options,
    Shown,
    Verb,
    run_operation,
)
from stuntbroker.cli.commands.wait import ask
from stuntbroker.cli.waiting import wait_and_say_so
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import alter_config, describe_config
from stuntbroker.client.commands.waiting import ATTEMPT_S_MIN
from stuntbroker.client.errors import ClientError, NotFound
from stuntbroker.protocol.addresses import EVERY_ADDRESS, parse_bootstrap
from stuntbroker.protocol.config_resources import ResourceType

USAGE: Final = (
    """\
usage: stuntbroker advertise HOST:PORT [options]

Sets the address by which clients outside a container reach its broker (property stuntbroker.mapped.address). Clients
that connect through the mapped port get this address; clients inside the container network get the address to which
they have connected. Run the command in the container; it waits until the broker is up, and finds its port:

  docker exec CONTAINER stuntbroker advertise localhost:49153

Options:
"""
    + COMMON_USAGE
    + """\

Examples:
  stuntbroker advertise localhost:49153
  stuntbroker advertise docker.example:49153 --bootstrap localhost:9092
"""
)

MAPPED_ADDRESS: Final = "stuntbroker.mapped.address"
ADVERTISED: Final = "advertised.listeners"
NAMES: Final = (MAPPED_ADDRESS, ADVERTISED)


def advertise(arguments: list[str]) -> int:
    """Change the address that is advertised to clients from outside; return the exit status. Raises UsageError."""
    return run_operation("advertise", Verb(_prepare, words="HOST:PORT"), arguments)


def _wait_for_broker(given: Options) -> None:
    """Wait until the broker answers. Without --bootstrap, that of `serve --container` in this container, on whatever port."""
    from stuntbroker.cli.serving.container import listening_at

    timeout_s = seconds(given, "--timeout", COMMAND_TIMEOUT_S)
    deadline_s = time.monotonic() + timeout_s
    is_given = "--bootstrap" in given

    def attempt(attempt_s: float) -> None:
        if not is_given and (listening := listening_at()) is not None:
            given["--bootstrap"] = [listening.address]
            if listening.is_secured:
                return  # It is up; the command itself says what it needs to connect.
        ask(bootstrap(given), attempt_s, security(given))

    with contextlib.suppress(ClientError):  # The command itself reports it.
        wait_and_say_so(attempt, timeout_s)
    # The time-out is of the whole command.
    given["--timeout"] = [str(max(ATTEMPT_S_MIN, deadline_s - time.monotonic()))]


def _prepare(given: Options) -> Operation:
    (address,) = given[""]
    try:
        parsed = parse_bootstrap(address)
        if parsed[0].host in EVERY_ADDRESS:
            raise ValueError(f"{parsed[0].host} is not an address that a client can connect to")
    except ValueError as fault:
        raise UsageError(f"advertise: {fault}") from None
    _wait_for_broker(given)

    def operation(cluster: Cluster) -> Shown:
        here = str(cluster.controller_id())
        known = {each.name: each.value for each in describe_config(cluster, ResourceType.BROKER, here, NAMES)}
        if MAPPED_ADDRESS not in known:
            raise NotFound(
                "the broker is not a Stuntbroker: only Stuntbroker can change its mapped address while it runs"
            )
        if known[ADVERTISED]:
            raise NotFound(
                f"advertised.listeners is {known[ADVERTISED]} and takes precedence: start the broker without it"
            )
        alter_config(cluster, ResourceType.BROKER, "", {MAPPED_ADDRESS: address})
        text = f"clients that connect through the mapped port get the address {address}\n"
        return Shown(text, {"mapped_address": address}, is_data=False)

    return operation
