"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups, FindCoordinator."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.side import Side

SESSION_MS: Final = 30_000
RANGE: Final = ({"name": "range", "metadata": b"one"},)
BOTH: Final = ({"name": "range", "metadata": b"r"}, {"name": "roundrobin", "metadata": b"rr"})
MEMBER_ID_REQUIRED: Final = 79


def _join_fields(
    version: int,
    group: str,
    member: str = "",
    protocols: Any = RANGE,
    kind: str = "consumer",
    session: int = SESSION_MS,
    instance: str | None = None,
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": group, "session_timeout_ms": session, "member_id": member, "protocol_type": kind,
        "protocols": list(protocols),
    }  # fmt: skip
    if version >= 1:
        fields["rebalance_timeout_ms"] = 2_000
    if version >= 5:
        fields["group_instance_id"] = instance
    return fields


def _join(side: Side, version: int, note: str, group: str, on: str = "main", **more: Any) -> Any:
    """Join a group, with the second request that version 4 requires from a new member."""
    reply = side.ask("JoinGroup", version, note, on=on, **_join_fields(version, group, **more))
    if getattr(reply, "error_code", 0) == MEMBER_ID_REQUIRED:
        reply = side.ask(
            "JoinGroup",
            version,
            f"{note}, again",
            on=on,
            **_join_fields(version, group, **more | {"member": reply.member_id}),
        )
    return reply


def _sync(
    side: Side,
    version: int,
    note: str,
    group: str,
    generation: int,
    member: str,
    shares: dict[str, bytes],
    on: str = "main",
    **more: Any,
) -> Any:
    assignments = [{"member_id": name, "assignment": share} for name, share in shares.items()]
    return side.ask(
        "SyncGroup",
        version,
        note,
        on=on,
        group_id=group,
        generation_id=generation,
        member_id=member,
        assignments=assignments,
        **more,
    )


def _beat(
    side: Side, version: int, note: str, group: str, generation: int, member: str, on: str = "main", **more: Any
) -> Any:
    return side.ask(
        "Heartbeat", version, note, on=on, group_id=group, generation_id=generation, member_id=member, **more
    )


def _leave_group(side: Side, version: int, note: str, group: str, *members: str | dict[str, Any]) -> Any:
    if version < 3:
        return side.ask("LeaveGroup", version, note, group_id=group, member_id=members[0])
    messages = [{"member_id": member} if isinstance(member, str) else member for member in members]
    return side.ask("LeaveGroup", version, note, group_id=group, members=messages)


def _tell(side: Side, version: int, note: str, *groups: str) -> None:
    side.ask("DescribeGroups", version, note, groups=list(groups))


def find_coordinator(side: Side) -> None:
    for version in range(7):
        if version < 4:
            for kind in (0, 1, 2, 3, -1) if version else (0,):
                for key in ("g", ""):
                    side.ask(
                        "FindCoordinator",
                        version,
                        f"{key!r} of type {kind}",
                        key=key,
                        **({"key_type": kind} if version else {}),
                    )
        else:
            for kind in (0, 1, 3, -1):
                for keys in (["g"], ["g", "h", "g"], [""], []):
                    side.ask("FindCoordinator", version, f"{keys} of type {kind}", coordinator_keys=keys, key_type=kind)


