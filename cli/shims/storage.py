"""kafka-storage and zookeeper-server-start, which start scripts call before the broker; not needed here."""

from __future__ import annotations

import os
import sys
from base64 import urlsafe_b64encode
from typing import Final

ADD_SCRAM: Final = ("--add-scram", "-S")
"""Options of Kafka's command that create users of SCRAM."""


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    if command == "zookeeper-server-start":
        sys.stderr.write("stuntbroker: there is no ZooKeeper here, and none is needed\n")
        return 0
    if not arguments or "--help" in arguments or "-h" in arguments:
        sys.stdout.write("usage: kafka-storage.sh random-uuid|format|info; a data folder needs no formatting here\n")
        return 0 if arguments else 1
    verb = next((word for word in arguments if not word.startswith("-")), "")
    if verb == "random-uuid" and len(arguments) > 1:
        sys.stderr.write(f"kafka-storage: error: unrecognized arguments: {' '.join(arguments[1:])}\n")
        return 1
    if verb == "random-uuid":
        text = "-"
        while text.startswith("-"):  # Like Kafka's, the id must not look like an option.
            text = urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        sys.stdout.write(text + "\n")
        return 0
    if verb in ("format", "info"):
        sys.stderr.write("stuntbroker: a data folder needs no formatting here\n")
        if any(word.partition("=")[0] in ADD_SCRAM for word in arguments):
            sys.stderr.write(
                "stuntbroker: --add-scram has no effect: set stuntbroker.users=NAME:PASSWORD, or run kafka-configs.sh "
                "--alter --add-config 'SCRAM-SHA-256=[password=PASSWORD]' --entity-type users --entity-name NAME later\n"
            )
        return 0
    sys.stderr.write("kafka-storage: a command is missing; here there are random-uuid, format and info\n")
    return 1
