"""What pyproject.toml cannot say: where setuptools puts what it writes on the way, and which modules are compiled.

By itself, setuptools leaves build/ and *.egg-info in the checkout, and ships from build/ the modules that were deleted since
then.

With STUNTBROKER_COMPILE=1 in the environment, mypyc compiles the modules that every transaction passes through. It needs mypy, a
C compiler and Python's headers; `make wheel` looks for them. The source runs as it is without them.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from setuptools import setup

if TYPE_CHECKING:
    from setuptools import Extension

PACKAGE = "stuntbroker"
NOT_PACKED = ("tests", "tools")
COMPILED = (
    "broker/clock.py",
    "broker/connections/connection.py",
    "broker/connections/secured_connection.py",
    "broker/handlers/k00_produce.py",
    "broker/handlers/k12_heartbeat.py",
    "broker/handlers/k26_end_txn.py",
    "broker/handlers/k28_txn_offset_commit.py",
    "broker/metadata/topics.py",
    "broker/produce/client_append.py",
    "broker/produce/plain_produce.py",
    "broker/requests/request.py",
    "broker/requests/router.py",
    "broker/requests/routes.py",
    "broker/transactions/coordinator_errors.py",
    "broker/transactions/producer_ids.py",
    "broker/transactions/registry.py",
    "broker/transactions/txn_markers.py",
    "client/blocking/records.py",
    "client/connections/exchanges.py",
    "client/connections/frames.py",
    "client/connections/known_partitions.py",
    "client/producer/batches.py",
    "client/producer/dispatch.py",
    "client/producer/in_flight.py",
    "client/producer/partitioning.py",
    "client/producer/produce_requests.py",
    "client/producer/sender.py",
    "client/producer/session.py",
    "client/requests.py",
    "coordinator/actor.py",
    "coordinator/machine.py",
    "coordinator/records.py",
    "coordinator/requests.py",
    "coordinator/state.py",
    "groups/claims.py",
    "groups/classic/offset_rules.py",
    "groups/classic/records.py",
    "groups/commits.py",
    "groups/coordinator.py",
    "groups/ledger.py",
    "groups/offset_records.py",
    "groups/offset_requests.py",
    "groups/offsets.py",
    "groups/records.py",
    "protocol/batches/check.py",
    "protocol/batches/records.py",
    "protocol/hashing.py",
    "protocol/messages/end_txn_request.py",
    "protocol/messages/heartbeat_request.py",
    "protocol/messages/offset_commit_key.py",
    "protocol/messages/offset_commit_value.py",
    "protocol/messages/produce_request.py",
    "protocol/messages/txn_offset_commit_request.py",
    "protocol/primitives.py",
    "protocol/produce_codec.py",
    "storage/disk.py",
    "storage/log_config.py",
    "storage/marker.py",
    "storage/open_files.py",
    "storage/partition.py",
    "storage/producers.py",
    "storage/segment.py",
    "storage/segmented_log.py",
    "storage/turn.py",
)
C_OPTIONS = (
    "-Wno-misleading-indentation",  # To look at the indentation of so long a file takes two thirds of the compiler's time.
    "-fvisibility=hidden",  # Otherwise a function that another library could replace is not inlined.
    "-fno-semantic-interposition",
)
MYPY_OPTIONS = ("--strict", "--ignore-missing-imports", "--config-file=", "--cache-dir=/dev/null")


def compiled_modules(folder: Path) -> list[Extension]:
    """The extension modules, whose C code is written to `folder`."""
    from mypyc.build import mypycify

    root = Path(__file__).parent
    package = folder / PACKAGE
    # mypyc takes the names of modules from folders, and in the checkout the rooms lie beside the package.
    shutil.copytree(root / PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    rooms = {path.parent.name for path in root.glob("*/__init__.py")} - {PACKAGE, *NOT_PACKED}
    for room in rooms:
        shutil.copytree(root / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    paths = [str(package / path) for path in COMPILED]
    optimization = os.environ.get("STUNTBROKER_OPTIMIZATION", "3")  # 0 compiles in half the time, for a test.
    modules: list[Extension] = mypycify(
        [*MYPY_OPTIONS, *paths],
        opt_level=optimization,
        debug_level="0",
        group_name=PACKAGE,
        target_dir=str(folder / "c"),
    )
    if os.name != "nt":
        for module in modules:
            module.extra_compile_args += C_OPTIONS
    return modules


# A wheel is built by several calls, the first of which only ask for its metadata.
is_compiled = os.environ.get("STUNTBROKER_COMPILE") == "1" and not {"egg_info", "dist_info"} & set(sys.argv)
with TemporaryDirectory(prefix="stuntbroker-build.") as build_folder:
    setup(
        ext_modules=compiled_modules(Path(build_folder)) if is_compiled else [],
        options={"build": {"build_base": f"{build_folder}/build"}, "egg_info": {"egg_base": build_folder}},
    )
