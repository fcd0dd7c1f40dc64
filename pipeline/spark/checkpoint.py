"""Whose batches they are, told before anything is done for them: a checkpoint names its query.

A data source is not told which query it writes for, nor where its checkpoint is, unless that is an option of the query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHECKPOINT: Final = "checkpointlocation"
"""The option, in lower case."""
METADATA: Final = "metadata"
"""Spark's file in it, `{"id": "..."}`, which is there before the first batch."""
LOCAL: Final = re.compile(r"(?:file:(?://)?(?=/)|(?![A-Za-z][A-Za-z0-9+.-]*:))(.+)")


def query_of(options: Mapping[str, str]) -> str | None:
    """The id of the query; None when its checkpoint is not a folder that this process can read."""
    place = next((value for name, value in options.items() if name.lower() == CHECKPOINT), "")
    match = LOCAL.fullmatch(place)
    if match is None:
        return None
    try:
        query_id = json.loads(Path(match[1], METADATA).read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return query_id if isinstance(query_id, str) else None
