"""Stories of one transactional id, each a page of text; `make scenarios` rewrites them, and the diff is reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest
from txn_scenarios import RULE, replay

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    written = path.read_text(encoding="utf-8")
    played = replay(written)
    if request.config.getoption("--rewrite-scenarios", default=False):
        path.write_text(played, encoding="utf-8")
    else:
        assert played.splitlines() == written.splitlines()


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_says_what_it_is_about_and_what_comes_of_every_block(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text.startswith("# ")
    assert [block for block in text.strip().split("\n\n") if f"\n{RULE}\n" not in block] == []


def test_there_is_a_scenario_for_every_story() -> None:
    assert len(SCENARIOS) >= 15


def test_a_scenario_that_is_not_what_happens_is_told_from_one_that_is() -> None:
    told = "cluster tv=2\ninit payments\n----\nappend EMPTY id=1000 epoch=0\nreply NONE id=1000 epoch=0\n"

    assert replay(told) == told
    assert replay(told.replace("reply NONE", "reply PRODUCER_FENCED")) == told


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(ValueError, match="no such command: commit payments"):
        replay("commit payments\n----\n")
