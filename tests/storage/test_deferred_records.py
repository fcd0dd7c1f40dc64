"""A deferred record is written after all other writes of its turn, and before the next record with its key."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

import pytest

from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.memory_disk import MemoryDisk
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.turn import Turn
from tests.kit.logs import NOW_MS, batch, committed, killed, log_config, new_log, put, reopened


class Logs:
    """The transaction log and a partition that share a turn. `ends` has the callbacks for the end of the turn."""

    def __init__(self) -> None:
        self.ends: list[Callable[[], None]] = []
        self.faults: list[StorageError] = []
        self.turn = Turn(self.ends.append, self.faults.append, self.faults.append)
        self.disk = MemoryDisk()
        self.txns, self.partition = new_log("/txns", self.disk), new_log("/partition", self.disk)
        self.txns.flush_first = True
        for log in (self.txns, self.partition):
            log.attach_to(self.turn, buffers=True)

    def end(self) -> None:
        self.ends.pop()()
        assert not self.ends

    def written(self, log: PartitionLog) -> list[bytes | None]:
        """The values that a restart would recover."""
        return (
            [record.value for record in committed(reopened(log.folder, self.disk))]
            if self.disk.kind(log.folder)
            else []
        )


@pytest.fixture
def logs() -> Iterator[Logs]:
    created = Logs()
    yield created
    killed(created.txns)
    killed(created.partition)


def test_a_deferred_record_is_not_written_with_its_turn_but_with_the_next(logs: Logs) -> None:
    logs.txns.append_record(b"a", b"prepare a", NOW_MS)
    logs.txns.append_deferred(b"a", b"complete a", NOW_MS)
    logs.end()
    assert logs.written(logs.txns) == [b"prepare a"]

    logs.txns.append_record(b"a", b"ongoing a", NOW_MS)
    logs.end()
    assert logs.written(logs.txns) == [b"prepare a", b"complete a", b"ongoing a"]


def test_records_of_other_keys_do_not_wait_for_a_deferred_one_nor_bring_it_forward(logs: Logs) -> None:
    logs.txns.append_record(b"a", b"prepare a", NOW_MS)
    logs.txns.append_deferred(b"a", b"complete a", NOW_MS)
    logs.txns.append_record(b"b", b"prepare b", NOW_MS)
    logs.txns.append_deferred(b"b", b"complete b", NOW_MS)
    assert logs.written(logs.txns) == []  # No record was written before the end of the turn.

    logs.end()
    assert logs.written(logs.txns) == [b"prepare a", b"prepare b"]
    logs.txns.flush_buffered()
    assert logs.written(logs.txns) == [b"prepare a", b"prepare b", b"complete a", b"complete b"]


def test_the_next_record_of_a_key_writes_the_buffered_records_and_follows_the_deferred_record(
    logs: Logs,
) -> None:
    logs.txns.append_record(b"a", b"prepare a", NOW_MS)
    put(logs.partition, batch([(None, b"marker")]))
    logs.txns.append_deferred(b"a", b"complete a", NOW_MS)
    logs.txns.append_record(b"a", b"ongoing a", NOW_MS)
    assert (logs.written(logs.txns), logs.written(logs.partition)) == ([b"prepare a"], [b"marker"])

    logs.end()
    assert logs.written(logs.txns) == [b"prepare a", b"complete a", b"ongoing a"]
    assert not logs.faults


def test_no_segment_is_closed_and_no_snapshot_is_written_after_a_failed_write(
    logs: Logs,
) -> None:
    """A snapshot would contain a batch that is not in the file, and its retry would be taken for a duplicate."""
    log = logs.partition
    log.config = log_config(segment_bytes=2 * len(batch(pid=7, seq=0)))
    put(log, batch(pid=7, seq=0))
    logs.end()
    put(log, batch(pid=7, seq=1))
    logs.disk.on_call = lambda call, path: errno.ENOSPC if call == "write" else None
    logs.end()
    logs.disk.on_call = None
    files = logs.disk.files()
    with pytest.raises(StorageError):
        put(log, batch(pid=7, seq=2))

    assert (len(logs.faults), logs.disk.files()) == (1, files)
    killed(log)
    restarted = reopened(log.folder, logs.disk)
    assert put(restarted, batch(pid=7, seq=1)) == 1
    killed(restarted)


def test_a_record_that_cannot_be_encoded_is_a_failed_write(logs: Logs) -> None:
    """The next turn must not acknowledge the request that appended it."""
    logs.txns.append_record(b"a", b"1", NOW_MS)
    logs.txns.append_record("no bytes", b"2", NOW_MS)
    with pytest.raises(TypeError):
        logs.end()
    assert (logs.turn.armed, len(logs.faults)) == (True, 1)
