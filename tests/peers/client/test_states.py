"""What every call does in every state of a producer without two-phase commit, whatever broker is at the other end."""

from __future__ import annotations

import pytest

from stuntbroker.client import IllegalStateError
from stuntbroker.client.producer.states import OUTCOMES, Call, Outcome, State
from tests.kit.transactions.faulty_wire import FaultyWire
from tests.kit.transactions.producer_states import CALLS, TOPIC, Faults, check_call, producer_brought_into
from tests.peers.aiokafka_steps import create_topic

ONE_CALL = {
    State.INITIALIZING: Call.INIT_TRANSACTIONS,
    State.COMMITTING_TRANSACTION: Call.COMMIT_TRANSACTION,
    State.ABORTING_TRANSACTION: Call.ABORT_TRANSACTION,
}
"""State -> the call that has left the producer there."""


@pytest.mark.parametrize(
    "state", [state for state in State if state is not State.PREPARED_TRANSACTION], ids=lambda state: state.name
)
async def test_a_call_does_in_a_state_what_the_table_says(
    each_bootstrap: str, own: str, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_topic(each_bootstrap, TOPIC)  # Of the first test; later ones find it.
    faults = Faults()
    with FaultyWire(faults.script).installed(monkeypatch):
        for call in Call:
            async with producer_brought_into(
                state,
                each_bootstrap,
                faults,
                ONE_CALL.get(state),
                enable_2pc=False,
                transactional_id=f"{own}-{call.value}",
            ) as producer:
                waits_for_another = OUTCOMES[state, call] is Outcome.WAIT and call is not ONE_CALL[state]
                if waits_for_another or call is Call.PREPARE_TRANSACTION:
                    with pytest.raises(IllegalStateError):
                        await CALLS[call](producer)
                else:
                    await check_call(producer, call)
