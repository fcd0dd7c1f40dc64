"""Records as the console consumer prints them, also those that it cannot print."""

from __future__ import annotations

import sys

import pytest

from stuntbroker.cli.shims.arguments import CommandError
from stuntbroker.cli.shims.record_lines import Formatter, write_line
from stuntbroker.client.commands.reader import Row


def test_a_record_that_cannot_be_shown_is_skipped_if_that_is_wanted(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    formatter = Formatter({"value.deserializer": "LongDeserializer"})
    rows = [Row(0, 0, None, value, ()) for value in (bytes(8), b"short", bytes(7) + b"\x01")]

    for row in rows:
        write_line(formatter, 0, row, False, skips_errors=True)

    sys.stdout.flush()
    printed = capfdbinary.readouterr()
    assert printed.out == b"0\n1\n"
    assert b"skipping this message: Size of data received by LongDeserializer is not 8" in printed.err
    with pytest.raises(CommandError):
        write_line(formatter, 0, rows[1], False, skips_errors=False)
