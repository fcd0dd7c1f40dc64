"""Makes the harness of this folder, and that of the audit's tests, importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "audit", HERE.parents[1] / "protocol"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
