"""Clients of other projects against our broker, or against Apache Kafka, which checks the tests themselves.

    pytest tests/peers                               our broker, in processes of its own
    pytest tests/peers --peer-broker=kafka           Apache Kafka, in processes of its own
    pytest tests/peers --peer-broker=localhost:9092  one that is already there

The option exists only when tests/peers is named on the command line: pytest reads it before it looks further.
"""

import contextlib
import re
from collections.abc import Generator, Iterator
from uuid import uuid4

import pytest

from tests.kit.brokers.books import wrong_in
from tests.kit.brokers.clusters import OURS, Clusters

LOG_LINES_MAX = 80
CLUSTERS = pytest.StashKey[Clusters]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--peer-broker",
        default=OURS,
        metavar="BROKER",
        help=f"what tests/peers talks to: {OURS} (the default), kafka, or HOST:PORT of a running broker",
    )


@pytest.fixture(scope="session")
def clusters(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    folder = tmp_path_factory.mktemp("peer-brokers")
    with contextlib.ExitStack() as running:
        clusters = Clusters(request.config.getoption("peer_broker", OURS), folder, running)
        request.config.stash[CLUSTERS] = clusters
        yield clusters
    for data_dir in clusters.folders():
        assert wrong_in(data_dir) == [], f"the clients have left a broker's folder that is not in order: {data_dir}"


@pytest.fixture
def bootstrap(clusters: Clusters) -> str:
    """The "host:port" of the broker under test."""
    return clusters.bootstrap("tv2")


@pytest.fixture(params=["tv2", "tv1"])
def each_bootstrap(request: pytest.FixtureRequest, clusters: Clusters) -> str:
    """One run for each `transaction.version` of the cluster, for clients that do not look at it."""
    return clusters.bootstrap(request.param)


@pytest.fixture(params=["late-tv2", "late-tv1"])
def each_late_bootstrap(request: pytest.FixtureRequest, clusters: Clusters) -> str:
    """The same clusters, with the transactional ids of `late_epochs` near their last epoch."""
    return clusters.bootstrap(request.param)


@pytest.fixture
def own(request: pytest.FixtureRequest) -> str:
    """A prefix for names of topics, groups and transactional ids that no other test and no other run uses."""
    return f"{re.sub('[^a-z0-9]+', '-', request.node.name)[:60]}-{uuid4().hex[:8]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what the brokers logged."""
    report = yield
    clusters = item.config.stash.get(CLUSTERS, None)
    if report.failed and clusters is not None:
        for log_file in clusters.logs():
            lines = log_file.read_text(errors="replace").splitlines()
            if lines:
                report.sections.append((f"broker log {log_file}", "\n".join(lines[-LOG_LINES_MAX:])))
    return report
