"""Play acts (random_acts.py) on one side: groups, their members and their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from stuntbroker.protocol.hashing import partition_for
from tests.conformance.sequences.random_play_base import BasePlayer
from tests.conformance.shape import shape
from tests.conformance.side import errors_of
from tests.conformance.wire import Closed, NoResponse

SESSION_MS: Final = 60_000
MEMBER_ID_REQUIRED: Final = 79
WAIT_S: Final = 0.06
"""Seconds to wait for a reply before checking the state of its group again."""
WAITS_MAX: Final = 20
WAITING_IN: Final = {"JoinGroup": "PreparingRebalance", "SyncGroup": "CompletingRebalance"}
"""API -> the group state in which its reply waits for other members."""


@dataclass(slots=True)
class Member:
    id: str = ""
    generation: int = -1
    protocol: str | None = None
    others: list[str] = field(default_factory=list)
    """Ids of all members, if this member is the leader."""


class GroupPlayer(BasePlayer):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.members: dict[str, Member] = {}
        self.waiting: dict[str, str] = {}
        """`group/member` -> label of its unanswered request."""

    def membership(self, group: str, member: str) -> tuple[str, int]:
        """Return (member id, generation)."""
        if member == "unknown":
            return "nobody", 1
        known = self.members.get(f"{group}/{member}", Member())
        return known.id, known.generation

    # --- members

    def join(
        self, group: str, member: str, version: int, protocols: Sequence[str], instance: str | None = None, **slip: Any
    ) -> None:
        who = f"{group}/{member}"
        known = self.members.setdefault(who, Member())
        named = slip.get("id", known.id)
        if not named and not instance:
            named = known.id  # Otherwise there would be a third member, and the choice of the leader would be random.
        fields: dict[str, Any] = {
            "group_id": self.side.name(group), "session_timeout_ms": SESSION_MS,
            "protocol_type": slip.get("kind", "consumer"), "member_id": named,
            "protocols": [{"name": name, "metadata": member.encode()} for name in protocols],
        }  # fmt: skip
        if version >= 1:
            fields["rebalance_timeout_ms"] = SESSION_MS
        if version >= 5:
            fields["group_instance_id"] = instance
        self._member_asks(who, "JoinGroup", version, fields)

    def sync(self, group: str, member: str, version: int, instance: str | None = None, **slip: Any) -> None:
        who = f"{group}/{member}"
        known = self.members.setdefault(who, Member())
        labels = {each.id: name for name, each in self.members.items()}
        fields = self._member_fields(group, known, slip) | {
            "assignments": [
                {"member_id": each, "assignment": f"{known.generation} for {labels.get(each)}".encode()}
                for each in known.others
            ],
        }
        if version >= 3:
            fields["group_instance_id"] = instance
        if version >= 5:
            fields |= {"protocol_type": "consumer", "protocol_name": known.protocol}
        self._member_asks(who, "SyncGroup", version, fields)

    def heartbeat(self, group: str, member: str, version: int, instance: str | None = None, **slip: Any) -> None:
        who = f"{group}/{member}"
        fields = self._member_fields(group, self.members.setdefault(who, Member()), slip)
        if version >= 3:
            fields["group_instance_id"] = instance
        self.ask("Heartbeat", version, **fields)

    def leave_group(self, group: str, member: str, version: int, instance: str | None = None, **slip: Any) -> None:
        who = f"{group}/{member}"
        known = self.members.setdefault(who, Member())
        if self.waiting.pop(who, None):
            # A leaving member does not wait. (Kafka never answers the SyncGroup of a member that left.)
            self.side.drop(who)
        named = slip.get("id", known.id)
        if version < 3:
            reply = self.ask("LeaveGroup", version, group_id=self.side.name(group), member_id=named)
        else:
            each = {"member_id": named, "group_instance_id": instance}
            reply = self.ask("LeaveGroup", version, group_id=self.side.name(group), members=[each])
        self._collect()
        if errors_of(reply) == {0}:
            self.members[who] = Member()

    def _member_fields(self, group: str, known: Member, slip: dict[str, Any]) -> dict[str, Any]:
        generation = known.generation + slip.get("generation", 0)
        return {"group_id": self.side.name(group), "generation_id": generation, "member_id": slip.get("id", known.id)}

    def _member_asks(self, who: str, api: str, version: int, fields: dict[str, Any]) -> None:
        """Send a request on the member's own connection; a reply that waits for other members is recorded when it arrives."""
        if who in self.waiting:
            self.side.note(f"{self.label}: waits already", self.waiting[who])
            return
        self.side.send(api, version, on=who, **fields)
        self.waiting[who] = f"{api} v{version} {self.label}"
        self._collect()
        if (
            (known := self.members[who]).id
            and fields["member_id"] == ""
            and who not in self.waiting
            and known.generation == -1
        ):
            self._member_asks(who, api, version, fields | {"member_id": known.id})

    def _collect(self) -> None:
        """Record the replies that have arrived for waiting members."""
        went_on = True
        while went_on and self.waiting:
            went_on = False
            for who in sorted(self.waiting):
                if self._has_answer(who):
                    went_on = True
                    label = self.waiting.pop(who)
                    reply = self.side.hear(who)
                    # Before the list of members names two new ones.
                    shape(getattr(reply, "member_id", ""), self.side.names, "member_id")
                    self.side.note(f"{label}, answered during {self.label}", reply)
                    self._learn(who, reply)
        for who in sorted(self.waiting):
            self.side.note(f"{self.label}: {who}", "waits")

    def _has_answer(self, who: str) -> bool:
        """Whether the member's reply has arrived. A busy broker gets more time if the group waits for no other member."""
        for _ in range(WAITS_MAX):
            if self.side.link(who).has_answer(WAIT_S):
                return True
            messages = self.side.quiet("DescribeGroups", 5, groups=[self.side.name(who.split("/")[0])])
            if messages.groups[0].group_state == WAITING_IN[self.waiting[who].split()[0]]:
                break
        return self.side.link(who).has_answer(WAIT_S)

    def _learn(self, who: str, reply: Any) -> None:
        if isinstance(reply, Closed | NoResponse) or not hasattr(reply, "generation_id"):
            return
        if reply.error_code == MEMBER_ID_REQUIRED:
            self.members[who] = Member(reply.member_id)
        elif not reply.error_code:
            others = [each.member_id for each in reply.members]
            self.members[who] = Member(reply.member_id, reply.generation_id, reply.protocol_name, others)

    # --- offsets

    def offset_commit(
        self,
        group: str,
        version: int,
        parts: Sequence[str],
        offset: int,
        member: str = "",
        instance: str | None = None,
        **slip: Any,
    ) -> None:
        known, generation = self.membership(group, member) if member else ("", -1)
        fields = {
            "member_id": slip.get("id", known),
            "generation_id_or_member_epoch": generation + slip.get("generation", 0),
        }
        if version >= 7:
            fields["group_instance_id"] = instance
        part = {"committed_offset": offset, "committed_metadata": "plain"}
        self.ask(
            "OffsetCommit",
            version,
            group_id=self.side.name(group),
            **fields,
            topics=[
                {
                    **self.topic(name, "OffsetCommit", version),
                    "partitions": [{"partition_index": index, **part} for index in indexes],
                }
                for _, name, indexes in self.by_label(parts)
            ],
        )

    def show(self, group: str) -> None:
        """Write another record to the group's partition, after which Kafka shows a group that a refused commit created."""
        name, partitions = self.side.name(group), 4
        others = (self.side.name(f"beside-{number}") for number in count())
        beside = next(each for each in others if partition_for(each, partitions) == partition_for(name, partitions))
        part = {"partition_index": 0, "committed_offset": 1}
        topics = [{"name": self.side.name("t0"), "partitions": [part]}]
        self.side.quiet("OffsetCommit", 8, group_id=beside, generation_id_or_member_epoch=-1, topics=topics)

    def offset_fetch(self, group: str, version: int, parts: Sequence[str] | None, stable: bool) -> None:
        topics = (
            None
            if parts is None
            else [
                {**self.topic(name, "OffsetFetch", version), "partition_indexes": indexes}
                for _, name, indexes in self.by_label(parts)
            ]
        )
        more = {"require_stable": stable} if version >= 7 else {}
        if version >= 8:
            self.ask("OffsetFetch", version, groups=[{"group_id": self.side.name(group), "topics": topics}], **more)
        elif topics is not None or version >= 2:
            self.ask("OffsetFetch", version, group_id=self.side.name(group), topics=topics, **more)

    def offset_delete(self, group: str, parts: Sequence[str]) -> None:
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in self.by_topic(parts)
        ]
        self.ask("OffsetDelete", 0, group_id=self.side.name(group), topics=topics)

    # --- reading

    def describe_group(self, group: str, version: int) -> None:
        self.ask("DescribeGroups", version, groups=[self.side.name(group)])

    def list_groups(self, version: int) -> None:
        reply = self.side.quiet("ListGroups", version)
        own = [each for each in reply.groups if each.group_id.startswith(self.side.own)]
        self.side.note(f"ListGroups v{version} {self.label}", own)

    def delete_group(self, group: str, version: int) -> None:
        self.ask("DeleteGroups", version, groups_names=[self.side.name(group)])
