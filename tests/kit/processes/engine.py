"""Run a container engine with the command `docker`."""

from __future__ import annotations

import subprocess

DEADLINE_S = 30


def docker(*words: str, check: bool = True) -> str:
    """Run a docker command; return what it printed."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"docker {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr
