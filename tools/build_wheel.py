"""Build a wheel in dist/: compiled where possible, otherwise pure Python. `make wheel` runs this.

python tools/build_wheel.py [--pure] [--dist FOLDER]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from argparse import ArgumentParser
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent


def missing_for_compiling() -> str | None:
    """Return the first missing requirement for a compiled wheel; None if all are met."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(os.environ.get("CC", compiler)) is None:
        return f"a C compiler ({compiler})"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "Python's headers (Debian: python3-dev)"
    if find_spec("mypyc") is None:
        return "mypyc (pip install mypy)"
    return None


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(description="Builds a wheel, compiled where that is possible.")
    parser.add_argument("--pure", action="store_true", help="do not compile")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder for the wheel, which is emptied first")
    options = parser.parse_args(arguments)
    missing = "--pure was given" if options.pure else missing_for_compiling()
    shutil.rmtree(options.dist, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(options.dist),
    ]
    compiled = "0" if missing else "1"
    done = subprocess.run([*command, str(ROOT)], env=os.environ | {"STUNTBROKER_COMPILE": compiled}, check=False)
    if done.returncode:
        return done.returncode
    (wheel,) = options.dist.glob("*.whl")
    kind = "compiled" if not missing else f"pure Python, not compiled: {missing}"
    print(f"{wheel} ({kind})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
