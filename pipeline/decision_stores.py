"""Where the decisions of a sink are kept, as users name it, and the store that is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from stuntbroker.client.channel import ChannelCluster
from stuntbroker.pipeline.decision_topic import DecisionTopic
from stuntbroker.pipeline.decisions import DecisionFolder, Decisions

KINDS: Final = ("dir", "kafka")


class DecisionsPlace(NamedTuple):
    """Where decisions are kept: a folder, or a topic of the cluster that is written to."""

    kind: str
    """dir or kafka"""
    name: str

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic."""
        return self.kind == "kafka"


def decisions_place(text: str) -> DecisionsPlace:
    """The place that `dir:PATH` or `kafka:TOPIC` names. Raises ValueError."""
    kind, _, name = text.partition(":")
    if kind not in KINDS or not name:
        raise ValueError(f"decisions={text!r}: it must be kafka:TOPIC or dir:PATH")
    return DecisionsPlace(kind, name)


def open_decisions(place: DecisionsPlace, sink_id: str, cluster: ChannelCluster) -> Decisions:
    """The store in a place; a topic is one of this cluster."""
    if place.is_topic:
        return DecisionTopic(cluster, place.name, sink_id)
    return DecisionFolder(Path(place.name), sink_id, cluster.pause)
