"""Durable commit decisions, one per batch: the commit point of the two-phase sink.

A decision names every transaction of a batch that must be committed; all other transactions of the sink must be aborted.
Every store follows these rules:

- One owner at a time. `take` makes the caller the owner and fences all earlier owners, so that a driver that seemed dead
  cannot decide any more. `take` returns a claim, which the driver passes to its other processes.
- Batch ids increase. A decided batch cannot be decided differently; storing the same decision again is allowed.
- One decision at a time: a batch can be decided only when the previous batch is done, so at most the last is not done.
- One query per sink. The batch ids of another query (another checkpoint) refer to other rows.
- Repeatable batch writes have a version. A decision names the last version of each write id, so that a version is
  recorded exactly when its write is decided.

`dir:PATH` stores one file per decision in a folder that all processes of the driver share. `kafka:TOPIC` stores one key in a
compacted topic; see `decision_topic`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from stuntbroker.client.commands.connection import Deadline

SINK_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,180}")
"""Valid sink ids, which become part of transactional ids, file names and patterns."""
KEPT_BATCHES_MAX: Final = 100
"""Number of decided batches that the folder keeps."""
LOCK_WAIT_S: Final = 30.0
"""Taking a sink locks its folder for some milliseconds; if the lock is held this long, its holder is stuck."""
POLL_INTERVAL_S: Final = 0.02
WRITE_IDS_MAX: Final = 1_000
"""Maximum number of write ids per sink, as every decision lists all of them."""


class DecisionError(Exception):
    """A decision is not allowed. The message is one line: the problem and what to do."""


class Superseded(DecisionError):
    """Another driver has taken the sink."""


class FolderLocked(DecisionError):
    """Another process holds the lock for taking the sink, and does not release it."""


class OtherQuery(DecisionError):
    """The sink belongs to a query with another checkpoint."""


class BatchWentBack(DecisionError):
    """A later batch was decided already."""


class DecidedOtherwise(DecisionError):
    """The batch was decided already, for other transactions."""


class NotDone(DecisionError):
    """The previous batch is decided, but not all of its transactions are known to be committed."""


class TooManyWriteIds(DecisionError):
    """The sink would have more than WRITE_IDS_MAX write ids."""


class Transaction(NamedTuple):
    """One transaction: later transactions of the same transactional id have another producer id or epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class BatchWrite(NamedTuple):
    """One version of a repeatable batch write."""

    write_id: str
    version: int


class Decision(NamedTuple):
    """The decision to commit the transactions of a batch.

    Tasks that wrote nothing are left out: their coordinators have no transaction and would refuse to commit one.
    """

    sink_id: str
    query_id: str
    batch_id: int
    transactions: tuple[Transaction, ...]
    writes: tuple[BatchWrite, ...] = ()
    """The last version of every write id, including the version that this decision commits."""


class Stored(NamedTuple):
    """A decision as read from the store."""

    decision: Decision
    done: bool
    """Whether all its transactions are known to be committed."""


class Decisions(Protocol):
    """Store of one sink's decisions. After `take` or `resume`, all methods raise Superseded if another driver took the sink."""

    def take(self) -> int:
        """Become the owner; return the claim, a number higher than all earlier claims."""

    def resume(self, claim: int) -> None:
        """Become the owner with the claim that another process of the same driver obtained."""

    def check(self) -> None:
        """Raise Superseded if another driver took the sink before this call."""

    def last(self) -> Stored | None:
        """Return the decision with the highest batch id, None if there is none."""

    def peek(self) -> Stored | None:
        """Return the last decision without being the owner; it may be slightly outdated."""

    def decide(self, decision: Decision) -> None:
        """Store a decision durably. After an exception other than DecisionError, only `last` shows whether it was stored."""

    def done(self, batch_id: int) -> None:
        """Record that all transactions of the last decision are committed."""

    def close(self) -> None:
        """Close connections."""


def check_sink_id(sink_id: str) -> None:
    """Raise ValueError for an id that cannot be part of a transactional id or a file name."""
    if not SINK_ID.fullmatch(sink_id) or sink_id in (".", ".."):
        raise ValueError(f"sink id {sink_id!r}: it must be 1 to 180 of letters, digits, '.', '_' and '-'")


