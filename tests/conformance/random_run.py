"""Runs random sequences against two brokers, compares every reply, and makes what differs short enough to be read.

python -m tests.conformance --seeds 100 [--steps 60] [--first-seed 1] [--only transactions] [--transaction-version 1]
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from uuid import uuid4

from tests.conformance.compare import Difference, run_case
from tests.conformance.conftest import SETTINGS, SWEEP, SWEEP_MS
from tests.conformance.random_acts import EPILOGUE, Act, sequence
from tests.conformance.random_epochs import FIRST_EPOCH, plant, prefixes, transactional_ids
from tests.conformance.random_play import Player
from tests.conformance.side import Side, prepare
from tests.peers.kafka_broker import apache_kafka
from tests.peers.our_broker import our_broker

TOPICS = ("t0", "t1")
SHRINK_RUNS_MAX = 120
DIFFERENCES_SHOWN_MAX = 6
SIGNATURE_LENGTH = 160
OWN = r"random-[0-9a-f]{8}-"
"""What names of this run begin with."""


@dataclass(slots=True)
class Outcome:
    replies: int = 0
    found: list[Difference] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """What is different, whatever the numbers: the same trouble has the same."""
        if not self.found:
            return ""
        first = self.found[0]
        api = re.sub(r"^\d+: | v\d+ .*", "", first.step)
        path = re.sub(r"\[.*?\]", "", first.path)
        return re.sub(OWN, "~", f"{api} {path}: {first.kafka!r} {first.ours!r}")[:SIGNATURE_LENGTH]


def run(acts: Sequence[Act], kafka: str, ours: str, own: str = "") -> Outcome:
    """Plays the acts on both. What is found is in the order of the acts; only what is not allowed counts.

    `own` names ids that were planted with high epochs: in ours they come to be with the first request.
    """
    replies: list[int] = []

    def random(side: Side) -> None:
        player = Player(side)
        player.set_up(*TOPICS)
        for name in transactional_ids() if own else ():
            made = side.quiet("InitProducerId", 4, transactional_id=side.name(name), transaction_timeout_ms=1_000)
            side.names.of("producer", made.producer_id)
        try:
            for act in acts:
                # A planted id has another coordinator epoch in Kafka, by which it refuses the markers of others.
                if not (own and act.kind == "write_marker"):
                    player.play(act)
        finally:
            replies.append(len(side.steps))

    if own:
        random.__name__ = "random_with_high_epochs"
    found = run_case(random, kafka, ours, own or f"random-{uuid4().hex[:8]}")
    wrong = [each for each in found if not (each.is_text or each.is_order or each.allowance)]
    return Outcome(max(replies, default=0), wrong)


def shorten(acts: Sequence[Act], differs: Callable[[Sequence[Act]], bool]) -> list[Act]:
    """Leaves out acts while the difference stays (delta debugging)."""
    kept, size, runs = list(acts), max(len(acts) // 2, 1), 0
    while runs < SHRINK_RUNS_MAX:
        went, at = False, 0
        while at < len(kept) and runs < SHRINK_RUNS_MAX:
            fewer = kept[:at] + kept[at + size :]
            runs += 1
            if fewer and differs(fewer):
                kept, went = fewer, True
            else:
                at += size
        if size == 1 and not went:
            break
        size = max(size // 2, 1)
    return kept


@dataclass(slots=True)
class Tally:
    sequences: int = 0
    replies: int = 0
    troubles: int = 0
    names: Iterator[str] = field(default_factory=lambda: repeat(""))
    """Planted ones, or empty: any that were not used before."""
    known: set[str] = field(default_factory=set)
    """Signatures of what was told already."""
    passing: int = 0
    """Differences that did not come again with the same acts."""


def run_seeds(
    theme: str, seeds: range, steps: int, kafka: str, ours: str, tally: Tally, out: Callable[[str], object]
) -> None:
    def play(acts: Sequence[Act]) -> Outcome:
        return run(acts, kafka, ours, next(tally.names))

    for seed in seeds:
        acts = [*sequence(theme, seed, steps), *EPILOGUE]
        outcome = play(acts)
        tally.sequences += 1
        tally.replies += outcome.replies
        if not outcome.found:
            continue
        again = play(acts)
        if not again.found:
            tally.passing += 1
            out(f"{theme} seed {seed}: differed once, not again: {outcome.found[0]}\n")
            continue
        tally.troubles += 1
        if again.signature in tally.known:
            out(f"{theme} seed {seed}: as before, {again.signature}\n")
            continue
        tally.known.add(again.signature)
        short = shorten(acts, lambda fewer, as_before=again.signature: play(fewer).signature == as_before)  # type: ignore[misc]
        last = play(short)
        if not last.found:
            out(f"{theme} seed {seed}: differs at times only, last seen: {again.found[0]}\n")
        out(told(theme, seed, short, last))


def told(theme: str, seed: int, acts: Sequence[Act], outcome: Outcome) -> str:
    """A difference as a story."""
    lines = [f"\n== {theme} seed {seed}: {len(outcome.found)} differences; the acts that lead there:"]
    lines += [f"   {act}" for act in acts]
    lines += [f"   -> {re.sub(OWN, '~', str(each))}" for each in outcome.found[:DIFFERENCES_SHOWN_MAX]]
    return "\n".join(lines) + "\n"


@contextmanager
def brokers(folder: Path, transaction_version: int, high_epochs: bool = False) -> Iterator[tuple[str, str]]:
    """Apache Kafka and ours, on which transactions time out when they should."""
    settings = {**SETTINGS, "transaction.version": transaction_version, SWEEP: SWEEP_MS}
    sweep = {SWEEP.replace(".", "_"): SWEEP_MS}
    if high_epochs:
        settings["stuntbroker.initial.producer.epoch"] = FIRST_EPOCH
        with apache_kafka(folder / "kafka", transaction_version=transaction_version) as kafka:
            prepare(kafka)
            plant(kafka, transaction_version)
    with ExitStack() as running:
        kafka = running.enter_context(apache_kafka(folder / "kafka", transaction_version=transaction_version, **sweep))
        given = [f"{name}={value}" for name, value in settings.items()]
        ours = running.enter_context(our_broker(folder / "ours", folder / "stderr.log", *given))
        for address in (kafka, ours):
            prepare(address)
        yield kafka, ours


def main(
    themes: Sequence[str],
    seeds: range,
    steps: int,
    versions: Sequence[int],
    folder: Path,
    addresses: Sequence[str],
    high_epochs: bool,
) -> int:
    tally, write = Tally(), sys.stdout.write
    for version in versions:
        with ExitStack() as running:
            kafka, ours = addresses or running.enter_context(brokers(folder / f"v{version}", version, high_epochs))
            tally.names = prefixes() if high_epochs else repeat("")
            for theme in themes:
                began, before = time.monotonic(), tally.replies
                run_seeds(theme, seeds, steps, kafka, ours, tally, lambda text: (write(text), sys.stdout.flush()))
                took = time.monotonic() - began
                where = "" if addresses else f"transaction.version {version}, "
                write(f"{where}{theme}: seeds {seeds.start} to {seeds.stop - 1}, ")
                write(f"{tally.replies - before} replies compared, {took / len(seeds):.2f} s per seed\n")
                sys.stdout.flush()
    write(f"{tally.sequences} sequences, {tally.replies} replies compared, {tally.troubles} with differences")
    write(f", {tally.passing} that did not come again\n")
    return 1 if tally.troubles else 0
