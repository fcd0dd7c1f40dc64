"""Compare two running brokers: `python -m tests.conformance KAFKA OURS [CASE...]`, each address as HOST:PORT.

Prints every difference, the words of error messages and what is allowed included.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from uuid import uuid4

from tests.conformance.cases import GROUPS
from tests.conformance.compare import Difference, run_case
from tests.conformance.side import prepare

LINES_PER_STEP_MAX = 4


def main(kafka: str, ours: str, *wanted: str) -> int:
    failed = 0
    for address in (kafka, ours):
        prepare(address)
    run = uuid4().hex[:6]
    for group, cases in GROUPS.items():
        for case in cases:
            if wanted and not any(re.search(each, f"{group}.{case.__name__}") for each in wanted):
                continue
            began = time.monotonic()
            found = run_case(case, kafka, ours, f"{case.__name__}-{run}")
            took = time.monotonic() - began
            sys.stdout.write(f"== {group}.{case.__name__} {took:.2f} s\n")
            failed += sum(not (one.is_order or one.is_text or one.allowance) for one in found)
            told: Counter[str] = Counter()
            for line, versions in _by_version(found).items():
                told[line.split(" | ")[0]] += 1
                if told[line.split(" | ")[0]] > LINES_PER_STEP_MAX:
                    continue
                sys.stdout.write(f"   {line}   {versions}\n")
            sys.stdout.flush()
    return 1 if failed else 0


def _by_version(found: list[Difference]) -> dict[str, str]:
    """What is different, and at which versions."""
    lines: dict[str, list[str]] = {}
    for each in found:
        kind = "order" if each.is_order else "text" if each.is_text else each.allowance or "WRONG"
        version = re.search(r" v(\d+)", each.step)
        step = re.sub(r"^\d+: ", "", each.step).replace(version[0] if version else "", "", 1)
        path = re.sub(r"-v\d+", "", each.path)
        lines.setdefault(f"{kind}: {step} | {path}: Kafka {each.kafka!r}, ours {each.ours!r}", []).append(
            "v" + version[1] if version else each.step.split(":")[0]
        )
    return {re.sub(r"[\w-]+-[0-9a-f]{6}-", "~", line): " ".join(dict.fromkeys(at)) for line, at in lines.items()}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
