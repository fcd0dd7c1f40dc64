"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.side import Side

UNKNOWN_ID: Final = bytes.fromhex("00112233445546778899aabbccddeeff")


def _topic(side: Side, what: str) -> tuple[str, bytes]:
    name = side.topic(what, 3)
    return name, side.topic_id(name)


def commit_at_every_version(side: Side) -> None:
    topic, known = _topic(side, "t")
    for version in range(2, 11):
        group = side.name(f"g{version}")

        def ask(
            note: str,
            *parts: tuple[int, int, str | None],
            group: str = group,
            name: str = topic,
            topic_id: bytes = known,
            version: int = version,
            **more: Any,
        ) -> None:
            fields: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": ""} | more
            messages = [
                {"partition_index": at, "committed_offset": offset, "committed_metadata": text}
                for at, offset, text in parts
            ]
            side.ask(
                "OffsetCommit",
                version,
                note,
                group_id=group,
                topics=[{"name": name, "topic_id": topic_id, "partitions": messages}],
                **fields,
            )

        ask("right", (0, 5, "m"), (1, 6, None))
        ask("backwards", (0, 3, ""))
        ask("negative", (0, -1, ""), (1, -5, ""))
        ask("unknown partition", (7, 1, ""), (-1, 1, ""), (2, 9, ""))
        ask("metadata too large", (0, 8, "x" * 4_097), (1, 8, "x" * 4_096))
        ask("unknown topic", (0, 1, ""), name=side.name("none"), topic_id=UNKNOWN_ID)
        ask("bad name", (0, 1, ""), name="a b", topic_id=UNKNOWN_ID)
        ask("no id", (0, 1, ""), name="", topic_id=bytes(16))
        ask("twice", (0, 1, "a"), (0, 2, "b"))
        ask("no partitions")
        side.ask("OffsetCommit", version, "nothing", group_id=group, generation_id_or_member_epoch=-1, topics=[])
        ask("empty group", (0, 1, ""), group="")
        ask(
            "generation of no group",
            (0, 1, ""),
            generation_id_or_member_epoch=3,
            member_id="x",
            group=side.name("none"),
        )
        ask("generation of an empty group", (0, 1, ""), generation_id_or_member_epoch=3, member_id="x")
        ask("member only", (0, 1, ""), member_id="x")
        ask("member only, no group", (0, 1, ""), member_id="x", group=side.name(f"none{version}"))
        if version >= 7:
            ask("instance", (0, 1, ""), group_instance_id="i")
        if version <= 4:
            ask("retention", (0, 7, ""), retention_time_ms=1_000_000)
        if version in (2, 7, 10):
            _fetch(side, version, group, topic, known)


def _fetch(side: Side, version: int, group: str, topic: str, known: bytes) -> None:
    for at in range(1, 11):
        for stable in (False, True) if at >= 7 else (False,):
            where: list[dict[str, Any]] = [{"name": topic, "topic_id": known, "partition_indexes": [0, 1, 2, 7]}]
            if at < 8:
                where[0].pop("topic_id")
                for note, topics in (
                    ("some", where),
                    ("all", None),
                    ("none", []),
                    ("unknown", [{"name": side.name("none"), "partition_indexes": [0]}]),
                ):
                    if topics is not None or at >= 2:
                        side.ask(
                            "OffsetFetch",
                            at,
                            f"{note} of {version}, stable {stable}",
                            group_id=group,
                            topics=topics,
                            **({"require_stable": stable} if at >= 7 else {}),
                        )
            else:
                groups = [
                    {"group_id": group, "topics": where}, {"group_id": group, "topics": None}, {"group_id": group, "topics": []},
                    {"group_id": side.name("none"), "topics": None}, {"group_id": "", "topics": where},
                    {"group_id": group, "topics": [
                        {"name": side.name("none"), "topic_id": UNKNOWN_ID, "partition_indexes": [0]},
                    ]},
                ]  # fmt: skip
                for each in groups:
                    side.ask(
                        "OffsetFetch",
                        at,
                        f"{str(each['topics'])[:9]} of {version}, stable {stable}",
                        groups=[each],
                        require_stable=stable,
                    )


