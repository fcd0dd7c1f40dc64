"""Compare transactional producers for Python, alternating between them, against one Stuntbroker.

    python bench/clients.py                       three rounds of the source, and of the compiled wheel (about six minutes)
    python bench/clients.py --rounds 1 --quick --build source

Each client runs in a process of its own. CPU time is that of the client's process; bench/run.py measures the broker's.
This is a benchmark, not a test: a missed goal does not change the exit status.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import bare_client
from systems import Unavailable, compiled_wheel

TOPIC = "clients"
PARTITIONS = 3
VALUE = b"x" * 100
RECORDS = 5_000
"""Records in a large transaction."""
PRODUCERS = 20
"""Number of producers with concurrent transactions."""
CLIENTS = ("aiokafka", "confluent", "ours", "ours-uvloop", "ours-blocking", "bare", "bare-uvloop")
"""`bare` only sends requests that were encoded before: transactions one after another cannot be faster on an event loop."""
SOURCE = "source"
BUILDS = (SOURCE, "compiled")
SUBJECT = "ours"
GOALS = {
    ("transactions_per_s", "aiokafka"): 3.0,
    ("at_once_per_s", "aiokafka"): 3.0,
    ("records_per_s", "aiokafka"): 3.0,
    ("transactions_per_s", "confluent"): 0.5,
    ("at_once_per_s", "confluent"): 0.5,
    ("records_per_s", "confluent"): 0.5,
}
"""(figure, client) -> minimum ratio of our figure to that client's figure."""

Figures = dict[str, float]
Transaction = Callable[[int, int], tuple[float, float]]
"""(records, producer number) -> seconds to send the records (a single record: until acknowledged), seconds to commit."""