def one_member(side: Side) -> None:
    for version in range(10):
        group = side.name(f"g{version}")
        others = min(version, 4), min(version, 5)
        created = _join(side, version, "joins", group)
        member, generation = created.member_id, created.generation_id
        _tell(side, min(version, 5), "joined", group)
        _beat(side, others[0], "before the sync", group, generation, member)
        _sync(side, others[1], "wrong generation", group, generation + 1, member, {member: b"x"})
        _sync(side, others[1], "unknown member", group, generation, "nobody", {})
        if version >= 5:
            _sync(
                side,
                5,
                "wrong protocol type",
                group,
                generation,
                member,
                {member: b"x"},
                protocol_type="connect",
                protocol_name="range",
            )
            _sync(
                side,
                5,
                "wrong protocol",
                group,
                generation,
                member,
                {member: b"x"},
                protocol_type="consumer",
                protocol_name="other",
            )
            _sync(
                side,
                5,
                "right protocol",
                group,
                generation,
                member,
                {member: b"mine"},
                protocol_type="consumer",
                protocol_name="range",
            )
        _sync(side, others[1], "assigns", group, generation, member, {member: b"mine"})
        _sync(side, others[1], "again", group, generation, member, {member: b"other"})
        _sync(side, others[1], "asks", group, generation, member, {})
        for at in range(7):
            _tell(side, at, "stable", group, side.name("none"), "")
        _beat(side, others[0], "right", group, generation, member)
        _beat(side, others[0], "wrong generation", group, generation + 1, member)
        _beat(side, others[0], "old generation", group, generation - 1, member)
        _beat(side, others[0], "unknown member", group, generation, "nobody")
        _beat(side, others[0], "empty member", group, generation, "")
        _beat(side, others[0], "unknown group", side.name("none"), generation, member)
        _beat(side, others[0], "empty group", "", generation, member)
        _join(side, version, "joins once more, the same", group, member=member)
        _join(side, version, "unknown member", group, member="nobody")
        _leave_group(side, others[1], "unknown member", group, "nobody")
        _leave_group(side, others[1], "unknown group", side.name("none"), member)
        _leave_group(side, others[1], "empty group", "", member)
        _leave_group(side, others[1], "leaves", group, member)
        _leave_group(side, others[1], "again", group, member)
        _beat(side, others[0], "left", group, generation, member)
        _tell(side, min(version, 6), "empty", group)
        side.ask("DeleteGroups", min(version, 2), "deletes", groups_names=[group, side.name("none")])
        _tell(side, min(version, 6), "deleted", group)


def join_wrongly(side: Side) -> None:
    for version in (0, 1, 3, 4, 5, 9):
        group = side.name(f"g{version}")

        def ask(note: str, group: str = group, version: int = version, **more: Any) -> None:
            side.ask("JoinGroup", version, note, **_join_fields(version, group, **more))

        ask("empty group", group="")
        ask("session too short", session=5)
        ask("session too long", session=2_000_000)
        ask("session negative", session=-1)
        ask("no protocols", protocols=())
        ask("no kind", kind="")
        ask("unknown member", member="nobody")
        ask("unknown member of no group", group=side.name(f"none{version}"), member="nobody")
        created = _join(side, version, "right", group)
        ask("another kind", kind="connect")
        ask("another protocol", protocols=({"name": "other", "metadata": b""},))
        # A protocol twice is left out, as Kafka never replies to that.
        _leave_group(side, min(version, 5), "leaves", group, created.member_id)
        created = _join(side, version, "another kind when empty", group, kind="connect")
        _leave_group(side, min(version, 5), "leaves", group, created.member_id)


def two_members(side: Side) -> None:
    for version in (0, 2, 4, 5, 6, 9):
        group = side.name(f"g{version}")
        others = min(version, 4), min(version, 5)
        each = _join(side, version, "first", group, protocols=BOTH)
        first = each.member_id
        _sync(side, others[1], "first", group, each.generation_id, first, {first: b"all"})
        member = ""
        if version >= 4:
            member = side.ask("JoinGroup", version, "second asks", on="b", **_join_fields(version, group)).member_id
        side.send("JoinGroup", version, on="b", **_join_fields(version, group, member=member))
        side.until(
            lambda r: r.error_code == 27,
            "Heartbeat",
            0,
            group_id=group,
            generation_id=each.generation_id,
            member_id=first,
        )
        _beat(side, others[0], "rebalance", group, each.generation_id, first)
        _sync(side, others[1], "during the rebalance", group, each.generation_id, first, {})
        _tell(side, 5, "rebalance", group)
        restarted = side.ask(
            "JoinGroup", version, "first again", **_join_fields(version, group, member=first, protocols=BOTH)
        )
        other = side.hear_and_note("second", on="b")
        second, generation = other.member_id, other.generation_id
        side.note("the same generation", restarted.generation_id == generation)
        side.note("the first leads", restarted.leader == first == other.leader)
        side.send(
            "SyncGroup", others[1], on="b", group_id=group, generation_id=generation, member_id=second, assignments=[]
        )
        _sync(side, others[1], "leader", group, generation, first, {first: b"one", second: b"two", "nobody": b"three"})
        side.hear_and_note("second", on="b")
        _tell(side, 5, "stable", group)
        _beat(side, others[0], "first", group, generation, first)
        _beat(side, others[0], "second", group, generation, second)
        _leave_group(side, others[1], "second leaves", group, second)
        _beat(side, others[0], "first", group, generation, first)
        last = side.ask(
            "JoinGroup", version, "first alone", **_join_fields(version, group, member=first, protocols=BOTH)
        )
        _sync(side, others[1], "without itself", group, last.generation_id, first, {})
        side.ask("DeleteGroups", 2, "not empty", groups_names=[group])
        _leave_group(side, others[1], "first leaves", group, first)
        side.drop("b")


