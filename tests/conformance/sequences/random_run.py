"""Run random sequences on two brokers, compare every reply, and shorten the sequences that differ.

python -m tests.conformance --seeds 100 [--steps 60] [--first-seed 1] [--only transactions] [--transaction-version 1]
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from uuid import uuid4

from tests.conformance.compare import Difference, run_case
from tests.conformance.conftest import EXPIRIES, SETTINGS, SWEEP, SWEEP_MS, UNVERIFIED, both
from tests.conformance.sequences.random_acts import EPILOGUE, WAITS, Act, has_level_0, sequence
from tests.conformance.sequences.random_epochs import FIRST_EPOCH, plant, prefixes, transactional_ids
from tests.conformance.sequences.random_play import Player
from tests.conformance.side import Side, prepare
from tests.kit.brokers.kafka_broker import apache_kafka

TOPICS = ("t0", "t1")
SHRINK_RUNS_MAX = 120
SHRINK_RUNS_MAX_BY_THEME = {"expiry": 24}
"""Lower limits for themes whose runs take seconds."""
DIFFERENCES_SHOWN_MAX = 6
SIGNATURE_LENGTH = 160
SIDE_BY_SIDE = {"expiry": 8}
"""Concurrent sequences of a theme that mostly waits; other themes run one at a time, as they may change shared state."""
OWN = r"random-[0-9a-f]{8}-"
"""Prefix of the names of a sequence."""


@dataclass(slots=True)
class Outcome:
    replies: int = 0
    findings: list[Difference] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """The first difference without versions and indexes, to recognise the same problem again."""
        if not self.findings:
            return ""
        first = self.findings[0]
        api = re.sub(r"^\d+: | v\d+ .*", "", first.step)
        path = re.sub(r"\[.*?\]", "", first.path)
        return re.sub(OWN, "~", f"{api} {path}: {first.kafka!r} {first.ours!r}")[:SIGNATURE_LENGTH]


def run(
    acts: Sequence[Act],
    kafka: str,
    ours: str,
    own: str = "",
    theme: str = "",
    first_to_expire: str = "",
    is_verified: bool = True,
) -> Outcome:
    """Play the acts on both brokers; return the differences that are not allowed, in the order of the acts.

    `own` is the prefix of ids that were planted with high epochs; in Stuntbroker they come into being with the first request.
    `first_to_expire` names what expires first on the brokers of the theme expiry. `is_verified` is false if the brokers run
    with the settings UNVERIFIED.
    """
    replies: list[int] = []

    def random(side: Side) -> None:
        player = Player(side)
        player.set_up(*TOPICS)
        player.first_to_expire, player.records_are_new = first_to_expire, bool(first_to_expire)
        player.is_verified = is_verified
        if theme == "features":
            player.has_level_0 = has_level_0(acts)
            player.start_at_level(1 if player.has_level_0 else 2)
        for name in transactional_ids() if own else ():
            created = side.quiet("InitProducerId", 4, transactional_id=side.name(name), transaction_timeout_ms=1_000)
            side.names.of("producer", created.producer_id)
        try:
            for act in acts:
                # A planted id has another coordinator epoch in Kafka, which therefore rejects other markers.
                if not (own and act.kind == "write_marker"):
                    player.play(act)
        finally:
            replies.append(len(side.steps))

    if own:
        random.__name__ = "random_with_high_epochs"
    actual = run_case(random, kafka, ours, own or f"random-{uuid4().hex[:8]}")
    wrong = [each for each in actual if not (each.is_text or each.is_order or each.allowance)]
    return Outcome(max(replies, default=0), wrong)


def shorten(
    acts: Sequence[Act], differs: Callable[[Sequence[Act]], bool], runs_max: int = SHRINK_RUNS_MAX
) -> list[Act]:
    """Remove acts as long as the difference remains (delta debugging)."""
    kept, size, runs = list(acts), max(len(acts) // 2, 1), 0
    while runs < runs_max:
        went, at = False, 0
        while at < len(kept) and runs < runs_max:
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
    """Prefixes of planted ids; an empty prefix means a new random one."""
    is_verified: bool = True
    """Whether the brokers verify the partitions of a transaction."""
    known: set[str] = field(default_factory=set)
    """Signatures of differences that were already printed."""
    passing: int = 0
    """Number of differences that did not recur with the same acts."""


def run_seeds(
    theme: str,
    seeds: range,
    steps: int,
    kafka: str,
    ours: str,
    tally: Tally,
    out: Callable[[str], object],
    first_to_expire: str = "",
) -> None:
    def play(acts: Sequence[Act]) -> Outcome:
        return run(acts, kafka, ours, next(tally.names), theme, first_to_expire, tally.is_verified)

    sequences = [[*sequence(theme, seed, steps), *EPILOGUE] for seed in seeds]
    for seed, acts, outcome in zip(seeds, sequences, played(theme, play, sequences), strict=True):
        tally.sequences += 1
        tally.replies += outcome.replies
        if not outcome.findings:
            continue
        restarted = play(acts)
        if not restarted.findings:
            tally.passing += 1
            out(f"{theme} seed {seed}: differed once, not again: {outcome.findings[0]}\n")
            continue
        tally.troubles += 1
        if restarted.signature in tally.known:
            out(f"{theme} seed {seed}: as before, {restarted.signature}\n")
            continue
        tally.known.add(restarted.signature)
        out(f"{theme} seed {seed}: {restarted.findings[0]}\n")

        def differs(fewer: Sequence[Act], as_before: str = restarted.signature) -> bool:
            return play(fewer).signature == as_before

        short = shorten(acts, differs, SHRINK_RUNS_MAX_BY_THEME.get(theme, SHRINK_RUNS_MAX))
        last = play(short)
        if not last.findings:
            out(f"{theme} seed {seed}: differs at times only, last seen: {restarted.findings[0]}\n")
        out(described(theme, seed, short, last))


def played(
    theme: str, play: Callable[[Sequence[Act]], Outcome], sequences: Iterable[Sequence[Act]]
) -> Iterator[Outcome]:
    """Yield the outcome of each sequence, in order."""
    width = SIDE_BY_SIDE.get(theme, 1)
    if width == 1:
        yield from map(play, sequences)
        return
    with ThreadPoolExecutor(width) as pool:
        yield from pool.map(play, sequences)


def described(theme: str, seed: int, acts: Sequence[Act], outcome: Outcome) -> str:
    """Return a difference as text, with the acts that lead to it."""
    lines = [f"\n== {theme} seed {seed}: {len(outcome.findings)} differences; the acts that lead there:"]
    lines += [f"   {act}" for act in acts]
    lines += [f"   -> {re.sub(OWN, '~', str(each))}" for each in outcome.findings[:DIFFERENCES_SHOWN_MAX]]
    return "\n".join(lines) + "\n"


@contextmanager
def brokers(
    folder: Path, transaction_version: int, high_epochs: bool = False, more: Mapping[str, str | int] | None = None
) -> Iterator[tuple[str, str]]:
    """Start Apache Kafka and Stuntbroker with prompt transaction time-outs; `more` are settings of both."""
    settings: dict[str, str | int] = {**SETTINGS, "transaction.version": transaction_version}
    if high_epochs:
        settings["stuntbroker.initial.producer.epoch"] = FIRST_EPOCH
        with apache_kafka(folder / "kafka", transaction_version=transaction_version) as kafka:
            prepare(kafka)
            plant(kafka, transaction_version)
    with both(folder, settings, {SWEEP: SWEEP_MS, **(more or {})}, transaction_version) as pair:
        yield pair


def main(
    themes: Sequence[str],
    seeds: range,
    steps: int,
    versions: Sequence[int],
    folder: Path,
    addresses: Sequence[str],
    high_epochs: bool,
    unverified: bool,
) -> int:
    tally, write = Tally(is_verified=not unverified), sys.stdout.write

    def run_themes(some: Sequence[str], kafka: str, ours: str, where: str, first_to_expire: str = "") -> None:
        for theme in some:
            began, before = time.monotonic(), tally.replies
            run_seeds(
                theme, seeds, steps, kafka, ours, tally, lambda text: (write(text), sys.stdout.flush()), first_to_expire
            )
            took = time.monotonic() - began
            write(f"{where}{theme}: seeds {seeds.start} to {seeds.stop - 1}, ")
            write(f"{tally.replies - before} replies compared, {took / len(seeds):.2f} s per seed\n")
            sys.stdout.flush()

    lasting = [theme for theme in themes if theme not in WAITS]
    for version in versions:
        at = f"transaction.version {version}, "
        if addresses:
            run_themes(lasting, *addresses, "")
        elif lasting:
            tally.names = prefixes() if high_epochs else repeat("")
            with brokers(folder / f"v{version}", version, high_epochs, UNVERIFIED if unverified else None) as pair:
                run_themes(lasting, *pair, at)
        if addresses or high_epochs or unverified or len(lasting) == len(themes):
            continue  # Expiry needs brokers of its own.
        for first, ages in EXPIRIES.items():
            with brokers(folder / f"v{version} {first}", version, more=ages) as pair:
                run_themes([theme for theme in themes if theme in WAITS], *pair, f"{at}{first} first, ", first)
    write(f"{tally.sequences} sequences, {tally.replies} replies compared, {tally.troubles} with differences")
    write(f", {tally.passing} that did not come again\n")
    return 1 if tally.troubles else 0