def is_decided(last: Stored | None, query_id: str, batch_id: int) -> bool:
    """Whether a batch was decided before and must not be written again. Raises OtherQuery."""
    check_query(last, query_id)
    return last is not None and batch_id <= last.decision.batch_id


def check_query(last: Stored | None, query_id: str) -> None:
    """Raise OtherQuery if the last decision belongs to another query."""
    if last is not None and last.decision.query_id != query_id:
        raise OtherQuery(
            f"sink {last.decision.sink_id!r} has batches up to {last.decision.batch_id} of query "
            f"{last.decision.query_id}, and this is query {query_id}: a query with a new checkpoint needs a new sink id"
        )


def is_written(last: Stored | None, write: BatchWrite | None) -> bool:
    """Whether this version of a write, or a later one, was decided before."""
    return write is not None and write.version <= dict(_writes(last)).get(write.write_id, -1)


def writes_after(last: Stored | None, write: BatchWrite | None) -> tuple[BatchWrite, ...]:
    """Return the last versions of all write ids once `write` is decided. Raises TooManyWriteIds."""
    if write is None:
        return _writes(last)
    others = tuple(other for other in _writes(last) if other.write_id != write.write_id)
    if len(others) >= WRITE_IDS_MAX:
        raise TooManyWriteIds(
            f"the sink has {len(others)} write ids, which is the limit: keep one writeId for all versions of a write, or use "
            "another sinkId"
        )
    return (*others, write)


def _writes(last: Stored | None) -> tuple[BatchWrite, ...]:
    return last.decision.writes if last is not None else ()


def is_new(last: Stored | None, decision: Decision) -> bool:
    """Whether a decision must still be stored; False if it is already stored. Raises DecisionError."""
    if not is_decided(last, decision.query_id, decision.batch_id):
        if last is not None and not last.done:
            raise NotDone(f"batch {decision.batch_id} cannot be decided before batch {last.decision.batch_id} is done")
        return True
    assert last is not None
    if decision.batch_id < last.decision.batch_id:
        raise BatchWentBack(f"batch {decision.batch_id} cannot be decided after batch {last.decision.batch_id}")
    if decision != last.decision:
        raise DecidedOtherwise(f"batch {decision.batch_id} was decided already, for other transactions")
    return False


def to_json(decision: Decision) -> dict[str, object]:
    """Return a decision as a JSON object."""
    document: dict[str, object] = {
        "sink": decision.sink_id,
        "query": decision.query_id,
        "batch": decision.batch_id,
        "transactions": [list(transaction) for transaction in decision.transactions],
    }
    return document | {"writes": dict(decision.writes)} if decision.writes else document


def from_json(document: dict[str, object]) -> Decision:
    """Return the decision that a JSON object of `to_json` holds."""
    transactions, writes = document["transactions"], document.get("writes", {})
    assert isinstance(transactions, list) and isinstance(writes, dict)
    return Decision(
        str(document["sink"]),
        str(document["query"]),
        int(str(document["batch"])),
        tuple(Transaction(*item) for item in transactions),
        tuple(BatchWrite(*item) for item in writes.items()),
    )


