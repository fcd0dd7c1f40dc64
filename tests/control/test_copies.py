"""Snapshots: a broker can be restored to a snapshot, and forks of a snapshot run independently."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import confluent_kafka
import confluent_kafka.admin
import pytest

import stuntbroker
from stuntbroker.control.control import Control
from stuntbroker.control.host import BrokerHost
from stuntbroker.control.rules.faults import FaultError
from stuntbroker.control.snapshot import write_files
from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.control import ControlClient, ControlError
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.metadata_request import MetadataRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.storage.disk import Kind
from stuntbroker.storage.folder_files import own_files
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.control_rules import rule
from tests.kit.rig import Client, Rig, frame, turn
from tests.kit.transactions.two_calls import end
from tests.kit.valid_requests import batch

PLACES = (0, 1, 2)
COMMIT_POINTS = (
    "txn.PrepareCommit.before",
    "txn.PrepareCommit.after",
    "txn.marker.before",
    "txn.marker.after",
    "txn.CompleteCommit.before",
    "txn.reply",
)
PARKED_AT = [
    *((point, True, nth) for point in COMMIT_POINTS for nth in ((1, 2, 3) if "marker" in point else (1,))),
    *((point.replace("Commit", "Abort"), False, 1) for point in COMMIT_POINTS),
]
"""(point, whether the transaction commits, which passing of the point parks it)."""


def begin_and_write(client: Client, topic: str = "t") -> tuple[int, int]:
    """Open the transaction "pay" with a record in each of PLACES; return producer id and epoch."""
    given = client.ask(InitProducerIdRequest("pay", 60_000), 4)
    data = batch(1, given.producer_id, given.producer_epoch, 0)
    records = [TopicProduceData(topic, partition_data=[PartitionProduceData(index, data) for index in PLACES])]
    answer = client.ask(ProduceRequest("pay", -1, 1_000, records), 12)
    assert {each.error_code for each in answer.responses[0].partition_responses} == {0}
    return given.producer_id, given.producer_epoch


def end_frame(pair: tuple[int, int], commit: bool = True) -> bytes:
    return frame(EndTxnRequest("pay", *pair, commit), 4)


def logs_of(control: Control) -> dict[str, bytes]:
    """Return the contents of the non-empty partition logs by name."""
    data_dir = control.broker.data_dir
    for log in data_dir.logs.values():
        log.flush_buffered()
    disk, path = data_dir.disk, data_dir.path
    return {
        name: disk.read_file(f"{path}/{name}")
        for name in own_files(data_dir)
        if name.endswith(".log") and disk.kind(f"{path}/{name}") is Kind.FILE and disk.file_size(f"{path}/{name}")
    }


async def settle(control: Control) -> None:
    while control.broker.timers.is_busy:
        await asyncio.sleep(0)
    await turn()
    control.broker.turn.end()


@pytest.mark.parametrize(("point", "commit", "nth"), PARKED_AT)
async def test_a_fork_continues_a_parked_transaction_exactly_as_the_broker_does(
    point: str, commit: bool, nth: int, rig: Rig, control: Control
) -> None:
    host = BrokerHost(control)
    rig.topic("t", 3)
    pair = begin_and_write(rig.client())
    stop = control.stops.add(point, {"action": "park", "nth": nth})
    rig.client().feed(end_frame(pair, commit))
    await settle(control)
    assert len(stop.parked) == 1, "the transaction did not come to the point"

    _, fork = await host.fork(await host.snapshot())
    (copied,) = fork.control.stops.stops.values()
    before = logs_of(fork.control)
    assert (copied.id, copied.fired, [each.description for each in copied.parked]) == (stop.id, stop.fired, ["pay"])
    assert before == logs_of(control)

    control.stops.release(stop)
    await settle(control)
    assert logs_of(fork.control) == before, "the fork went on together with the broker"
    fork.control.stops.release(copied)
    await settle(fork.control)

    assert logs_of(fork.control) == logs_of(control)
    assert (logs_of(control) == before) is (point == "txn.reply"), "nothing is written behind the reply"
    assert fork.broker.transactions.busy_ids() == []
    await host.remove_forks()


async def test_a_fork_queues_requests_behind_a_parked_transaction(rig: Rig, control: Control) -> None:
    host = BrokerHost(control)
    rig.topic("t", 3)
    pair = begin_and_write(rig.client())
    stop = control.stops.add("txn.PrepareCommit.after", {"action": "park"})
    rig.client().feed(end_frame(pair))
    assert len(stop.parked) == 1
    _, fork = await host.fork(await host.snapshot())
    client = Client(fork.broker)
    client.feed(frame(InitProducerIdRequest("pay", 60_000), 4))
    assert client.answers() == []

    fork.control.stops.release(fork.control.stops.stops[stop.id])
    await settle(fork.control)

    assert len(client.answers()) == 1
    await host.remove_forks()


async def test_a_fork_copies_the_counts_of_faults_and_counts_separately(rig: Rig, control: Control) -> None:
    host = BrokerHost(control)
    rig.topic("t", 3)
    control.injector.add(rule("EndTxn", nth=2, times=1, error="NOT_COORDINATOR"))
    pair = begin_and_write(rig.client())
    assert end(rig.client(), Given(*pair)) == 0
    _, fork = await host.fork(await host.snapshot())

    assert end(Client(fork.broker), Given(*pair)) == 16
    assert [fault.fired for fault in control.injector.faults.values()] == [0]
    await host.remove_forks()


class Given:
    """Producer id and epoch, as in the response of InitProducerId."""

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


async def test_the_first_request_of_an_id_is_parked_again_in_a_fork(rig: Rig, control: Control) -> None:
    """At this stop, the id is not in the transaction log yet."""
    host = BrokerHost(control)
    stop = control.stops.add("txn.Empty.before", {"action": "park"})
    rig.client().feed(frame(InitProducerIdRequest("pay", 60_000), 4))
    _, fork = await host.fork(await host.snapshot())
    (copied,) = fork.control.stops.stops.values()
    assert [each.description for each in copied.parked] == ["pay"]

    for each, stopped in ((control, stop), (fork.control, copied)):
        each.stops.release(stopped)
        await settle(each)
    assert logs_of(fork.control) == logs_of(control)
    assert fork.broker.transactions.state_of("pay") == rig.broker.transactions.state_of("pay")
    await host.remove_forks()


async def test_requests_that_come_while_a_snapshot_is_taken_are_not_in_it(rig: Rig, control: Control) -> None:
    rig.topic("t", 3)
    client = rig.client()
    pair = begin_and_write(client)
    taking = asyncio.ensure_future(BrokerHost(control).snapshot())
    client.connection.hold()  # As the snapshot does soon.
    client.feed(end_frame(pair))
    snapshot = await taking
    assert len(client.answers()) == 1, "the request was not handled afterwards"

    host = BrokerHost(control)
    _, fork = await host.fork(snapshot)
    assert fork.broker.transactions.state_of("pay").phase.kafka_name == "Ongoing"
    await host.remove_forks()


async def test_a_fork_cannot_be_killed_as_the_process_is_not_its_own(rig: Rig, control: Control) -> None:
    host = BrokerHost(control)
    control.stops.add("txn.reply", {"action": "kill"})
    _, fork = await host.fork(await host.snapshot())
    assert fork.control.stops.stops == {}
    with pytest.raises(FaultError, match="no process of its own"):
        fork.control.stops.add("metadata.before", {"action": "kill"})
    await host.remove_forks()


async def test_forks_may_be_removed_concurrently(rig: Rig, control: Control) -> None:
    host = BrokerHost(control)
    snapshot = await host.snapshot()
    for _ in range(3):
        await host.fork(snapshot)
    await asyncio.gather(*(host.remove_forks() for _ in range(3)))
    assert host.forks == {}


async def test_a_copy_of_now_waits_until_a_restore_has_ended(rig: Rig, control: Control) -> None:
    host = BrokerHost(control)
    snapshot = await host.snapshot()
    rig.topic("later", 1)
    restoring = asyncio.ensure_future(host.restore(snapshot))
    await asyncio.sleep(0)
    copied = await host.current_state()
    assert restoring.done()
    assert copied.files.keys() == snapshot.files.keys()
    await host.broker.stop()


async def test_a_snapshot_is_found_by_its_id_or_name_but_not_by_an_empty_name(rig: Rig, control: Control) -> None:
    host = BrokerHost(control)
    for name in ("", "", "snapshot-2", "mine", "mine"):
        await host.snapshot(name)
    shown = {name: host.find(name) for name in ("", "snapshot-2", "mine", "other")}
    assert {name: each and each.id for name, each in shown.items()} == {
        "": None,
        "snapshot-2": "snapshot-2",
        "mine": "snapshot-5",
        "other": None,
    }


async def test_foreign_files_are_neither_copied_nor_removed(rig: Rig, control: Control, tmp_path: Path) -> None:
    host = BrokerHost(control)
    rig.topic("t", 3)
    begin_and_write(rig.client())
    rig.broker.turn.end()
    foreign = tmp_path / "t-0" / "notes.txt"
    foreign.write_text("mine")
    snapshot = await host.snapshot()
    assert "t-0/notes.txt" not in snapshot.files
    with pytest.raises(FaultError, match="does not belong to the broker"):
        await host.restore(snapshot)
    assert foreign.read_text() == "mine" and rig.client().ask(MetadataRequest(), 4).brokers


def test_restored_files_survive_a_power_cut_with_power_durability() -> None:
    files = {"meta.properties": b"x" * 700, "t-0/00000000000000000000.log": b"y" * 5_000}
    for seed in range(20):
        disk = MemoryDisk()
        write_files(files, disk, "/data", sync=True)
        disk.sync_path("/")
        after = disk.after_power_cut(Random(seed))
        assert {path: after.read_file(f"/data/{path}") for path in files} == files


async def test_a_broker_that_held_data_at_its_start_is_not_reset(rig: Rig, control: Control) -> None:
    rig.broker.is_new = False
    with pytest.raises(FaultError, match="had data when the broker started"):
        await BrokerHost(control).reset()


# --- snapshots and forks through the fixture


@pytest.fixture
def broker() -> Iterator[Broker]:
    with stuntbroker.broker(topics={"payments": 2}) as running:
        yield running


def wait_for_stop(broker: Broker, id_: str, count: int) -> int:
    """Wait on a new connection until a stop has fired `count` times; return how often it has fired."""
    with closing(ControlClient(broker.control_url)) as client:
        (stop,) = client.post(f"/v1/stops/{id_}/wait", {"count": count}, 20)["stops"]
    fired: int = stop["fired"]
    return fired


def producer_of(broker: Broker) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "pay-1", "log_level": 0}
    )
    producer.init_transactions(10)
    return producer


def phase_of(broker: Broker) -> str:
    (described,) = broker.transactions()
    return described.state


def test_a_restore_reopens_a_transaction_and_discards_later_changes(broker: Broker) -> None:
    producer = producer_of(broker)
    producer.begin_transaction()
    producer.produce("payments", "42 EUR", partition=0)
    producer.flush(10)
    snapshot = broker.snapshot("open")
    producer.commit_transaction(10)
    broker.create_topic("later")
    assert (phase_of(broker), broker.values("payments")) == ("CompleteCommit", [b"42 EUR"])

    for _ in range(3):
        broker.restore("open")
        assert (phase_of(broker), broker.values("payments")) == ("Ongoing", [])
        assert broker.topics() == {"payments": 2}
        broker.clock.advance(minutes=2)
        broker.wait_until(lambda: phase_of(broker) == "CompleteAbort")
    broker.restore(snapshot)
    assert phase_of(broker) == "Ongoing"


def test_a_hundred_forks_of_a_half_committed_transaction_end_each_on_its_own(broker: Broker) -> None:
    producer = producer_of(broker)
    stop = broker.stops.park("txn.marker.after")
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce("payments", f"{partition}", partition=partition)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(0.5)
    stop.wait()

    forks = broker.forks(100, broker.snapshot())

    assert len({fork.bootstrap for fork in forks}) == 100
    assert phase_of(forks[0]) == phase_of(forks[99]) == "PrepareCommit"
    assert sorted(forks[0].values("payments")) == [b"0"]
    forks[0].control.post(f"/v1/stops/{stop.id}/release")
    forks[0].wait_until(lambda: phase_of(forks[0]) == "CompleteCommit")
    assert sorted(forks[0].values("payments")) == [b"0", b"1"]
    assert {phase_of(forks[1]), phase_of(broker)} == {"PrepareCommit"}
    broker.undo()
    assert broker.control.get("/v1/forks") == {"forks": []}


def test_a_reset_leaves_only_the_topics_of_the_start(broker: Broker) -> None:
    broker.produce("payments", "42 EUR")
    broker.create_topic("later")
    cluster = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    before = cluster.list_topics(timeout=10).cluster_id
    broker.reset()

    assert (broker.topics(), broker.values("payments")) == ({"payments": 2}, [])
    assert cluster.list_topics(timeout=10).cluster_id == before
    broker.produce("payments", "43 EUR")
    broker.assert_committed("payments", ["43 EUR"])


def test_rules_that_were_added_before_and_after_a_reset_can_be_undone(broker: Broker) -> None:
    first = broker.stops.park("txn.reply")
    broker.reset()
    second = broker.stops.park("txn.reply")
    assert first.id != second.id
    broker.clock.pause()
    broker.snapshot("paused")
    broker.clock.resume()
    broker.restore("paused")
    broker.undo()
    assert broker.stops.all() == [] and not broker.clock.is_paused


def test_a_restore_sets_the_clock_to_the_time_of_the_snapshot(broker: Broker) -> None:
    broker.clock.pause()
    at_ms = broker.clock.now_ms
    broker.snapshot("paused")
    broker.clock.advance(days=3)
    broker.restore("paused")

    assert (broker.clock.now_ms, broker.clock.is_paused) == (at_ms, True)
    assert broker.fork("paused").clock.now_ms == at_ms


def test_an_unknown_snapshot_is_named_in_the_error(broker: Broker) -> None:
    for call in (broker.restore, broker.fork):
        with pytest.raises(ControlError, match="there is no snapshot 'nope'") as raised:
            call("nope")
        assert raised.value.status == 404


def test_waiting_for_a_stop_continues_over_a_restore_and_ends_when_the_stop_is_removed(broker: Broker) -> None:
    stop = broker.stops.fail("txn.Empty.before")
    broker.snapshot("with a stop")
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(wait_for_stop, broker, stop.id, count) for count in (1, 2)]
        broker.restore("with a stop")
        producer_of(broker)
        assert waits[0].result() == 1
        stop.remove()
        with pytest.raises(ControlError, match="the stop was removed meanwhile"):
            waits[1].result()


def test_a_wait_continues_over_a_restore_and_looks_at_the_new_state(broker: Broker) -> None:
    broker.produce("t", "1", "2", partition=0)
    broker.snapshot("two")
    broker.reset()
    with ThreadPoolExecutor(1) as pool:
        client = ControlClient(broker.control_url)
        wait = pool.submit(client.post, "/v1/wait", {"until": {"topic": "t", "end_offset": 2}}, 20)
        broker.restore("two")
        assert wait.result()["until"] == {"topic": "t", "end_offset": 2}
        client.close()
