"""The state of the explored world: producers, partitions, pending effects, remaining faults and promises of replies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from stuntbroker.coordinator.requests import Context, Request
from stuntbroker.coordinator.state import Phase, Txn
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.storage.producers import Producer, ProducerStates

ID, FIRST_PRODUCER, NOW = "t", 1, 1_000_000
LONG_AGO = NOW - 900_000
PARTITIONS: tuple[TopicPartition, ...] = (("p", 0), ("p", 1))
COMMIT, ABORT = True, False
Deed = tuple[str, int]
"""A transaction as its producer sees it: name of the producer, number."""
NO_DEEDS: frozenset[Deed] = frozenset()
Pair = tuple[int, int]
"""Producer id and epoch."""
NO_PAIR: Pair = (-1, -1)


class Enlisting(NamedTuple):
    """A Produce request that waits for the coordinator."""

    to_add: tuple[int, ...]
    """Indexes of the partitions to add or verify."""
    bad: tuple[tuple[int, str], ...] = ()
    """Partitions whose batches are refused, and the kind of error."""


class Client(NamedTuple):
    """One producer instance. A crashed instance takes no more steps; it is a zombie once another instance has the id."""

    name: str
    version: int
    """Transaction version of the client: 1 or 2."""
    two_phase: bool = False
    """The client opens transactions without time-out, prepares them, and recovers prepared transactions (KIP-939)."""
    step: str = "off"
    pair: Pair = NO_PAIR
    number: int = 1
    waiting: Request | None = None
    """A request without a reply yet; the client repeats it."""
    ending: Pair = NO_PAIR
    """Two-phase: producer id and epoch by which the database knows the transaction that the client is about to end."""
    batches: int = 0
    """1: the client writes to both partitions with one request; 2: it writes to the first partition before that."""
    left: tuple[int, ...] = ()
    """Partitions of such a request whose batches are not acknowledged yet."""
    enlisting: Enlisting | None = None
    acking: bool = False
    """The records are written, and are acknowledged after the next sync."""

    @property
    def deed(self) -> Deed:
        return self.name, self.number


class Log(NamedTuple):
    """One partition. Every transaction that wrote to it is either open or has an outcome."""

    epochs: tuple[Pair, ...] = ()
    open: tuple[tuple[int, frozenset[Deed]], ...] = ()
    """(producer id, transactions whose records are open)."""
    sealed: frozenset[int] = frozenset()
    """Producer ids whose open transaction takes new records only after the coordinator is asked."""
    outcomes: frozenset[tuple[Deed, bool]] = frozenset()

    def producers(self) -> ProducerStates:
        states = ProducerStates()
        held = dict(self.open)
        for producer_id, epoch in self.epochs:
            states.producers[producer_id] = Producer(epoch, 0, -1, 0 if held.get(producer_id) else -1)
        return states

    def takes(self, pair: Pair) -> bool:
        """Whether this producer's transaction is open here, so that Produce need not ask the coordinator."""
        producer_id, epoch = pair
        return (
            producer_id not in self.sealed
            and dict(self.epochs).get(producer_id, -1) == epoch
            and bool(dict(self.open).get(producer_id))
        )

    def wrote(self, pair: Pair, deed: Deed) -> Log:
        producer_id, epoch = pair
        held = dict(self.open)
        held[producer_id] = held.get(producer_id, NO_DEEDS) | {deed}
        epochs = {**dict(self.epochs), producer_id: epoch}
        return self._replace(epochs=tuple(sorted(epochs.items())), open=tuple(sorted(held.items())))

    def seal(self, producer_id: int) -> Log:
        return self._replace(sealed=self.sealed | {producer_id}) if dict(self.open).get(producer_id) else self

    def marked(self, txn: Txn) -> Log:
        refused = self.producers().check_marker(txn.producer_id, txn.producer_epoch, 0, txn.client_version)
        if refused:
            return self
        commit = txn.phase is Phase.PREPARE_COMMIT
        held = dict(self.open)
        ended = frozenset((deed, commit) for deed in held.pop(txn.producer_id, NO_DEEDS))
        epochs = {**dict(self.epochs), txn.producer_id: txn.producer_epoch}
        return Log(
            tuple(sorted(epochs.items())),
            tuple(sorted(held.items())),
            self.sealed - {txn.producer_id},
            self.outcomes | ended,
        )


class Mark(NamedTuple):
    """A marker for one partition."""

    txn: Txn
    partition: int


