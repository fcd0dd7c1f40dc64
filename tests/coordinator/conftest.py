"""Makes the harness of this folder importable, and adds the option `--rewrite-scenarios`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE / "tables", HERE / "exploration"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios",
        action="store_true",
        default=False,
        help="write what the coordinator does now into tests/coordinator/scenarios; review the diff",
    )
