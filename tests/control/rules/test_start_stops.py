"""A start that fails or is killed midway loses nothing: the next start completes the remaining steps."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

import stuntbroker
from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.control.rules.points import POINTS, START
from stuntbroker.fixture.control import ControlError
from stuntbroker.protocol.addresses import parse_bootstrap
from tests.kit.processes.process import serving

CASES = [(point, action) for point in START for action in POINTS[point].actions]


@pytest.fixture
def half_committed(tmp_path: Path) -> Path:
    """Return the data folder of a broker that was killed after a PrepareCommit record and before the markers."""
    data_dir = tmp_path / "data"
    plan = ("--control", "--plan", "broker-dies-while-it-commits")
    with serving("--data-dir", str(data_dir), *plan, "--topic", "t") as broker:
        bootstrap = broker.line.split("kafka=")[1].split()[0]
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "pay", "log_level": 0})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("t", "42 EUR")
        with pytest.raises(confluent_kafka.KafkaException):
            producer.commit_transaction(1)
        assert broker.wait()[0] == -signal.SIGKILL
    return data_dir


@pytest.mark.parametrize(("point", "action"), CASES)
def test_the_next_start_completes_a_start_that_failed_or_was_killed(
    point: str, action: str, half_committed: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"stops": [{"point": point, "action": action}]}))
    command = [sys.executable, "-m", "stuntbroker.cli", "serve", "--port", "0", "--control", "--plan", str(plan)]
    done = subprocess.run([*command, "--data-dir", str(half_committed)], capture_output=True, text=True, timeout=30)
    assert "ready" not in done.stdout
    if action == "kill":
        assert done.returncode == -signal.SIGKILL
    else:
        assert done.returncode == 1
        assert f"cannot start: the plan makes the operation fail at {point}" in done.stderr

    with serving("--data-dir", str(half_committed)) as broker:
        cluster = Cluster(parse_bootstrap(broker.line.split("kafka=")[1].split()[0]), 10)
        (listed,) = Admin(cluster).list_transactions().listings
        cluster.close()
        assert (listed.transactional_id, listed.state) == ("pay", "CompleteCommit")


def test_a_running_broker_refuses_stops_at_points_of_the_start() -> None:
    with stuntbroker.broker() as broker:
        for point in START:
            with pytest.raises(ControlError, match="a running broker does not pass this point"):
                broker.control.post(f"/v1/stops/{point}", {"action": "kill"})
