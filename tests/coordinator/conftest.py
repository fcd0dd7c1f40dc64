"""Makes the harness of this folder importable, and `--rewrite-scenarios` known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

# A slow machine is no failure, and nothing is left behind in the checkout.
settings.register_profile("stuntbroker", deadline=None, database=None)
settings.load_profile("stuntbroker")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios",
        action="store_true",
        default=False,
        help="write what the coordinator does now into tests/coordinator/scenarios; review the diff",
    )
