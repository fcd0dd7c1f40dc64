"""Writes the tables of docs/control.md from control/rules/faults.py. `--check` only says whether they are up to date."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from stuntbroker.control.rules.faults import MATCH, VERBS, WHEN

PAGE: Final = Path(__file__).parent.parent / "docs" / "control.md"
BEGIN: Final = "<!-- faults: written by `make properties` from control/rules/faults.py -->"
END: Final = "<!-- /faults -->"


def tables() -> str:
    """What a rule may say: which requests, which of them, and what becomes of them."""
    return "\n".join(
        [
            _table("match", "which requests", MATCH),
            _table("when", "which of them", WHEN),
            _table("do", "what becomes of the request", VERBS),
        ]
    )


def _table(part: str, title: str, texts: Mapping[str, str]) -> str:
    rows = [f"| `{name}` | {text} |\n" for name, text in texts.items()]
    return f"| `{part}` | {title} |\n|---|---|\n" + "".join(rows)


def main() -> int:
    """Write or check; return the exit status."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    fresh = f"{head}{BEGIN}\n{tables()}{END}{tail}"
    if "--check" not in sys.argv:
        PAGE.write_text(fresh, encoding="utf-8")
        return 0
    if fresh == text:
        return 0
    sys.stderr.write(f"{PAGE} is not up to date: make properties\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
