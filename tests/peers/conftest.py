"""Other people's clients against a broker: ours, or Apache Kafka to prove the tests themselves.

    pytest tests/peers                               our broker, a process of its own
    pytest tests/peers --peer-broker=kafka           Apache Kafka, a process of its own
    pytest tests/peers --peer-broker=localhost:9092  one that is already there

The option exists only when tests/peers is named on the command line: pytest reads it before it looks further.
"""

import contextlib
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.peers.kafka_broker import apache_kafka
from tests.peers.our_broker import our_broker

OURS = "stuntbroker"
LOG_LINES_MAX = 80
LOG_FILE = pytest.StashKey[Path]()

# How often the broker looks for overdue transactions. Kafka's own pace is ten seconds.
CLEANUP_INTERVAL_MS = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--peer-broker",
        default=OURS,
        metavar="BROKER",
        help=f"what tests/peers talks to: {OURS} (the default), kafka, or HOST:PORT of a running broker",
    )


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The "host:port" of the broker under test."""
    folder = tmp_path_factory.mktemp("peer-broker")
    match request.config.getoption("peer_broker", OURS):
        case "stuntbroker":
            request.config.stash[LOG_FILE] = folder / "stderr.log"
            setting = f"transaction.abort.timed.out.transaction.cleanup.interval.ms={CLEANUP_INTERVAL_MS}"
            with our_broker(folder / "data", folder / "stderr.log", setting) as address:
                yield address
        case "kafka":
            request.config.stash[LOG_FILE] = folder / "kafka.log"
            interval = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": CLEANUP_INTERVAL_MS}
            with apache_kafka(folder, **interval) as address:
                yield address
        case address:
            yield address


@pytest.fixture
def own(request: pytest.FixtureRequest) -> str:
    """A prefix for names of topics, groups and transactional ids that no other test and no other run uses."""
    return f"{re.sub('[^a-z0-9]+', '-', request.node.name)[:60]}-{uuid4().hex[:8]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what the broker logged."""
    report = yield
    log_file = item.config.stash.get(LOG_FILE, None)
    if report.failed and log_file is not None:
        with contextlib.suppress(FileNotFoundError):
            lines = log_file.read_text(errors="replace").splitlines()
            report.sections.append((f"broker log {log_file}", "\n".join(lines[-LOG_LINES_MAX:])))
    return report
