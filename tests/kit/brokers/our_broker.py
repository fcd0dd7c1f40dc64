"""Our broker as a process, started as a user starts it."""

import contextlib
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.kit.brokers.kafka_broker import stop

READY_S_MAX = 30


@contextlib.contextmanager
def our_broker(data_dir: Path, log_file: Path, *settings: str) -> Iterator[str]:
    """Run the broker on a free port and give its "host:port". A setting is "name=value", in Kafka's names."""
    command = [sys.executable, "-m", "stuntbroker.cli", "serve"]
    command += ["--data-dir", str(data_dir)]
    if not any(setting.startswith("listeners=") for setting in settings):
        command += ["--port", "0"]
    for setting in settings:
        command += ["--set", setting]
    with log_file.open("ab") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        yield _address_when_ready(process)
    finally:
        status = stop(process)
        assert process.stdout is not None
        process.stdout.close()
    if status != 0:
        raise RuntimeError(f"the broker ended with status {status} when asked to stop, see {log_file}")


def _address_when_ready(process: subprocess.Popen[bytes]) -> str:
    """Return the address from the line on standard output: `ready kafka=HOST:PORT`."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], READY_S_MAX)[0]:
        raise TimeoutError(f"the broker was not ready within {READY_S_MAX} s")
    line = process.stdout.readline().decode().strip()
    if not line.startswith("ready kafka="):
        raise RuntimeError(f"the broker said {line!r} instead of being ready")
    return line.removeprefix("ready kafka=").split()[0]
