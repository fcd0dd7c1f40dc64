"""Compare brokers, Apache Kafka and ours.

    python -m tests.conformance KAFKA OURS [CASE...]      cases, on running brokers, each HOST:PORT
    python -m tests.conformance --seeds 100 [KAFKA OURS]  random sequences; without addresses both are started

For cases, every difference is printed, including error messages and allowed differences. For random sequences, only
differences that are not allowed are printed, each with the shortest list of acts that was found for it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from tests.conformance.cases import GROUPS
from tests.conformance.compare import Difference, run_case
from tests.conformance.sequences.random_acts import THEMES
from tests.conformance.sequences.random_run import main as run_random
from tests.conformance.side import prepare

LINES_PER_STEP_MAX = 4


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="KAFKA OURS CASE", help="addresses of running brokers, and cases")
    parser.add_argument("--seeds", type=int, default=0, help="so many random sequences of each theme")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60, help="acts in a sequence")
    parser.add_argument("--only", choices=THEMES, action="append", help="a theme; all of them without this")
    parser.add_argument(
        "--transaction-version",
        type=int,
        choices=(0, 1, 2),
        action="append",
        help="of the brokers; 2 and 1 without this",
    )
    parser.add_argument(
        "--high-epochs",
        action="store_true",
        help="transactional ids whose epochs are nearly used up (brokers of its own)",
    )
    parser.add_argument(
        "--unverified",
        action="store_true",
        help="brokers of its own with transaction.partition.verification.enable=false",
    )
    given = parser.parse_args()
    if not given.seeds:
        if len(given.names) < 2:
            parser.error("two addresses, or --seeds")
        return compare_cases(*given.names)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    versions = [2] if given.names else given.transaction_version or [2, 1]
    with TemporaryDirectory(prefix="conformance-") as folder:
        return run_random(
            given.only or THEMES,
            seeds,
            given.steps,
            versions,
            Path(folder),
            given.names[:2],
            given.high_epochs,
            given.unverified,
        )


def compare_cases(kafka: str, ours: str, *wanted: str) -> int:
    failed = 0
    for address in (kafka, ours):
        prepare(address)
    run = uuid4().hex[:6]
    for group, cases in GROUPS.items():
        for case in cases:
            if wanted and not any(re.search(each, f"{group}.{case.__name__}") for each in wanted):
                continue
            began = time.monotonic()
            actual = run_case(case, kafka, ours, f"{case.__name__}-{run}")
            took = time.monotonic() - began
            sys.stdout.write(f"== {group}.{case.__name__} {took:.2f} s\n")
            failed += sum(not (item.is_order or item.is_text or item.allowance) for item in actual)
            messages: Counter[str] = Counter()
            for line, versions in _by_version(actual).items():
                messages[line.split(" | ")[0]] += 1
                if messages[line.split(" | ")[0]] > LINES_PER_STEP_MAX:
                    continue
                sys.stdout.write(f"   {line}   {versions}\n")
            sys.stdout.flush()
    return 1 if failed else 0


def _by_version(actual: list[Difference]) -> dict[str, str]:
    """Return each distinct difference with the versions in which it occurs."""
    lines: dict[str, list[str]] = {}
    for each in actual:
        kind = "order" if each.is_order else "text" if each.is_text else each.allowance or "WRONG"
        version = re.search(r" v(\d+)", each.step)
        step = re.sub(r"^\d+: ", "", each.step).replace(version[0] if version else "", "", 1)
        path = re.sub(r"-v\d+", "", each.path)
        lines.setdefault(f"{kind}: {step} | {path}: Kafka {each.kafka!r}, ours {each.ours!r}", []).append(
            "v" + version[1] if version else each.step.split(":")[0]
        )
    return {re.sub(r"[\w-]+-[0-9a-f]{6}-", "~", line): " ".join(dict.fromkeys(at)) for line, at in lines.items()}


if __name__ == "__main__":
    sys.exit(main())
