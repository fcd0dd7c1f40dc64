"""The shell of the report: reads evidence again where the audit kept none, and writes the page."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from stuntbroker.pipeline.audit.folder import Folder
from stuntbroker.pipeline.audit.result import Audit


def write_report(path: str, audit: Audit, folder: Folder, findings: pa.Table) -> None:
    """Write the page, about 5 MB of UTF-8; a file that is there is replaced. Raises OSError.

    `findings` are rows of FINDINGS. Needs jinja2 and plotly: raises ModuleNotFoundError without them.
    """
    from stuntbroker.pipeline.report.page import described_findings, page_of
    from stuntbroker.pipeline.report.reread import read_sources

    html = page_of(audit, folder, findings, read_sources(folder, audit, described_findings(findings)))
    # Names of folders may have bytes that are no UTF-8; they are shown with a question mark.
    Path(path).write_bytes(html.encode("utf-8", errors="replace"))
