"""Decisions in a compacted topic (`kafka:TOPIC`): one key per sink, whose value holds the owner and the last decision.

Every change is a transaction of the transactional id `SINK-decisions`, which is never an id of the sink's own producers.
Initialising that id fences its earlier producers (KIP-98, KIP-360) and ends their open transaction, so the values read
afterwards are current. A change that commits proves that no other process has initialised the id since. A change therefore
is: read, check the claim, write, commit. It is retried from the start if another process of the same driver, or another
driver, has fenced the producer meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import topic_config
from stuntbroker.client.commands.producing import now_ms
from stuntbroker.client.commands.reader import LastValues
from stuntbroker.client.commands.topics import create_topic
from stuntbroker.client.errors import NotFound, ProducerFenced
from stuntbroker.pipeline.decisions import (
    Decision,
    DecisionError,
    Stored,
    Superseded,
    check_sink_id,
    from_json,
    is_new,
    to_json,
)
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.batches.records import build_batch

CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(4 << 20), "min.cleanable.dirty.ratio": "0.1"}
ATTEMPTS: Final = 5
"""Maximum attempts of a change that is retried because another process has initialised the id."""

State = dict[str, Any]
"""`owner` and, if there is a decision, `done` and the fields of `decisions.to_json`."""


class DecisionTopic:
    """Decisions of one sink in a topic. It must not be shared between threads or used across a fork."""

    def __init__(self, cluster: Cluster, topic: str, sink_id: str) -> None:
        check_sink_id(sink_id)
        self._cluster = cluster
        self._topic = topic
        self._key = sink_id.encode()
        self._claim: int | None = None
        self._writer = TransactionalWriter(cluster, f"{sink_id}-decisions")
        self._values = LastValues(cluster, topic, 0)
        self._is_current = False
        """True while no other process is known to have initialised the id since the last read."""

    def take(self) -> int:
        """Become the owner; return the claim. Earlier owners cannot decide any more."""
        make_decision_topic(self._cluster, self._topic)
        self._claim = None
        self._is_current = False  # mode=single writes the same key with another transactional id.

        def next_owner(state: State) -> State:
            return state | {"owner": state["owner"] + 1}

        self._claim = self._change(next_owner)["owner"]
        return self._claim

    def resume(self, claim: int) -> None:
        """Continue as the owner with a claim. Raises Superseded when there is a newer owner."""
        self._claim = claim
        self._is_current = False
        self._read()

    def check(self) -> None:
        """Raise Superseded when there is a newer owner."""
        self._is_current = False
        self._read()

    def last(self) -> Stored | None:
        """Return the last decision, None before the first. Raises Superseded."""
        return stored(self._read())

    def peek(self) -> Stored | None:
        """Return the last decision without being the owner."""
        try:
            self._values.read_on()
        except NotFound:  # `take` creates the topic.
            return None
        return stored(self._read_state())

    def decide(self, decision: Decision) -> None:
        """Store a decision, unless it is stored already. Raises Superseded."""

        def decided(state: State) -> State:
            if not is_new(stored(state), decision):
                return state
            return {"owner": state["owner"], "done": False, **to_json(decision)}

        self._change(decided)

    def done(self, batch_id: int) -> None:
        """Store that a batch's transactions have ended. Raises Superseded."""

        def marked(state: State) -> State:
            return state | {"done": True} if state.get("batch") == batch_id else state

        self._change(marked)

    def close(self) -> None:
        """Do nothing: the caller closes the cluster."""

    def _read(self) -> State:
        """Fence other writers, then return the current state. Raises Superseded."""
        if not self._is_current:
            self._writer.init()
            self._values.refresh()
            self._is_current = True
        state = self._read_state()
        if self._claim is not None and state["owner"] != self._claim:
            sink = self._key.decode()
            raise Superseded(
                f"sink {sink!r} was taken by another driver: by claim {state['owner']}, ours is {self._claim}"
            )
        return state

    def _read_state(self) -> State:
        text = self._values.values.get(self._key)
        state: State = {"owner": 0} if text is None else json.loads(text)
        return state

    def _change(self, make: Callable[[State], State]) -> State:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                state = self._read()
                after = make(state)
                if after != state:
                    text = json.dumps(after).encode()
                    self._writer.produce(self._topic, 0, build_batch([(self._key, text)], now_ms()))
                    self._writer.commit()
                    self._values.values[self._key] = text
                return after
            except ProducerFenced:
                self._is_current = False
                if attempt == ATTEMPTS:
                    raise
            except BaseException:
                self._is_current = False  # Only reading shows whether the change was committed.
                raise
        raise AssertionError("the last attempt returns or raises")


def make_decision_topic(cluster: Cluster, topic: str) -> None:
    """Create the compacted topic for decisions if missing. Raises DecisionError if the existing topic is not compacted."""
    create_topic(cluster, topic, 1, CONFIGS, if_not_exists=True)
    policy = topic_config(cluster, topic, "cleanup.policy")
    if policy != "compact":
        raise DecisionError(
            f"topic {topic!r} has cleanup.policy={policy}: decisions would be deleted, it has to be compact"
        )


def stored(state: State) -> Stored | None:
    """Return the decision of a state, None before the first."""
    return Stored(from_json(state), state["done"]) if "batch" in state else None
