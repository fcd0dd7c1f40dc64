"""The values of the explored world: producers, partitions, what is under way, what may go wrong, and what was promised."""

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
    """A Produce request that the coordinator is asked about."""

    to_add: tuple[int, ...]
    """Partitions, as indexes."""
    bad: tuple[tuple[int, str], ...] = ()
    """Partitions whose batches are refused, and how."""


class Client(NamedTuple):
    """One instance. That it crashes is that it does nothing more; that another is there makes a zombie of it."""

    name: str
    version: int
    """Transaction version that it speaks: 1 or 2."""
    two_phase: bool = False
    """Opens transactions without a time-out, prepares them, and takes over what it finds prepared (KIP-939)."""
    step: str = "off"
    pair: Pair = NO_PAIR
    number: int = 1
    waiting: Request | None = None
    """Asked and not answered: it asks the same until it is."""
    ending: Pair = NO_PAIR
    """Two-phase: what its database may know the transaction by that it is about to end."""
    batches: int = 0
    """1: it writes to both partitions with one request; 2: it does so after it wrote to the first one."""
    left: tuple[int, ...] = ()
    """Partitions whose batches of such a request are not acknowledged."""
    enlisting: Enlisting | None = None
    acking: bool = False
    """Its records are written, and it hears so when the disk has them."""

    @property
    def deed(self) -> Deed:
        return self.name, self.number


class Log(NamedTuple):
    """One partition. A transaction that wrote here is open or has an outcome."""

    epochs: tuple[Pair, ...] = ()
    open: tuple[tuple[int, frozenset[Deed]], ...] = ()
    """(producer id, whose records its open transaction has)."""
    sealed: frozenset[int] = frozenset()
    """Producer ids whose open transaction takes no more records unless the coordinator says so."""
    outcomes: frozenset[tuple[Deed, bool]] = frozenset()

    def producers(self) -> ProducerStates:
        states = ProducerStates()
        held = dict(self.open)
        for producer_id, epoch in self.epochs:
            states.producers[producer_id] = Producer(epoch, 0, -1, 0 if held.get(producer_id) else -1)
        return states

    def takes(self, pair: Pair) -> bool:
        """Without asking the coordinator: the transaction of this producer is open here."""
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
    """The Complete record, which may be lost in a crash until something is appended behind it."""


class Budget(NamedTuple):
    """How often what goes wrong may still go wrong."""

    crashes: int = 1
    losses: int = 1
    time_outs: int = 1
    copies: int = 0
    """Requests of which a copy stays on the way."""
    forced: int = 0
    """An admin ends whatever is open: InitProducerId without any flag, of which he does not hear the answer."""
    returns: int = 0
    """InitProducerId of an instance that names its own pair, with and without KeepPreparedTxn, and does not listen."""


File = tuple[Any, ...]
"""States in which a file may be found when the power comes back."""


class World(NamedTuple):
    clients: tuple[Client, ...]
    budget: Budget
    logs: tuple[Log, Log] = (Log(), Log())
    txn: Txn | None = None
    durable: Txn | None = None
    delayed: Txn | None = None
    """A Complete record that is written, but not for sure."""
    work: tuple[Any, ...] = ()
    """Effects that are still to be performed; other requests wait for them."""
    requests: tuple[int, Request] | None = None
    """Which client the work is for, and what it asked; client -1 for nobody who listens."""
    copy: Request | None = None
    spare: int = FIRST_PRODUCER + 1
    disk: Any = None
    """A `txn_power.Disk`, under `Rules.power`."""
    # --- what was promised
    wanted: frozenset[Deed] = NO_DEEDS
    """Of which a commit was asked, or decided."""
    committed: frozenset[Deed] = NO_DEEDS
    """Of which a commit was answered."""
    aborted: frozenset[Deed] = NO_DEEDS
    """Which must never be committed: an abort was answered, or the commit refused."""
    prepared: frozenset[tuple[Deed, Pair]] = frozenset()
    """Two-phase transactions whose records are all acknowledged, and the pair that they are known by."""
    store: frozenset[tuple[Pair, bool]] = frozenset()
    """The database of the two-phase producers: what was decided, once for each prepared transaction."""
    forced: frozenset[Deed] = NO_DEEDS
    """Which an admin, or their owner, may have aborted without a decision."""
    handed: frozenset[Pair] = frozenset()
    """Pairs that a producer was told to go on with."""
    fenced: frozenset[Pair] = frozenset()
    """Those of them that another instance was told to have taken over."""
    owner: int = -1
    """The client that got the id last."""
    contested: bool = False
    """Another client may have taken the id from its owner."""
    broken: str = ""
    """A promise that the last step broke."""


@dataclass(frozen=True)
class Rules:
    """The scene. Transactions of each producer, and the transaction version of the cluster."""

    transaction_version: int
    number_max: tuple[int, ...] = (2, 1)
    initial_epoch: int = 0
    remembers_time_outs: bool = False
    """Profile kip-588."""
    power: bool = False
    """`--durability power`: what is written is there for sure when it is synced, and the power may go."""

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
    """Its records of that partition are in the log."""
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
