"""Writes the table of APIs into README.md from what the broker serves. `--check` only says whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from stuntbroker.broker.apis import SERVED
from stuntbroker.protocol.api_keys import APIS

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- apis: written by `make readme` -->", "<!-- /apis -->"


def table() -> str:
    rows = ["| key | API | versions |", "|--:|---|---|"]
    for key, (low, high, _) in sorted(SERVED.items()):
        rows.append(f"| {key} | {APIS[key].name} | {low if low == high else f'{low}-{high}'} |")
    return "\n".join(rows)


def main() -> int:
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    fresh = f"{head}{BEGIN}\n{table()}\n{END}{tail}"
    if "--check" in sys.argv:
        if fresh != text:
            print("README.md: the table of APIs is not what the broker serves: run `make readme`")
        return int(fresh != text)
    README.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