class DecisionFolder:
    """Decisions in a folder (`dir:PATH`): PATH/SINK/owner-N holds `BATCH.decided`, and `BATCH.done` once the batch is done.

    A driver takes the sink by renaming that folder to the next N, so that the earlier owner has no folder to write to. A lock
    on the file `.lock`, which names its holder, serialises taking the sink. link(2) creates a decision atomically, and only
    if its batch has none.
    """

    def __init__(
        self, path: Path, sink_id: str, pause: Callable[[float], None] | None = None, wait_s: float = LOCK_WAIT_S
    ) -> None:
        """`pause` sleeps for some seconds; without it, a held lock fails immediately."""
        check_sink_id(sink_id)
        self._base = path / sink_id
        self._pause = pause
        self._wait_s = wait_s if pause else 0.0
        self._claim = 0

    @property
    def _folder(self) -> Path:
        return self._base / f"owner-{self._claim}"

    def take(self) -> int:
        """Become the owner; return the claim. Earlier owners cannot decide any more."""
        self._base.mkdir(parents=True, exist_ok=True)
        with self._locked():  # A listing during a rename may miss the folder, so owners change under a lock.
            before = self._owner()
            self._claim = before + 1
            if before:
                os.rename(self._base / f"owner-{before}", self._folder)
            else:
                self._folder.mkdir()
            _sync(self._base)
        return self._claim

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the sink's folder. Raises FolderLocked.

        The kernel releases the lock whenever its process ends, but not while the process is stopped or hangs.
        """
        path, deadline = self._base / ".lock", Deadline(self._wait_s)
        with path.open("a+", encoding="utf-8") as lock:
            while True:
                try:
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except (BlockingIOError, PermissionError):  # POSIX allows either.
                    if self._pause and deadline.left_s():
                        self._pause(POLL_INTERVAL_S)
                        continue
                lock.seek(0)
                raise FolderLocked(
                    f"{path} has been locked for {self._wait_s:g} s by {lock.read() or 'a process'}, which is suspended or "
                    "waits for the disk: resume or kill the process, and start the query again"
                )
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on host {socket.gethostname()}")
            lock.flush()
            try:
                yield
            finally:
                lock.truncate(0)

    def _owner(self) -> int:
        """Return the highest N of the owner folders; 0 if there is none."""
        names = [path.name.removeprefix("owner-") for path in self._base.iterdir() if path.name.startswith("owner-")]
        return max((int(name) for name in names if name.isdigit()), default=0)

    def resume(self, claim: int) -> None:
        """Continue as the owner with a claim. Raises Superseded when there is a newer owner."""
        self._claim = claim
        self.check()

    def check(self) -> None:
        """Raise Superseded when there is a newer owner."""
        with self._owned():
            os.stat(self._folder)

    def peek(self) -> Stored | None:
        """Return the last decision without being the owner."""
        if not self._base.is_dir():
            return None
        with self._locked():  # Taking the sink renames the folder.
            owner = self._owner()
            return _last_in(self._base / f"owner-{owner}") if owner else None

    def last(self) -> Stored | None:
        """Return the last decision, None before the first. Raises Superseded."""
        with self._owned():
            return _last_in(self._folder)

    def decide(self, decision: Decision) -> None:
        """Store a decision, unless it is stored already. Raises Superseded."""
        last = self.last()
        if not is_new(last, decision):
            return
        with self._owned():
            self._put(f"{decision.batch_id}.decided", json.dumps(to_json(decision)))
            for name in os.listdir(self._folder):
                batch_id = name.partition(".")[0]
                if batch_id.isdigit() and int(batch_id) < decision.batch_id - KEPT_BATCHES_MAX:
                    (self._folder / name).unlink(missing_ok=True)

    def done(self, batch_id: int) -> None:
        """Store that a batch's transactions have ended. Raises Superseded."""
        with self._owned():
            self._put(f"{batch_id}.done", "")

    def _put(self, name: str, text: str) -> None:
        """Create a file atomically and durably."""
        partial = self._folder / f".{name}-{os.getpid()}"
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, self._folder / name)
        except FileExistsError:
            if (self._folder / name).read_text(encoding="utf-8") != text:
                raise DecidedOtherwise(f"{self._folder / name} was written by another process") from None
        partial.unlink()
        _sync(self._folder)

    @contextmanager
    def _owned(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as fault:
            raise Superseded(f"{self._folder} does not exist any more: another driver has taken the sink") from fault

    def close(self) -> None:
        """Do nothing, as the folder holds no connection or file open."""


def _last_in(folder: Path) -> Stored | None:
    names = os.listdir(folder)
    batch_ids = [int(name.removesuffix(".decided")) for name in names if name.endswith(".decided")]
    if not batch_ids:
        return None
    batch_id = max(batch_ids)
    text = (folder / f"{batch_id}.decided").read_text(encoding="utf-8")
    return Stored(from_json(json.loads(text)), f"{batch_id}.done" in names)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
