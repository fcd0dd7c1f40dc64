"""A user without the two-phase commit permission gets one clear error in mode=2pc, before the sink changes anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from first_attempts import FirstAttempt, run
from live_broker import LiveBroker, committed, held_back, make_topic

from stuntbroker.client.commands.admin import Admin
from stuntbroker.pipeline.spark import single_sink, two_phase_sink
from stuntbroker.pipeline.spark.single_sink import SingleSink
from stuntbroker.pipeline.spark.sink_options import SinkOptions, sink_options
from stuntbroker.pipeline.spark.two_phase_sink import NotAllowed, TwoPhaseSink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stuntbroker.client.commands.cluster import Cluster

DENY = "stuntbroker.deny.two.phase.commit"
ROWS = [pa.record_batch({"value": pa.array(["row"])})]


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (single_sink, two_phase_sink):
        monkeypatch.setattr(module, "TaskContext", FirstAttempt)


@pytest.fixture
def denying(tmp_path: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path / "data", f"{DENY}=all-*,task-0-*") as created:
        yield created


def options(broker: LiveBroker, sink_id: str, mode: str = "2pc") -> SinkOptions:
    given = {"kafka.bootstrap.servers": str(broker.address), "topic": "t", "sinkId": sink_id, "mode": mode}
    return sink_options(given, stream=True)


def ids(cluster: Cluster, *states: str) -> list[str]:
    return [each.transactional_id for each in Admin(cluster).list_transactions(states=states).listings]


def test_a_driver_without_permission_for_two_phase_commit_fails_before_any_change(denying: LiveBroker) -> None:
    with denying.cluster() as cluster:
        make_topic(cluster, "t")
        with pytest.raises(NotAllowed, match=r"'all-gate' may not be used .* TWO_PHASE_COMMIT .* 'all-' .*mode=single"):
            TwoPhaseSink(options(denying, "all")).take()
        assert [each for each in ids(cluster) if each.startswith("all-")] == []

        run(SingleSink(options(denying, "all", "single")), 0)
        assert (committed(cluster, "t"), held_back(cluster, "t")) == (["row"], [])


def test_a_denied_task_names_its_transactional_id_and_leaves_no_transaction_open(denying: LiveBroker) -> None:
    with denying.cluster() as cluster:
        make_topic(cluster, "t")
        sink = TwoPhaseSink(options(denying, "task"))
        taken = sink.take()
        with pytest.raises(NotAllowed, match="'task-0-0' may not be used for two-phase commit: grant"):
            sink.write(taken, "query", 0, ROWS)
        sink.abort([])
        assert ids(cluster, "Ongoing") == []
