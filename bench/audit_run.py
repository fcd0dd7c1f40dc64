"""Measure `stuntbroker audit` on a folder: wall time, CPU time, and the total memory of its processes.

    python bench/audit_run.py FOLDER [--runs 3] [-- --spark local[2] ...]

Arguments after -- are passed to the audit. Memory is the maximum of samples taken ten times a second: `rss` counts a shared
page in every process, `pss` divides it among the processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SAMPLE_S = 0.1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    for _ in range(options.runs):
        print(
            json.dumps(run([sys.executable, "-m", "stuntbroker.cli", "audit", options.folder, *options.arguments])),
            flush=True,
        )


def run(command: list[str]) -> dict[str, object]:
    start_s = time.monotonic()
    largest = {"rss": 0, "pss": 0}
    cpu_s: dict[int, float] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            pids = family(process.pid)
            cpu_s.update({pid: seconds for pid in pids if (seconds := cpu_of(pid)) is not None})
            for name, size in memory(pids).items():
                largest[name] = max(largest[name], size)
            time.sleep(SAMPLE_S)
    return {
        "status": process.returncode,
        "wall_s": round(time.monotonic() - start_s, 1),
        "cpu_s": round(sum(cpu_s.values()), 1),
        **{f"{name}_gb": round(size / 1e6, 2) for name, size in largest.items()},
        "load": os.getloadavg()[0],
    }


def cpu_of(pid: int) -> float | None:
    """Return the CPU time of a process in seconds, None if it has ended; time after the last sample is not counted."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(root: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # The process has ended.
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    pids = [root]
    for pid in pids:
        pids += children.get(pid, [])
    return pids


def memory(pids: list[int]) -> dict[str, int]:
    """Return the total memory of these processes in kilobytes."""
    total = {"rss": 0, "pss": 0}
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(":")
            if name.lower() in total:
                total[name.lower()] += int(value.split()[0])
    return total


if __name__ == "__main__":
    main()
