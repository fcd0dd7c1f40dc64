"""Makes the helpers of this folder, and those of the client's tests, importable."""

from __future__ import annotations

import sys
from pathlib import Path

for _folder in (
    Path(__file__).parent,
    Path(__file__).parents[1] / "client",
    Path(__file__).parents[1] / "client" / "producer",
):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))
