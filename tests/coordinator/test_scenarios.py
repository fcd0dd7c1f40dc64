"""Scenarios of one transactional id, one text file each. `make scenarios` rewrites the files; review the diff."""

from __future__ import annotations

from pathlib import Path

import pytest
import txn_scenarios
from all_tables import TABLES
from txn_scenarios import RULE, replay

from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.requests import AddPartitions, Context, Decision, EndTxn, InitProducerId, Reply, Request
from stuntbroker.coordinator.state import Phase, Txn

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
OF_THE_CORE = [path for path in SCENARIOS if "\nonly the wire: " not in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", OF_THE_CORE, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    written = path.read_text(encoding="utf-8")
    played = replay(written)
    if request.config.getoption("--rewrite-scenarios", default=False):
        path.write_text(played, encoding="utf-8")
    else:
        assert played.splitlines() == written.splitlines()


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_has_a_heading_and_an_outcome_for_every_block(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text.startswith("# ")
    assert [block for block in text.strip().split("\n\n") if f"\n{RULE}\n" not in block] == []


Outcome = tuple[Phase, str, tuple[str, ...], int | None]
"""(phase before the request, request, types of the effects, error of the reply)."""


def outcome(txn: Txn, request: Request, decision: Decision) -> Outcome:
    match request:
        case InitProducerId():
            sent = f"init {'keep' if request.keep_prepared else 'pair' if request.producer_epoch != -1 else 'new'}"
        case AddPartitions():
            sent = f"add v{request.client_version}"
        case EndTxn():
            sent = f"end v{request.client_version} {'commit' if request.commit else 'abort'}"
        case _:
            sent = type(request).__name__
    effects = tuple(type(effect).__name__ for effect in decision.effects)
    return txn.phase, sent, effects, next((e.error for e in decision.effects if isinstance(e, Reply)), None)


def test_every_outcome_of_the_decision_tables_occurs_in_a_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: set[Outcome] = set()

    def decide_and_note(txn: Txn, request: Request, at: Context) -> Decision:
        decision = decide(txn, request, at)
        messages.add(outcome(txn, request, decision))
        return decision

    monkeypatch.setattr(txn_scenarios, "decide", decide_and_note)
    for path in OF_THE_CORE:
        replay(path.read_text(encoding="utf-8"))
    stated = {
        outcome(*sent[:2], decide(*sent))
        for table in TABLES
        for sent in (table.ask(*cell) for cell in table.all_cells())
    }

    assert stated - messages == set()


def test_a_wrong_scenario_is_detected() -> None:
    messages = "cluster tv=2\ninit payments\n----\nappend EMPTY id=1000 epoch=0\nreply NONE id=1000 epoch=0\n"

    assert replay(messages) == messages
    assert replay(messages.replace("reply NONE", "reply PRODUCER_FENCED")) == messages


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(ValueError, match="no such command: commit payments"):
        replay("commit payments\n----\n")
