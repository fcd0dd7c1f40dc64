"""Data from clients cannot put terminal control sequences into the text log, nor fill the disk with log lines."""

from __future__ import annotations

import io
import json
import sys

import pytest

from stuntbroker.broker.observation.events import LINES_PER_WINDOW, WINDOW_MS, Events
from tests.kit.rig import START_MS, ManualClock

HOSTILE = "\x1b[2J\r\nready kafka=evil \x07\x9b31m\u202e"


@pytest.mark.parametrize("form", ["text", "json"])
def test_control_characters_of_names_are_escaped(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    Events(form=form).warning("producer_fenced", transactional_id=HOSTILE, nested=[HOSTILE])
    line = capsys.readouterr().err
    assert line.endswith("\n") and line[:-1].isprintable()
    if form == "json":
        assert json.loads(line)["transactional_id"] == HOSTILE
    else:
        assert r"\x1b[2J\r\nready kafka=evil \x07\x9b31m\u202e" in line


def test_a_traceback_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as fault:
        Events().error("request_crashed", exc_info=fault)
    err = capsys.readouterr().err
    assert err.count("\n") > 3 and "\x1b" not in err and "\r" not in err


def test_too_frequent_events_are_suppressed_and_counted_and_other_events_are_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = ManualClock(START_MS)
    events = Events(clock=clock)
    for _ in range(LINES_PER_WINDOW + 7):
        events.warning("frame_refused", size=1)
    events.warning("group_state_changed")
    events.log_suppressed()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == LINES_PER_WINDOW + 1

    clock.ms += WINDOW_MS
    events.log_suppressed()
    events.log_suppressed()
    [line] = capsys.readouterr().err.splitlines()
    assert "events_suppressed" in line and "left_out=frame_refused" in line and "count=7" in line

    for _ in range(LINES_PER_WINDOW + 1):
        events.warning("frame_refused", size=1)
    clock.ms += WINDOW_MS
    events.warning("frame_refused", size=2)
    assert [line for line in capsys.readouterr().err.splitlines() if "events_suppressed" in line and "count=1" in line]


def test_a_failed_write_of_an_event_raises_nothing_and_lost_events_are_counted_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Disk(io.StringIO):
        is_full = True

        def flush(self) -> None:
            if self.is_full:
                raise OSError(28, "No space left on device")

    disk = Disk()
    monkeypatch.setattr(sys, "stderr", disk)
    events = Events()
    events.info("topic_created", topic="a")
    events.info("topic_created", topic="b")
    disk.is_full = False
    disk.truncate(0)
    events.info("topic_created", topic="c")
    events.info("topic_created", topic="d")

    assert ["events_lost" in line for line in disk.getvalue().splitlines()] == [True, False, False]
    assert "count=2" in disk.getvalue()
