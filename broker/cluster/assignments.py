"""Validation of manual replica assignments, with Kafka's error messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stuntbroker.broker.cluster.nodes import Nodes


def problem_of_replicas(replicas: Sequence[int], nodes: Nodes) -> str | None:
    """Return the first problem of a partition's replicas in ascending order, as in Kafka; None if there is none."""
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    previous = None
    for replica in sorted(replicas):
        if replica not in nodes.by_id:
            return f"The manual partition assignment includes broker {replica}, but no such broker is registered."
        if replica == previous:
            return f"The manual partition assignment includes the broker {replica} more than once."
        previous = replica
    return None


def problem_of_assignments(
    assignments: Iterable[Sequence[int]], nodes: Nodes, factor: int | None = None, first: int = 0
) -> str | None:
    """Return the first problem of the replicas of partitions from `first` on; all need the same number of replicas.

    `factor`: that number, if the topic already has partitions.
    """
    for index, replicas in enumerate(assignments, first):
        if problem := problem_of_replicas(replicas, nodes):
            return problem
        if not any(nodes.by_id[node_id].is_up for node_id in replicas):
            return (
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
        if factor is not None and len(replicas) != factor:
            return (
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {factor} replica(s)."
            )
        factor = len(replicas)
    return None
