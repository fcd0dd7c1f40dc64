"""The journal of a broker's metadata stays short, and says the same when it was written anew."""

from __future__ import annotations

from pathlib import Path

from stuntbroker.broker.config import BrokerConfig
from stuntbroker.broker.events import Events
from stuntbroker.broker.server import Broker
from stuntbroker.storage.data_dir import JOURNAL


def opened(folder: Path) -> Broker:
    return Broker(BrokerConfig(), str(folder), events=Events("error"))


def test_a_journal_that_has_grown_is_written_anew_at_the_start_and_nothing_is_lost(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    topic = broker.topics.create("kept", 2, {"retention.ms": "1"})
    for number in range(1_200):
        broker.topics.set_configs(topic, {"retention.ms": str(number)})
    taken = [broker.transactions.producer_ids.take() for _ in range(3)]
    broker.data_dir.close()

    broker = opened(tmp_path)
    lines = (tmp_path / JOURNAL).read_bytes().count(b"\n")
    broker.data_dir.close()
    broker = opened(tmp_path)
    again = broker.topics.get("kept")

    assert lines == 2
    assert again is not None
    assert (again.id, again.configs, len(again.partitions)) == (topic.id, {"retention.ms": "1199"}, 2)
    assert broker.transactions.producer_ids.take() > max(taken)
    broker.data_dir.close()
