"""The query of a checkpoint, where the driver can read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stuntbroker.pipeline.spark.checkpoint import query_of

PLACES = {
    "{}": True,
    "file:{}": True,
    "file://{}": True,
    "hdfs://namenode{}": False,
    "s3a://bucket{}": False,
    "{}/another": False,
    "": False,
}
"""A location, of a checkpoint that is at {} -> whether its query is found."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("option", ["checkpointLocation", "checkpointlocation"])
def test_a_checkpoint_in_a_local_folder_names_its_query(option: str, place: str, tmp_path: Path) -> None:
    folder = tmp_path / "with a blank, and %20"
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"7442b24f-a28f-42b2-b81d-8abff936315d"}')

    found = query_of({"topic": "t", option: place.format(folder)})

    assert found == ("7442b24f-a28f-42b2-b81d-8abff936315d" if PLACES[place] else None)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"id": 7}'])
def test_what_is_no_metadata_names_nobody(text: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(text)

    assert query_of({"checkpointLocation": str(tmp_path)}) is None
    assert query_of({}) is None
