"""After the ready line, the broker loads what the usual requests need, without a request that waits for it."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys

import pytest

from stuntbroker.cli.serving import preload

ONE_BY_ONE = """
import asyncio, sys
from stuntbroker.cli.serving import preload
preload.FIRST_AFTER_S = preload.PAUSE_S = 0

def handlers():
    return {name for name in sys.modules if name.startswith("stuntbroker.broker.handlers.")}

async def main():
    before, most = handlers(), 0
    preload.load_when_ready(asyncio.get_running_loop())
    while not sys.modules.keys() >= set(preload.usual_modules()):
        await asyncio.sleep(0)
        most, before = max(most, len(handlers() - before)), handlers()
    print(most)

asyncio.run(main())
"""


def test_each_turn_of_the_loop_loads_one_handler_at_most() -> None:
    command = [sys.executable, "-c", ONE_BY_ONE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1\n"


@pytest.mark.parametrize("fault", [ImportError("damaged"), OSError(errno.EMFILE, "no descriptor is left")], ids=repr)
def test_a_module_that_cannot_be_loaded_is_left_to_the_request_that_needs_it(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, reported = [], []

    def import_module(name: str) -> None:
        wanted.append(name)
        raise fault

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, facts: reported.append(facts))
        preload.load_when_ready(loop)
        while not wanted:
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)

    monkeypatch.setattr(preload, "FIRST_AFTER_S", 0)
    monkeypatch.setattr(preload, "PAUSE_S", 0)
    monkeypatch.setattr(preload, "usual_modules", lambda: iter(("absent_first", "absent_second")))
    monkeypatch.setattr(preload, "import_module", import_module)
    asyncio.run(run())
    assert (wanted, reported) == (["absent_first"], [])


def test_serve_loads_them_without_a_request() -> None:
    *_, last = preload.usual_modules()
    command = [sys.executable, "-v", "-m", "stuntbroker.cli", "serve", "--port", "0"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "STUNTBROKER_"))}
    with subprocess.Popen(command, env=plain, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stderr is not None
            assert any(line.startswith(f"import '{last}' #") for line in broker.stderr)
        finally:
            broker.kill()
