"""Render an audit as one self-contained HTML page, which needs no network and no other file.

    tables of the audit -> facts (plain values) -> figures -> HTML -> a file

Only `write`, which writes the file, and `reread`, which reads segments again, do I/O.
"""

from stuntbroker.pipeline.report.write import write_report

__all__ = ["write_report"]
