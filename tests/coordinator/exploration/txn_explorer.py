"""Every interleaving of a small world: producers of one transactional id, two partitions, and what can go wrong.

Replies are lost, transactions time out, the broker crashes, admins interfere. Each step is one effect, one marker, one
write, one decision in a two-phase producer's database or one crash. The coordinator is the real core, a restart reads
the real log records, and partitions check markers by the real rules of the storage. The search is breadth first, so that
the path to a broken invariant is as short as possible.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from txn_batches import Verified, VerifyAll, batch_steps, to_ask
from txn_harness import with_fields
from txn_power import Synced, behind_sync, blank, is_unsettled, kept_up, power_cuts, syncs, waits
from txn_producers import answer, decides, requests, returns, write
from txn_world import (
    ABORT,
    COMMIT,
    ID,
    LONG_AGO,
    NO_PAIR,
    PARTITIONS,
    Broken,
    Budget,
    Client,
    Complete,
    Deed,
    Log,
    Mark,
    Pair,
    Rules,
    World,
    mixed,
    name_of,
    outcomes,
    still_open,
    with_client,
    with_log,
)

from stuntbroker.coordinator import machine
from stuntbroker.coordinator.records import key_of, read_record, value_of
from stuntbroker.coordinator.requests import (
    AddPartitions,
    Append,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    Redecide,
    RejectNewRecords,
    Reply,
    Request,
    TimeOut,
    Verify,
    WriteMarkers,
)
from stuntbroker.coordinator.state import PREPARED, Phase, Txn, new_txn
from stuntbroker.protocol.batches.records import Record
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

FENCING = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
ADMIN = InitProducerId(60_000)

# --- the coordinator


def ask(rules: Rules, world: World, client: int, request: Request | VerifyAll) -> World:
    txn, spare = world.txn, world.spare
    if client == -1 or (isinstance(request, InitProducerId) and client != world.owner):
        world = world._replace(contested=True)
    if txn is None:
        if not isinstance(request, InitProducerId):
            return answer(rules, world, client, request, Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        txn, spare = new_txn(ID, spare - 1, rules.initial_epoch - 1), spare + 1
        world = world._replace(txn=txn, spare=spare)
    if isinstance(request, VerifyAll):
        work: tuple[Any, ...] = (verified(rules, world, txn, request),)
        return world._replace(work=work, requests=(client, request))
    decision = machine.decide(txn, request, rules.context(world))
    return world._replace(
        spare=world.spare + decision.allocated_producer_id, work=decision.effects, requests=(client, request)
    )


def verified(rules: Rules, world: World, txn: Txn, request: VerifyAll) -> Verified:
    producer_id, epoch, partitions = request
    sent = {index: Verify(producer_id, epoch, PARTITIONS[index]) for index in partitions}
    said = {index: machine.decide(txn, each, rules.context(world)).effects[-1] for index, each in sent.items()}
    return Verified(tuple((index, each.error) for index, each in said.items() if isinstance(each, Reply)))


def perform(rules: Rules, world: World) -> Iterator[tuple[str, World]]:
    effect = world.work[0]
    if isinstance(effect, Synced):
        return
    world = world._replace(work=world.work[1:])
    assert world.requests is not None
    client, request = world.requests
    if not world.work:
        world = world._replace(requests=None)
    match effect:
        case Append(txn):
            world = world._replace(txn=txn, durable=txn, delayed=None)
            if rules.power:
                world = world._replace(work=behind_sync(world.work), requests=(client, request))
            yield f"append {txn.phase.name}", world
        case WriteMarkers(txn):
            world = world._replace(work=finishing(rules, txn, world.work), requests=(client, request))
            yield from perform(rules, world)
        case Mark(txn, partition):
            yield f"marker in {partition}", with_log(world, partition, world.logs[partition].marked(txn))
        case Complete():
            assert world.txn is not None
            after = machine.decide(world.txn, MarkersWritten(), rules.context(world)).txn
            if rules.power:  # A power cut can lose the Complete record like any other unsynced write.
                world = world._replace(txn=after, durable=after)
            else:
                world = world._replace(txn=after, delayed=after)
            yield f"append {after.phase.name}", world
        case RejectNewRecords(txn):
            yield "seal", sealed(world, txn)
        case Redecide():
            yield "again", ask(rules, world, client, request)
        case Verified():
            yield f"{name_of(world, client)} hears {effect}", answer(rules, world, client, request, effect)
        case Reply():
            if isinstance(request, VerifyAll):
                yield f"{name_of(world, client)} hears {effect}", answer(rules, world, client, request, effect)
                return
            world = noted(world, client, request, effect)
            yield f"{name_of(world, client)} hears {effect}", answer(rules, world, client, request, effect)
            if world.budget.losses and isinstance(request, InitProducerId | EndTxn) and client >= 0:
                budget = world.budget._replace(losses=world.budget.losses - 1)
                yield f"the answer to {name_of(world, client)} is lost", world._replace(budget=budget)


def finishing(rules: Rules, txn: Txn, behind: tuple[Any, ...]) -> tuple[Any, ...]:
    """Markers, then Complete. Under `power`, Complete waits for the sync of the markers, and the reply waits for neither."""
    marks = tuple(Mark(txn, PARTITIONS.index(each)) for each in sorted(txn.partitions))
    if not rules.power:
        return *marks, Complete(), *behind
    reply = behind[:1] if behind and isinstance(behind[0], Reply) else ()
    return *marks, *reply, *behind_sync((Complete(), *behind[len(reply) :]))


def sealed(world: World, txn: Txn) -> World:
    for partition in txn.partitions:
        index = PARTITIONS.index(partition)
        world = with_log(world, index, world.logs[index].seal(txn.producer_id))
    return world


def crashed(rules: Rules, world: World, kept: Txn | None) -> World:
    """Restart from the log. First, a recovered transaction is sealed (KIP-939) and a prepared one is completed."""
    txn = None
    if kept is not None:
        value = value_of(kept, min(1, rules.transaction_version))
        actual = read_record(Record(0, 0, key_of(ID), value))
        assert actual is not None
        txn = actual[1]
    budget = world.budget._replace(crashes=world.budget.crashes - 1)
    logs = world.logs[0]._replace(sealed=frozenset()), world.logs[1]._replace(sealed=frozenset())
    clients = tuple(client._replace(enlisting=None, acking=False) for client in world.clients)
    world = world._replace(
        clients=clients, txn=txn, durable=kept, delayed=None, work=(), requests=None, budget=budget, logs=logs
    )
    if rules.power:
        world = blank(world)
    if txn is not None and txn.is_recovered:
        world = sealed(world, txn)
    if txn is not None and txn.phase in PREPARED:
        world = world._replace(work=(WriteMarkers(txn),), requests=(-1, TimeOut()))
        while rules.power and world.work and not waits(world):  # Markers are written before requests are accepted.
            ((_, world),) = perform(rules, world)
    return world


# --- which client owns the id, according to the replies


def pair_of(request: Request | VerifyAll) -> Pair:
    """Producer id and epoch of the request."""
    if isinstance(request, InitProducerId | AddPartitions | Verify | EndTxn):
        return request.producer_id, request.producer_epoch
    return NO_PAIR


def noted(world: World, at: int, request: Request, reply: Reply) -> World:
    """Record what the reply promises and which producers it fences."""
    asker, pair, before = (
        pair_of(request),
        (reply.producer_id, reply.producer_epoch),
        max(world.handed, default=NO_PAIR),
    )
    if reply.error:
        if at >= 0 and at == world.owner and not world.contested and reply.error in FENCING:
            return world._replace(broken=f"{name_of(world, at)} is fenced by nobody")
        return world
    if asker in world.fenced and not mixed(world.clients):
        return world._replace(broken=f"{asker} is fenced and succeeds")
    if pair == NO_PAIR:
        return world
    taken_over = isinstance(request, InitProducerId)
    if pair < before or (taken_over and asker == NO_PAIR and pair == before):
        return world._replace(broken=f"{pair} is handed out after {before}")
    if taken_over:
        owner, contested = (at, False) if at >= 0 else (world.owner, True)
        world = world._replace(fenced=world.fenced | (world.handed - {asker, pair}), owner=owner, contested=contested)
    return world._replace(handed=world.handed | {pair})


# --- all that can happen next


def successors(rules: Rules, world: World) -> Iterator[tuple[str, World]]:
    if not rules.power:
        yield from steps(rules, world)
        return
    for label, after in (*steps(rules, world), *syncs(world)):
        yield label, kept_up(after)
    if world.budget.crashes and (world.work or is_unsettled(world)):
        for label, (kept, *logs) in power_cuts(world):
            yield label, kept_up(crashed(rules, world._replace(logs=tuple(logs)), kept))


def steps(rules: Rules, world: World) -> Iterator[tuple[str, World]]:
    budget = world.budget
    if world.work:
        yield from perform(rules, world)
    if budget.crashes and not rules.power and (world.work or world.delayed is not None):
        for kept in {world.durable, world.delayed or world.durable}:
            yield f"crash after {kept.phase.name if kept else 'nothing'}", crashed(rules, world, kept)
    for at, client in enumerate(world.clients):
        if client.step.startswith("write"):
            wrote = write(rules, world, at)
            if wrote is not None:
                after = wrote if isinstance(wrote, World) else ask(rules, world, at, wrote)
                yield f"{client.name} writes {client.deed[1]} to {client.step[-1]}", after
            continue
        if client.step == "batch":
            yield from batch_steps(rules, world, at)
            if not world.work and (question := to_ask(world, at)) is not None:
                yield f"for {client.name} is asked {question}", ask(rules, world, at, question)
            continue
        yield from decides(world, at)
        if not world.work and not (at > 1 and client.step == world.clients[at - 1].step == "off"):
            for request in requests(rules, client):
                yield from sent(rules, world, at, request)
    if not world.work and world.txn is not None:
        yield from interferes(rules, world, world.txn)


def sent(rules: Rules, world: World, at: int, request: Request) -> Iterator[tuple[str, World]]:
    client = world.clients[at]
    if isinstance(request, EndTxn) and request.commit and not client.two_phase:
        world = world._replace(wanted=world.wanted | {client.deed})
    asking = with_client(terminated(rules, world, request), at, waiting=request)
    yield f"{client.name} asks {request}", ask(rules, asking, at, request)
    if world.budget.copies and isinstance(request, EndTxn):
        budget = world.budget._replace(copies=world.budget.copies - 1)
        copied = asking._replace(budget=budget, copy=request)
        yield f"{client.name} asks {request}, and a copy stays on the way", ask(rules, copied, at, request)


def interferes(rules: Rules, world: World, txn: Txn) -> Iterator[tuple[str, World]]:
    """Time-outs, late copies, admins and returning instances: requests whose reply no client acts on."""
    budget = world.budget
    if budget.time_outs and txn.phase is Phase.ONGOING:
        old = world._replace(
            txn=with_fields(txn, started_at_ms=LONG_AGO), budget=budget._replace(time_outs=budget.time_outs - 1)
        )
        after = ask(rules, old, -1, TimeOut())
        # A remembered time-out fences no producer (KIP-588).
        contested = world.contested or (bool(after.work) and not rules.remembers_time_outs)
        yield "time-out", after._replace(contested=contested)
    if world.copy is not None:
        yield f"a copy arrives: {world.copy}", ask(rules, world._replace(copy=None), -1, world.copy)
    if budget.forced:
        spent = world._replace(budget=budget._replace(forced=budget.forced - 1))
        yield "an admin terminates it", ask(rules, terminated(rules, spent, ADMIN), -1, ADMIN)
    if budget.returns:
        spent = world._replace(budget=budget._replace(returns=budget.returns - 1))
        for client in world.clients:
            for request in returns(client):
                yield (
                    f"{client.name} returns with {request}",
                    ask(rules, terminated(rules, spent, request), -1, request),
                )


def terminated(rules: Rules, world: World, request: Request) -> World:
    """InitProducerId without KeepPreparedTxn aborts the open transaction, as in Kafka also from a fenced instance.

    A fenced instance cannot abort a recovered or two-phase transaction: only its owner or an admin can.
    """
    if not isinstance(request, InitProducerId) or request.keep_prepared or world.txn is None:
        return world
    if pair_of(request) in world.fenced and (world.txn.is_recovered or world.txn.timeout_ms == TIMEOUT_NONE):
        return world
    return world._replace(forced=world.forced | still_open(world))


# --- promises


def check(rules: Rules, world: World) -> None:
    if world.broken:
        raise Broken(world.broken)
    ended, left_open = outcomes(world), still_open(world)
    for deed, commit in ended:
        if (deed, not commit) in ended:
            raise Broken(f"{deed} is both committed and aborted")
        if commit and deed not in world.wanted:
            raise Broken(f"{deed} is committed, which nobody asked for")
        if commit and deed in world.aborted:
            raise Broken(f"{deed} is committed, which was told to be aborted or refused")
        if not commit and deed in world.committed:
            raise Broken(f"{deed} is aborted, which was told to be committed")
    for deed in world.committed & left_open:
        raise Broken(f"{deed} is told to be committed, and open in a partition")
    for deed in world.committed:
        if not all((deed, COMMIT) in log.outcomes for log in world.logs):
            raise Broken(f"{deed} is told to be committed, and is not there")
    for each, other in combinations(world.clients, 2):
        if each.pair == other.pair != NO_PAIR and not {"off", "dead", "done"} & {each.step, other.step}:
            raise Broken(f"two producers go on as {each.pair}")
    for log in world.logs:
        if log.open and any(log.takes(pair) for pair in world.fenced):
            raise Broken("a record of a fenced producer is taken into an open transaction")
    for deed, pair in world.prepared:
        _check_prepared(world, deed, pair)
    if not world.work:
        for deed, commit in ended:
            if deed in left_open:
                raise Broken(f"{deed} is {'committed' if commit else 'aborted'} in one partition and open in the other")
        if world.txn is not None:
            wrong = refused(rules, world.txn, world.fenced, *versions_of(world)) or stuck(
                rules, world.txn, world.logs, any(client.two_phase for client in world.clients)
            )
            if wrong:
                raise Broken(wrong)


def _check_prepared(world: World, deed: Deed, pair: Pair) -> None:
    """KIP-939: a prepared transaction stays until it ends as its database decided, or until an admin aborts it."""
    actual = {commit for each, commit in outcomes(world) if each == deed}
    for commit in actual:
        if (pair, commit) not in world.store and (commit or deed not in world.forced):
            raise Broken(f"{deed} was prepared, and {'committed' if commit else 'aborted'} against its database")
    if actual or world.work or deed in world.forced:
        return
    there = all(deed in dict(log.open).get(pair[0], ()) for log in world.logs)
    txn = world.txn
    if not there or txn is None or txn.phase is not Phase.ONGOING or txn.partitions != frozenset(PARTITIONS):
        raise Broken(f"{deed} was prepared, and is lost")


def versions_of(world: World) -> tuple[int, ...]:
    """EndTxn client versions of this world's fenced producers; empty if their EndTxn cannot be distinguished from a retry."""
    return () if mixed(world.clients) else (2 if world.clients[0].version == 2 else 0,)


