"""Write the report: read evidence again if the audit did not keep it, render the page and write the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from stuntbroker.pipeline.audit.folder import Folder
from stuntbroker.pipeline.audit.result import Audit


def write_report(path: str, audit: Audit, folder: Folder, findings: pa.Table) -> None:
    """Write the page, about 5 MB of UTF-8, replacing an existing file. Raises OSError.

    `findings` are rows of FINDINGS. Needs jinja2 and plotly: raises ModuleNotFoundError without them.
    """
    from stuntbroker.pipeline.report.page import described_findings, page_of
    from stuntbroker.pipeline.report.reread import read_sources

    html = page_of(audit, folder, findings, read_sources(folder, audit, described_findings(findings)))
    # Folder names may contain bytes that are not UTF-8; these are shown as question marks.
    Path(path).write_bytes(html.encode("utf-8", errors="replace"))
