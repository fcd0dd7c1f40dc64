"""A driver that starts while the broker is down waits for it as long as a running driver does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from live_broker import LiveBroker, make_topic
from pyspark.sql.types import _parse_datatype_string

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import TimedOut
from stuntbroker.pipeline.spark import connections, sink, source
from stuntbroker.pipeline.spark.data_source import StuntbrokerDataSource
from stuntbroker.pipeline.spark.sink_options import sink_options
from stuntbroker.pipeline.spark.source import BatchReader, StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveBroker]:
    """A broker with the topic `t` that is down, and starts again when a client waits before a retry."""
    with LiveBroker(tmp_path / "data") as created:
        with created.cluster() as cluster:
            make_topic(cluster, "t")
        created.kill()

        class Waiting(Cluster):
            def __init__(self, *given: Any, **named: Any) -> None:
                super().__init__(*given, **named, sleep=self._start_broker)

            def _start_broker(self, seconds: float) -> None:
                if created._process is None:
                    created.start()

        for module in (connections, source):
            monkeypatch.setattr(module, "Cluster", Waiting)
        yield created
        for cluster in connections._clusters.values():
            cluster.close()
        connections._clusters.clear()
        connections._stores.clear()


@pytest.mark.parametrize("mode", ["2pc", "single"])
def test_a_sink_waits_for_a_broker_that_is_away_when_its_driver_starts(mode: str, away: LiveBroker) -> None:
    given = {"kafka.bootstrap.servers": str(away.address), "topic": "t", "sinkId": "s", "mode": mode}

    assert sink.take(sink_options(given, stream=True)).last is None


def test_a_source_waits_for_a_broker_that_is_away_when_its_driver_starts(spark: SparkSession, away: LiveBroker) -> None:
    given = {"kafka.bootstrap.servers": str(away.address), "subscribe": "t", "startingOffsets": "earliest"}
    schema = _parse_datatype_string(StuntbrokerDataSource({}).schema())

    stream = StreamReader(given, schema)
    assert stream.initialOffset() == {"t": {"0": 0}}
    stream.stop()
    away.kill()
    assert BatchReader(given, schema).partitions() == []


@pytest.mark.parametrize("mode", ["2pc", "single"])
def test_a_sink_gives_up_after_its_time_out_and_names_what_to_change(mode: str) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "sinkId": "s", "topic": "t", "mode": mode}
    with pytest.raises(
        TimedOut, match=r"given up after 0.1 s: check that a broker runs there.*kafka.delivery.timeout.ms"
    ):
        sink.take(sink_options(given | {"kafka.delivery.timeout.ms": "100"}, stream=True))
