"""Makes the broker in memory importable."""

from __future__ import annotations

import sys
from pathlib import Path

if str(Path(__file__).parent.parent / "producer") not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent.parent / "producer"))
