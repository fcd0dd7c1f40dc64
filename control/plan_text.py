"""Plans as text, from a file or a request: JSON, or YAML where PyYAML is installed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

YAML_SUFFIXES: Final = (".yaml", ".yml")


def read_plan_file(path: str | os.PathLike[str]) -> Any:
    """Return the plan in a file, as plain values that nobody has checked. YAML by its suffix. Raises OSError, ValueError."""
    return read_plan_text(Path(path).read_bytes(), is_yaml=Path(path).suffix.lower() in YAML_SUFFIXES)


def read_plan_text(content: bytes, *, is_yaml: bool) -> Any:
    """Return the plan that a text in UTF-8 holds, as plain values that nobody has checked.

    Raises ValueError, in one line, for what is no JSON or YAML.
    """
    text = content.decode()
    if not is_yaml:
        try:
            return json.loads(text)
        except RecursionError as fault:
            raise ValueError(str(fault)) from None
    try:
        import yaml
    except ModuleNotFoundError:
        raise ValueError("YAML needs PyYAML: pip install 'stuntbroker[yaml]', or write JSON") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as fault:
        raise ValueError(" ".join(str(fault).split())) from None
