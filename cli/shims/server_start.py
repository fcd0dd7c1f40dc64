"""kafka-server-start and kafka-server-stop: become the broker, with the given properties file, and end it."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress

from stuntbroker.cli.serving.container import listening_at, temporary_folder
from stuntbroker.cli.shims.arguments import CommandError, guarded

STOP = "kafka-server-stop"


def run(command: str, arguments: list[str]) -> int:
    """Become the broker, or end it; return the exit status of a failure or of a command that ends at once."""
    return guarded(f"{command}: ", lambda: _stop(arguments) if command == STOP else _start(arguments))


def _start(arguments: list[str]) -> int:
    if {"--help", "-h"} & set(arguments):
        sys.stdout.write("usage: kafka-server-start.sh [-daemon] [server.properties] [--override NAME=VALUE]...\n")
        return 0
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--override", action="append", default=[])
    options, others = parser.parse_known_args([word for word in arguments if word != "-daemon"])
    if len(others) > 1 or any(word.startswith("-") for word in others):
        raise CommandError("the only arguments are -daemon, a properties file and --override NAME=VALUE")
    words = [sys.executable, "-m", "stuntbroker", "serve", "--container"]
    for path in others:
        if os.path.exists(path):
            words += ["--config", path]
        else:  # A file that comes with Kafka, whose settings are the defaults here.
            sys.stderr.write(f"kafka-server-start: there is no {path} in this image: the broker uses its defaults\n")
    for text in options.override:
        words += ["--set", text]
    sys.stderr.flush()
    if "-daemon" in arguments:
        return _start_in_background(words)
    os.execvp(sys.executable, words)


def _start_in_background(words: list[str]) -> int:
    """Start the broker in a session of its own, with its output in the file that Kafka's script uses."""
    path = os.path.join(os.environ.get("LOG_DIR") or temporary_folder(), "kafkaServer.out")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as output:
            subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
    except OSError as fault:
        raise CommandError(f"cannot write {path}: {fault.strerror}; set LOG_DIR to another folder") from None
    return 0


def _stop(arguments: list[str]) -> int:
    if arguments:
        raise CommandError(f"{' '.join(arguments)}: here is one broker, and no option selects another")
    listening = listening_at()
    if listening is None or not _is_broker(listening.pid):
        sys.stdout.write("No kafka server to stop\n")
        return 1
    os.kill(listening.pid, signal.SIGTERM)
    return 0


def _is_broker(pid: int) -> bool:
    """Return whether the process is a broker: after a kill, its number may belong to another."""
    words = _command_line(pid)
    return b"serve" in words and any(b"stuntbroker" in word for word in words)


def _command_line(pid: int) -> list[bytes]:
    """Return the words that started a process; none if it has ended, or if the system does not say."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")
    with suppress(OSError):  # macOS has no /proc.
        command = ("ps", "-ww", "-o", "command=", "-p", str(pid))
        return subprocess.run(command, capture_output=True, check=False).stdout.split()
    return []