def fetch_for_members(side: Side) -> None:
    """Version 9 has a member id, which must not be set for a classic group."""
    topic, known = _topic(side, "t")
    group = side.name("g")
    part = {"partition_index": 0, "committed_offset": 1}
    side.quiet(
        "OffsetCommit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [part]}],
    )
    where = [{"name": topic, "topic_id": known, "partition_indexes": [0]}]
    for version in (9, 10):
        for member, epoch in ((None, -1), ("", -1), ("x", -1), ("x", 0), ("x", 5), (None, 5)):
            each = {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": where}
            side.ask("OffsetFetch", version, f"{member!r} {epoch}", groups=[each])
        other = {"group_id": side.name("h"), "topics": where}
        side.ask("OffsetFetch", version, "two groups", groups=[{"group_id": group, "topics": where}, other])
        side.ask(
            "OffsetFetch",
            version,
            "a group twice",
            groups=[{"group_id": group, "topics": where}, {"group_id": group, "topics": where}],
        )
        side.ask("OffsetFetch", version, "no groups", groups=[])


def commit_as_a_member(side: Side) -> None:
    topic, known = _topic(side, "t")
    for version in (2, 6, 7, 8, 9, 10):
        group = side.name(f"g{version}")
        joined = side.ask(
            "JoinGroup",
            3,
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=1_000,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        member, generation = joined.member_id, joined.generation_id

        def ask(note: str, generation: int, member: str, version: int = version, group: str = group) -> None:
            part = {"partition_index": 0, "committed_offset": 4}
            messages = [{"name": topic, "topic_id": known, "partitions": [part]}]
            side.ask(
                "OffsetCommit",
                version,
                note,
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=member,
                topics=messages,
            )

        ask("before the sync", generation, member)
        side.ask(
            "SyncGroup",
            2,
            group_id=group,
            generation_id=generation,
            member_id=member,
            assignments=[{"member_id": member, "assignment": b"x"}],
        )
        ask("right", generation, member)
        ask("old generation", generation - 1, member)
        ask("new generation", generation + 1, member)
        ask("unknown member", generation, "nobody")
        ask("no member", generation, "")
        ask("no generation", -1, member)
        ask("neither", -1, "")
        side.ask(
            "TxnOffsetCommit",
            3,
            "no transaction",
            group_id=group,
            transactional_id=side.name("x"),
            producer_id=5_000_001,
            producer_epoch=0,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[],
        )
        side.ask(
            "OffsetDelete",
            0,
            "subscribed or not",
            group_id=group,
            topics=[{"name": topic, "partitions": [{"partition_index": 0}]}],
        )
        side.ask("LeaveGroup", 2, group_id=group, member_id=member)
        ask("left", generation, member)


def offset_delete(side: Side) -> None:
    topic, known = _topic(side, "t")
    group = side.name("g")
    for at in range(2):
        part = {"partition_index": at, "committed_offset": 1}
        side.quiet(
            "OffsetCommit",
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[{"name": topic, "topic_id": known, "partitions": [part]}],
        )

    def ask(note: str, *parts: int, group: str = group, name: str = topic) -> None:
        side.ask(
            "OffsetDelete",
            0,
            note,
            group_id=group,
            topics=[{"name": name, "partitions": [{"partition_index": at} for at in parts]}],
        )

    ask("right", 0)
    ask("again", 0)
    ask("unknown partition", 1, 7)
    ask("unknown topic", 0, name=side.name("none"))
    ask("bad name", 0, name="a b")
    ask("no partitions")
    ask("unknown group", 0, group=side.name("none"))
    ask("empty group", 0, group="")
    side.ask("OffsetDelete", 0, "nothing", group_id=group, topics=[])
    side.ask("OffsetFetch", 7, "then", group_id=group, topics=None)
