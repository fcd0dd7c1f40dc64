"""Nothing that a user starts needs names of the standard library that CPython lacks on macOS."""

from __future__ import annotations

import importlib
import sys
from typing import Final

import pytest
from house_sources import FRONT_DOOR, ROOMS, files_of, tree_of, uses_of

from tests.kit.processes.macos.missing_on_macos import missing_names

BESIDE_ANOTHER_WAY: Final = {
    ("cli/serving/fork_server.py", "os.pidfd_open"),
    ("cli/serving/parent.py", "os.pidfd_open"),
    ("security/tls.py", "os.memfd_create"),
    ("storage/disk.py", "os.fdatasync"),
}
"""Uses beside which there is another way; tests/cli/test_macos.py runs brokers without these names."""
SINCE_PYTHON_312: Final = {"os.setns", "os.unshare"}
NAMES: Final = {f"{module}.{name}" for module, names in missing_names().items() for name in names}


def test_no_file_uses_what_macos_does_not_have() -> None:
    used = {
        (str(path), name)
        for path in files_of(*ROOMS, FRONT_DOOR)
        for _, name in uses_of(tree_of(path))
        if name in NAMES
    }
    assert used == BESIDE_ANOTHER_WAY


@pytest.mark.skipif(sys.platform != "linux", reason="the names exist on Linux")
def test_every_name_that_macos_lacks_is_one_of_linux() -> None:
    unknown = {name for name in NAMES if not hasattr(importlib.import_module(name.split(".")[0]), name.split(".")[1])}
    assert unknown <= (SINCE_PYTHON_312 if sys.version_info < (3, 12) else set())