@cache
def refused(rules: Rules, txn: Txn, fenced: frozenset[Pair], *versions: int) -> str:
    """Which request succeeds although it must fail: any request of a fenced producer, new records of a recovered
    transaction, or a time-out of a two-phase transaction. Empty if none does."""
    at = rules.context(World((), Budget(), spare=1_000))
    for pair in fenced:
        sent: list[Request] = [AddPartitions(*pair, frozenset(PARTITIONS), version) for version in (0, 2)]
        sent += [Verify(*pair, partition) for partition in PARTITIONS]
        sent += [InitProducerId(TIMEOUT_NONE, *pair, keep_prepared=keep) for keep in (True, False)]
        sent += [EndTxn(*pair, commit, version) for version in versions for commit in (COMMIT, ABORT)]
        for request in sent:
            last = machine.decide(txn, request, at).effects[-1]
            # As in Kafka, InitProducerId of a fenced producer aborts the open transaction before it fails (KIP-360).
            aborts = isinstance(last, Redecide) and not txn.is_recovered
            if not aborts and not (isinstance(last, Reply) and last.error):
                return f"{pair} is fenced and succeeds with {request}"
    if txn.is_recovered and txn.phase is Phase.ONGOING:
        grows: list[Request] = [AddPartitions(*txn.client_pair, frozenset({each}), 2) for each in PARTITIONS]
        for request in (*grows, Verify(*txn.client_pair, PARTITIONS[0])):
            if not machine.decide(txn, request, at).effects[-1].error:  # type: ignore[union-attr]
                return "a transaction that was kept takes more records"
    if txn.timeout_ms == TIMEOUT_NONE:
        aged = with_fields(txn, started_at_ms=LONG_AGO)
        if machine.decide(aged, TimeOut(), at).effects:
            return "a two-phase transaction is timed out"
    return ""


