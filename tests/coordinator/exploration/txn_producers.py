"""The producers of the explored world: which requests they send, and how they react to the responses."""

from __future__ import annotations

from collections.abc import Iterator

from txn_batches import TRY_AGAIN, Verified, VerifyAll, acknowledged, gives_up, heard
from txn_world import (
    ABORT,
    COMMIT,
    NO_PAIR,
    PARTITIONS,
    Client,
    Enlisting,
    Rules,
    World,
    outcomes,
    recorded,
    with_client,
)

from stuntbroker.coordinator.requests import (
    TRANSACTION_TIMED_OUT,
    AddPartitions,
    EndTxn,
    InitProducerId,
    Reply,
    Request,
    Verify,
)
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

TIMEOUT_MS = 60_000
INIT_LATEST = 4


def requests(rules: Rules, client: Client) -> list[Request]:
    """Requests that the client may send now."""
    if client.waiting is not None:
        return [client.waiting]
    timeout_ms = TIMEOUT_NONE if client.two_phase else TIMEOUT_MS
    init_version = INIT_LATEST if rules.remembers_time_outs else -1
    end_version = 2 if client.version == 2 else 0
    match client.step:
        case "off":
            return [InitProducerId(timeout_ms, keep_prepared=client.two_phase, version=init_version)]
        case "add":
            return [AddPartitions(*client.pair, frozenset(PARTITIONS), 0)]
        case "end":
            return [EndTxn(*client.pair, commit, end_version) for commit in (COMMIT, ABORT)]
        case "commit" | "abort":
            return [EndTxn(*client.pair, client.step == "commit", end_version)]
        case "bump":
            return [InitProducerId(timeout_ms, *client.pair, version=init_version)]
    return []


def returns(client: Client) -> list[Request]:
    """InitProducerId with the client's own producer id and epoch, with and without KeepPreparedTxn."""
    if client.pair == NO_PAIR:
        return []
    timeout_ms = TIMEOUT_NONE if client.two_phase else TIMEOUT_MS
    return [InitProducerId(timeout_ms, *client.pair, keep_prepared=keep) for keep in (True, False)]


def decides(world: World, at: int) -> Iterator[tuple[str, World]]:
    """A two-phase producer decides on its prepared transaction in its database, once per transaction (KIP-939)."""
    client = world.clients[at]
    decided = dict(world.store).get(client.ending)
    if client.step == "prepared":
        choices = (COMMIT, ABORT) if decided is None else (decided,)
    elif client.step == "look":
        choices = (ABORT if decided is None else decided,)
    else:
        return
    for commit in choices:
        step = "commit" if commit else "abort"
        deeds = frozenset(deed for deed, pair in world.prepared if pair == client.ending)
        yield (
            f"{client.name} {step}s in its database",
            with_client(
                world._replace(
                    store=world.store | {(client.ending, commit)},
                    wanted=world.wanted | deeds if commit else world.wanted,
                ),
                at,
                step=step,
            ),
        )


def begin(client: Client) -> str:
    return "add" if client.version == 1 else first_write(client)


def first_write(client: Client) -> str:
    return "batch" if client.batches == 1 else "write 0"


def all_in_sequence(rules: Rules, world: World, at: int, reply: Reply) -> World:
    """Start the next transaction, if any, with the producer id and epoch of the reply."""
    client = world.clients[at]
    last = client.number == rules.number_max[at]
    if reply.producer_id >= 0:
        world = with_client(world, at, pair=(reply.producer_id, reply.producer_epoch))
    return with_client(world, at, step="done" if last else begin(client), number=client.number + 1, ending=NO_PAIR)


def write(rules: Rules, world: World, at: int) -> World | Request | None:
    """The world after the next write, or the request that must come before it; None if the coordinator is busy."""
    client = world.clients[at]
    index = int(client.step[-1])
    log = world.logs[index]
    if client.pair[1] < dict(log.epochs).get(client.pair[0], -1):
        return gives_up(world, at)
    if client.acking:
        return None
    if log.takes(client.pair):
        return written(rules, world, at)
    if world.work:
        return None
    if client.version == 2:
        return AddPartitions(*client.pair, frozenset({PARTITIONS[index]}), 2)
    return Verify(*client.pair, PARTITIONS[index])


def written(rules: Rules, world: World, at: int) -> World:
    world = recorded(world, at, int(world.clients[at].step[-1]))
    return with_client(world, at, acking=True) if rules.power else acknowledged(world, at)


def errors_of(request: Enlisting, reply: Reply | Verified) -> dict[int, int]:
    return dict(reply.errors) if isinstance(reply, Verified) else dict.fromkeys(request.to_add, reply.error)


def answer(rules: Rules, world: World, at: int, request: Request | VerifyAll, reply: Reply | Verified) -> World:
    if at < 0:
        return world
    client = world.clients[at]
    if client.enlisting is not None and isinstance(request, AddPartitions | VerifyAll):
        return heard(rules, world, at, errors_of(client.enlisting, reply))
    assert isinstance(reply, Reply)
    error = reply.error
    if error in TRY_AGAIN:
        return world
    world = with_client(world, at, waiting=None)
    match request:
        case InitProducerId() if not error and client.step == "bump":
            return all_in_sequence(rules, world._replace(aborted=world.aborted | {client.deed}), at, reply)
        case InitProducerId() if not error:
            ongoing = reply.ongoing_producer_id, reply.ongoing_producer_epoch
            step = begin(client) if ongoing == NO_PAIR else "look"
            return with_client(world, at, step=step, pair=(reply.producer_id, reply.producer_epoch), ending=ongoing)
        case AddPartitions(client_version=0) if not error:
            return with_client(world, at, step=first_write(client))
        case AddPartitions() | Verify() if not error:
            stored = dict(world.logs[int(client.step[-1])].epochs).get(client.pair[0], -1)
            return written(rules, world, at) if client.pair[1] >= stored else gives_up(world, at)
        case AddPartitions(client_version=2):
            return with_client(world, at, step="abort")
        case EndTxn(commit=commit) if not error:
            return all_in_sequence(rules, ended(world, client, commit), at, reply)
        case EndTxn() if not client.two_phase and not any(
            commit for deed, commit in outcomes(world) if deed == client.deed
        ):
            world = world._replace(aborted=world.aborted | {client.deed})
    if error == TRANSACTION_TIMED_OUT and not isinstance(request, InitProducerId):
        return with_client(world, at, step="bump")
    return with_client(world, at, step="dead")


def ended(world: World, client: Client, commit: bool) -> World:
    """EndTxn succeeded, for the client's own transaction or for a recovered one."""
    deeds = frozenset({client.deed})
    if client.ending != NO_PAIR:
        deeds = frozenset(deed for deed, pair in world.prepared if pair == client.ending)
    if commit:
        return world._replace(committed=world.committed | deeds)
    return world._replace(aborted=world.aborted | deeds)
