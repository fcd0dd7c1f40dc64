"""While it is idle after the ready line, the broker imports the modules of usual requests, so that requests need not wait."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from stuntbroker.cli.serving import preload

ONE_BY_ONE = """
import asyncio, sys
from stuntbroker.cli.serving import preload
preload.PAUSE_S, preload.BUSY_CPU_S = 0, 60

def handlers():
    return {name for name in sys.modules if name.startswith("stuntbroker.broker.handlers.")}

async def main():
    before, most = handlers(), 0
    preload.load_while_idle(asyncio.get_running_loop())
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


class Loading:
    """Modules that are loaded in the pauses of a loop, each of which uses as much CPU time as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fault: Exception | None = None) -> None:
        self.loaded: list[str] = []
        self.next: Callable[[], object] | None = None
        self._cpu_s = 0.0
        self._fault = fault
        monkeypatch.setattr(preload, "usual_modules", lambda: iter(("absent.first", "absent.second")))
        monkeypatch.setattr(preload, "import_module", self._import)
        preload.load_while_idle(self, lambda: self._cpu_s)  # type: ignore[arg-type]

    def call_later(self, pause_s: float, call: Callable[[float], object], cpu_before_s: float) -> None:
        """Replace `call_later` of an event loop."""
        assert pause_s == preload.PAUSE_S and self.next is None
        self.next = lambda: call(cpu_before_s)

    def _import(self, name: str) -> None:
        self.loaded.append(name)
        if self._fault is not None:
            raise self._fault

    def pass_pause(self, cpu_s: float = 0.0) -> None:
        """End the pause, in which the process has used `cpu_s` seconds of CPU time."""
        assert self.next is not None
        self._cpu_s += cpu_s
        call, self.next = self.next, None
        call()


def test_nothing_is_loaded_after_a_pause_in_which_the_broker_was_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = Loading(monkeypatch)
    for cpu_s in (preload.BUSY_CPU_S, 1.0):
        loading.pass_pause(cpu_s)
        assert loading.loaded == []
    loading.pass_pause(preload.BUSY_CPU_S / 2)
    assert loading.loaded == ["absent.first"]
    loading.pass_pause(1.0)
    assert loading.loaded == ["absent.first"]


def test_nothing_is_scheduled_once_all_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = Loading(monkeypatch)
    for _ in range(3):
        loading.pass_pause()
    assert (loading.loaded, loading.next) == (["absent.first", "absent.second"], None)


@pytest.mark.parametrize("fault", [ImportError("damaged"), OSError(errno.EMFILE, "no descriptor is left")], ids=repr)
def test_a_module_that_cannot_be_loaded_is_left_to_the_request_that_needs_it(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading = Loading(monkeypatch, fault=fault)
    loading.pass_pause()
    assert (loading.loaded, loading.next) == (["absent.first"], None)


def test_serve_preloads_the_usual_modules_without_a_request() -> None:
    *_, last = preload.usual_modules()
    command = [sys.executable, "-v", "-m", "stuntbroker.cli", "serve", "--port", "0"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "STUNTBROKER_"))}
    with subprocess.Popen(command, env=plain, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stderr is not None
            assert any(line.startswith(f"import '{last}' #") for line in broker.stderr)
        finally:
            broker.kill()
