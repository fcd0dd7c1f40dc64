"""Makes the harness of this folder, and the process harness of the broker's tests, importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent.parent
for folder in (HERE, TESTS / "broker", TESTS / "protocol"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
