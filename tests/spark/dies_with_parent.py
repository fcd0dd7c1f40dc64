"""Child processes that are killed when their parent ends in any way (Linux)."""

from __future__ import annotations

import ctypes
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def dies_with_parent() -> None:
    """Have this process killed when its parent ends; to be used as `preexec_fn` of subprocess.Popen."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
