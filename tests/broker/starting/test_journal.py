"""The metadata journal stays short, and partition folders beside it are neither lost nor taken for those of another topic."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.observation.events import Events
from stuntbroker.broker.server import Broker
from stuntbroker.protocol.batches.records import read_header
from stuntbroker.protocol.data_folder import JOURNAL, PARTITION_METADATA, PROPERTIES
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from stuntbroker.protocol.topic_names import TXN_STATE
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.ownership import metadata_of
from tests.kit.rig import START_MS, KeptEvents, running_rig
from tests.kit.valid_requests import batch


def opened(folder: Path) -> Broker:
    return Broker(BrokerConfig(), str(folder), events=Events("error"))


def put(log: Any, data: bytes) -> int:
    log.turn = None  # Without an event loop, no turn would end.
    error, offset, _ = log.append_client(data, read_header(data), START_MS)
    assert error == 0
    return int(offset)


def test_a_long_journal_is_rewritten_at_the_start_and_nothing_is_lost(tmp_path: Path) -> None:
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
    restarted = broker.topics.get("kept")

    assert lines == 2
    assert restarted is not None
    assert (restarted.id, restarted.configs, len(restarted.partitions)) == (topic.id, {"retention.ms": "1199"}, 2)
    assert broker.transactions.producer_ids.take() > max(taken)
    broker.data_dir.close()


def test_an_invalid_journal_line_refuses_the_start_and_changes_nothing(tmp_path: Path) -> None:
    """In a journal without CRCs, a single flipped bit turns "create" into "creatd"."""
    broker = opened(tmp_path)
    broker.topics.create("kept", 1, {})
    put(broker.topics.log("kept", 0), batch(1))
    broker.data_dir.close()
    (tmp_path / JOURNAL).write_bytes(re.sub(rb',"crc":"\w+"', b"", (tmp_path / JOURNAL).read_bytes()))
    opened(tmp_path).data_dir.close()
    (tmp_path / JOURNAL).write_bytes((tmp_path / JOURNAL).read_bytes().replace(b"create", b"creatd"))
    (tmp_path / PROPERTIES).unlink()

    for _ in range(2):
        with pytest.raises(
            StorageError, match=f"^{tmp_path}/{JOURNAL}, line 1: .*'creatd'.*; nothing was changed: put"
        ):
            opened(tmp_path)
    assert (tmp_path / "kept-0" / f"{0:020d}.log").stat().st_size
    assert not (tmp_path / PROPERTIES).exists()


def test_a_recreated_topic_has_no_data_of_the_deleted_topic(tmp_path: Path) -> None:
    """The broker was killed before it removed the folder of the deleted topic, and nothing was written to the new topic."""
    broker = opened(tmp_path)
    topic = broker.topics.create("orders", 1, {})
    put(broker.topics.log("orders", 0), batch(3))
    broker.data_dir.journal({"delete": "orders"})
    broker.data_dir.journal({"create": "orders", "id": "ab" * 16, "partitions": 1, "configs": {}})
    broker.data_dir.abandon()
    assert (tmp_path / "orders-0" / PARTITION_METADATA).read_text() == metadata_of(topic.id)

    broker = opened(tmp_path)
    log = broker.topics.log("orders", 0)
    assert (log.next_offset, (tmp_path / "orders-0").exists()) == (0, False)
    assert put(log, batch(1)) == 0
    broker.data_dir.abandon()
    broker = opened(tmp_path)
    assert broker.topics.log("orders", 0).next_offset == 1
    assert (tmp_path / "orders-0" / PARTITION_METADATA).read_text() == metadata_of(b"\xab" * 16)
    broker.data_dir.close()


def test_a_partition_missing_from_a_truncated_journal_is_kept_as_a_stray(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    for name in ("first", "second"):
        broker.topics.create(name, 1, {})
        put(broker.topics.log(name, 0), batch(1))
    broker.data_dir.close()
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    (tmp_path / JOURNAL).write_bytes(lines[0])

    events = KeptEvents()
    Broker(BrokerConfig(), str(tmp_path), events=events).data_dir.close()
    [(event, facts)] = events.kept
    assert (event, facts["folder"]) == ("stray_partition_renamed", str(tmp_path / "second-0"))
    assert (tmp_path / facts["to"] / f"{0:020d}.log").stat().st_size
    assert (tmp_path / "first-0").exists()


def test_a_topic_folder_that_cannot_be_removed_is_reported_and_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    broker = opened(tmp_path)
    topic = broker.topics.create("orders", 2, {})
    for index in range(2):
        put(broker.topics.log("orders", index), batch(1))
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(
        StorageError, match=f"orders is deleted, but cannot remove {tmp_path}/orders-1/0{{20}}.log: Permission denied"
    ):
        broker.topics.delete(topic)
    monkeypatch.undo()
    assert (broker.topics.get("orders"), broker.topics.log("orders", 0), broker.topics.log("orders", 1)) == (
        None,
        None,
        None,
    )
    with pytest.raises(StorageError, match=f"there is already something at {tmp_path}/orders-0"):
        broker.topics.create("orders", 1, {})
    broker.data_dir.abandon()

    broker = opened(tmp_path)
    assert not (tmp_path / "orders-0").exists() and not (tmp_path / "orders-1").exists()
    broker.topics.create("orders", 1, {})
    broker.data_dir.close()


def test_a_topic_config_that_is_no_longer_valid_is_ignored_at_the_start(tmp_path: Path) -> None:
    """An event reports the property, and its default applies; internal topics have defaults of their own."""
    changes = [
        {"create": TXN_STATE, "id": "ab" * 16, "partitions": 5, "configs": {"segment.bytes": "16384"}},
        {"create": "orders", "id": "cd" * 16, "partitions": 1,
         "configs": {"segment.bytes": "1", "no.such": "x", "retention.ms": " 5 "}},
    ]  # fmt: skip
    (tmp_path / JOURNAL).write_text("".join(json.dumps(change) + "\n" for change in changes))
    (tmp_path / PROPERTIES).write_text("cluster.id=x\nnode.id=1\n")

    events = KeptEvents()
    broker = Broker(BrokerConfig(), str(tmp_path), events=events)
    assert [(name, facts["topic"], facts["config"], facts["value"]) for name, facts in events.kept] == [
        ("topic_config_ignored", TXN_STATE, "segment.bytes", "16384"),
        ("topic_config_ignored", "orders", "segment.bytes", "1"),
        ("topic_config_ignored", "orders", "no.such", "x"),
    ]
    kept = {topic.name: topic.partitions[0].config for topic in broker.topics}
    assert (kept[TXN_STATE].segment_bytes, kept[TXN_STATE].compact) == (104_857_600, True)
    assert (kept["orders"].segment_bytes, kept["orders"].retention_ms) == (1 << 30, 5)
    broker.data_dir.close()


def test_a_cluster_id_that_is_lost_is_reported(tmp_path: Path) -> None:
    broker = opened(tmp_path)
    broker.topics.create("kept", 1, {})
    broker.data_dir.close()
    (tmp_path / PROPERTIES).unlink()
    events = KeptEvents()
    restarted = Broker(BrokerConfig(), str(tmp_path), events=events)
    restarted.data_dir.close()
    assert events.kept == [("cluster_id_lost", {"folder": str(tmp_path), "now": restarted.cluster_id})]
    assert opened(tmp_path).cluster_id == restarted.cluster_id != broker.cluster_id


async def test_topic_requests_that_fail_on_the_disk_name_the_path_in_their_error_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    async with running_rig(tmp_path / "data") as rig:
        client = rig.client()
        rig.topic("orders")
        put(rig.log("orders", 0), batch(1))
        (tmp_path / "data" / "orders-1").mkdir()
        (tmp_path / "data" / "bills-0").write_text("somebody's")

        grown = client.ask(CreatePartitionsRequest([CreatePartitionsTopic("orders", 2, None)], 1_000), 2).results[0]
        created = client.ask(CreateTopicsRequest([CreatableTopic("bills", 1, 1)], 1_000), 7).topics[0]
        monkeypatch.setattr(os, "unlink", refuse)
        deleted = client.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1_000), 5).responses[0]
        monkeypatch.undo()
        assert rig.broker.topics.get("orders") is rig.broker.topics.get("bills") is None
    for answer, what in (
        (grown, "orders-1: move it"),
        (created, "bills-0: move it"),
        (deleted, "orders-0/00000000000000000000.log: Permission"),
    ):
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert what in answer.error_message
