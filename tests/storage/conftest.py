"""Makes the harness of this folder importable."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

# A slow machine is no failure, and nothing is left behind in the checkout.
settings.register_profile("stuntbroker", deadline=None, database=None)
settings.load_profile("stuntbroker")
