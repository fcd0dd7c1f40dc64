"""Run transactions under random faults, stops and clock steps while the oracle checks them; print their number and findings.

    python bench/oracle.py                              1,000,000 transactions (about half an hour)
    python bench/oracle.py --transactions 20000 --seed 7

Everything runs in one process without sockets (tests/kit/transactions/faulty_world.py), so a seed determines the run. The exit
status is 1 if the oracle has findings or a transaction stays open.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from tests.kit.rig import running_rig
from tests.kit.transactions.faulty_world import FaultyWorld

STEPS_PER_PLAN = 500
STEPS_PER_CHECK = 250
WORLD_TRANSACTIONS = 20_000
"""Transactions per broker; then a new broker starts with an empty data folder."""


async def run_world(seed: int, wanted: int) -> tuple[int, list[str]]:
    """Run one broker until `wanted` transactions have ended; return (number of ended transactions, findings)."""
    with tempfile.TemporaryDirectory(prefix="stuntbroker-oracle-") as folder:
        clock = TestClock()
        clock.pause()
        async with running_rig(Path(folder), clock=clock) as rig:
            rig.broker.timers.stand_still(True)
            control = Control(rig.broker)
            world = FaultyWorld(rig, control, seed)
            number = 0
            while control.oracle.transactions < wanted and not control.oracle.findings:
                if not number % STEPS_PER_PLAN:
                    world.new_plan()
                if not number % STEPS_PER_CHECK:
                    control.oracle.check()
                await world.step()
                number += 1
                rig.events.kept.clear()
            await world.settle()
            findings = [f"seed {seed}: {each.kind}: {each.text}" for each in control.oracle.check()]
            findings += [f"seed {seed}: {each.txn.transactional_id} is open" for each in rig.broker.transactions.open]
            if control.oracle.skipped:
                print(f"seed {seed}: {control.oracle.skipped} logs were cleaned before they were read")
            return control.oracle.transactions, findings


def main() -> int:
    """Run brokers until enough transactions have ended; return the exit status."""
    parser = argparse.ArgumentParser(description="Transactions under random faults, with the oracle on.")
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first broker; each one has the next seed")
    options = parser.parse_args()
    total, seed, began = 0, options.seed, time.monotonic()
    findings: list[str] = []
    while total < options.transactions:
        ended, more = asyncio.run(run_world(seed, min(WORLD_TRANSACTIONS, options.transactions - total)))
        total, findings, seed = total + ended, findings + more, seed + 1
        for each in more:
            print(each)
        print(f"{total:,} transactions, {len(findings)} findings, {time.monotonic() - began:,.0f} s", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
