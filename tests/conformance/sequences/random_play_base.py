"""Base class of the players of acts: the side, and the names and ids of its topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.conformance.side import Side

UNKNOWN_ID: Final = bytes.fromhex("00112233445546778899aabbccddeeff")
BY_TOPIC_ID_FROM: Final = {"Produce": 13, "Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10}


class BasePlayer:
    def __init__(self, side: Side) -> None:
        self.side = side
        self.label = ""
        """The act that is being played, for the labels of steps."""
        self.topic_ids: dict[str, bytes] = {}
        """Topic ids as a client last saw them; a recreated topic has another id."""

    def ask(self, api: str, version: int, *, retry: Any = (), on: str = "main", **fields: Any) -> Any:
        return self.side.ask(api, version, self.label, retry=retry, on=on, **fields)

    def by_label(self, parts: Sequence[str]) -> list[tuple[str, str, list[int]]]:
        """Group partitions such as `t0-1` into (topic label, topic name, partition indexes)."""
        actual: dict[str, list[int]] = {}
        for part in parts:
            label, _, index = part.partition("-")
            actual.setdefault(label, []).append(int(index))
        return [(label, self.side.name(label), indexes) for label, indexes in actual.items()]

    def by_topic(self, parts: Sequence[str]) -> list[tuple[str, list[int]]]:
        return [(name, indexes) for _, name, indexes in self.by_label(parts)]

    def topic(self, name: str, api: str, version: int, named: str = "name") -> dict[str, Any]:
        """Return the field, name or id, that identifies a topic in a request of this version."""
        if version >= BY_TOPIC_ID_FROM[api]:
            return {"topic_id": self.topic_ids.get(name, UNKNOWN_ID)}
        return {named: name}

    def log_start(self, name: str, index: int) -> int:
        where = [{"name": name, "partitions": [{"partition_index": index, "timestamp": -2}]}]
        reply = self.side.quiet("ListOffsets", 7, replica_id=-1, topics=where)
        return max(0, reply.topics[0].partitions[0].offset)
