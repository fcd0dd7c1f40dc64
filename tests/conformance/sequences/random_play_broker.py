"""Play acts (random_acts.py) on one side: expiration, and the level of `transaction.version`."""

from __future__ import annotations

from typing import Any, Final

from stuntbroker.protocol.errors import ErrorCode
from tests.conformance.conftest import SETTINGS
from tests.conformance.sequences.random_acts import FEATURE, GROUPS, PARTITIONS, TRANSACTIONAL
from tests.conformance.sequences.random_play_base import BasePlayer
from tests.conformance.side import errors_of

OFFSETS: Final = "__consumer_offsets"
OFFSETS_PARTITIONS: Final = "offsets.topic.num.partitions"
UPGRADE, SAFE_DOWNGRADE = 1, 2
CLIENT: Final = {"client_software_name": "conformance", "client_software_version": "1.0"}
OPENED_TO_LAST_MS: Final = 60_000
"""Transactions with at least this time-out stay open longer than any wait here."""


class BrokerPlayer(BasePlayer):
    producers: dict[str, Any]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.has_level_0 = False
        """Whether `transaction.version` may be 0 during the sequence."""
        self.retained: set[tuple[str, str]] = set()
        """(group, partition) of offsets that were committed with a short retention."""
        self.first_to_expire = ""
        """`ids` or `producers`: what expires first on these brokers; empty if nothing expires during a sequence."""

    # --- expiry

    def expire(self, what: str) -> None:
        """Wait until ids or producers, whichever expire `first`, or `all` of them have expired, and short-lived offsets."""
        what = self.first_to_expire if what == "first" else what
        if what != "producers":
            ids = sorted({self.side.name(who.split(".")[0]) for who in TRANSACTIONAL})
            self.side.until(_are_gone, "DescribeTransactions", 0, transactional_ids=ids)
        if what != "ids":
            topics = [{"name": name, "partition_indexes": at} for name, at in self.by_topic(PARTITIONS)]
            topics.append({"name": OFFSETS, "partition_indexes": list(range(int(SETTINGS[OFFSETS_PARTITIONS])))})
            own = {producer_id for each in self.producers.values() for producer_id, _ in each.lives}
            self.side.until(lambda reply: _are_silent(reply, own), "DescribeProducers", 0, topics=topics)
        for group, part in sorted(self.retained):
            self._until_offset_is_gone(group, part)
        self.retained.clear()

    def commit_for_a_while(self, group: str, version: int, part: str, offset: int, retention_ms: int) -> None:
        """Commit an offset with its own retention, which clients up to 2.0 could request."""
        ((name, (index,)),) = self.by_topic([part])
        each = {"partition_index": index, "committed_offset": offset, "committed_metadata": "for a while"}
        reply = self.ask(
            "OffsetCommit",
            version,
            group_id=self.side.name(group),
            generation_id_or_member_epoch=-1,
            retention_time_ms=retention_ms,
            topics=[{"name": name, "partitions": [each]}],
        )
        if errors_of(reply) == {0}:
            self.retained.add((group, part))

    def _until_offset_is_gone(self, group: str, part: str) -> None:
        """Wait until the offset has expired, was replaced, or has a pending transactional commit."""
        ((name, (index,)),) = self.by_topic([part])
        where = {"group_id": self.side.name(group), "topics": [{"name": name, "partition_indexes": [index]}]}

        def is_over(reply: Any) -> bool:
            actual = reply.groups[0].topics[0].partitions[0]
            unstable = actual.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            return unstable or actual.metadata != "for a while"

        self.side.until(is_over, "OffsetFetch", 8, groups=[where], require_stable=True)

    def settle_groups(self) -> None:
        """Wait until groups without offsets are deleted, which the broker does at its next check."""
        topics = [{"name": name, "partition_indexes": at} for name, at in self.by_topic(PARTITIONS)]
        for group in map(self.side.name, GROUPS):
            request = [{"group_id": group, "topics": topics}]
            reply = self.side.quiet("OffsetFetch", 8, groups=request, require_stable=True)
            parts = [part for topic in reply.groups[0].topics for part in topic.partitions]
            if not any(part.error_code or part.committed_offset >= 0 or part.metadata for part in parts):
                self.side.until(lambda r: r.groups[0].error_code != 0, "DescribeGroups", 6, groups=[group])

    # --- features

    def start_at_level(self, level: int) -> None:
        for kind in (UPGRADE, SAFE_DOWNGRADE):
            wanted = [{"feature": FEATURE, "max_version_level": level, "upgrade_type": kind}]
            self.side.quiet("UpdateFeatures", 2, feature_updates=wanted)
        self._until_level(level)

    def update_features(self, version: int, updates: list[tuple[str, int, int]], validate_only: bool = False) -> None:
        """Send UpdateFeatures with updates of (feature, level, upgrade type); wait until the broker has the new level."""
        created = [
            {"feature": name, "max_version_level": level, "allow_downgrade": kind > UPGRADE, "upgrade_type": kind}
            for name, level, kind in updates
        ]
        reply = self.ask("UpdateFeatures", version, feature_updates=created, validate_only=validate_only)
        if errors_of(reply) <= {0} and not (validate_only and version) and updates:
            self._until_level(updates[-1][1])
        seen = self.side.quiet("ApiVersions", 4, **CLIENT)
        self.side.note(f"ApiVersions {self.label}", _level(seen))

    def _until_level(self, level: int) -> None:
        self.side.until(lambda reply: _level(reply) == level, "ApiVersions", 4, **CLIENT)


def _are_gone(reply: Any) -> bool:
    return all(
        each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        or (each.transaction_state == "Ongoing" and each.transaction_timeout_ms >= OPENED_TO_LAST_MS)
        for each in reply.transaction_states
    )


def _are_silent(reply: Any, own: set[int]) -> bool:
    """Whether only producers with open transactions and, in the offsets topic, producers of other sequences are left."""
    return all(
        each.current_txn_start_offset >= 0 or (topic.name == OFFSETS and each.producer_id not in own)
        for topic in reply.topics
        for part in topic.partitions
        for each in part.active_producers
    )


def _level(reply: Any) -> int:
    return next((each.max_version_level for each in reply.finalized_features if each.name == FEATURE), 0)
