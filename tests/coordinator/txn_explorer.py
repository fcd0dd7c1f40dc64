"""Every interleaving of a small world: two producers of one transactional id, two partitions, and what can go wrong.

Replies are lost, transactions time out, the broker crashes. Each step is one effect, one marker, one write or one
crash. The coordinator is the real core, a restart reads the real log records, and partitions check markers by the real
rules of the storage. Breadth first, so that the way to a broken promise is as short as it can be.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from stuntbroker.coordinator import machine
from stuntbroker.coordinator.records import key_of, read_record, value_of
from stuntbroker.coordinator.requests import (
    AddPartitions,
    Again,
    Append,
    Context,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    Reply,
    Request,
    TimeOut,
    Verify,
    WriteMarkers,
)
from stuntbroker.coordinator.state import PREPARED, Phase, TopicPartition, Txn, new_txn
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.records import Record
from stuntbroker.storage.producers import Producer, ProducerStates

OK = ErrorCode.NONE
ID, FIRST_PRODUCER, NOW = "t", 1, 1_000_000
LONG_AGO = NOW - 900_000
PARTITIONS: tuple[TopicPartition, ...] = (("p", 0), ("p", 1))
TRY_AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS,)
Deed = tuple[str, int]
"""A transaction as its producer sees it: name of the producer, number."""
NOBODY: frozenset[Deed] = frozenset()


class Client(NamedTuple):
    name: str
    version: int
    """Transaction version that it speaks: 1 or 2."""
    step: str = "off"
    producer_id: int = -1
    epoch: int = -1
    number: int = 1
    waiting: Request | None = None
    """Asked and not answered: it asks the same until it is."""

    @property
    def deed(self) -> Deed:
        return self.name, self.number


class Log(NamedTuple):
    """One partition. A transaction that wrote here is open or has an outcome."""

    epochs: tuple[tuple[int, int], ...] = ()
    """(producer id, epoch)."""
    open: tuple[tuple[int, frozenset[Deed]], ...] = ()
    """(producer id, whose records its open transaction has)."""
    outcomes: frozenset[tuple[Deed, bool]] = frozenset()

    def producers(self) -> ProducerStates:
        states = ProducerStates()
        for producer_id, epoch in self.epochs:
            states.producers[producer_id] = Producer(epoch, 0, -1, 0 if dict(self.open).get(producer_id) else -1)
        return states

    def wrote(self, producer_id: int, epoch: int, deed: Deed) -> Log:
        held = dict(self.open)
        held[producer_id] = held.get(producer_id, NOBODY) | {deed}
        epochs = {**dict(self.epochs), producer_id: epoch}
        return self._replace(epochs=tuple(sorted(epochs.items())), open=tuple(sorted(held.items())))

    def marked(self, txn: Txn) -> Log:
        refused = self.producers().check_marker(txn.producer_id, txn.producer_epoch, 0, txn.client_version)
        if refused:
            return self
        commit = txn.phase is Phase.PREPARE_COMMIT
        held = dict(self.open)
        ended = frozenset((deed, commit) for deed in held.pop(txn.producer_id, NOBODY))
        epochs = {**dict(self.epochs), txn.producer_id: txn.producer_epoch}
        return Log(tuple(sorted(epochs.items())), tuple(sorted(held.items())), self.outcomes | ended)


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


class World(NamedTuple):
    clients: tuple[Client, Client]
    budget: Budget
    logs: tuple[Log, Log] = (Log(), Log())
    txn: Txn | None = None
    durable: Txn | None = None
    late: Txn | None = None
    """A Complete record that is written, but not for sure."""
    work: tuple[Any, ...] = ()
    """Effects that are still to be performed; other requests wait for them."""
    asked: tuple[int, Request] | None = None
    """Which client the work is for, and what it asked; client -1 for nobody who listens."""
    copy: Request | None = None
    spare: int = FIRST_PRODUCER + 1
    wanted: frozenset[Deed] = NOBODY
    """Of which a commit was asked."""
    committed: frozenset[Deed] = NOBODY
    """Of which a commit was answered."""
    aborted: frozenset[Deed] = NOBODY
    """Which must never be committed: an abort was answered, or the commit refused."""


@dataclass(frozen=True)
class Rules:
    """The scene. Transactions of each producer, and the transaction version of the cluster."""

    transaction_version: int
    number_max: tuple[int, int] = (2, 1)
    first_epoch: int = 0

    def context(self, world: World) -> Context:
        return Context(NOW, self.transaction_version, world.spare)


class Broken(AssertionError):
    """A promise was broken."""


# --- the coordinator


def ask(rules: Rules, world: World, client: int, request: Request) -> World:
    txn, spare = world.txn, world.spare
    if txn is None:
        if not isinstance(request, InitProducerId):
            return answer(rules, world, client, request, Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        txn, spare = new_txn(ID, spare - 1, rules.first_epoch - 1), spare + 1
        world = world._replace(txn=txn, spare=spare)
    decision = machine.decide(txn, request, rules.context(world))
    return world._replace(
        spare=world.spare + decision.took_spare, work=decision.effects, asked=(client, request)
    )


def perform(rules: Rules, world: World) -> Iterator[tuple[str, World]]:
    effect, world = world.work[0], world._replace(work=world.work[1:])
    assert world.asked is not None
    client, request = world.asked
    if not world.work:
        world = world._replace(asked=None)
    match effect:
        case Append(txn):
            yield f"append {txn.phase.name}", world._replace(txn=txn, durable=txn, late=None)
        case WriteMarkers(txn):
            marks = tuple(Mark(txn, PARTITIONS.index(one)) for one in sorted(txn.partitions))
            work = (*marks, Complete(), *world.work)
            yield from perform(rules, world._replace(work=work, asked=(client, request)))
        case Mark(txn, partition):
            yield f"marker in {partition}", with_log(world, partition, world.logs[partition].marked(txn))
        case Complete():
            assert world.txn is not None
            after = machine.decide(world.txn, MarkersWritten(), rules.context(world)).txn
            yield f"append {after.phase.name}", world._replace(txn=after, late=after)
        case Again():
            yield "again", ask(rules, world, client, request)
        case Reply():
            yield f"{name_of(world, client)} hears {effect.error.name}", answer(rules, world, client, request, effect)
            if world.budget.losses and isinstance(request, InitProducerId | EndTxn) and client >= 0:
                budget = world.budget._replace(losses=world.budget.losses - 1)
                yield f"the answer to {name_of(world, client)} is lost", world._replace(budget=budget)


def crashed(rules: Rules, world: World, kept: Txn | None) -> World:
    """Starts again from the log: a prepared transaction is finished before anything else."""
    txn = None
    if kept is not None:
        value = value_of(kept, min(1, rules.transaction_version))
        found = read_record(Record(0, 0, key_of(ID), value))
        assert found is not None
        txn = found[1]
    budget = world.budget._replace(crashes=world.budget.crashes - 1)
    world = world._replace(txn=txn, durable=kept, late=None, work=(), asked=None, budget=budget)
    if txn is not None and txn.phase in PREPARED:
        world = world._replace(work=(WriteMarkers(txn),), asked=(-1, TimeOut()))
    return world


# --- the producers


def name_of(world: World, client: int) -> str:
    return world.clients[client].name if client >= 0 else "nobody"


def with_client(world: World, client: int, **changes: Any) -> World:
    clients = list(world.clients)
    clients[client] = clients[client]._replace(**changes)
    return world._replace(clients=(clients[0], clients[1]))


def with_log(world: World, index: int, log: Log) -> World:
    return world._replace(logs=(log, world.logs[1]) if index == 0 else (world.logs[0], log))


def requests(client: Client) -> list[Request]:
    """What the client may ask now."""
    if client.waiting is not None:
        return [client.waiting]
    owner = client.producer_id, client.epoch
    match client.step:
        case "off":
            return [InitProducerId(60_000)]
        case "add":
            return [AddPartitions(*owner, frozenset(PARTITIONS), 0)]
        case "end":
            return [EndTxn(*owner, commit, 2 if client.version == 2 else 0) for commit in (True, False)]
        case "abort":
            return [EndTxn(*owner, False, 2)]
        case "bump":
            return [InitProducerId(60_000, *owner)]
    return []


def begin(client: Client) -> str:
    return "add" if client.version == 1 else "write 0"


def goes_on(rules: Rules, world: World, at: int, reply: Reply) -> World:
    """To the next transaction, if there is one, with what the answer said."""
    client = world.clients[at]
    last = client.number == rules.number_max[at]
    if reply.producer_id >= 0:
        world = with_client(world, at, producer_id=reply.producer_id, epoch=reply.producer_epoch)
    return with_client(world, at, step="done" if last else begin(client), number=client.number + 1)


def gives_up(world: World, at: int) -> World:
    """A write met a newer epoch. TV2 aborts (KIP-890), TV1 bumps its epoch (KIP-360): it may have been a time-out."""
    return with_client(world, at, step="abort" if world.clients[at].version == 2 else "bump")


def write(rules: Rules, world: World, at: int) -> World | None:
    """The next write of this producer; None when it has to wait for the coordinator."""
    client = world.clients[at]
    index = int(client.step[-1])
    log = world.logs[index]
    stored = dict(log.epochs).get(client.producer_id, -1)
    if client.epoch < stored:
        return gives_up(world, at)
    if stored == client.epoch and dict(log.open).get(client.producer_id):
        return written(world, at)
    if world.work:
        return None
    owner = client.producer_id, client.epoch
    if client.version == 2:
        return ask(rules, world, at, AddPartitions(*owner, frozenset({PARTITIONS[index]}), 2))
    return ask(rules, world, at, Verify(*owner, PARTITIONS[index]))


def written(world: World, at: int) -> World:
    client = world.clients[at]
    index = int(client.step[-1])
    world = with_log(world, index, world.logs[index].wrote(client.producer_id, client.epoch, client.deed))
    return with_client(world, at, step="write 1" if index == 0 else "end")


def answer(rules: Rules, world: World, at: int, request: Request, reply: Reply) -> World:
    if at < 0:
        return world
    client, error = world.clients[at], reply.error
    if error in TRY_AGAIN:
        return world
    world = with_client(world, at, waiting=None)
    match request:
        case InitProducerId() if not error and client.step == "bump":
            return goes_on(rules, world._replace(aborted=world.aborted | {client.deed}), at, reply)
        case InitProducerId() if not error:
            return with_client(world, at, step=begin(client), producer_id=reply.producer_id, epoch=reply.producer_epoch)
        case AddPartitions(client_version=0) if not error:
            return with_client(world, at, step="write 0")
        case (AddPartitions() | Verify()) if not error:
            stored = dict(world.logs[int(client.step[-1])].epochs).get(client.producer_id, -1)
            return written(world, at) if client.epoch >= stored else gives_up(world, at)
        case AddPartitions(client_version=2):
            return with_client(world, at, step="abort")
        case EndTxn(commit=commit) if not error:
            if commit:
                world = world._replace(committed=world.committed | {client.deed})
            else:
                world = world._replace(aborted=world.aborted | {client.deed})
            return goes_on(rules, world, at, reply)
        case EndTxn() if not any((client.deed, True) in log.outcomes for log in world.logs):
            world = world._replace(aborted=world.aborted | {client.deed})
    return with_client(world, at, step="dead")


# --- all that can happen next


def successors(rules: Rules, world: World) -> Iterator[tuple[str, World]]:
    budget = world.budget
    if world.work:
        yield from perform(rules, world)
    if budget.crashes and (world.work or world.late is not None):
        for kept in {world.durable, world.late or world.durable}:
            yield f"crash after {kept.phase.name if kept else 'nothing'}", crashed(rules, world, kept)
    for at, client in enumerate(world.clients):
        if client.step.startswith("write"):
            after = write(rules, world, at)
            if after is not None:
                yield f"{client.name} writes {client.deed[1]} to {client.step[-1]}", after
        elif not world.work:
            for request in requests(client):
                yield from sent(rules, world, at, request)
    if world.work or world.txn is None:
        return
    if budget.time_outs and world.txn.phase is Phase.ONGOING:
        old = world._replace(
            txn=world.txn._replace(started_at_ms=LONG_AGO), budget=budget._replace(time_outs=budget.time_outs - 1)
        )
        yield "time-out", ask(rules, old, -1, TimeOut())
    if world.copy is not None:
        yield f"a copy arrives: {world.copy}", ask(rules, world._replace(copy=None), -1, world.copy)


def sent(rules: Rules, world: World, at: int, request: Request) -> Iterator[tuple[str, World]]:
    client = world.clients[at]
    if isinstance(request, EndTxn) and request.commit:
        world = world._replace(wanted=world.wanted | {client.deed})
    asking = with_client(world, at, waiting=request)
    yield f"{client.name} asks {request}", ask(rules, asking, at, request)
    if world.budget.copies and isinstance(request, EndTxn):
        budget = world.budget._replace(copies=world.budget.copies - 1)
        copied = asking._replace(budget=budget, copy=request)
        yield f"{client.name} asks {request}, and a copy stays on the way", ask(rules, copied, at, request)


# --- promises


def check(rules: Rules, world: World) -> None:
    outcomes = world.logs[0].outcomes | world.logs[1].outcomes
    still_open = frozenset(deed for log in world.logs for _, deeds in log.open for deed in deeds)
    for deed, commit in outcomes:
        if (deed, not commit) in outcomes:
            raise Broken(f"{deed} is both committed and aborted")
        if commit and deed not in world.wanted:
            raise Broken(f"{deed} is committed, which nobody asked for")
        if commit and deed in world.aborted:
            raise Broken(f"{deed} is committed, which was told to be aborted or refused")
        if not commit and deed in world.committed:
            raise Broken(f"{deed} is aborted, which was told to be committed")
    for deed in world.committed & still_open:
        raise Broken(f"{deed} is told to be committed, and open in a partition")
    one, other = world.clients
    if one[3:5] == other[3:5] != (-1, -1) and not {"off", "dead", "done"} & {one.step, other.step}:
        raise Broken(f"two producers go on as {one[3:5]}")
    if not world.work:
        for deed, commit in outcomes:
            if deed in still_open:
                raise Broken(f"{deed} is {'committed' if commit else 'aborted'} in one partition and open in the other")
        if world.txn is not None:
            _check_not_stuck(rules, world.txn, world.logs)


def _check_not_stuck(rules: Rules, txn: Txn, logs: tuple[Log, Log]) -> None:
    left = stuck(rules, txn, logs)
    if left:
        raise Broken(left)


@cache
def stuck(rules: Rules, txn: Txn, logs: tuple[Log, Log]) -> str:
    """What stands in the way of a new instance, which must get the id and find no open transaction."""
    clients = (Client("new", 1), Client("other", 1, "dead"))
    world = World(clients, Budget(0, 0, 0), logs, txn, txn, spare=1_000)
    world = ask(rules, world, 0, InitProducerId(60_000))
    while world.work:
        ((_, world),) = perform(rules, world)
    if world.clients[0].producer_id < 0:
        return "a new instance does not get the id"
    if any(deeds for log in world.logs for _, deeds in log.open):
        return "a transaction stays open for ever"
    return ""


class Found(NamedTuple):
    states: int
    depth: int
    steps: int
    broken: str = ""
    path: tuple[str, ...] = ()


def explore(
    rules: Rules, versions: tuple[int, int], budget: Budget | None = None, states_max: int = 1_000_000
) -> Found:
    """Visits every state; stops at the first broken promise, with the shortest way to it."""
    stuck.cache_clear()
    gc.disable()  # A state holds no cycle, and looking for one in all of them takes half of the time.
    try:
        return _explore(rules, versions, budget or Budget(), states_max)
    finally:
        gc.enable()
        stuck.cache_clear()


def _explore(rules: Rules, versions: tuple[int, int], budget: Budget, states_max: int) -> Found:
    first = World((Client("A", versions[0]), Client("B", versions[1])), budget)
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    front, depth, steps = [first], 0, 0
    while front:
        following = []
        for world in front:
            for label, after in successors(rules, world):
                steps += 1
                if after in came_from:
                    continue
                came_from[after] = (world, label)
                try:
                    check(rules, after)
                except Broken as broken:
                    return Found(len(came_from), depth + 1, steps, str(broken), _path(came_from, after))
                following.append(after)
        assert len(came_from) <= states_max, f"more than {states_max} states"
        front, depth = following, depth + bool(following)
    return Found(len(came_from), depth, steps)


def _path(came_from: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    path = []
    before = came_from[world]
    while before is not None:
        path.append(before[1])
        before = came_from[before[0]]
    return tuple(reversed(path))
