"""kafka-configs for the SCRAM credentials of users."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from typing import Final

from stuntbroker.cli.shims.arguments import UsageFault
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.scram_credentials import (
    NewCredential,
    alter_scram_credentials,
    describe_scram_credentials,
)
from stuntbroker.protocol.scram import ITERATIONS_MIN, SCRAM_MECHANISMS

_CREDENTIAL: Final = re.compile(r"(?:iterations=(?P<iterations>[0-9]{0,9}),)?password=(?P<password>.*)", re.DOTALL)


def describe(cluster: Cluster, users: Collection[str] | None) -> None:
    """Print the mechanisms of these users, or of all that have a credential; nothing for a user without one."""
    for user, iterations in describe_scram_credentials(cluster, users):
        shown = ", ".join(f"{mechanism}=iterations={count}" for mechanism, count in iterations.items())
        sys.stdout.write(f"SCRAM credential configs for user-principal '{user}' are {shown}\n")


def read_credentials(given: Mapping[str, str]) -> dict[str, NewCredential]:
    """Return mechanism -> credential for texts such as `iterations=4096,password=secret`. Raises UsageFault."""
    credentials = {}
    for mechanism, text in given.items():
        match = _CREDENTIAL.fullmatch(text)
        if match is None:
            raise UsageFault(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
        iterations = int(match["iterations"] or ITERATIONS_MIN)
        if iterations < ITERATIONS_MIN:
            raise UsageFault(
                f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {mechanism}"
            )
        credentials[mechanism] = NewCredential(match["password"], iterations)
    return credentials


def alter(cluster: Cluster, user: str, values: Mapping[str, NewCredential], deleted: Collection[str]) -> int:
    """Change the credentials of a user, and report that; return the exit status. Raises BrokerError."""
    # Unlike Kafka: its command sends all changes in one request, of which its controller takes one per user.
    alter_scram_credentials(cluster, user, values, deleted)
    sys.stdout.write(f"Completed updating config for user {user}.\n")
    return 0


def is_credential(name: str) -> bool:
    """Whether a configuration of a user is a SCRAM credential, not a quota."""
    return name in SCRAM_MECHANISMS
