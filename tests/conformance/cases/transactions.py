"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit, and APIs that describe transactions."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.batches import TRANSACTIONAL, some
from tests.conformance.side import BUSY, Side

MINUTE_MS: Final = 60_000
UNKNOWN_ID: Final = 5_000_099


def _init(side: Side, name: str | None, version: int, note: str = "", timeout: int = MINUTE_MS, **more: Any) -> Any:
    return side.ask(
        "InitProducerId", version, note, retry=BUSY, transactional_id=name, transaction_timeout_ms=timeout, **more
    )


def _add(side: Side, name: str, pid: int, epoch: int, version: int, note: str, *where: tuple[str, list[int]]) -> Any:
    topics = [{"name": topic, "partitions": parts} for topic, parts in where]
    if version < 4:
        return side.ask(
            "AddPartitionsToTxn",
            version,
            note,
            retry=BUSY,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
    each = {"transactional_id": name, "producer_id": pid, "producer_epoch": epoch, "topics": topics}
    return side.ask("AddPartitionsToTxn", version, note, retry=BUSY, transactions=[each])


def _end(side: Side, name: str, pid: int, epoch: int, version: int, note: str, commit: bool = True) -> Any:
    return side.ask(
        "EndTxn",
        version,
        note,
        retry=BUSY,
        transactional_id=name,
        producer_id=pid,
        producer_epoch=epoch,
        committed=commit,
    )


def _put(
    side: Side,
    name: str | None,
    topic: str,
    pid: int,
    epoch: int,
    sequence: int,
    version: int,
    note: str,
    count: int = 1,
) -> Any:
    records = some(count, attributes=TRANSACTIONAL, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    # Old versions get NOT_ENOUGH_REPLICAS (19) while the previous transaction is being completed.
    return side.ask(
        "Produce", version, note, retry={*BUSY, 19}, transactional_id=name, acks=-1, timeout_ms=5_000, topic_data=data
    )


def _describe(side: Side, note: str, *names: str) -> None:
    """Wait until the transactions are complete, which Kafka does after replying to EndTxn; then describe them."""
    side.until(
        lambda r: not any(s.transaction_state.startswith("Prepare") for s in r.transaction_states),
        "DescribeTransactions",
        0,
        transactional_ids=list(names),
    )
    side.ask("DescribeTransactions", 0, note, transactional_ids=list(names))


def _read(side: Side, topic: str, note: str) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    for isolation in (0, 1):
        side.ask(
            "Fetch",
            12,
            f"{note}, isolation {isolation}",
            isolation_level=isolation,
            topics=[{"topic": topic, "partitions": [part]}],
        )
    for isolation in (0, 1):
        where = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        side.ask(
            "ListOffsets", 7, f"{note}, isolation {isolation}", replica_id=-1, isolation_level=isolation, topics=where
        )


def init_producer_id(side: Side) -> None:
    for version in range(6):
        name = side.name(f"v{version}")
        _init(side, None, version, "no id")
        _init(side, None, version, "no id, timeout 0", timeout=0)
        _init(side, "", version, "empty id")
        for timeout in (0, -1, 900_000, 900_001, 2**31 - 1, 1):
            _init(side, f"{name}-{timeout}", version, f"timeout {timeout}", timeout)
        first = _init(side, name, version, "first")
        _init(side, name, version, "again")
        if version >= 3:
            pid, epoch = first.producer_id, first.producer_epoch
            now = _init(side, name, version, "epoch before", producer_id=pid, producer_epoch=epoch)
            _init(side, name, version, "epoch now", producer_id=pid, producer_epoch=epoch + 1)
            _init(side, name, version, "retry of that", producer_id=pid, producer_epoch=epoch + 1)
            _init(side, name, version, "epoch to come", producer_id=pid, producer_epoch=epoch + 9)
            _init(side, name, version, "another producer", producer_id=UNKNOWN_ID, producer_epoch=0)
            _init(side, name, version, "epoch without producer", producer_id=-1, producer_epoch=0)
            _init(side, name, version, "producer without epoch", producer_id=pid, producer_epoch=-1)
            _init(side, name, version, "producer -2", producer_id=-2, producer_epoch=0)
            _init(side, name + "-new", version, "new id with producer", producer_id=pid, producer_epoch=0)
            _init(side, None, version, "no id with producer", producer_id=pid, producer_epoch=0)
            side.note("fenced", now.error_code)
        _describe(side, "then", name)


def transactions_of_version_one(side: Side) -> None:
    """The rules of clients before KIP-890: partitions are added by request, the epoch stays."""
    for version in range(5):
        topic, name = side.topic(f"v{version}", 2), side.name(f"x{version}")
        created = _init(side, name, 4)
        pid, epoch = created.producer_id, created.producer_epoch
        _end(side, name, pid, epoch, version, "nothing to end")
        _put(side, name, topic, pid, epoch, 0, 11, "not added")
        _add(side, name, pid, epoch, min(version, 3), "add", (topic, [0, 1]))
        _add(side, name, pid, epoch, min(version, 3), "add again", (topic, [0]))
        _describe(side, "ongoing", name)
        _put(side, name, topic, pid, epoch, 0, 11, "one")
        _put(side, name, topic, pid, epoch, 1, 9, "two")
        _put(side, name, topic, pid, epoch, 3, 9, "gap")
        _put(side, None, topic, pid, epoch, 2, 9, "without the id")
        _put(side, name + "-other", topic, pid, epoch, 2, 9, "another id")
        _put(side, name, topic, pid, epoch + 1, 0, 11, "an epoch to come")
        _read(side, topic, "open")
        side.ask("DescribeProducers", 0, "open", topics=[{"name": topic, "partition_indexes": [0, 1, 7]}])
        for who, at, note in (
            (pid, epoch - 1, "epoch before"),
            (pid, epoch + 1, "epoch to come"),
            (UNKNOWN_ID, epoch, "another producer"),
            (pid, -1, "no epoch"),
        ):
            _end(side, name, who, at, version, note)
            _add(side, name, who, at, min(version, 3), note, (topic, [0]))
        _end(side, side.name("none"), pid, epoch, version, "unknown id")
        _end(side, "", pid, epoch, version, "empty id")
        _add(side, side.name("none"), pid, epoch, min(version, 3), "unknown id", (topic, [0]))
        _end(side, name, pid, epoch, version, "commit")
        _end(side, name, pid, epoch, version, "commit again")
        _end(side, name, pid, epoch, version, "abort the committed", commit=False)
        _describe(side, "committed", name)
        _read(side, topic, "committed")
        _add(side, name, pid, epoch, min(version, 3), "second", (topic, [0]))
        _put(side, name, topic, pid, epoch, 2, 11, "three")
        _end(side, name, pid, epoch, version, "abort", commit=False)
        _end(side, name, pid, epoch, version, "abort again", commit=False)
        _end(side, name, pid, epoch, version, "commit the aborted")
        _describe(side, "aborted", name)
        _read(side, topic, "aborted")
        side.ask("DescribeProducers", 0, "ended", topics=[{"name": topic, "partition_indexes": [0, 1]}])


def transactions_of_version_two(side: Side) -> None:
    """KIP-890: a write adds its partition, and every end bumps the epoch."""
    for version in (12, 13):
        topic, name = side.topic(f"v{version}"), side.name(f"x{version}")
        known = side.topic_id(topic)
        created = _init(side, name, 5)
        pid, epoch = created.producer_id, created.producer_epoch

        def put(
            at: int,
            sequence: int,
            note: str,
            who: int = pid,
            own: str | None = name,
            version: int = version,
            topic: str = topic,
            known: bytes = known,
        ) -> Any:
            records = some(1, attributes=TRANSACTIONAL, producer_id=who, producer_epoch=at, base_sequence=sequence)
            data = [{"name": topic, "topic_id": known, "partition_data": [{"index": 0, "records": records}]}]
            return side.ask(
                "Produce", version, note, retry=BUSY, transactional_id=own, acks=-1, timeout_ms=5_000, topic_data=data
            )

        put(epoch, 1, "not from 0")
        put(epoch, 0, "one")
        put(epoch, 0, "one again")
        put(epoch, 1, "two")
        put(epoch, 3, "gap")
        put(epoch - 1, 0, "epoch before")
        put(epoch, 2, "another producer", UNKNOWN_ID)
        put(epoch, 2, "another id", own=name + "-other")
        put(epoch, 3, "no id", own=None)
        put(epoch + 1, 0, "epoch to come")
        _describe(side, "ongoing", name)
        _read(side, topic, "open")
        ended = _end(side, name, pid, epoch, 5, "commit")
        _end(side, name, pid, epoch, 5, "commit again")
        _end(side, name, pid, epoch, 5, "abort instead", commit=False)
        _describe(side, "committed", name)
        put(epoch, 2, "old epoch")
        then = ended.producer_epoch
        side.note("epoch moved", then - epoch)
        _end(side, name, pid, then, 5, "commit nothing")
        _end(side, name, pid, then, 5, "abort nothing", commit=False)
        _describe(side, "after nothing", name)
        now = side.quiet("DescribeTransactions", 0, transactional_ids=[name]).transaction_states[0].producer_epoch
        put(now, 1, "not from 0 again")
        put(now, 0, "three")
        _end(side, name, pid, now, 5, "abort", commit=False)
        _end(side, name, pid, now, 5, "abort again", commit=False)
        _end(side, name, pid, now, 5, "commit the aborted")
        _end(side, name, pid, now, 4, "abort of version 4", commit=False)
        _describe(side, "aborted", name)
        _read(side, topic, "aborted")
        side.ask("DescribeProducers", 0, "ended", topics=[{"name": topic, "partition_indexes": [0]}])
        restarted = _init(side, name, 5, "takes over")
        put(now + 1, 0, "after the take-over")
        put(restarted.producer_epoch, 0, "newest")
        _init(side, name, 5, "takes over while one is open")
        _describe(side, "taken over", name)
        _read(side, topic, "taken over")


def add_partitions_at_every_version(side: Side) -> None:
    topic = side.topic("t", 2)
    for version in range(6):
        name = side.name(f"x{version}")
        created = _init(side, name, 4)
        pid, epoch = created.producer_id, created.producer_epoch
        _add(side, name, pid, epoch, version, "nothing")
        _add(side, name, pid, epoch, version, "unknown topic", (side.name("none"), [0]))
        _add(side, name, pid, epoch, version, "one unknown", (topic, [0]), (side.name("none"), [0, 1]))
        _add(side, name, pid, epoch, version, "unknown partition", (topic, [0, 7]))
        _add(side, name, pid, epoch, version, "bad name", ("a b", [0]))
        _add(side, name, pid, epoch, version, "internal", ("__transaction_state", [0]), (topic, [0]))
        _add(side, name, pid, epoch, version, "no partitions", (topic, []))
        _add(side, name, pid, epoch, version, "a topic twice", (topic, [0]), (topic, [1]))
        _add(side, name, pid, epoch, version, "a partition twice", (topic, [0, 0]))
        _add(side, "", pid, epoch, version, "empty id", (topic, [0]))
        _describe(side, "ongoing", name)
        _end(side, name, pid, epoch, 3, "abort", commit=False)
    for version in (4, 5):
        name = side.name(f"m{version}")
        created = _init(side, name, 4)
        pid, epoch = created.producer_id, created.producer_epoch
        where = [{"name": topic, "partitions": [0]}]
        item = {"transactional_id": name, "producer_id": pid, "producer_epoch": epoch, "topics": where}

        def ask(note: str, *transactions: dict[str, Any], version: int = version) -> None:
            side.ask("AddPartitionsToTxn", version, note, retry=BUSY, transactions=list(transactions))

        ask("verify, not there", {**item, "verify_only": True})
        # A request without transactions is left out, as Kafka never replies to that.
        ask("two", item, {**item, "transactional_id": side.name("none")})
        ask("verify, there", {**item, "verify_only": True})
        ask(
            "verify, another partition",
            {**item, "verify_only": True, "topics": [{"name": topic, "partitions": [0, 1]}]},
        )
        ask("verify, old epoch", {**item, "verify_only": True, "producer_epoch": epoch - 1})
        ask("verify, new epoch", {**item, "verify_only": True, "producer_epoch": epoch + 1})
        ask("verify, another producer", {**item, "verify_only": True, "producer_id": UNKNOWN_ID})
        ask("twice", item, item)
        restarted = {**item, "topics": [{"name": topic, "partitions": [0, 0, 1]}, {"name": topic, "partitions": [0]}]}
        absent = {**item, "topics": [{"name": topic, "partitions": [0, 0, 9, 9]}]}
        for note, each in (("there", restarted), ("not there", absent)):
            ask(f"a partition twice, {note}", each)
            ask(f"verify a partition twice, {note}", {**each, "verify_only": True})
        _end(side, name, pid, epoch, 3, "abort", commit=False)


def add_offsets(side: Side) -> None:
    for version in range(5):
        name = side.name(f"x{version}")
        created = _init(side, name, 4)
        pid, epoch = created.producer_id, created.producer_epoch
        for own, who, at, group, note in (
            (name, pid, epoch, "g", "right"), (name, pid, epoch, "g", "again"),
            (name, pid, epoch, "", "empty group"), (name, pid, epoch - 1, "g", "epoch before"),
            (name, pid, epoch + 1, "g", "epoch to come"), (name, UNKNOWN_ID, epoch, "g", "another producer"),
            ("", pid, epoch, "g", "empty id"),
            (side.name("none"), pid, epoch, "g", "unknown id"),
        ):  # fmt: skip
            side.ask(
                "AddOffsetsToTxn",
                version,
                note,
                retry=BUSY,
                transactional_id=own,
                producer_id=who,
                producer_epoch=at,
                group_id=group and side.name(group),
            )
        _describe_without_partitions(side, name)
        _end(side, name, pid, epoch, 3, "commit")


def _describe_without_partitions(side: Side, name: str) -> None:
    """The partition of __consumer_offsets depends on the number of partitions and the group's name, the same on both."""
    side.ask("DescribeTransactions", 0, "ongoing", transactional_ids=[name])


def commit_offsets(side: Side) -> None:
    topic = side.topic("t", 2)
    for version in range(6):
        name, group = side.name(f"x{version}"), side.name(f"g{version}")
        created = _init(side, name, 4)
        pid, epoch = created.producer_id, created.producer_epoch

        def commit(
            note: str,
            own: str = name,
            group: str = group,
            who: int = pid,
            at: int = epoch,
            offset: int = 5,
            version: int = version,
            where: tuple[str, int] = (topic, 0),
            metadata: str | None = "m",
            generation: int = -1,
            member: str = "",
            instance: str | None = None,
        ) -> Any:
            part = {"partition_index": where[1], "committed_offset": offset, "committed_metadata": metadata}
            more = (
                {"generation_id_or_member_epoch": generation, "member_id": member, "group_instance_id": instance}
                if version >= 3
                else {}
            )
            return side.ask(
                "TxnOffsetCommit",
                version,
                note,
                retry={*BUSY, 14},
                transactional_id=own,
                group_id=group,
                producer_id=who,
                producer_epoch=at,
                topics=[{"name": where[0], "partitions": [part]}],
                **more,
            )

        def fetch(note: str, group: str = group, at: int = 7, stable: bool = True) -> None:
            side.ask(
                "OffsetFetch",
                at,
                note,
                group_id=group,
                topics=[{"name": topic, "partition_indexes": [0, 1]}],
                require_stable=stable,
            )

        commit("not added")
        side.ask(
            "AddOffsetsToTxn",
            3,
            retry=BUSY,
            transactional_id=name,
            producer_id=pid,
            producer_epoch=epoch,
            group_id=group,
        )
        fetch("nothing there")
        commit("right")
        fetch("pending, stable")
        fetch("pending, any", stable=False)
        fetch("pending, old version", at=5, stable=False)
        commit("unknown topic", where=(side.name("none"), 0))
        commit("unknown partition", where=(topic, 7))
        commit("large metadata", metadata="x" * 5_000)
        commit("null metadata", metadata=None, where=(topic, 1), offset=1)
        commit("negative offset", offset=-5)
        commit("epoch before", at=epoch - 1)
        commit("epoch to come", at=epoch + 1)
        commit("another producer", who=UNKNOWN_ID)
        commit("unknown id", own=side.name("none"))
        commit("empty group", group="")
        if version >= 3:
            commit("generation of no group", generation=5, member="x")
            commit("member without generation", member="x")
            commit("generation without member", generation=5)
            commit("instance", instance="i")
        _end(side, name, pid, epoch, 3, "commit")
        _describe(side, "committed", name)
        side.until(lambda r: not _unstable(r), "OffsetFetch", 7, group_id=group, topics=None, require_stable=True)
        fetch("committed")
        side.ask(
            "AddOffsetsToTxn",
            3,
            "second",
            retry=BUSY,
            transactional_id=name,
            producer_id=pid,
            producer_epoch=epoch,
            group_id=group,
        )
        commit("second", offset=50)
        fetch("pending over committed", stable=False)
        _end(side, name, pid, epoch, 3, "abort", commit=False)
        _describe(side, "aborted", name)
        side.until(
            lambda r: not _unstable(r),
            "OffsetFetch",
            7,
            group_id=group,
            topics=[{"name": topic, "partition_indexes": [0]}],
            require_stable=True,
        )
        fetch("aborted")


def _unstable(reply: Any) -> bool:
    return any(part.error_code == 88 for topic in reply.topics for part in topic.partitions)


def tell_of_transactions(side: Side) -> None:
    topic, name = side.topic("t"), side.name("x")
    created = _init(side, name, 4)
    _describe(side, "empty", name)
    side.ask("DescribeTransactions", 0, "unknown, empty, known", transactional_ids=[side.name("none"), "", name])
    side.ask("DescribeTransactions", 0, "twice", transactional_ids=[name, name])
    side.ask("DescribeTransactions", 0, "nothing", transactional_ids=[])
    _add(side, name, created.producer_id, created.producer_epoch, 3, "add", (topic, [0]))
    for version in range(3):
        for note, fields in {
            "mine": {"producer_id_filters": [created.producer_id]},
            "mine and ongoing": {"producer_id_filters": [created.producer_id], "state_filters": ["Ongoing"]},
            "mine and empty": {"producer_id_filters": [created.producer_id], "state_filters": ["Empty"]},
            "unknown states": {
                "producer_id_filters": [created.producer_id],
                "state_filters": ["Ongoing", "Nonsense", "", "ongoing"],
            },
            "nobody": {"producer_id_filters": [UNKNOWN_ID]},
            "young": {"producer_id_filters": [created.producer_id], "duration_filter": 0},
            "old": {"producer_id_filters": [created.producer_id], "duration_filter": 100_000},
            "duration -2": {"producer_id_filters": [created.producer_id], "duration_filter": -2},
            "pattern": {"producer_id_filters": [created.producer_id], "transactional_id_pattern": ".*-x"},
            "part of a name": {"producer_id_filters": [created.producer_id], "transactional_id_pattern": "x"},
            "other pattern": {"producer_id_filters": [created.producer_id], "transactional_id_pattern": "zzz.*"},
            "empty pattern": {"producer_id_filters": [created.producer_id], "transactional_id_pattern": ""},
            "bad pattern": {"producer_id_filters": [created.producer_id], "transactional_id_pattern": "(["},
        }.items():
            side.ask("ListTransactions", version, note, **fields)
    for parts in ([0], [], [1], [-1], [0, 0]):
        side.ask("DescribeProducers", 0, f"{parts}", topics=[{"name": topic, "partition_indexes": parts}])
    side.ask(
        "DescribeProducers",
        0,
        "unknown",
        topics=[{"name": side.name("none"), "partition_indexes": [0]}, {"name": "a b", "partition_indexes": [0]}],
    )
    side.ask("DescribeProducers", 0, "nothing", topics=[])
    _end(side, name, created.producer_id, created.producer_epoch, 3, "abort", commit=False)


def write_markers(side: Side) -> None:
    for version in (1, 2):
        topic = side.topic(f"v{version}", 2)
        records = some(2, attributes=TRANSACTIONAL, producer_id=5_000_010, producer_epoch=3, base_sequence=0)
        data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]

        def ask(
            note: str,
            epoch: int,
            *,
            commit: bool = True,
            coordinator: int = 0,
            parts: Any = (0,),
            producer: int = 5_000_010,
            version: int = version,
            topic: str = topic,
            **more: Any,
        ) -> None:
            each = {
                "producer_id": producer, "producer_epoch": epoch, "transaction_result": commit, "coordinator_epoch": coordinator,
                "topics": [{"name": topic, "partition_indexes": list(parts)}], **more,
            }  # fmt: skip
            side.ask("WriteTxnMarkers", version, note, markers=[each])

        side.ask(
            "Produce",
            11,
            "no such transaction",
            retry=BUSY,
            transactional_id=side.name("x"),
            acks=-1,
            timeout_ms=500,
            topic_data=data,
        )
        ask("of nobody", 3)
        ask("newer epoch", 4, commit=False)
        ask("older epoch", 3)
        ask("newer coordinator", 4, coordinator=5)
        ask("older coordinator", 4, coordinator=4)
        ask("unknown partition", 4, parts=(7, 1))
        side.ask("WriteTxnMarkers", version, "nothing", markers=[])
        if version == 2:
            for txn_version in (0, 1, 2, 3):
                ask(f"transaction version {txn_version}", 5, coordinator=5, transaction_version=txn_version)
        side.ask("DescribeProducers", 0, "then", topics=[{"name": topic, "partition_indexes": [0, 1]}])
        _read(side, topic, "then")
