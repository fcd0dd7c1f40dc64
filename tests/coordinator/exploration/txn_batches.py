"""A Produce request with one batch for each of the two partitions, as the broker handles it.

The coordinator is not asked about partitions where the transaction is already open, or where the producer epoch is stale.
The other partitions are added to the transaction (KIP-890) or verified. If an open transaction ended or was sealed
meanwhile, the broker asks the coordinator about the whole request again. Accepted batches are written together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from txn_world import PARTITIONS, Enlisting, Rules, World, recorded, with_client

from stuntbroker.coordinator.requests import AddPartitions
from stuntbroker.protocol.errors import ErrorCode

BOTH = (0, 1)
TRY_AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS,)
STALE, RETRY, ERROR = "stale", "again", "error"


class VerifyAll(NamedTuple):
    """One Verify request per partition, in this order."""

    producer_id: int
    producer_epoch: int
    partitions: tuple[int, ...]


class Verified(NamedTuple):
    """Partition -> error."""

    errors: tuple[tuple[int, int], ...]


def batch_steps(rules: Rules, world: World, at: int) -> Iterator[tuple[str, World]]:
    """The broker receives the client's Produce request."""
    client = world.clients[at]
    if client.enlisting is not None:
        return
    left = client.left or BOTH
    stale = [index for index in left if is_stale(world, at, index)]
    to_add = tuple(index for index in left if index not in stale and not world.logs[index].takes(client.pair))
    bad = tuple((index, STALE) for index in stale)
    label = f"{client.name} sends {client.deed[1]} to {left}"
    if to_add:
        yield label, with_client(world, at, left=left, enlisting=Enlisting(to_add, bad))
    else:
        yield label, write_batch(rules, with_client(world, at, left=left), at, bad)


def to_ask(world: World, at: int) -> AddPartitions | VerifyAll | None:
    """The request to the coordinator for the Produce request that waits; None if nothing waits."""
    client = world.clients[at]
    if client.enlisting is None or client.acking:
        return None
    to_add = client.enlisting.to_add
    if client.version == 2:
        return AddPartitions(*client.pair, announced(to_add), 2)
    return VerifyAll(*client.pair, to_add)


def announced(to_add: tuple[int, ...]) -> frozenset[Any]:
    return frozenset(PARTITIONS[index] for index in to_add)


def is_stale(world: World, at: int, index: int) -> bool:
    producer_id, epoch = world.clients[at].pair
    return epoch < dict(world.logs[index].epochs).get(producer_id, -1)


def heard(rules: Rules, world: World, at: int, errors: dict[int, int]) -> World:
    """Handle the coordinator's errors by partition index."""
    client = world.clients[at]
    request = client.enlisting
    assert request is not None
    bad = request.bad + tuple(
        (index, RETRY if error in TRY_AGAIN else ERROR) for index, error in errors.items() if error
    )
    good = [index for index in client.left if index not in dict(bad)]
    if has_lapsed(world, at, [index for index in good if index not in request.to_add]):
        return with_client(world, at, enlisting=Enlisting(tuple(good), bad))
    return write_batch(rules, world, at, bad)


def has_lapsed(world: World, at: int, others: list[int]) -> bool:
    """Whether a transaction that was open when the request came has ended, or rejects new records."""
    return not all(world.logs[index].takes(world.clients[at].pair) for index in others)


def write_batch(rules: Rules, world: World, at: int, bad: tuple[tuple[int, str], ...]) -> World:
    client = world.clients[at]
    good = [index for index in client.left if index not in dict(bad)]
    for index in good:
        if is_stale(world, at, index):
            bad = (*bad, (index, STALE))
        else:
            world = recorded(world, at, index)
    if rules.power and len(bad) < len(client.left):
        return with_client(world, at, acking=True, enlisting=Enlisting((), bad))
    return settled(world, at, bad)


def settled(world: World, at: int, bad: tuple[tuple[int, str], ...]) -> World:
    """The client gets the Produce response. It sends the batches with a retriable error again."""
    client, kinds = world.clients[at], {kind for _, kind in bad}
    restarted = tuple(sorted(index for index, kind in bad if kind == RETRY))
    world = with_client(world, at, acking=False, enlisting=None, left=restarted if kinds == {RETRY} else ())
    if STALE in kinds:
        return gives_up(world, at)
    if ERROR in kinds:
        return with_client(world, at, step="abort" if client.version == 2 else "dead")
    return world if restarted else wrote_all(world, at)


def gives_up(world: World, at: int) -> World:
    """The partition has a newer epoch, perhaps from a time-out. TV2 aborts (KIP-890), TV1 bumps its epoch (KIP-360)."""
    return with_client(world, at, step="abort" if world.clients[at].version == 2 else "bump")


def wrote_all(world: World, at: int) -> World:
    """Every record of the transaction was acknowledged."""
    client = world.clients[at]
    if not client.two_phase:
        return with_client(world, at, step="end")
    world = world._replace(prepared=world.prepared | {(client.deed, client.pair)})
    return with_client(world, at, step="prepared", ending=client.pair)


def acknowledged(world: World, at: int) -> World:
    """The client gets the response to a Produce request with one batch."""
    client = world.clients[at]
    if client.step == "write 1":
        return wrote_all(world, at)
    return with_client(world, at, step="batch" if client.batches else "write 1")
