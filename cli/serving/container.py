"""`serve --container`: the default behaviour that is expected of a Kafka image, and its log lines.

Compose files and Testcontainers modules that were written for apache/kafka, confluentinc/cp-kafka, bitnami or Redpanda set
variables, mount a volume where that image has its data, and wait for a line in its log.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from stuntbroker.protocol.addresses import PORT_DEFAULT
from stuntbroker.protocol.data_folder import JOURNAL

LISTENERS: Final = f"PLAINTEXT://0.0.0.0:{PORT_DEFAULT}"
DATA_DIR: Final = "/var/lib/kafka/data"
OTHER_DATA_DIRS: Final = ("/bitnami/kafka/data", "/bitnami/kafka", "/var/lib/redpanda/data")
"""Data folders of other images, used if a volume is mounted there or at one of their parents."""
OTHER_MOUNTED_DIRS: Final = ("/kafka", "/tmp/kraft-combined-logs", "/tmp/kafka-logs", "/tmp/kafka")
"""The same, if a volume for data is mounted exactly there: something else may be mounted at /kafka, or at /tmp."""
TEMPORARY: Final = ("/tmp", "/dev/shm")
"""Folders for temporary files; /dev/shm is writable even if the container's file system is read-only."""
READY_FILES: Final = tuple(f"{folder}/stuntbroker.ready" for folder in TEMPORARY)
"""Files for the broker's address once it is ready; the first that is writable is used."""
CONFIG_FILES: Final = tuple(
    f"{folder}/server.properties"
    for folder in ("/mnt/shared/config", "/bitnami/kafka/config", "/opt/bitnami/kafka/config", "/opt/kafka/config")
)
"""Properties files of other images. The last one is also in this image, without properties."""


def config_file() -> str:
    """Return the first of CONFIG_FILES that exists, else an empty string."""
    return next(filter(os.path.exists, CONFIG_FILES), "")


def data_dir(log_dirs: str) -> str | None:
    """Return the folder of `log.dirs`, else one with a mounted volume, else DATA_DIR; None if that is not writable."""
    if log_dirs:
        return log_dirs
    for path in (DATA_DIR, *OTHER_DATA_DIRS):
        if _is_in_volume(path):
            return path
    if mounted := next(filter(_is_for_data, OTHER_MOUNTED_DIRS), None):
        return mounted
    return DATA_DIR if os.access(DATA_DIR, os.W_OK) else None


def _is_in_volume(path: str) -> bool:
    """Return whether a volume is mounted at a folder or at one of its parents. The folder need not exist yet."""
    while path != "/":
        if os.path.ismount(path):
            return True
        path = os.path.dirname(path)
    return False


def _is_for_data(path: str) -> bool:
    """Return whether a volume is mounted at a folder, and is empty or a broker's data folder."""
    if not os.path.ismount(path) or not os.access(path, os.W_OK | os.X_OK):
        return False
    names = [name for name in os.listdir(path) if name != "lost+found"]
    return not names or JOURNAL in names


def temporary_folder() -> str:
    """Return a writable folder for temporary data, for TMPDIR."""
    return next((folder for folder in TEMPORARY if os.access(folder, os.W_OK)), TEMPORARY[0])


def ready_file() -> str:
    """Return the path of the ready file, or an empty string if none is writable."""
    return next((path for path in READY_FILES if os.access(os.path.dirname(path), os.W_OK)), "")


class Listening(NamedTuple):
    """The broker's first listener."""

    address: str
    is_secured: bool
    """Whether clients need TLS or SASL."""
    pid: int
    """Process id of the broker."""


def listening_at() -> Listening | None:
    """Return the broker's first listener, from the ready file; None while there is no such file."""
    import json

    for path in READY_FILES:
        try:
            with open(path, encoding="utf-8") as file:
                ready = json.load(file)
                return Listening(str(ready["kafka"]), "security" in ready, int(ready["pid"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def ownership_advice(path: str) -> str:
    """Return advice if the data folder cannot be written, else an empty string."""
    wanted = path = os.path.abspath(path)
    while not os.path.isdir(path) and path != "/":  # A parent may be the mount point.
        path = os.path.dirname(path)
    if os.access(path, os.W_OK):
        return ""
    user, owner = os.geteuid(), os.stat(path).st_uid
    if path != "/" and os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"; {path} is mounted read-only: mount it without `:ro` or `read_only`"
    if path == "/":
        return (
            f"; nothing is mounted there: mount a volume at {wanted}, or leave out the variable or option that names it"
        )
    return (
        f"; {path} belongs to user {owner}, and the broker runs as user {user}: "
        f"run `chown {user}` on the folder that is mounted there, or start the container with --user {owner}"
    )


def ready_lines(node_id: int) -> str:
    """Return the log lines of other images for which Testcontainers modules and scripts wait."""
    return (
        f"[KafkaRaftServer nodeId={node_id}] Kafka Server started\n"
        f"[KafkaServer id={node_id}] started\n"
        f"[BrokerServer id={node_id}] Transitioning from RECOVERY to RUNNING\n"
        "INFO  main - Successfully started Redpanda!\n"
        "INFO  main - Started Kafka API server\n"
    )
