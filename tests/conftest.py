"""Configure pytest: import paths, Hypothesis, the mark `long`, a shared fixture, and the distribution of tests by pytest-xdist.

With pytest-xdist, the tests of a file run in one process, and so do the files of an entry of TOGETHER, which share something
expensive that is started once per process.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

    from tests.kit.programs.kafka_tools import KafkaTools

ROOT: Final = Path(__file__).parents[1]
sys.path.extend(str(folder) for folder in (ROOT, ROOT / "tools") if str(folder) not in sys.path)

import stuntbroker.protocol  # noqa: E402  # The line above makes these importable.
from tests.long_tests import is_long  # noqa: E402

_package, _room = (Path(next(iter(each.__path__))) for each in (stuntbroker, stuntbroker.protocol))
if _room.parent not in (ROOT, _package):  # Neither this checkout nor an installed wheel.
    raise pytest.UsageError(
        f"the tests of {ROOT} would try the rooms at {_room.parent}: "
        "run them with the environment that `make .venv/dev` makes here"
    )

TOGETHER: Final = (
    ("spark/killing",),  # A Spark session.
    ("spark/",),  # Another one.
    ("conformance/",),  # Apache Kafka and our broker, side by side.
    ("cli/transactions/",),  # The same.
    ("house/",),  # The syntax trees of all files.
)
"""Path prefixes of the tests that share a process. The slowest groups start first, so that none of them ends last."""
BEGIN_EARLY: Final = (
    "pipeline/test_on_kafka",
    "coordinator/exploration/",
    "peers/",
    "scenarios/",
    "docs/",
    "cli/",
    "docker/",
)
"""Path prefixes of slow files, which start after the groups of TOGETHER."""

# A background job of a shell ignores SIGINT, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline, so that slow machines do not fail; no database, so that nothing is left in the checkout.
settings.register_profile("stuntbroker", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("stuntbroker")


@cache
def group_of(path: str) -> tuple[int, str]:
    """Return the rank and the name of the group of a file."""
    name = path.removeprefix("tests/")
    for rank, starts in enumerate(TOGETHER):
        if name.startswith(starts):
            return rank, starts[0]
    ranks = [len(TOGETHER) + rank for rank, start in enumerate(BEGIN_EARLY) if name.startswith(start)]
    return min(ranks, default=len(TOGETHER) + len(BEGIN_EARLY)), name


@pytest.fixture(scope="session")
def kafka_tools() -> Iterator[KafkaTools]:
    """Apache Kafka's own commands; skips where there is no JDK."""
    from tests.kit.programs.kafka_tools import running_kafka_tools

    with running_kafka_tools() as tools:
        yield tools


@pytest.fixture(scope="session", autouse=True)
def _root_of_inner_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give each run of pytest that a test starts a root of its own, or it would delete the many files of earlier runs."""
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path_factory.getbasetemp())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "long: takes long, and others prove the same rule with less (tests/long_tests.py)"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_long(item.nodeid.partition("/")[2]):
            item.add_marker("long")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: group_of(item.path.relative_to(ROOT).as_posix())[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Schedule by `group_of`: pytest 9.2 with pytest-xdist 3.8 silently ignores the groups of `--dist loadgroup`."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.partition("::")[0])[1]

    config.option.loadscopereorder = False
    return Groups(config, log)
