"""Which store of decisions a text names."""

from __future__ import annotations

from pathlib import Path

from stuntbroker.client.channel import ChannelCluster
from stuntbroker.pipeline.decision_topic import DecisionTopic
from stuntbroker.pipeline.decisions import DecisionFolder, Decisions


def open_decisions(where: str, sink_id: str, cluster: ChannelCluster) -> Decisions:
    """The store that `dir:PATH` or `kafka:TOPIC` names; the topic is one of this cluster. Raises ValueError."""
    kind, _, name = where.partition(":")
    if kind == "dir" and name:
        return DecisionFolder(Path(name), sink_id, cluster.pause)
    if kind == "kafka" and name:
        return DecisionTopic(cluster, name, sink_id)
    raise ValueError(f"decisions {where!r}: it must be dir:PATH or kafka:TOPIC")