def main() -> int:
    """Measure all clients, or with --measure one client in this process."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--quick", action="store_true", help="a tenth of the work")
    options.add_argument("--clients", default=",".join(CLIENTS), help="clients to measure, separated by commas")
    options.add_argument("--build", choices=(*BUILDS, "both"), default="both", help="what to measure (default: both)")
    options.add_argument("--measure", nargs=2, metavar=("CLIENT", "BOOTSTRAP"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    scale = 0.1 if chosen.quick else 1.0
    if chosen.measure:
        print(json.dumps(measure(*chosen.measure, small=int(2000 * scale), large=max(2, int(40 * scale)))))
        return 0
    names = chosen.clients.split(",")
    unknown = sorted(set(names) - set(CLIENTS))
    if unknown:
        options.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
    if chosen.build == SOURCE:
        show(run(names, chosen.rounds, chosen.quick))
        return 0
    builds = BUILDS if chosen.build == "both" else (chosen.build,)
    return max(measured_apart(build, sys.argv[1:]) for build in builds)


def measured_apart(build: str, arguments: list[str]) -> int:
    """Measure one build in a process of its own, where broker and clients import it; return the exit status."""
    environment = dict(os.environ)
    if build != SOURCE:
        try:
            folder = compiled_wheel()
        except Unavailable as fault:
            print(f"compiled: {fault}")
            return 0
        environment |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).parent}"}
    print(f"{build}:", flush=True)
    command = [sys.executable, __file__, *arguments, "--build", SOURCE]
    return subprocess.run(command, env=environment, check=False).returncode


def run(names: list[str], rounds: int, quick: bool) -> dict[str, list[Figures]]:
    """Measure the clients in alternation, each round starting with a different client."""
    import stuntbroker

    figures: dict[str, list[Figures]] = {name: [] for name in names}
    with stuntbroker.broker(topics={TOPIC: PARTITIONS}) as broker:
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                command = [
                    sys.executable,
                    __file__,
                    "--measure",
                    name,
                    broker.bootstrap,
                    *(["--quick"] if quick else []),
                ]
                ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
                if ended.returncode:
                    sys.exit(f"{name} failed:\n{ended.stderr}")
                figures[name].append(json.loads(ended.stdout))
                print(f"round {number + 1}: {name}", file=sys.stderr)
    return figures


def show(figures: dict[str, list[Figures]]) -> None:
    """Print the medians, and the ratios for which there are goals."""
    medians = {
        name: {figure: statistics.median(each[figure] for each in rounds) for figure in rounds[0]}
        for name, rounds in figures.items()
        if rounds
    }
    for name, values in medians.items():
        print(f"{name:14}" + "".join(f"  {figure} {value:,.4g}" for figure, value in values.items()))
    for (figure, other), goal in GOALS.items():
        if SUBJECT in medians and other in medians:
            ratio = medians[SUBJECT][figure] / medians[other][figure]
            print(f"{figure}: {SUBJECT} is {ratio:.2f}x {other} (goal: {goal:g}x)")
    for loop in ("", "-uvloop"):
        if f"bare{loop}" in medians and "aiokafka" in medians:
            ratio = medians[f"bare{loop}"]["transactions_per_s"] / medians["aiokafka"]["transactions_per_s"]
            print(f"transactions_per_s: bare{loop} is {ratio:.2f}x aiokafka: no client on this loop can have more")


def measure(name: str, bootstrap: str, small: int, large: int) -> Figures:
    """Measure `small` transactions of one record, and `large` ones of many."""
    if name == "confluent":
        return confluent(bootstrap, small, large)
    if name == "ours-blocking":
        return blocking(bootstrap, small, large)
    client, _, loop = name.partition("-")
    run = asyncio.run
    if loop == "uvloop":
        import uvloop

        run = uvloop.run
    if client == "bare":
        host, _, port = bootstrap.rpartition(":")
        return run(bare_client.measure((host, int(port)), TOPIC, VALUE, small))
    return run(asynchronous(client, bootstrap, small, large))


async def asynchronous(name: str, bootstrap: str, small: int, large: int) -> Figures:
    """Measure our producer or aiokafka's, which have the same calls. Our concurrent producers share connections."""
    from aiokafka import AIOKafkaProducer

    from stuntbroker.client import Connections, TransactionalProducer

    identities = [f"{name}-{time.time_ns()}-{number}" for number in range(PRODUCERS)]
    async with AsyncExitStack() as opened:
        producers: list[Any]
        if name == "ours":
            connections = await opened.enter_async_context(Connections(bootstrap_servers=bootstrap))
            producers = [TransactionalProducer(connections=connections, transactional_id=each) for each in identities]
        else:
            producers = [AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=each) for each in identities]
        for producer in producers:
            await opened.enter_async_context(producer)
            if name == "ours":
                await producer.init_transactions()

        async def transaction(records: int, number: int = 0) -> tuple[float, float]:
            producer = producers[number]
            await producer.begin_transaction()
            start_s = time.perf_counter()
            if records == 1:
                await producer.send_and_wait(TOPIC, VALUE, partition=number % PARTITIONS)
            else:
                for record in range(records):
                    await producer.send(TOPIC, VALUE, partition=record % PARTITIONS)
            sent_s = time.perf_counter()
            await producer.commit_transaction()
            return sent_s - start_s, time.perf_counter() - sent_s

        async def many(count: int) -> None:
            async def run(number: int) -> None:
                for _ in range(count // PRODUCERS):
                    await transaction(1, number)

            await asyncio.gather(*(run(number) for number in range(PRODUCERS)))

        watch = Watch(small, large)
        for records in watch:
            watch.note(await transaction(records))
        await many(PRODUCERS * 5)
        with watch.at_once(small):
            await many(small)
        return watch.figures()


def blocking(bootstrap: str, small: int, large: int) -> Figures:
    """Measure our blocking producer. Concurrent producers share connections; each runs in its own thread."""
    from stuntbroker.client.blocking import Connections, TransactionalProducer

    with ExitStack() as opened:
        connections = opened.enter_context(Connections(bootstrap_servers=bootstrap))
        producers = [
            opened.enter_context(
                TransactionalProducer(connections=connections, transactional_id=f"blocking-{time.time_ns()}-{number}")
            )
            for number in range(PRODUCERS)
        ]
        for producer in producers:
            producer.init_transactions()

        def transaction(records: int, number: int = 0) -> tuple[float, float]:
            producer = producers[number]
            producer.begin_transaction()
            start_s = time.perf_counter()
            if records == 1:
                producer.send_and_wait(TOPIC, VALUE, partition=number % PARTITIONS)
            else:
                for record in range(records):
                    producer.send(TOPIC, VALUE, partition=record % PARTITIONS)
            sent_s = time.perf_counter()
            producer.commit_transaction()
            return sent_s - start_s, time.perf_counter() - sent_s

        return in_threads(transaction, small, large)


def confluent(bootstrap: str, small: int, large: int) -> Figures:
    """Measure librdkafka's producer with linger.ms=0 (default: 5)."""
    from confluent_kafka import Producer

    producers = []
    for number in range(PRODUCERS):
        identity = f"confluent-{time.time_ns()}-{number}"
        producers.append(Producer({"bootstrap.servers": bootstrap, "transactional.id": identity, "linger.ms": 0}))
        producers[-1].init_transactions(30)

    def transaction(records: int, number: int = 0) -> tuple[float, float]:
        producer = producers[number]
        producer.begin_transaction()
        start_s = time.perf_counter()
        if records == 1:
            producer.produce(TOPIC, VALUE, partition=number % PARTITIONS)
            producer.flush()
        else:
            for record in range(records):
                producer.produce(TOPIC, VALUE, partition=record % PARTITIONS)
                producer.poll(0)
        sent_s = time.perf_counter()
        producer.commit_transaction(30)
        return sent_s - start_s, time.perf_counter() - sent_s

    return in_threads(transaction, small, large)


def in_threads(transaction: Transaction, small: int, large: int) -> Figures:
    """Run the transactions of a Watch one by one, then those of all producers concurrently."""
    watch = Watch(small, large)
    for records in watch:
        watch.note(transaction(records, 0))

    def run(number: int, count: int) -> None:
        for _ in range(count):
            transaction(1, number)

    with ThreadPoolExecutor(PRODUCERS) as threads:
        list(threads.map(run, range(PRODUCERS), [5] * PRODUCERS))
        with watch.at_once(small):
            list(threads.map(run, range(PRODUCERS), [small // PRODUCERS] * PRODUCERS))
    return watch.figures()


class Watch:
    """Iterates over the transactions to run (as numbers of records), after a warm-up, and measures them."""

    def __init__(self, small: int, large: int) -> None:
        self._counts = {1: small, RECORDS: large}
        self._times: dict[int, list[tuple[float, float]]] = {1: [], RECORDS: []}
        self._cpu_s: dict[int, float] = {}
        self._wall_s: dict[int, float] = {}
        self._at_once: Figures = {}

    def __iter__(self) -> Iterator[int]:
        for records, count in self._counts.items():
            for _ in range(max(2, count // 20)):
                yield records
            self._times[records].clear()
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            for _ in range(count):
                yield records
            self._cpu_s[records] = time.process_time() - cpu_s
            self._wall_s[records] = time.perf_counter() - wall_s

    def note(self, times: tuple[float, float]) -> None:
        """Record the times of the last transaction."""
        self._times[RECORDS if 1 in self._wall_s else 1].append(times)

    @contextmanager
    def at_once(self, transactions: int) -> Iterator[None]:
        """Measure the concurrent transactions of all producers."""
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        yield
        self._at_once = {
            "at_once_per_s": transactions / (time.perf_counter() - wall_s),
            "cpu_us_at_once": (time.process_time() - cpu_s) / transactions * 1e6,
        }

    def figures(self) -> Figures:
        """Return rates, medians and CPU time."""
        small, large = self._counts[1], self._counts[RECORDS]
        return {
            "transactions_per_s": small / self._wall_s[1],
            "cpu_us_per_transaction": self._cpu_s[1] / small * 1e6,
            "send_p50_ms": statistics.median(sent for sent, _ in self._times[1]) * 1e3,
            "commit_p50_ms": statistics.median(commit for _, commit in self._times[1]) * 1e3,
            **self._at_once,
            "records_per_s": large * RECORDS / self._wall_s[RECORDS],
            "cpu_us_per_record": self._cpu_s[RECORDS] / large / RECORDS * 1e6,
        }


if __name__ == "__main__":
    sys.exit(main())