@cache
def stuck(rules: Rules, txn: Txn, logs: tuple[Log, Log], two_phase: bool) -> str:
    """Why a new instance cannot get the id without an open transaction, or cannot recover a prepared one; else empty."""
    world = probed(rules, txn, logs, InitProducerId(60_000))
    if world.clients[0].pair == NO_PAIR:
        return "a new instance does not get the id"
    if still_open(world):
        return "a transaction stays open for ever"
    if two_phase:
        return _not_found(rules, txn, logs)
    return ""


def _not_found(rules: Rules, txn: Txn, logs: tuple[Log, Log]) -> str:
    """Why a new instance cannot recover the prepared transaction under its original producer id and epoch and commit it."""
    world = probed(rules, txn, logs, InitProducerId(TIMEOUT_NONE, keep_prepared=True))
    new, before = world.clients[0], still_open(world)
    if new.pair == NO_PAIR:
        return "a new instance cannot keep what was prepared"
    pairs = {(each, dict(log.epochs)[each]) for log in world.logs for each, deeds in log.open if deeds}
    if new.ending == NO_PAIR:
        return "what was prepared is not found" if pairs else ""
    if not pairs <= {new.ending}:
        return f"what was prepared as {pairs} is found as {new.ending}"
    assert world.txn is not None
    for client_version in {0, rules.transaction_version}:
        request = EndTxn(*new.pair, COMMIT, client_version)
        after = probed(rules, world.txn, world.logs, request, new)
        if still_open(after) or not {(deed, COMMIT) for deed in before} <= outcomes(after):
            return "what was prepared cannot be committed"
    return ""


