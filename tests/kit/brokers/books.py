"""The offline audit must find no fault in a broker's data folder, whatever clients did in the tests."""

from pathlib import Path
from typing import Any


def wrong_in(data_dir: Path) -> list[dict[str, Any]]:
    """Return the audit's findings in the folder of a stopped broker, without those of severity `information`."""
    from stuntbroker.pipeline.audit.folder import read_folder
    from stuntbroker.pipeline.audit.run import audit

    actual: list[dict[str, Any]] = audit(read_folder(str(data_dir))).findings().to_pylist()
    return [each for each in actual if each["severity"] != "information"]
