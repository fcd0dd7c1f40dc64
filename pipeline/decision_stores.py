"""Parse the option that names where a sink's decisions are stored, and open that store."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.pipeline.decision_topic import DecisionTopic
from stuntbroker.pipeline.decisions import DecisionFolder, Decisions

KINDS: Final = ("dir", "kafka")


class DecisionsPlace(NamedTuple):
    """Where decisions are stored: in a folder, or in a topic of the sink's cluster."""

    kind: str
    """dir or kafka"""
    name: str

    @property
    def is_topic(self) -> bool:
        """Whether decisions are stored in a topic."""
        return self.kind == "kafka"


def decisions_place(text: str) -> DecisionsPlace:
    """Parse `dir:PATH` or `kafka:TOPIC`. Raises ValueError."""
    kind, _, name = text.partition(":")
    if kind not in KINDS or not name:
        raise ValueError(f"decisions={text!r}: it must be kafka:TOPIC or dir:PATH")
    return DecisionsPlace(kind, name)


def open_decisions(place: DecisionsPlace, sink_id: str, cluster: Cluster) -> Decisions:
    """Open the store at a place; `cluster` holds the topic of a `kafka:TOPIC` place."""
    if place.is_topic:
        return DecisionTopic(cluster, place.name, sink_id)
    return DecisionFolder(Path(place.name), sink_id, cluster.pause)
