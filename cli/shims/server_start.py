"""kafka-server-start: becomes the broker, with the given properties file."""

from __future__ import annotations

import argparse
import os
import sys

from stuntbroker.cli.shims.arguments import CommandError, guarded


def run(command: str, arguments: list[str]) -> int:
    """Become the broker; return the exit status if that fails."""
    return guarded(f"{command}: ", lambda: _run(arguments))


def _run(arguments: list[str]) -> int:
    if {"--help", "-h"} & set(arguments):
        sys.stdout.write("usage: kafka-server-start.sh [server.properties] [--override NAME=VALUE]...\n")
        return 0
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--override", action="append", default=[])
    options, others = parser.parse_known_args([word for word in arguments if word != "-daemon"])
    if "-daemon" in arguments or len(others) > 1 or any(word.startswith("-") for word in others):
        raise CommandError("the only arguments are a properties file and --override NAME=VALUE")
    words = ["stuntbroker", "serve", "--container"]
    for path in others:
        if os.path.exists(path):
            words += ["--config", path]
        else:  # A file that comes with Kafka, whose settings are the defaults here.
            sys.stderr.write(f"kafka-server-start: there is no {path} in this image: the broker uses its defaults\n")
    for text in options.override:
        words += ["--set", text]
    sys.stderr.flush()
    os.execvp(sys.executable, [sys.executable, "-m", *words])
