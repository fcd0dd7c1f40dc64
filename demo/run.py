"""`make demo`: Spark turns orders into payments while tasks, workers, drivers and the broker are killed; then the audit runs.

    orders (topic) -> Spark -> payments (topic), exactly once -> audit of the broker's folder -> report

All files are in build/demo and are kept for inspection. `--rows` sets the number of orders (default 200000), `--no-faults`
disables the faults, and `--open` opens the report in the browser.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import webbrowser
from pathlib import Path

import numpy as np
import pyarrow as pa
from faults import FAULTS

from stuntbroker.cli.data_folder.audit_spark import SparkError, need_java
from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import end_offset
from stuntbroker.client.commands.reader import read_partition
from stuntbroker.client.commands.topics import create_topic
from stuntbroker.pipeline.counting import count as counted
from stuntbroker.pipeline.encode import encode
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.request_values import READ_UNCOMMITTED

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "demo"
PARTITIONS = 4
BATCHES = 9
WRITERS = 20
"""Number of transactions that write the orders; every fifth is aborted and written again, so that aborted records exist."""
DRIVERS_MAX = 10
"""Maximum number of drivers to start, as a query that dies more often has another problem."""
DRIVER_S_MAX = 600


class Broker:
    """A Stuntbroker process at a fixed address; `revive` restarts it after it was killed."""

    def __init__(self, data_dir: Path, pid_file: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = Address("127.0.0.1", free.getsockname()[1])
        self._data_dir, self._pid_file = data_dir, pid_file
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "stuntbroker.cli", "serve", "--port", str(self.address.port)]
        command += ["--data-dir", str(self._data_dir), "--log-level", "error"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # "ready kafka=..."
        self._pid_file.write_text(str(self._process.pid))

    def revive(self) -> None:
        if self._process.poll() is not None:
            self.start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def write_orders(cluster: Cluster, count: int) -> None:
    """Write `count` orders in WRITERS transactions, some with an aborted attempt before."""
    create_topic(cluster, "orders", PARTITIONS, if_not_exists=True)
    create_topic(cluster, "payments", PARTITIONS, if_not_exists=True)
    random = np.random.default_rng(42)
    now_ms = time.time_ns() // 1_000_000
    writer = TransactionalWriter(cluster, "shop")
    writer.init()
    for number, orders in enumerate(np.array_split(np.arange(count), WRITERS)):
        cents = random.integers(100, 100_000, len(orders))
        customers = random.integers(0, 5_000, len(orders))
        values = pa.array(
            f'{{"order":{order},"customer":"c{customer:04d}","cents":{cent}}}'
            for order, customer, cent in zip(orders.tolist(), customers.tolist(), cents.tolist(), strict=True)
        )
        for outcome in (writer.abort, writer.commit) if number % 5 == 4 else (writer.commit,):
            for partition in range(PARTITIONS):
                for batch in encode(None, values[partition::PARTITIONS], now_ms, batch_bytes_max=100_000):
                    writer.produce("orders", partition, batch.data)
            writer.flush()
            outcome()


def run_query(broker: Broker, rows_per_batch: int, struck_before: set[str]) -> int:
    """Run the query, restarting its driver until it succeeds; return the number of drivers."""
    environment = os.environ | {"PYTHONPATH": str(HERE), "PYSPARK_PYTHON": sys.executable}
    address = f"{broker.address.host}:{broker.address.port}"
    command = [sys.executable, str(HERE / "query.py"), address, str(FOLDER), str(rows_per_batch)]
    for attempt in range(1, DRIVERS_MAX + 1):
        with (FOLDER / f"driver-{attempt}.log").open("wb") as log:
            driver = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + DRIVER_S_MAX
        while driver.poll() is None:
            broker.revive()
            tell_faults(struck_before)
            if time.monotonic() > deadline:
                driver.kill()
                sys.exit(f"the query hangs: see {log.name}")
            time.sleep(0.05)
        broker.revive()
        tell_faults(struck_before)
        if driver.returncode == 0:
            return attempt
        say(f"  driver {attempt} has ended; the query is restarted from its checkpoint")
    sys.exit(f"the query did not finish: see {FOLDER}/driver-*.log")


def tell_faults(printed: set[str]) -> None:
    for name in sorted(names(FOLDER / "faults") - printed, reverse=True):
        printed.add(name)
        batch, _, which = name.partition(".")
        say(f"  batch {batch}: {FAULTS[int(batch)]}" if which == "struck" else f"  batch {batch}: again")


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir() if each.suffix in (".struck", ".again")}


def numbers(cluster: Cluster, topic: str) -> collections.Counter[int]:
    """Count the committed records of each order in a topic."""
    counts: collections.Counter[int] = collections.Counter()
    for partition in range(PARTITIONS):
        counts.update(int(json.loads(row.value or b"")["order"]) for row in read_partition(cluster, topic, partition))
    return counts


def audit_folder(data_dir: Path, report: Path) -> tuple[int, dict[str, object]]:
    """Run `stuntbroker audit`; return its exit status and its JSON output."""
    command = [sys.executable, "-m", "stuntbroker.cli", "audit", str(data_dir), "--json", "--html", str(report)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    return done.returncode, json.loads(done.stdout)


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--open", action="store_true")
    chosen = parser.parse_args()
    try:
        need_java()
    except SparkError as fault:
        sys.exit(f"make demo: {fault}")

    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "faults").mkdir(parents=True)
    if chosen.no_faults:
        for name in [*(f"{number}.struck" for number in FAULTS), "7.again"]:
            (FOLDER / "faults" / name).touch()
    before = names(FOLDER / "faults")
    began = time.monotonic()
    broker = Broker(FOLDER / "data", FOLDER / "faults" / "broker.pid")
    try:
        with Cluster([broker.address]) as cluster:
            many = counted(chosen.rows, "order goes", "orders go")
            say(f"{many} to the topic `orders`, {WRITERS // 5} of {WRITERS} transactions in a second attempt")
            write_orders(cluster, chosen.rows)
            offsets = sum(end_offset(cluster, "orders", each, READ_UNCOMMITTED) for each in range(PARTITIONS))
            say("Spark turns the orders into payments, under these faults:")
        drivers = run_query(broker, -(-offsets // BATCHES), set(before))
        with Cluster([broker.address]) as cluster:
            orders, payments = numbers(cluster, "orders"), numbers(cluster, "payments")
            listed = Admin(cluster).list_transactions(states=("Ongoing", "PrepareCommit", "PrepareAbort")).listings
            held = sum(
                end_offset(cluster, "payments", each, READ_UNCOMMITTED) - end_offset(cluster, "payments", each)
                for each in range(PARTITIONS)
            )
    finally:
        broker.stop()
    report = FOLDER / "report.html"
    status, audited = audit_folder(FOLDER / "data", report)
    duplicates, lost = payments - orders, orders - payments
    struck = names(FOLDER / "faults") - before
    findings = audited["findings"]
    assert isinstance(findings, list)
    serious = [each for each in findings if each["severity"] != "information"]
    aborts = audited["aborted_transactions"]
    say(f"""
  rows in              {orders.total():>9,}
  rows out             {payments.total():>9,}
  duplicates           {duplicates.total():>9,}
  lost                 {lost.total():>9,}
  transactions ended   {audited["transactions"]:>9,}   by partition; {counted(aborts, "abort")} among them
  still open           {len(listed):>9,}
  held from readers    {held:>9,}   offsets
  faults survived      {len(struck):>9,}   with {counted(drivers, "driver")}, in {time.monotonic() - began:.0f} s
  audit                {len(serious):>9,}   {"finding" if len(serious) == 1 else "findings"}

  {report}""")
    if chosen.open:
        webbrowser.open(report.as_uri())
    return 1 if duplicates or lost or listed or held or status else 0


if __name__ == "__main__":
    sys.exit(main())