class Complete(NamedTuple):
    """The Complete record. A crash can lose it until another record is appended after it."""


class Budget(NamedTuple):
    """How often each fault may still happen."""

    crashes: int = 1
    losses: int = 1
    time_outs: int = 1
    copies: int = 0
    """EndTxn requests of which a copy stays in the network and arrives later."""
    forced: int = 0
    """An admin aborts the open transaction with InitProducerId without flags, and ignores the response."""
    returns: int = 0
    """An instance sends InitProducerId with its own producer id and epoch, with and without KeepPreparedTxn, and ignores
    the response."""


File = tuple[Any, ...]
"""States in which a file may be found when the power comes back."""


class World(NamedTuple):
    clients: tuple[Client, ...]
    budget: Budget
    logs: tuple[Log, Log] = (Log(), Log())
    txn: Txn | None = None
    durable: Txn | None = None
    delayed: Txn | None = None
    """A Complete record that is written but that a crash can lose."""
    work: tuple[Any, ...] = ()
    """Effects that remain to be performed; other requests wait for them."""
    requests: tuple[int, Request] | None = None
    """The client and the request that `work` is for; -1 if no client waits for the reply."""
    copy: Request | None = None
    spare: int = FIRST_PRODUCER + 1
    disk: Any = None
    """A `txn_power.Disk`, under `Rules.power`."""
    # --- promises of the replies
    wanted: frozenset[Deed] = NO_DEEDS
    """Transactions whose commit a client requested or a database decided."""
    committed: frozenset[Deed] = NO_DEEDS
    """Transactions whose commit a reply acknowledged."""
    aborted: frozenset[Deed] = NO_DEEDS
    """Transactions that must never be committed: a reply acknowledged the abort or refused the commit."""
    prepared: frozenset[tuple[Deed, Pair]] = frozenset()
    """Two-phase transactions whose records are all acknowledged, with the producer id and epoch of the records."""
    store: frozenset[tuple[Pair, bool]] = frozenset()
    """The database of the two-phase producers: one decision for each prepared transaction."""
    forced: frozenset[Deed] = NO_DEEDS
    """Transactions that an admin or their owner may have aborted without a decision of the database."""
    handed: frozenset[Pair] = frozenset()
    """Producer ids and epochs that a reply returned to a producer."""
    fenced: frozenset[Pair] = frozenset()
    """Producer ids and epochs in `handed` that a later InitProducerId fenced."""
    owner: int = -1
    """The client of the last successful InitProducerId."""
    contested: bool = False
    """Another client may have taken the id from its owner."""
    broken: str = ""
    """A promise that the last step broke."""


@dataclass(frozen=True)
class Rules:
    """Settings of a scene, for example the cluster's transaction version and the number of transactions per producer."""

    transaction_version: int
    number_max: tuple[int, ...] = (2, 1)
    initial_epoch: int = 0
    remembers_time_outs: bool = False
    """Profile kip-588."""
    power: bool = False
    """`--durability power`: writes are durable only after a sync, and a crash is a power cut."""

    def context(self, world: World) -> Context:
        return Context(NOW, self.transaction_version, world.spare, 0)


class Broken(AssertionError):
    """A promise was broken."""


def name_of(world: World, client: int) -> str:
    return world.clients[client].name if client >= 0 else "nobody"


def with_client(world: World, client: int, **changes: Any) -> World:
    clients = world.clients
    return world._replace(clients=(*clients[:client], clients[client]._replace(**changes), *clients[client + 1 :]))


def with_log(world: World, index: int, log: Log) -> World:
    return world._replace(logs=(log, world.logs[1]) if index == 0 else (world.logs[0], log))


def recorded(world: World, at: int, index: int) -> World:
    """Append the client's records to this partition."""
    client = world.clients[at]
    if client.pair in world.fenced and not mixed(world.clients):
        world = world._replace(broken=f"a record of {client.pair}, who is fenced, is written")
    return with_log(world, index, world.logs[index].wrote(client.pair, client.deed))


@cache
def mixed(clients: tuple[Client, ...]) -> bool:
    """Clients of both transaction versions: an epoch one behind may look like a retry, in Kafka as here."""
    return len({client.version for client in clients}) > 1


def still_open(world: World) -> frozenset[Deed]:
    return frozenset(deed for log in world.logs for _, deeds in log.open for deed in deeds)


def outcomes(world: World) -> frozenset[tuple[Deed, bool]]:
    return world.logs[0].outcomes | world.logs[1].outcomes
