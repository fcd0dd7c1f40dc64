"""Seeded states that would otherwise take long to reach, and the responses that clients get in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stuntbroker
from stuntbroker.cli.main import run
from stuntbroker.control.rules.faults import FaultError
from stuntbroker.control.seed import OFFSET_MAX, seed, wait_until_durable
from stuntbroker.protocol.batches.records import build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.rig import Client, Rig, SyncedAtOnce
from tests.kit.rig import running_rig as running_rig
from tests.kit.transactions.two_calls import begin, end
from tests.kit.valid_requests import START_MS, batch


@pytest.fixture
def client(rig: Rig) -> Client:
    rig.topic("t", 2)
    return rig.client()


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_transactional_id_continues_from_its_seeded_epoch(is_known: bool, rig: Rig, client: Client) -> None:
    if is_known:
        end(client, begin(client))
    assert seed(rig.broker, {"ids": {"transactional_id": "pay", "producer_id": 77, "producer_epoch": 32_765}}) == {
        "transactional_id": "pay",
        "producer_id": 77,
        "producer_epoch": 32_765,
    }
    ids = [client.ask(InitProducerIdRequest("pay", 60_000), 4) for _ in range(2)]
    assert (ids[0].producer_id, ids[0].producer_epoch) == (77, 32_766)
    assert ids[1].producer_id != 77 and ids[1].producer_epoch == 0


async def test_seeded_states_survive_a_restart(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        rig.topic("t")
        seed(rig.broker, {"ids": {"transactional_id": "pay", "producer_epoch": 500}})
        seed(rig.broker, {"next_offset": {"topic": "t", "offset": OFFSET_MAX}})
        rig.log("t", 0).append_own(bytearray(batch(2)))
        hanging = seed(rig.broker, {"hanging": {"topic": "t", "values": ["a", "b"]}})
    async with running_rig(tmp_path) as rig:
        given = rig.client().ask(InitProducerIdRequest("pay", 60_000), 4)
        assert given.producer_epoch == 501
        log = rig.log("t", 0)
        assert (log.log_start_offset, log.last_stable_offset, log.next_offset) == (
            OFFSET_MAX,
            hanging["first_offset"],
            OFFSET_MAX + 4,
        )


def test_find_hanging_lists_a_seeded_hanging_transaction(capsys: pytest.CaptureFixture[str]) -> None:
    with stuntbroker.broker(topics=["orders"]) as broker:
        hanging = broker.seed(hanging={"topic": "orders"})
        assert run(["txn", "find-hanging", "--bootstrap", broker.bootstrap, "--json"]) == 0
        (hanging_one,) = json.loads(capsys.readouterr().out)["hanging"]
        assert (hanging_one["topic"], hanging_one["producer_id"]) == ("orders", hanging["producer_id"])


async def test_producer_ids_continue_from_the_seeded_producer_id(rig: Rig, client: Client) -> None:
    seed(rig.broker, {"next_producer_id": 4_000_000_000})
    given = client.ask(InitProducerIdRequest(None, 60_000), 4)
    assert given.producer_id == 4_000_000_000


async def test_a_sequence_wraps_to_zero_after_its_maximum(rig: Rig, client: Client) -> None:
    given = client.ask(InitProducerIdRequest(None, 60_000), 4)
    whose = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    seed(rig.broker, {"next_sequence": {"topic": "t", "partition": 1, "sequence": 2**31 - 2, **whose}})

    answers = []
    for records, sequence in ((3, 2**31 - 1), (3, 2**31 - 2), (3, 2**31 - 2), (1, 1), (1, 0)):
        values = [(None, b"value")] * records
        data = PartitionProduceData(1, build_batch(values, START_MS, base_sequence=sequence, **whose))
        answer = client.ask(ProduceRequest(None, -1, 1_000, [TopicProduceData("t", partition_data=[data])]), 9)
        (part,) = answer.responses[0].partition_responses
        answers.append((part.error_code, part.base_offset))

    out_of_order = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert answers == [out_of_order, (0, 1), (0, 1), (0, 4), out_of_order]  # The third is a duplicate of the second.


@pytest.mark.parametrize("with_records", [False, True])
@pytest.mark.parametrize("kill", [False, True])
def test_an_offset_that_was_seeded_survives(with_records: bool, kill: bool) -> None:
    with stuntbroker.broker(topics=["orders"]) as broker:
        broker.seed(next_offset={"topic": "orders", "offset": 9 * 10**18})
        if with_records:
            broker.produce("orders", "x")
        broker.restart(kill=kill)
        broker.produce("orders", "y")
        broker.restart(kill=True)
        assert [record.offset - 9 * 10**18 for record in broker.records("orders")] == [0, 1][: 1 + with_records]


async def test_a_seeded_producer_id_is_never_allocated_even_after_a_restart(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        number = rig.broker.transactions.producer_ids.next + 1
        seed(rig.broker, {"ids": {"transactional_id": "pay", "producer_id": number}})
        others = [rig.client().ask(InitProducerIdRequest(None, 60_000), 4).producer_id for _ in range(3)]
        assert number not in others
        seed(rig.broker, {"next_producer_id": 4_000_000_000})
    async with running_rig(tmp_path) as rig:
        assert rig.client().ask(InitProducerIdRequest(None, 60_000), 4).producer_id >= 4_000_000_000


async def test_a_seed_without_an_epoch_keeps_the_current_epoch(rig: Rig, client: Client) -> None:
    given = begin(client)
    end(client, given)
    assert seed(rig.broker, {"ids": {"transactional_id": "pay"}})["producer_epoch"] == given.producer_epoch


async def test_a_seed_is_synced_before_it_is_answered(tmp_path: Path) -> None:
    disk = CountedSyncs()
    async with running_rig(tmp_path, durability="power", executor=disk) as rig:
        rig.topic("t")
        before = disk.count
        seed(rig.broker, {"hanging": {"topic": "t"}})
        await wait_until_durable(rig.broker)
        assert disk.count > before and rig.broker.syncer is not None and rig.broker.syncer.is_all_synced


class CountedSyncs(SyncedAtOnce):
    count = 0

    def __call__(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.count += 1
        super().__call__(work, done)


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "a seed has one part"),
    "two": ({"next_producer_id": 5, "hanging": {}}, "a seed has one part"),
    "another": ({"weather": 1}, "seed has no weather"),
    "nobody's ids": ({"ids": {"producer_epoch": 1}}, "ids.transactional_id is missing"),
    "an epoch above the last": (
        {"ids": {"transactional_id": "x", "producer_epoch": 32_767}},
        "ids.producer_epoch must be",
    ),
    "an open transaction": ({"ids": {"transactional_id": "pay"}}, "the transaction of 'pay' is open"),
    "ids of another": ({"ids": {"transactional_id": "x", "producer_id": 0}}, "producer id 0 belongs to 'pay'"),
    "producer ids backwards": ({"next_producer_id": 0}, "seed.next_producer_id must be a whole number from "),
    "an epoch below the present one": (
        {"ids": {"transactional_id": "old", "producer_epoch": 2}},
        "ids.producer_epoch must be a whole number from 5 to",
    ),
    "a topic of the broker's own": (
        {"hanging": {"topic": "__transaction_state"}},
        "__transaction_state is an internal topic",
    ),
    "nobody's sequence": (
        {"next_sequence": {"topic": "t", "sequence": 5}},
        "next_sequence.producer_id is missing",
    ),
    "a sequence above the last": (
        {"next_sequence": {"sequence": 1 << 31}},
        "next_sequence.sequence must be a whole number",
    ),
    "a sequence of an older epoch": (
        {"next_sequence": {"topic": "t", "partition": 1, "producer_id": 9, "producer_epoch": 3, "sequence": 5}},
        "next_sequence.producer_epoch must be a whole number from 4 to",
    ),
    "a sequence within a transaction": (
        {"next_sequence": {"topic": "t", "partition": 1, "producer_id": 9, "sequence": 5}},
        "the transaction of producer 9 is open in t-1",
    ),
    "a sequence of a later epoch within a transaction": (
        {"next_sequence": {"topic": "t", "partition": 1, "producer_id": 9, "producer_epoch": 5, "sequence": 5}},
        "the transaction of producer 9 is open in t-1",
    ),
    "a new producer id within a transaction": (
        {"ids": {"transactional_id": "pay", "producer_id": 9_000}},
        "the transaction of 'pay' is open",
    ),
    "an unknown topic": ({"hanging": {"topic": "x"}}, "there is no partition x-0"),
    "values that are none": ({"hanging": {"topic": "t", "values": []}}, "hanging.values must be a list"),
    "a partition with records": ({"next_offset": {"topic": "t", "partition": 1, "offset": 5}}, "t-1 has had records"),
    "an offset too far": ({"next_offset": {"topic": "t", "offset": 1 << 63}}, "next_offset.offset must be"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_an_invalid_seed_is_refused_and_changes_nothing(name: str, rig: Rig, client: Client) -> None:
    begin(client)
    seed(rig.broker, {"ids": {"transactional_id": "old", "producer_epoch": 5}})
    rig.log("t", 1).append_own(bytearray(batch(1, producer_id=9, epoch=4, sequence=0)))
    rule, reason = WRONG[name]
    before = rig.broker.transactions.producer_ids.next, rig.broker.transactions.ids()
    with pytest.raises(FaultError) as refused:
        seed(rig.broker, rule)
    assert str(refused.value).startswith(reason)
    assert (rig.broker.transactions.producer_ids.next, rig.broker.transactions.ids()) == before