def static_members(side: Side) -> None:
    for version in (5, 7, 9):
        group = side.name(f"g{version}")
        each = _join(side, version, "joins", group, instance="i")
        member, generation = each.member_id, each.generation_id
        _sync(
            side,
            5 if version > 5 else 3,
            "assigns",
            group,
            generation,
            member,
            {member: b"mine"},
            group_instance_id="i",
        )
        _tell(side, 5, "stable", group)
        back = _join(side, version, "comes back", group, instance="i")
        side.note("another id", back.member_id != member)
        side.note("the same generation", back.generation_id == generation)
        for note, who, instance in (
            ("old id", member, "i"), ("old id without instance", member, None), ("new id", back.member_id, "i"),
            ("no id", "", "i"), ("unknown id", "nobody", "i"),
            ("another instance", back.member_id, "j"),
        ):  # fmt: skip
            _beat(side, 4, note, group, back.generation_id, who, group_instance_id=instance)
            _sync(side, 5, note, group, back.generation_id, who, {}, group_instance_id=instance)
            side.ask(
                "OffsetCommit",
                8,
                note,
                group_id=group,
                generation_id_or_member_epoch=back.generation_id,
                member_id=who,
                group_instance_id=instance,
                topics=[],
            )
        _join(side, version, "old id with instance", group, member=member, instance="i")
        _leave_group(side, 4, "unknown instance", group, {"member_id": "", "group_instance_id": "j"})
        _leave_group(side, 4, "wrong id", group, {"member_id": member, "group_instance_id": "i"})
        _leave_group(
            side,
            5,
            "twice, and another",
            group,
            {"member_id": "", "group_instance_id": "i"},
            {"member_id": "", "group_instance_id": "i"},
            {"member_id": "nobody"},
        )
        _leave_group(side, 5, "nobody", group)
        _tell(side, 5, "then", group)


def list_groups(side: Side) -> None:
    group = side.name("g")
    created = _join(side, 9, "joins", group)
    side.quiet(
        "OffsetCommit",
        8,
        group_id=side.name("offsets"),
        generation_id_or_member_epoch=-1,
        topics=[{"name": side.topic("t"), "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    )
    for version in range(6):
        for states, types in (
            ([], []), (["CompletingRebalance"], []), (["Empty"], []), (["Stable", "Empty"], []), (["Nonsense"], []),
            (["empty"], []), ([], ["classic"]), ([], ["consumer"]),
            ([], ["Classic"]), ([], ["nonsense"]), (["Empty"], ["classic"]), (["Dead"], []), (["Assigning"], []),
        ):  # fmt: skip
            if (states and version < 4) or (types and version < 5):
                continue
            reply = side.quiet("ListGroups", version, states_filter=states, types_filter=types)
            side.note(f"v{version} {states} {types}", reply.error_code)
            side.note(
                f"v{version} {states} {types} groups",
                sorted((g for g in reply.groups if g.group_id.startswith(side.own)), key=lambda g: str(g.group_id)),
            )
    _leave_group(side, 5, "leaves", group, created.member_id)


def delete_groups(side: Side) -> None:
    for version in range(3):
        group, topic = side.name(f"g{version}"), side.topic(f"t{version}")
        part = {"partition_index": 0, "committed_offset": 1}
        side.quiet(
            "OffsetCommit",
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[{"name": topic, "partitions": [part]}],
        )
        side.ask("DeleteGroups", version, "unknown and empty", groups_names=[side.name("none"), ""])
        side.ask("DeleteGroups", version, "nothing", groups_names=[])
        side.ask("DeleteGroups", version, "twice", groups_names=[group, group])
        side.ask("DeleteGroups", version, "again", groups_names=[group])
        side.ask("OffsetFetch", 7, "then", group_id=group, topics=None)
