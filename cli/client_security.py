"""Security of a command's connections: `--command-config FILE` names the properties file that Kafka's commands take too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stuntbroker.cli.arguments import UsageError, non_empty_value
from stuntbroker.client.security_properties import PROPERTIES, security_of

if TYPE_CHECKING:
    from stuntbroker.client.security import Security


LIKENESS_MIN: Final = 0.9
"""Similarity from which on a property counts as misspelt; `ssl.key.location`, which is librdkafka's, has 0.87."""


def security_of_command(properties: Mapping[str, str]) -> Security | None:
    """Return the security options of properties, with the user of the JAAS file in KAFKA_OPTS. Raises SecurityError."""
    options = os.environ.get("KAFKA_OPTS", "")
    if not options:
        return security_of(properties)
    from stuntbroker.cli.serving.environment import JAAS_FILE

    jaas_file = JAAS_FILE.search(options)
    return security_of(properties, jaas_file[1] if jaas_file else "")


def _check_spelling(properties: Mapping[str, str]) -> None:
    """Raise ValueError for a property that is one of those of security but for a letter; others are for other programs."""
    from difflib import get_close_matches

    for name in properties.keys() - set(PROPERTIES):
        if meant := get_close_matches(name, PROPERTIES, n=1, cutoff=LIKENESS_MIN):
            raise ValueError(f"unknown property {name}: do you mean {meant[0]}?")


def security(given: dict[str, list[str]]) -> Security | None:
    """Return the security options in the file of `--command-config`; None without one, and for PLAINTEXT. Raises UsageError."""
    path = non_empty_value(given, "--command-config")
    if not path:
        return None
    from stuntbroker.cli.serving.properties import parse_java

    try:
        with open(path, "rb") as file:
            properties = parse_java(file.read())
        _check_spelling(properties)
        return security_of_command(properties)
    except OSError as fault:
        raise UsageError(f"--command-config {path}: {fault.strerror}") from None
    except ValueError as fault:
        raise UsageError(f"--command-config {path}: {fault}") from None
