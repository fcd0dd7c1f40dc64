"""Acknowledged data survives kill -9: records, offsets, open transactions and prepared transactions."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from struct import unpack_from
from typing import Any

import pytest

from stuntbroker.coordinator.state import Phase, Txn, advance
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.bystander import Bystander
from tests.kit.processes.process import Peer, Process, serving
from tests.kit.rig import START_MS, decode, frame, running_rig
from tests.kit.valid_requests import TOPIC, batch

TXN = "txn"
TXN_LOG = "__transaction_state"
FAILING_SYNC = """
import os, threading
real = os.fdatasync
def fdatasync(fd):
    if threading.current_thread() is not threading.main_thread():
        raise OSError(5, "Input/output error")
    real(fd)
os.fdatasync = fdatasync
"""


def produce(data: bytes, transactional_id: str | None = None, acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        transactional_id, acks, 1_000, [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, data)])]
    )


def make_topic(peer: Peer) -> None:
    assert peer.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9).topics[0].error_code == 0


def end_offset(peer: Peer, committed: bool = False) -> int:
    request = ListOffsetsRequest(-1, int(committed), [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, -1)])])
    actual: int = peer.ask(request, 4).topics[0].partitions[0].offset
    return actual


def fetched(peer: Peer) -> Any:
    wanted = FetchPartition(0, -1, 0, -1, -1, 10_000_000)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=10_000_000,
        isolation_level=1,
        topics=[FetchTopic(TOPIC, partitions=[wanted])],
    )
    return peer.ask(request, 12).responses[0].partitions[0]


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("round_", range(2))
def test_every_acknowledged_record_survives_kill_9_amid_produce(durability: str, round_: int, tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path), "--durability", durability)
    with serving(*arguments) as broker, Peer(broker.address) as peer:
        make_topic(peer)
        request = frame(produce(batch(1, size=100 + 9_000 * round_)), 9)
        peer.socket.setblocking(False)
        acknowledged, waiting, received = 0, memoryview(request * 3_000), b""
        while acknowledged < 300:
            try:
                waiting = waiting[peer.socket.send(waiting) :]
            except BlockingIOError:
                pass
            try:
                received += peer.socket.recv(1 << 16)
            except BlockingIOError:
                continue
            while len(received) >= 4 and len(received) >= 4 + unpack_from(">i", received)[0]:
                size = 4 + unpack_from(">i", received)[0]
                part = decode(received[4:size], 0, 9).responses[0].partition_responses[0]
                assert (part.error_code, part.base_offset) == (0, acknowledged)
                acknowledged, received = acknowledged + 1, received[size:]
        broker.kill()
    with serving(*arguments) as broker, Peer(broker.address) as peer:
        assert end_offset(peer) >= acknowledged
        assert fetched(peer).error_code == 0


def test_an_open_transaction_continues_after_kill_9(tmp_path: Path) -> None:
    """The same producer continues with its producer id and epoch, and commits; its retried batch is recognised as a duplicate."""
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        make_topic(peer)
        owner = peer.ask(InitProducerIdRequest(TXN, 60_000), 4)
        first = batch(2, owner.producer_id, owner.producer_epoch, 0)
        assert peer.ask(produce(first, TXN), 12).responses[0].partition_responses[0].error_code == 0
        broker.kill()
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        assert (end_offset(peer), end_offset(peer, committed=True)) == (2, 0)
        restarted = peer.ask(produce(first, TXN), 12).responses[0].partition_responses[0]
        assert (restarted.error_code, restarted.base_offset) == (0, 0)
        more = batch(2, owner.producer_id, owner.producer_epoch, 2)
        assert peer.ask(produce(more, TXN), 12).responses[0].partition_responses[0].base_offset == 2
        assert peer.ask(EndTxnRequest(TXN, owner.producer_id, owner.producer_epoch, True), 5).error_code == 0
        assert (end_offset(peer), end_offset(peer, committed=True)) == (5, 5)


@pytest.mark.parametrize("commit", [True, False])
def test_an_ended_transaction_stays_ended_after_kill_9(commit: bool, tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        make_topic(peer)
        owner = peer.ask(InitProducerIdRequest(TXN, 60_000), 4)
        peer.ask(produce(batch(2, owner.producer_id, owner.producer_epoch, 0), TXN), 12)
        ended = peer.ask(EndTxnRequest(TXN, owner.producer_id, owner.producer_epoch, commit), 5)
        assert ended.error_code == 0
        broker.kill()
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        # A client retries because it did not receive the response.
        retry = peer.ask(EndTxnRequest(TXN, owner.producer_id, owner.producer_epoch, commit), 5)
        assert (retry.error_code, retry.producer_id, retry.producer_epoch) == (
            0,
            ended.producer_id,
            ended.producer_epoch,
        )
        read = fetched(peer)
        assert read.last_stable_offset == read.high_watermark
        assert bool(read.aborted_transactions) is not commit


def test_committed_offsets_survive_kill_9(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        make_topic(peer)
        each = OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, 42, -1, "note")])
        assert peer.ask(OffsetCommitRequest("group", topics=[each]), 7).topics[0].partitions[0].error_code == 0
        broker.kill()
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        request = OffsetFetchRequest("group", [OffsetFetchRequestTopic(TOPIC, [0])])
        actual = peer.ask(request, 5).topics[0].partitions[0]
        assert (actual.committed_offset, actual.metadata) == (42, "note")


def test_topics_and_producer_ids_survive_kill_9(tmp_path: Path) -> None:
    ids, topic_ids = [], []
    for _ in range(2):
        with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
            topic_ids.append(peer.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 12).topics[0].topic_id)
            ids += [peer.ask(InitProducerIdRequest(None, 60_000), 4).producer_id for _ in range(3)]
            broker.kill()
    assert topic_ids[0] == topic_ids[1]
    assert len(set(ids)) == 6


def test_records_acknowledged_after_sigterm_are_on_the_disk(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        make_topic(peer)
        peer.socket.sendall(frame(produce(batch(1)), 9) * 500)
        answered = 0
        peer.receive()
        broker.process.send_signal(signal.SIGTERM)
        try:
            while True:
                peer.receive()
                answered += 1
        except ConnectionError:
            pass
        assert broker.wait()[0] == 0
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        assert end_offset(peer) >= 1 + answered


def test_a_disk_that_refuses_to_sync_ends_the_broker_with_status_1(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(FAILING_SYNC)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    arguments = ("--data-dir", str(tmp_path / "data"), "--durability", "power")
    with serving(*arguments, PYTHONPATH=path) as broker, Peer(broker.address) as peer:
        make_topic(peer)
        peer.send(produce(batch()), 9)
        with pytest.raises(ConnectionError):
            peer.receive()
        status, _, err = broker.wait()
    assert status == 1
    assert "sync_failed" in err
    assert "stuntbroker: stopped: the disk refused a sync" in err
    assert "Traceback" not in err
    with serving("--data-dir", str(tmp_path / "data")) as broker:
        assert broker.end()[0] == 0


def test_a_signal_right_after_the_ready_line_is_not_lost() -> None:
    for _ in range(5):
        broker = Process()
        try:
            assert broker.end()[0] == 0
        finally:
            if broker.process.poll() is None:
                broker.kill()


# --- prepared transactions


async def test_a_transaction_is_reported_as_completed_after_a_restart_once_it_is(data_dir: Path) -> None:
    partitions = 250  # More markers than are written at once.
    async with running_rig(data_dir, {"transaction.version": "0"}) as rig:
        rig.topic(TOPIC, partitions)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest(TXN, 60_000), 4)
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TXN,
            v3_and_below_producer_id=owner.producer_id,
            v3_and_below_producer_epoch=owner.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, list(range(partitions)))],
        )
        client.ask(add, 3)
        client.feed(frame(EndTxnRequest(TXN, owner.producer_id, owner.producer_epoch, True), 3))
        rig.broker.turn.end()
        assert rig.actor(TXN).txn.phase is Phase.PREPARE_COMMIT
        await rig.broker.abandon()
    async with running_rig(data_dir, {"transaction.version": "0"}) as rig:
        while rig.actor(TXN).txn.phase is Phase.PREPARE_COMMIT:
            assert "txn_completed_after_restart" not in rig.events.names()
            await asyncio.sleep(0)
        assert rig.events.names().count("txn_completed_after_restart") == 1


@pytest.mark.parametrize("phase", [Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT])
async def test_a_prepared_transaction_without_markers_is_finished_at_the_start(phase: Phase, data_dir: Path) -> None:
    """The process died after the Prepare record and before the markers."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest(TXN, 60_000), 4)
        client.ask(produce(batch(2, owner.producer_id, owner.producer_epoch, 0), TXN), 12)
        txn: Txn = rig.actor(TXN).txn
        assert txn.phase is Phase.ONGOING
        epoch = txn.producer_epoch
        prepared = advance(txn, phase, txn.updated_at_ms, producer_epoch=epoch + 1, last_producer_epoch=epoch)
        logs = rig.logs(TXN_LOG)
        logs[partition_for(TXN, len(logs))].append_record(TXN, prepared, START_MS)
    async with running_rig(data_dir) as rig:
        assert "txn_completed_after_restart" in rig.events.names()
        done = rig.actor(TXN).txn
        assert done.phase.name == phase.name.replace("PREPARE", "COMPLETE")
        log = rig.log(TOPIC, 0)
        assert (log.next_offset, log.last_stable_offset) == (3, 3)
        assert len(log.aborted) == (phase is Phase.PREPARE_ABORT)
        restarted = rig.client().ask(
            EndTxnRequest(TXN, txn.producer_id, txn.producer_epoch, phase is Phase.PREPARE_COMMIT), 5
        )
        assert (restarted.error_code, restarted.producer_epoch) == (0, txn.producer_epoch + 1)
        Bystander(rig).work()


async def test_a_prepared_transaction_whose_topic_is_gone_is_finished_too(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.ask(InitProducerIdRequest(TXN, 60_000), 4)
        txn: Txn = rig.actor(TXN).txn
        prepared = advance(txn, Phase.ONGOING, START_MS, partitions=frozenset({("gone", 0)}), started_at_ms=START_MS)
        prepared = advance(prepared, Phase.PREPARE_COMMIT, START_MS)
        logs = rig.logs(TXN_LOG)
        logs[partition_for(TXN, len(logs))].append_record(TXN, prepared, START_MS)
    async with running_rig(data_dir) as rig:
        assert rig.actor(TXN).txn.phase is Phase.COMPLETE_COMMIT


async def test_an_open_transaction_times_out_after_a_restart_as_it_would_have_before(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest(TXN, 60_000), 4)
        client.ask(produce(batch(2, owner.producer_id, owner.producer_epoch, 0), TXN), 12)
    async with running_rig(data_dir) as rig:
        rig.pass_time(60_000)
        assert rig.actor(TXN).txn.phase is Phase.ONGOING
        rig.pass_time(200)
        assert rig.actor(TXN).txn.phase is Phase.COMPLETE_ABORT
        assert "txn_timed_out" in rig.events.names()
