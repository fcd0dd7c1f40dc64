"""Print the Python for the virtual environment: this interpreter, or a faster build of the same version.

    python3 tools/choose_python.py [FOLDER ...]        folders to search (default: /usr/local/bin and /usr/bin)

An interpreter built with profile-guided optimization is a tenth faster. Distributions build Python with it; pyenv does so
only on request. An interpreter of another version is never chosen.
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
    """Return, for example, `3 11 optimized` or `3 11 plain`; empty if it does not run or lacks venv or ensurepip."""
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
            text = f"{other} is used: {sys.executable} was built without optimization (make PYTHON=... selects another)"
            print(text, file=sys.stderr)
            return str(other)
    return sys.executable


if __name__ == "__main__":
    print(choose(sys.argv[1:] or list(FOLDERS)))