def probed(rules: Rules, txn: Txn, logs: tuple[Log, Log], request: Request, client: Client | None = None) -> World:
    rules = replace(rules, power=False)
    clients = (client or Client("new", 1), Client("other", 1, step="dead"))
    world = World(clients, Budget(0, 0, 0), logs, txn, txn, spare=1_000)
    world = ask(rules, world, 0, request)
    while world.work:
        ((_, world),) = perform(rules, world)
    return world


class Exploration(NamedTuple):
    states: int
    depth: int
    steps: int
    broken: str = ""
    path: tuple[str, ...] = ()


def explore(
    rules: Rules, clients: tuple[Client, ...], budget: Budget | None = None, states_max: int = 1_000_000
) -> Exploration:
    """Visit every state. Stop at the first broken invariant and return the shortest path to it."""
    _forget()
    gc.disable()  # States contain no reference cycles, and searching them for cycles takes half of the time.
    try:
        return _explore(rules, clients, budget or Budget(), states_max)
    finally:
        gc.enable()
        _forget()


def _forget() -> None:
    for function in (stuck, refused, mixed):
        function.cache_clear()


def _explore(rules: Rules, clients: tuple[Client, ...], budget: Budget, states_max: int) -> Exploration:
    first = World(clients, budget)
    if rules.power:
        first = blank(first)
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
                    return Exploration(len(came_from), depth + 1, steps, str(broken), _path(came_from, after))
                following.append(after)
        assert len(came_from) <= states_max, f"more than {states_max} states"
        front, depth = following, depth + bool(following)
    return Exploration(len(came_from), depth, steps)


def _path(came_from: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    path = []
    before = came_from[world]
    while before is not None:
        path.append(before[1])
        before = came_from[before[0]]
    return tuple(reversed(path))
