"""Security of a command's connections: `--command-config FILE` names the properties file that Kafka's commands take too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stuntbroker.cli.arguments import UsageError, non_empty_value
from stuntbroker.client.security_properties import security_of

if TYPE_CHECKING:
    from stuntbroker.client.security import Security


def security_of_command(properties: Mapping[str, str]) -> Security | None:
    """Return the security options of properties, with the user of the JAAS file in KAFKA_OPTS. Raises SecurityError."""
    options = os.environ.get("KAFKA_OPTS", "")
    if not options:
        return security_of(properties)
    from stuntbroker.cli.serving.environment import JAAS_FILE

    jaas_file = JAAS_FILE.search(options)
    return security_of(properties, jaas_file[1] if jaas_file else "")


def security(given: dict[str, list[str]]) -> Security | None:
    """Return the security options in the file of `--command-config`; None without one, and for PLAINTEXT. Raises UsageError."""
    path = non_empty_value(given, "--command-config")
    if not path:
        return None
    from stuntbroker.cli.serving.properties import parse_java

    try:
        with open(path, "rb") as file:
            return security_of_command(parse_java(file.read()))
    except OSError as fault:
        raise UsageError(f"--command-config {path}: {fault.strerror}") from None
    except ValueError as fault:
        raise UsageError(f"--command-config {path}: {fault}") from None
