"""The leader epochs of a partition: the epoch of an offset, the end of an epoch, and the checkpoint file."""

from __future__ import annotations

import pytest

from stuntbroker.storage.leader_epochs import (
    FIRST_LEADER,
    LeaderEpoch,
    LeaderEpochs,
    as_checkpoint,
    begin_epoch,
    end_of_epoch,
    epoch_at,
    from_offset,
    read_checkpoint,
)

EPOCHS: LeaderEpochs = (LeaderEpoch(0, 0), LeaderEpoch(2, 10), LeaderEpoch(5, 20))
NEXT = 30


@pytest.mark.parametrize("offset, epoch", [(0, 0), (9, 0), (10, 2), (19, 2), (20, 5), (29, 5), (30, 5)])
def test_a_record_has_the_leader_epoch_in_which_its_offset_was_assigned(offset: int, epoch: int) -> None:
    assert epoch_at(EPOCHS, offset) == epoch


@pytest.mark.parametrize(
    "epoch, end",
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (0, 10)),
        (2, (2, 20)),
        (4, (2, 20)),
        (5, (5, NEXT)),
        (6, (-1, -1)),
        (-2, (-2, 3)),
    ],
)
def test_an_epoch_ends_where_the_next_one_that_is_known_begins(epoch: int, end: tuple[int, int]) -> None:
    epochs = (LeaderEpoch(0, 3), *EPOCHS[1:])

    assert end_of_epoch(epochs, epoch, 0, NEXT) == end


def test_an_epoch_that_lies_below_the_log_start_ends_there() -> None:
    assert end_of_epoch(EPOCHS, 0, 15, NEXT) == (0, 15)


def test_an_epoch_in_which_nothing_was_appended_is_forgotten() -> None:
    assert begin_epoch(EPOCHS, 6, 20) == ((0, 0), (2, 10), (6, 20))
    assert begin_epoch(FIRST_LEADER, 1, 0) == ((1, 0),)


def test_leader_epochs_below_the_first_batch_are_forgotten() -> None:
    assert from_offset(EPOCHS, 12) == ((2, 12), (5, 20))
    assert from_offset(EPOCHS, 0) == EPOCHS


def test_a_checkpoint_is_as_kafka_writes_it() -> None:
    assert as_checkpoint(EPOCHS) == "0\n3\n0 0\n2 10\n5 20\n"
    assert read_checkpoint(as_checkpoint(EPOCHS)) == EPOCHS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n",
        "1\n1\n0 0\n",
        "0\n2\n0 0\n",
        "0\n1\nx 0\n",
        "0\n1\n0\n",
        "0\n2\n1 0\n0 5\n",
        "0\n2\n0 5\n1 0\n",
        "0\n0\n",
        "0\n2\n0 0\n1 12",  # Cut from an offset with more digits.
        "0\n1\n0 0\n\n",
    ],
)
def test_an_invalid_leader_epoch_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_checkpoint(text)
