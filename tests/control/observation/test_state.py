"""State of a group in the API: committed offsets, and pending offsets of open transactions."""

from __future__ import annotations

from pathlib import Path

from stuntbroker.control.observation import state
from tests.kit.groups.group_requests import GROUP, commit, commit_in_txn, end, init, pair
from tests.kit.rig import running_rig
from tests.kit.valid_requests import TOPIC


async def test_offsets_of_a_group_are_committed_or_staged_until_their_transaction_ends(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        rig.topic(TOPIC, 2)
        client = rig.client()
        assert not commit(client, 5, index=0)
        owner = pair(init(client, "pay"))
        assert not commit_in_txn(client, "pay", owner, 7, index=0)
        place = {"topic": TOPIC, "partition": 0}
        shown = state.group(rig.broker, GROUP)
        assert shown is not None
        assert shown["offsets"] == [{**place, "offset": 5}]
        assert shown["staged_offsets"] == [{**place, "offset": 7, "producer_id": owner[0]}]
        assert not end(client, "pay", owner).error_code
        shown = state.group(rig.broker, GROUP)
        assert shown is not None
        assert (shown["offsets"], shown["staged_offsets"]) == ([{**place, "offset": 7}], [])
