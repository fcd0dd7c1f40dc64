"""Makes the helpers of other folders importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.extend(
    str(folder)
    for folder in (Path(__file__).parents[2] / name for name in ("tests/broker", "tests/protocol", "tools"))
    if str(folder) not in sys.path
)
