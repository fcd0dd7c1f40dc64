"""The audit as one HTML page that needs nothing else: no network, no other file.

    tables of the audit -> facts (plain values) -> figures -> HTML -> a file

Only `write`, which puts it into a file, and `reread` touch the outside world.
"""

from stuntbroker.pipeline.report.write import write_report

__all__ = ["write_report"]
