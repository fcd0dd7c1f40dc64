"""The audit on a cluster of two workers that see the same folder: `stuntbroker audit --spark spark://...`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from spark_cluster import HOSTS, SparkCluster

ROOT = Path(__file__).parents[3]
TRANSACTIONS = 4_000


def stuntbroker_audit(folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "stuntbroker.cli", "audit", str(folder), "--json", *arguments]
    environment = os.environ | {"SPARK_LOCAL_IP": HOSTS[0]}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    actual: dict[str, Any] = json.loads(done.stdout)
    return actual


def test_a_cluster_finds_the_same_and_all_its_workers_take_part(tmp_path: Path) -> None:
    from pyarrow import parquet

    data, tables = tmp_path / "data", tmp_path / "tables"
    make = [sys.executable, str(ROOT / "bench" / "audit_folder.py"), str(data), "--gigabytes", "0.1", "--faults"]
    created = subprocess.run([*make, "--transactions", str(TRANSACTIONS)], capture_output=True, text=True, check=True)
    planted = {(each["kind"], each["topic"], each["partition"]) for each in json.loads(created.stdout)["faults"]}
    with SparkCluster(tmp_path / "cluster") as cluster:
        actual = stuntbroker_audit(data, "--tables", str(tables), "--spark", cluster.master)
        used = {host for host in HOSTS if list((tmp_path / "cluster" / f"work-{host}").glob("app-*/*/stderr"))}

    assert used == set(HOSTS)
    assert actual == stuntbroker_audit(data)
    assert {(each["kind"], each["topic"], each["partition"]) for each in actual["findings"]} == planted and len(
        planted
    ) == 4
    assert parquet.read_table(tables / "transactions").num_rows == 2 * TRANSACTIONS + 1  # And that of an unknown id.
    assert (
        parquet.read_table(tables / "batches").num_rows == actual["batches"] + 1
    )  # The corrupt batch has a row, but is not counted.


def test_a_session_that_does_not_start_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").touch()
    command = [sys.executable, "-m", "stuntbroker.cli", "audit", str(tmp_path), "--json", "--spark", "local[many]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("stuntbroker: Spark failed: ") and done.stderr.count("\n") == 1
