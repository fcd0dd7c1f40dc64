"""The folder that measurements are made with is as brokers write it: nothing is wrong with it but what was planted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stuntbroker.pipeline.audit.folder import read_folder
from stuntbroker.pipeline.audit.run import audit

MAKER = Path(__file__).parent.parent.parent.parent / "bench" / "audit_folder.py"


@pytest.mark.parametrize("faults", [(), ("--faults",)])
def test_the_audit_finds_exactly_the_planted_faults(faults: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, str(MAKER), str(tmp_path), "--gigabytes", "0.01", "--transactions", "2000", *faults]
    created = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    actual = audit(read_folder(str(tmp_path)))

    rows = actual.findings().to_pylist()
    assert [(row["kind"], row["topic"], row["partition"]) for row in rows] == [
        (each["kind"], each["topic"], each["partition"]) for each in created["faults"]
    ]
    assert len(actual.transactions) == 2 * created["transactions"] + len(faults) == 4_000 + len(faults)
    assert len(actual.lasts) == 1_000
