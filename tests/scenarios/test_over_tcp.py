"""The scenarios of tests/coordinator/scenarios over TCP, against our broker and, where possible, Apache Kafka."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.scenarios.kafka_hand import Heard
from tests.scenarios.our_hand import Loop, OurHand
from tests.scenarios.player import Player
from tests.scenarios.script import Script, read_script, with_page

FOLDER = Path(__file__).parents[1] / "coordinator" / "scenarios"
SCRIPTS = [read_script(path) for path in sorted(FOLDER.glob("*.txt"))]
FOR_KAFKA = [script for script in SCRIPTS if not script.not_for_kafka]
WRONG_MESSAGES = """\
# The last line is not what happens.
cluster tv=2
init payments
add payments tv2 id=1000 epoch=0 orders-0
end payments tv2 id=1000 epoch=0 commit
----
append EMPTY id=1000 epoch=0
reply NONE id=1000 epoch=0
append ONGOING id=1000 epoch=0 orders-0
reply NONE
append PREPARE_COMMIT id=1000 epoch=1 last=0 orders-0
markers commit id=1000 epoch=1 orders-0
append COMPLETE_COMMIT id=1000 epoch=1 last=0
reply NONE id=1000 epoch=0
"""


def heard_from_us(script: Script, loop: Loop, folder: Path) -> list[str]:
    with OurHand(loop, folder, script) as hand:
        player = Player(script, hand, script.name.replace("_", "-"))
        for _ in player.play():
            hand.restart()
    return player.page


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_broker_reproduces_the_scenario(
    script: Script, loop: Loop, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    heard = heard_from_us(script, loop, tmp_path)
    if request.config.getoption("--rewrite-scenarios", default=False) and "the wire" in script.only:
        script.path.write_text(with_page(script.path.read_text(encoding="utf-8"), heard), encoding="utf-8")
    else:
        assert heard == script.page()


@pytest.mark.parametrize("script", FOR_KAFKA, ids=lambda script: script.name)
def test_kafka_reproduces_the_scenario(script: Script, kafka: Future[Heard]) -> None:
    heard = kafka.result()[script.name]
    if isinstance(heard, Exception):
        raise heard
    assert heard == script.page(of_kafka=True)


def test_a_scenario_with_a_wrong_reply_is_detected(loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text(WRONG_MESSAGES, encoding="utf-8")
    script = read_script(path)
    wrong = script.page()

    heard = heard_from_us(script, loop, tmp_path / "data")

    assert [(said, meant) for said, meant in zip(heard, wrong, strict=True) if said != meant] == [
        ("reply NONE id=1000 epoch=1", "reply NONE id=1000 epoch=0")
    ]


def test_every_scenario_not_for_kafka_states_the_reason() -> None:
    assert [script.name for script in SCRIPTS if script not in FOR_KAFKA and len(script.not_for_kafka) < 10] == []
