"""The offline audit as a judge of what tests leave behind: whatever clients do, a broker's folder is in order."""

from pathlib import Path
from typing import Any


def wrong_in(data_dir: Path) -> list[dict[str, Any]]:
    """What the audit finds in the folder of a broker that was stopped, without what is normal."""
    from stuntbroker.pipeline.audit.folder import read_folder
    from stuntbroker.pipeline.audit.run import audit

    actual: list[dict[str, Any]] = audit(read_folder(str(data_dir))).findings().to_pylist()
    return [each for each in actual if each["severity"] != "information"]
