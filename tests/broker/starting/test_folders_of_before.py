"""Data folders of earlier versions open with all of their data. folders/make.py creates such folders."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.coordinator.state import Phase
from stuntbroker.protocol.batches.compression import decompress
from stuntbroker.protocol.batches.records import HEADER_SIZE, read_records
from stuntbroker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from stuntbroker.protocol.messages.offset_fetch_request import OffsetFetchRequestTopics as FetchTopics
from tests.kit.groups.group_requests import init
from tests.kit.rig import Rig, running_rig

ARCHIVES = sorted((Path(__file__).parent / "folders").glob("*.tar.gz"))


def values(rig: Rig, topic: str, index: int) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of all records except markers."""
    records = []
    for header, batch in rig.log(topic, index).batches():
        if not header.control:
            payload = decompress(header.codec, batch[HEADER_SIZE:], 1 << 20) if header.codec else batch[HEADER_SIZE:]
            records += [(record.offset, record.value) for record in read_records(header, payload)]
    return records


def logs_in(folder: Path) -> dict[str, str]:
    """Return the SHA-256 digest of each log file by name."""
    files = sorted(folder.glob("*/*.log"))
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def committed(rig: Rig, group: str) -> Any:
    topics = [FetchTopics("orders", partition_indexes=[1])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])
    return rig.client().ask(request, 8).groups[0].topics[0].partitions[0].committed_offset


def test_archives_of_earlier_data_folders_exist() -> None:
    assert ARCHIVES


@pytest.mark.parametrize("kind", ["clean", "killed"])
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
async def test_a_data_folder_of_an_earlier_version_opens_unchanged(archive: Path, kind: str, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    folder = tmp_path / kind
    before = logs_in(folder)
    async with running_rig(folder, {"transaction.max.timeout.ms": "900000"}) as rig:
        assert logs_in(folder) == before
        paid = [b"pay-1-True-%d" % number for number in range(3)]
        refused = [b"pay-2-False-%d" % number for number in range(3)]
        still_open = [b"open-0", b"open-1"]
        assert [value for _, value in values(rig, "orders", 0)] == [*paid, *refused, *paid, *still_open]
        assert values(rig, "orders", 1) == [(number, b"plain-%d" % number) for number in range(500)]
        assert [value for _, value in values(rig, "state", 0)[-5:]] == [b"value-%d" % n for n in range(45, 50)]
        log = rig.log("orders", 0)
        assert (log.last_stable_offset, log.next_offset) == (12, 14)
        assert [(entry.first_offset, entry.last_offset) for entry in log.aborted] == [(4, 7)]
        assert (committed(rig, "billing"), committed(rig, "plain-group")) == (100, 7)
        phases = {name: rig.actor(name).txn.phase for name in ("pay-1", "pay-2", "open")}
        assert phases == {"pay-1": Phase.COMPLETE_COMMIT, "pay-2": Phase.COMPLETE_ABORT, "open": Phase.ONGOING}
        assert rig.broker.topics.get("state").configs == {"cleanup.policy": "compact"}
        init(rig.client(), "open")
        assert log.last_stable_offset == log.next_offset == 15
