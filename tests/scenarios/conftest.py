"""Brokers for the scenarios, and import paths for the harnesses of other folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
for folder in (TESTS / "coordinator", TESTS / "broker"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from tests.scenarios.kafka_hand import Heard, KafkaStage  # noqa: E402
from tests.scenarios.our_hand import Loop  # noqa: E402

ON_KAFKA = "test_kafka_"


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    """The event loop of our brokers."""
    created = Loop()
    yield created
    created.close()


@pytest.fixture(scope="session", autouse=True)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[Heard] | None]:
    """The transcripts of Kafka for the selected scenarios. Kafka plays them while our broker plays the others."""
    here = Path(__file__).parent
    wanted = [item for item in request.session.items if item.path.parent == here and item.name.startswith(ON_KAFKA)]
    scripts = [item.callspec.params["script"] for item in wanted]
    if not scripts:
        yield None
        return
    stage = KafkaStage(tmp_path_factory.mktemp("kafka"))
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(stage.play, scripts)
