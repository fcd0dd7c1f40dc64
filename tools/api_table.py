"""Write the table of APIs in README.md from the APIs that the broker serves; `--check` only checks that it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generated import with_part, write_or_check

from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.protocol.api_keys import APIS

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- apis: written by `make readme` -->", "<!-- /apis -->"


def table() -> str:
    rows = ["| key | API | versions |", "|--:|---|---|"]
    for key, (low, high, _) in sorted(SERVED.items()):
        rows.append(f"| {key} | {APIS[key].name} | {low if low == high else f'{low}-{high}'} |")
    return "\n".join(rows)


def main() -> int:
    return write_or_check(README, with_part(README, BEGIN, END, f"{table()}\n"), "make readme")


if __name__ == "__main__":
    sys.exit(main())
