"""`--durability power`: after a power cut following any fdatasync, no transaction is complete in only some partitions."""

from __future__ import annotations

from random import Random
from typing import Any

from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.disk_rig import Disk
from tests.kit.rig import Client, decode, frame, running_rig
from tests.kit.transactions.two_phase import TXN, described, pair, produce
from tests.kit.valid_requests import TOPIC

ONE_LOG = {"transaction.state.log.num.partitions": "1"}


class PowerCuts:
    """Copies of the disk after each file sync, without any data that was written but not synced."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.left: list[MemoryDisk] = []
        self._disk = disk
        self._synced = False
        disk.on_call = self

    def __call__(self, call: str, path: str) -> None:
        if self._synced:
            self.left.append(self._disk.after_power_cut(NOTHING_UNSYNCED))
        self._synced = call == "sync"


class _NothingUnsynced(Random):
    """Random values with which a power cut loses everything that was not synced."""

    def choice(self, sequence: Any) -> Any:
        return "lost"

    def random(self) -> float:
        return 1.0

    def randrange(self, *bounds: Any) -> int:
        return 0


NOTHING_UNSYNCED = _NothingUnsynced()


async def test_complete_is_on_the_disk_after_every_marker() -> None:
    """This holds even if another id writes to the same partition of the transaction log while the Prepare record is synced."""
    disk, files = Disk(), MemoryDisk()
    async with running_rig(None, ONE_LOG, durability="power", executor=disk, disk=files) as rig:
        rig.topic(TOPIC, 2)
        client, other = rig.client(), rig.client()

        def ask(each: Client, request: Any, version: int, key: int) -> Any:
            each.feed(frame(request, version))
            disk.drain()
            (answer,) = each.answers()
            return decode(answer, key, version)

        owner = pair(ask(client, InitProducerIdRequest(TXN, 60_000), 5, 22))
        for index in (0, 1):
            ask(client, produce(owner, b"a", (index, 0)), 12, 0)
        cuts = PowerCuts(files)
        client.feed(frame(EndTxnRequest(TXN, *owner, True), 5))
        rig.broker.turn.end()
        other.feed(frame(InitProducerIdRequest("another", 60_000), 5))
        rig.broker.turn.end()
        disk.drain()
        assert len(client.answers()) == 1
    files.on_call = None

    assert len(cuts.left) >= 2
    for number, left in enumerate(cuts.left):
        async with running_rig(None, ONE_LOG, disk=left) as rig:
            state = described(rig.client()).transaction_state
            ends = [(log.last_stable_offset, log.next_offset) for log in rig.logs(TOPIC)]

            assert state == "Ongoing" or all(stable == end for stable, end in ends), (number, state, ends)
