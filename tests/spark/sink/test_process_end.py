"""A process that used the sink ends without warnings, as its connections are closed before asyncio warns of them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from live_broker import make_topic

if TYPE_CHECKING:
    from live_broker import LiveBroker

    from stuntbroker.client.commands.cluster import Cluster

TAKE = """
import sys
from stuntbroker.pipeline.spark.sink_options import sink_options
from stuntbroker.pipeline.spark.two_phase_sink import TwoPhaseSink

given = {"kafka.bootstrap.servers": sys.argv[1], "topic": "ends", "sinkId": "ends"}
TwoPhaseSink(sink_options(given, stream=True)).take()
"""


def test_a_process_that_used_the_sink_ends_without_output_on_stderr(broker: LiveBroker, cluster: Cluster) -> None:
    make_topic(cluster, "ends")
    done = subprocess.run([sys.executable, "-c", TAKE, str(broker.address)], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
