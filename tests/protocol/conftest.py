"""Makes the generator of `tools/` and the helpers of this folder importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent.parent / "tools"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
