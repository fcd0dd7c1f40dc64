"""The leader epochs of a partition: each change of its leader begins a new epoch, with a higher number.

Every batch carries the epoch in which it was appended. As in Kafka, the file `leader-epoch-checkpoint` in the partition's
folder has a version, the number of epochs, and a line `epoch first-offset` for each.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

FIRST_EPOCH: Final = 0
NO_EPOCH: Final = -1


class LeaderEpoch(NamedTuple):
    """One epoch, and the offset at which it begins."""

    epoch: int
    first_offset: int


LeaderEpochs = tuple[LeaderEpoch, ...]
"""In order: epochs and offsets both rise. Never empty."""
FIRST_LEADER: Final[LeaderEpochs] = (LeaderEpoch(FIRST_EPOCH, 0),)
"""Leader epochs of a partition that always had the same leader."""
_epoch = attrgetter("epoch")
_first_offset = attrgetter("first_offset")


def epoch_at(epochs: LeaderEpochs, offset: int) -> int:
    """Return the epoch in which the record at this offset was, or would be, appended."""
    return epochs[max(0, bisect_right(epochs, offset, key=_first_offset) - 1)].epoch


def end_of_epoch(epochs: LeaderEpochs, epoch: int, log_start_offset: int, next_offset: int) -> tuple[int, int]:
    """Return the largest epoch that is not above `epoch`, and its end offset; (-1, -1) for a future epoch.

    The end offset of an epoch before the first one is the log start offset (KIP-320, KIP-279).
    """
    position = bisect_right(epochs, epoch, key=_epoch)
    if epoch == NO_EPOCH or (position == len(epochs) and epochs[-1].epoch != epoch):
        return NO_EPOCH, -1
    if position == len(epochs):
        return epoch, next_offset
    end = max(epochs[position].first_offset, log_start_offset)
    return (epochs[position - 1].epoch if position else epoch), end


def begin_epoch(epochs: LeaderEpochs, epoch: int, offset: int) -> LeaderEpochs:
    """Return the epochs with a new one that begins at this offset; epochs without records are dropped."""
    return (*(each for each in epochs if each.first_offset < offset), LeaderEpoch(epoch, offset))


def from_offset(epochs: LeaderEpochs, start: int) -> LeaderEpochs:
    """Return the epochs that a log needs after its records below offset `start` were deleted."""
    first = max(0, bisect_right(epochs, start, key=_first_offset) - 1)
    return tuple(LeaderEpoch(epoch, max(offset, start)) for epoch, offset in epochs[first:])


def up_to_offset(epochs: LeaderEpochs, end: int) -> LeaderEpochs:
    """Return the epochs of a log that is truncated to the end offset `end`; the last epoch is kept for new appends."""
    return begin_epoch(epochs[:-1], epochs[-1].epoch, min(epochs[-1].first_offset, end))


def as_checkpoint(epochs: LeaderEpochs) -> str:
    """Return the content of the checkpoint file for these epochs."""
    return f"0\n{len(epochs)}\n" + "".join(f"{epoch} {offset}\n" for epoch, offset in epochs)


def read_checkpoint(text: str) -> LeaderEpochs:
    """Return the epochs that a checkpoint lists. Raises ValueError."""
    version, count, *lines, trailer = text.split("\n")
    epochs = tuple(LeaderEpoch(int(epoch), int(offset)) for epoch, offset in (line.split(" ") for line in lines))
    rises = all(before < after and start <= end for (before, start), (after, end) in pairwise(epochs))
    if version != "0" or int(count) != len(epochs) or trailer or not rises or not epochs or min(map(min, epochs)) < 0:
        raise ValueError("it is not a list of ascending leader epochs")
    return epochs
