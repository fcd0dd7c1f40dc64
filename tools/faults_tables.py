"""Write the tables of docs/control.md from control/rules/faults.py; `--check` only checks that they are up to date."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from generated import with_part, write_or_check

from stuntbroker.control.rules.faults import MATCH, VERBS, WHEN

PAGE: Final = Path(__file__).parent.parent / "docs" / "control.md"
BEGIN: Final = "<!-- faults: written by `make properties` from control/rules/faults.py -->"
END: Final = "<!-- /faults -->"


def tables() -> str:
    """Return the tables of the parts of a rule: `match`, `when` and `do`."""
    return "\n".join(
        [
            _table("match", "which requests", MATCH),
            _table("when", "which matching requests", WHEN),
            _table("do", "effect on the request", VERBS),
        ]
    )


def _table(part: str, title: str, texts: Mapping[str, str]) -> str:
    rows = [f"| `{name}` | {text} |\n" for name, text in texts.items()]
    return f"| `{part}` | {title} |\n|---|---|\n" + "".join(rows)


def main() -> int:
    """Write or check; return the exit status."""
    return write_or_check(PAGE, with_part(PAGE, BEGIN, END, tables()), "make properties")


if __name__ == "__main__":
    sys.exit(main())
