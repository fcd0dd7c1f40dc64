"""Clients in other languages: one program runs every scenario on every cluster, one line of JSON for each."""

import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

PROGRAM_S_MAX = 240


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What a program said: the trace of each "cluster scenario", empty when it passed, and everything it printed."""

    clusters: Collection[str]
    traces: Mapping[str, str]
    transcript: str

    def check(self, cluster: str, scenario: str) -> None:
        """Fail with the program's own trace unless the scenario passed."""
        if cluster not in self.clusters:
            pytest.skip(f"needs the cluster {cluster}, not the one that is already there")
        name = f"{cluster} {scenario}"
        trace = self.traces.get(name, f"the program never got to {name}:\n{self.transcript}")
        assert not trace, f"{trace}\n\n{self.transcript}"


def run_scenarios(command: Sequence[str], clusters: Mapping[str, str]) -> Outcomes:
    """Run a program to its end, with name=address for each cluster. Lines that are no JSON are its log."""
    try:
        answer = subprocess.run(
            [*command, *(f"{name}={address}" for name, address in clusters.items())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PROGRAM_S_MAX,
        )
        printed = answer.stdout
    except subprocess.TimeoutExpired as hung:
        # What there is so far comes as bytes even from a text pipe.
        so_far = hung.stdout or b""
        printed = so_far if isinstance(so_far, str) else so_far.decode()
        printed += f"\nstopped after {PROGRAM_S_MAX} s"
    lines = printed.splitlines()
    outcomes = [json.loads(line) for line in lines if line.startswith('{"scenario"')]
    log = "\n".join(line for line in lines if not line.startswith('{"scenario"'))
    return Outcomes(clusters.keys(), {each["scenario"]: each["trace"] for each in outcomes}, log)


def build_folder(name: str, sources: Sequence[Path]) -> Path:
    """A folder in the cache for what these sources compile to. Another text, another folder."""
    digest = sha256(b"".join(source.read_bytes() for source in sorted(sources))).hexdigest()[:16]
    root = Path(os.environ.get("STUNTBROKER_CACHE") or Path.home() / ".cache" / "stuntbroker")
    return root / "peers" / f"{name}-{digest}"


def build(folder: Path, command: Sequence[str], cwd: Path) -> Path:
    """Fill `folder` once, by a command that takes "{out}" for the place.

    Callers may be many, in many processes: one builds, the others wait for it, and nobody sees half of it.
    """
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        open(folder.with_name(f".{folder.name}.lock"), "wb") as lock,
        tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as scratch,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        out = Path(scratch) / "out"
        answer = subprocess.run(
            [part.replace("{out}", str(out)) for part in command],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert answer.returncode == 0, answer.stdout
        out.rename(folder)
    return folder
