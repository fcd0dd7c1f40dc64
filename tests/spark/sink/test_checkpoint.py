"""The sink reads the query id from the checkpoint, if the driver can read the checkpoint's location."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sink_runs import Sink

from stuntbroker.pipeline.spark.checkpoint import query_of

if TYPE_CHECKING:
    from live_broker import LiveBroker
    from pyspark.sql import SparkSession

    from stuntbroker.client.commands.cluster import Cluster

DOCUMENT = Path(__file__).parents[3] / "docs" / "spark.md"
VERIFY = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"

PLACES = {
    "{}": True,
    "file:{}": True,
    "file://{}": True,
    "hdfs://namenode{}": False,
    "s3a://bucket{}": False,
    "{}/another": False,
    "": False,
}
"""Value of the option, with the checkpoint's folder in place of {} -> whether the sink finds its query id."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("option", ["checkpointLocation", "checkpointlocation"])
def test_a_checkpoint_in_a_local_folder_names_its_query(option: str, place: str, tmp_path: Path) -> None:
    folder = tmp_path / "with a blank, and %20"
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"7442b24f-a28f-42b2-b81d-8abff936315d"}')

    actual = query_of({"topic": "t", option: place.format(folder)})

    assert actual == ("7442b24f-a28f-42b2-b81d-8abff936315d" if PLACES[place] else None)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"id": 7}'])
def test_invalid_checkpoint_metadata_gives_no_query_id(text: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(text)

    assert query_of({"checkpointLocation": str(tmp_path)}) is None
    assert query_of({}) is None


def test_the_documented_setting_starts_a_query_whose_driver_was_killed_while_it_wrote_its_first_offsets(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path
) -> None:
    """Spark refuses this checkpoint before it calls the sink, so the documentation must have the workaround."""
    sink = Sink(spark, str(broker.address), cluster, tmp_path, "first-offsets")
    sink.add_input(["row"])
    offsets = sink.checkpoint / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.1a6f0c1e-7d5c-4a3a-9a51-3a3f0d2b8f11.tmp").touch()

    assert "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY" in sink.fails()
    assert f"{VERIFY}=false" in DOCUMENT.read_text(encoding="utf-8")
    spark.conf.set(VERIFY, "false")
    try:
        sink.run()
    finally:
        spark.conf.unset(VERIFY)
    sink.check()
