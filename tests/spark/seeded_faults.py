"""Run queries with random faults from a seed, and check that every row of the input is written exactly once.

    make spark-faults SEEDS=200          (python tests/spark/seeded_faults.py --seeds 200 [--first 17])

A run has a broker of its own, a query with a few batches, and faults at random places of tasks, commits, aborts and
recovery. A query that fails is started again, with another number of tasks, until it has written all batches. In one run
of ten, the query begins in a driver process, which is killed, or continues after another driver with faults has replaced it.
A seed gives the same faults every time, though not the same order of events. The exit status is 1 if a row is lost or
duplicated, or if a transaction is left open.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

if __name__ == "__main__":
    sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "client"), str(Path(__file__).parents[2])]

from faults import (
    ABORT,
    ABORTED,
    COMMIT,
    COMMITTED,
    ENDS,
    EXIT,
    KILL,
    PLAN,
    POLL_S,
    PREPARED,
    RAISE,
    RECOVERED,
    RECOVERY_ENDS,
    ROWS,
    TASK,
    WAIT,
    Fault,
)
from faults_driver import Driver
from faults_query import (
    PARTITIONS,
    QUERY_S,
    Job,
    World,
    committed,
    difference,
    findings,
    make_session,
    open_transactions,
    outcome,
    start,
)
from live_broker import LiveBroker, held_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS_MAX: Final = 4
"""Attempts of a task; the session must be configured with the same number."""
RUNS_MAX: Final = 40
"""Maximum number of starts of a query until it has written all batches."""
DRIVER_EVERY: Final = 10
"""One in this many seeds kills or replaces a driver."""
LATE_EPOCH: Final = 32_750
TASK_FAULTS: Final = (TASK, ROWS, ROWS, PREPARED)
COMMIT_FAULTS: Final = (PLAN, RECOVERED, RECOVERY_ENDS, COMMIT, COMMIT, ENDS, ENDS, ENDS, COMMITTED, ABORT, ABORTED)
OTHER: Final = "other"
"""Folder of the faults of a driver that replaces another driver."""
BROKER: Final = "broker"
"""Action: kill the broker while a process waits at the fault, and start it again."""
COUNTED: Final = ("lost", "double", "open", "held_back", "findings", "runs")
MASTER: Final = f"local[2,{ATTEMPTS_MAX}]"


@dataclass
class Result:
    seed: int
    what: str
    lost: int = 0
    double: int = 0
    open: int = 0
    held_back: int = 0
    findings: int = 0
    runs: int = 0
    seconds: float = 0.0
    happened: Counter[str] = field(default_factory=Counter)

    @property
    def right(self) -> bool:
        return not (self.lost or self.double or self.open or self.held_back or self.findings)

    def __str__(self) -> str:
        happened = ", ".join(f"{name} {count}x" for name, count in sorted(self.happened.items()))
        return (
            f"seed {self.seed}: {self.what}; {self.runs} runs, {self.seconds:.1f} s; lost {self.lost}, double {self.double}, "
            f"open {self.open}, held back {self.held_back}, findings {self.findings}; {happened or 'no fault'}"
        )


class SeededRun:
    def __init__(self, seed: int, folder: Path, spark: SparkSession) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.folder = folder
        self.spark = spark
        self.of_driver = seed % DRIVER_EVERY == DRIVER_EVERY - 1
        self.result = Result(seed, "")

    def run(self) -> Result:
        began = time.monotonic()
        random = self.random
        store = random.choice(("dir", "kafka"))
        epoch = random.choice((0, LATE_EPOCH))
        tasks = random.randint(1, 4)
        batches = [
            [f"{batch}-{number:04d}" for number in range(random.choice((0, 1, random.randint(2, 200))))]
            for batch in range(random.randint(1, 4))
        ]
        batches[-1] = batches[-1] or ["the only one"]
        faults = [self._fault(number, tasks, len(batches)) for number in range(random.randint(2, 6))]
        mode = random.choice(("2pc", "2pc", "2pc", "single"))
        store = "kafka" if mode == "single" else store
        rows_per_batch = random.choice((0, 0, 1 + sum(map(len, batches)) // len(batches)))
        kind = "rows of a topic" if rows_per_batch else "files"
        self.result.what = f"{mode}, {store}, {len(batches)} batches of {kind}, {tasks} tasks, epoch {epoch}"
        data_dir = self.folder / "data"
        with LiveBroker(data_dir, f"stuntbroker.initial.producer.epoch={epoch}") as broker:
            world = World(self.folder, broker, data_dir)
            job = world.job(
                "seeded",
                store,
                batches,
                *(_of_spark(each) for each in faults),
                tasks=tasks,
                mode=mode,
                rows_per_batch=rows_per_batch,
            )
            self._to_the_end(job, faults, world)
            self._look(job, faults, world)
        self.result.seconds = time.monotonic() - began
        return self.result

    def _fault(self, number: int, tasks: int, batches: int) -> Fault:
        random = self.random
        batch = random.choice((None, random.randrange(batches)))
        if random.random() < 0.5:
            return Fault(
                f"fault-{number}",
                random.choice(TASK_FAULTS),
                random.choice((RAISE, EXIT, KILL, BROKER)),
                batch,
                partition=random.choice((None, random.randrange(tasks))),
                attempt=random.choice((None, 0)),
                after=random.randint(0, 60),
                times=random.choice((1, 1, 2, ATTEMPTS_MAX)),
            )
        return Fault(
            f"fault-{number}",
            random.choice(COMMIT_FAULTS),
            random.choice((RAISE, EXIT, KILL, BROKER)),
            batch,
            after=random.randint(0, tasks),
            skip=random.choice((0, 0, 0, 1)),
            times=random.choice((1, 1, 2)),
        )

    # --- run until all batches are written

    def _to_the_end(self, job: Job, faults: Sequence[Fault], world: World) -> None:
        if self.of_driver:
            return self._with_a_driver(job, faults, world)
        self._until_done(job, faults, world)

    def _until_done(self, job: Job, faults: Sequence[Fault], world: World) -> None:
        for _ in range(RUNS_MAX):
            if self._once(job, faults, world) is None:
                return
            job = replace(job, tasks=self.random.randint(1, 4))
        raise AssertionError(f"seed {self.seed}: the query was started {RUNS_MAX} times and is not done")

    def _once(self, job: Job, faults: Sequence[Fault], world: World) -> str | None:
        """Run the query once; return its error, if any."""
        self.result.runs += 1
        query = start(self.spark, job)
        deadline = time.monotonic() + QUERY_S
        while query.isActive:
            self._answer(job, faults, world)
            if time.monotonic() > deadline:
                query.stop()
                raise TimeoutError(f"seed {self.seed}: the query still runs after {QUERY_S} s")
            time.sleep(POLL_S)
        return outcome(query)

    def _answer(self, job: Job, faults: Sequence[Fault], world: World) -> None:
        """Kill the broker when a process waits at a fault with this action; start it before or after that process continues."""
        for each in faults:
            if each.action == BROKER and job.plan.stands(each.name) and not job.plan.may_go(each.name):
                world.broker.kill()
                self.result.happened["broker killed"] += 1
                if self.random.random() < 0.5:
                    world.broker.start()
                    job.plan.go(each.name)
                else:
                    job.plan.go(each.name)
                    time.sleep(self.random.random() / 2)
                    world.broker.start()

    def _with_a_driver(self, job: Job, faults: Sequence[Fault], world: World) -> None:
        comes_back = self.random.random() < 0.5
        frozen = Fault(
            "driver",
            self.random.choice((PLAN, ROWS, PREPARED, COMMIT, ENDS, COMMITTED)),
            WAIT,
            skip=self.random.choice((0, 0, 1)),
            after=self.random.randint(0, 3),
        )
        job.plan.write(frozen)
        with Driver(MASTER, self.folder / "driver") as driver:
            driver.submit(job)
            while not driver.has_ended(job) and not job.plan.stands(frozen.name):
                continue
            if driver.has_ended(job):
                self.result.happened["driver ended before"] += 1
                self._until_done(job, (), world)
            elif comes_back:
                self.result.happened[f"driver comes back, {frozen.place}"] += 1
                other = replace(job, checkpoint="copy", faults=OTHER)
                shutil.copytree(Path(job.folder) / job.checkpoint, Path(job.folder) / other.checkpoint)
                other.plan.write(*(_of_spark(each) for each in faults))
                self._until_done(other, faults, world)
                job.plan.go(frozen.name)
                driver.outcome(job, QUERY_S)
            else:
                self.result.happened[f"driver killed, {frozen.place}"] += 1
                driver.kill()
                job.plan.write(*(_of_spark(each) for each in faults))
                self._until_done(job, faults, world)

    # --- check the result

    def _look(self, job: Job, faults: Sequence[Fault], world: World) -> None:
        result = self.result
        for plan in (job.plan, replace(job, faults=OTHER).plan):
            for each in faults:
                if times := plan.fired(each):
                    result.happened[f"{each.place} {each.action}"] += times
        with world.broker.cluster() as cluster:
            wrong = difference(world.expected[job.topic], committed(cluster, job.topic))
            result.lost = -sum(count for count in wrong.values() if count < 0)
            result.double = sum(count for count in wrong.values() if count > 0)
            result.open = len(open_transactions(cluster, job.sink))
            result.held_back = len(held_back(cluster, job.topic, PARTITIONS))
        world.broker.kill()
        result.findings = len(findings(world.data_dir))


def _of_spark(fault: Fault) -> Fault:
    """Return the fault for the processes of Spark, which only wait where this program kills the broker."""
    return replace(fault, action=WAIT) if fault.action == BROKER else fault


def run_seed(seed: int, folder: Path, spark: SparkSession) -> Result:
    return SeededRun(seed, folder, spark).run()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: %(default)s)")
    parser.add_argument("--step", type=int, default=1, help="from one to the next (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of runs that were wrong")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    wrong: list[int] = []
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Exit in order, which also ends brokers and drivers.
    scratch = Path(mkdtemp(prefix="spark-faults-"))
    try:
        with _quiet(scratch):
            spark = make_session(MASTER, scratch / "spark", {"spark.ui.showConsoleProgress": "false"})
            for seed in range(given.first, given.first + given.seeds * given.step, given.step):
                folder = scratch / f"seed-{seed}"
                folder.mkdir()
                try:
                    result = run_seed(seed, folder, spark)
                except Exception as fault:  # Report the seed as wrong, and run the others.
                    say(f"seed {seed}: {type(fault).__name__}: {fault}")
                    wrong.append(seed)
                    continue
                say(str(result))
                happened += result.happened
                total.update({name: getattr(result, name) for name in COUNTED})
                if result.right:
                    shutil.rmtree(folder, ignore_errors=True)  # Spark may still write to the folder.
                else:
                    wrong.append(seed)
            spark.stop()
    finally:
        if not (wrong and given.keep):
            shutil.rmtree(scratch, ignore_errors=True)
    minutes = (time.monotonic() - began) / 60
    say(f"\n{given.seeds} seeds, {total['runs']} runs of queries, {minutes:.1f} minutes")
    say(
        f"rows lost {total['lost']}, double {total['double']}; open transactions {total['open']}, "
        f"partitions held back {total['held_back']}, findings of the audit {total['findings']}"
    )
    for what, count in happened.most_common():
        say(f"  {what}: {count}")
    if wrong:
        say(f"WRONG: seeds {wrong}" + (f", see {scratch}" if given.keep else ""))
    return 1 if wrong else 0


class _quiet:
    """Redirect the standard error of Spark, its workers and brokers to a file; this program's own lines are still printed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "log"

    def __enter__(self) -> None:
        self._before = os.dup(2)
        with self._path.open("wb") as file:
            os.dup2(file.fileno(), 2)

    def __exit__(self, *_: Any) -> None:
        os.dup2(self._before, 2)
        os.close(self._before)


if __name__ == "__main__":
    sys.exit(main())
