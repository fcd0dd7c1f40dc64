"""`--durability power`: the power may go after any fdatasync; no transaction is then complete in one partition only."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.storage import syncer
from tests.kit.disk_rig import Disk
from tests.kit.rig import Client, decode, frame, rig
from tests.kit.two_phase import TXN, described, pair, produce
from tests.kit.valid_requests import TOPIC

ONE_LOG = {"transaction.state.log.num.partitions": "1"}


class PowerCuts:
    """Stands for `os` in the syncer: keeps what is on the disk after every fdatasync, nothing that is only written."""

    def __init__(self, data_dir: Path, images: Path) -> None:
        self.data_dir = data_dir
        self.images = images
        self.kept: list[Path] = []
        self._synced: dict[Path, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fdatasync(self, fd: int) -> None:
        file = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self._synced[file] = file.stat().st_size
        image = self.images / str(len(list(self.images.glob("*"))))
        shutil.copytree(self.data_dir, image)
        for log in self.data_dir.rglob("*.log"):
            os.truncate(image / log.relative_to(self.data_dir), self._synced.get(log, 0))
        self.kept.append(image)


async def test_complete_is_on_the_disk_after_every_marker(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when somebody else writes to the same partition of the transaction log while Prepare is synced."""
    disk, cuts = Disk(), PowerCuts(data_dir, tmp_path / "images")
    monkeypatch.setattr(syncer, "os", cuts)
    async with rig(data_dir, ONE_LOG, durability="power", executor=disk) as made:
        made.topic(TOPIC, 2)
        client, other = made.client(), made.client()

        def ask(one: Client, request: Any, version: int, key: int) -> Any:
            one.feed(frame(request, version))
            disk.rest()
            (answer,) = one.answers()
            return decode(answer, key, version)

        owner = pair(ask(client, InitProducerIdRequest(TXN, 60_000), 5, 22))
        for index in (0, 1):
            ask(client, produce(owner, b"a", (index, 0)), 12, 0)
        cuts.kept.clear()
        client.feed(frame(EndTxnRequest(TXN, *owner, True), 5))
        made.broker.turn.end()
        other.feed(frame(InitProducerIdRequest("another", 60_000), 5))
        made.broker.turn.end()
        disk.rest()
        assert len(client.answers()) == 1
    monkeypatch.undo()

    assert len(cuts.kept) >= 2
    for image in cuts.kept:
        async with rig(image, ONE_LOG) as made:
            state = described(made.client()).transaction_state
            ends = [(log.last_stable_offset, log.next_offset) for log in made.logs(TOPIC)]

            assert state == "Ongoing" or all(stable == end for stable, end in ends), (image.name, state, ends)
