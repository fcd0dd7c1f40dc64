"""Run small test files, as a user would write them, with pytest in a separate process."""

from __future__ import annotations

import pytest

from tests.kit.processes.process import PYTEST

PRODUCER = """
import pytest
from confluent_kafka import Producer

def transaction(bootstrap, topic="payments", value=b"42 EUR", end="commit", id="pay-1"):
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": id, "log_level": 0})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, value)
    producer.flush(10)
    if end == "commit":
        producer.commit_transaction(10)
    elif end == "abort":
        producer.abort_transaction(10)
    return producer
"""


def run_pytest(pytester: pytest.Pytester, code: str, *words: str, **environment: str) -> pytest.RunResult:
    """Run a test file with pytest in a separate process."""
    pytester.makepyfile(PRODUCER + code)
    for name in ("CI", "BUILD_NUMBER"):  # With them pytest shows each message twice.
        pytester._monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        pytester._monkeypatch.setenv(name, value)
    return pytester.runpytest_subprocess(*PYTEST[1:], *words)
