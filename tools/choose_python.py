"""Names the Python that the virtual environment is made of: this one, or a faster build of the same version.

    python3 tools/choose_python.py [FOLDER ...]        folders to look in, else /usr/local/bin and /usr/bin

Built with profile-guided optimization an interpreter is a tenth faster. Distributions build theirs with it; pyenv does
not unless it is told to. Another version than the one that was asked for is never chosen.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

FOLDERS: Final = ("/usr/local/bin", "/usr/bin")
PROBE: Final = """
import ensurepip, sys, sysconfig, venv
flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
distributed = sys.base_prefix == "/usr"  # Their packages hide how they were built.
print(*sys.version_info[:2], "optimized" if distributed or "--enable-optimizations" in flags else "plain")
"""


def build_of(python: str) -> str:
    """`3 11 optimized`, `3 11 plain`; empty when it does not run or cannot make virtual environments."""
    try:
        probe = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return probe.stdout.strip() if probe.returncode == 0 else ""


def choose(folders: list[str]) -> str:
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    wanted = f"{sys.version_info[0]} {sys.version_info[1]} optimized"
    if build_of(sys.executable) == wanted:
        return sys.executable
    for folder in folders:
        other = Path(folder) / name
        if other.is_file() and build_of(str(other)) == wanted:
            text = f"{other} is used: {sys.executable} was built without optimization (make PYTHON=... takes another)"
            print(text, file=sys.stderr)
            return str(other)
    return sys.executable


if __name__ == "__main__":
    print(choose(sys.argv[1:] or list(FOLDERS)))
