"""Build fault and stop rules in one line."""

from __future__ import annotations

from typing import Any

MATCH = ("version", "client_id", "transactional_id", "group", "topic", "partition", "listener")
WHEN = ("nth", "times", "probability", "seed", "after_ms")


def rule(api: Any = None, **parts: Any) -> dict[str, Any]:
    """Return a rule as JSON, for example `rule("EndTxn", times=1, close=True)`."""
    match = {name: parts.pop(name) for name in MATCH if name in parts}
    if api is not None:
        match["api"] = api
    return {"match": match, "when": {name: parts.pop(name) for name in WHEN if name in parts}, "do": parts}
