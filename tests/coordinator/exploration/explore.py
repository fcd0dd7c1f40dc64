"""The exploration in full: every scene of the tests and the deeper ones, a line each; `--faults` adds who finds what.

    make explore [ARGS=--faults]

Exit status 1 with the way to the first broken promise of a scene.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for _folder in (HERE, HERE.parent, HERE.parent / "tables"):
    sys.path.insert(0, str(_folder))

from txn_explorer import explore  # noqa: E402
from txn_faults import FAULTS  # noqa: E402
from txn_scenes import DEEP, SCENES  # noqa: E402

LINE = "{:<32} {:>10} {:>6} {:>10} {:>8}"
STATES_MAX = 5_000_000


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def explore_all() -> bool:
    say(LINE.format("scene", "states", "depth", "steps", "seconds"))
    whole, began = True, time.monotonic()
    states = steps = 0
    for name, scene in (SCENES | DEEP).items():
        started = time.monotonic()
        actual = explore(*scene, states_max=STATES_MAX)
        seconds = f"{time.monotonic() - started:.1f}"
        say(LINE.format(name, actual.states, actual.depth, actual.steps, seconds))
        states, steps = states + actual.states, steps + actual.steps
        if actual.broken:
            whole = False
            say("\n    ".join([actual.broken, *actual.path]))
    say(LINE.format("all", states, "", steps, f"{time.monotonic() - began:.1f}"))
    return whole


def explore_faults() -> bool:
    """Which scenes of the tests find each fault that is seeded."""
    whole = True
    for seed in dict.fromkeys(seed for seed, _, _ in FAULTS):
        finders = []
        for name, scene in SCENES.items():
            with pytest.MonkeyPatch.context() as monkeypatch:
                seed(monkeypatch)
                if explore(*scene).broken:
                    finders.append(name)
        whole = whole and bool(finders)
        say(f"{seed.__name__}: {'all' if len(finders) == len(SCENES) else '; '.join(finders) or 'nothing'}")
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", action="store_true", help="then break every rule on purpose, scene by scene")
    wanted = parser.parse_args()
    whole = explore_all()
    if wanted.faults:
        whole = explore_faults() and whole
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
