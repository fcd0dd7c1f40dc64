"""Read the query id from a checkpoint, so that the sink can check it before taking over.

Spark does not tell a data source which query it writes for. The checkpoint's location is known only if it is an option of
the query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHECKPOINT: Final = "checkpointlocation"
"""Name of the option for the checkpoint's location, in lower case."""
METADATA: Final = "metadata"
"""Spark's file in the checkpoint, `{"id": "..."}`, which exists before the first batch."""
LOCAL: Final = re.compile(r"(?:file:(?://)?(?=/)|(?![A-Za-z][A-Za-z0-9+.-]*:))(.+)")


def query_of(options: Mapping[str, str]) -> str | None:
    """Return the id of the query; None if its checkpoint is not a folder that this process can read."""
    place = next((value for name, value in options.items() if name.lower() == CHECKPOINT), "")
    match = LOCAL.fullmatch(place)
    if match is None:
        return None
    try:
        query_id = json.loads(Path(match[1], METADATA).read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return query_id if isinstance(query_id, str) else None
