"""`stuntbroker txn` without a broker: parsing of the command line, and tables."""

from __future__ import annotations

import pytest

from stuntbroker.cli.commands import txn
from stuntbroker.cli.main import run
from stuntbroker.cli.tables import instant, shown, table
from stuntbroker.client.commands.admin import Description, Listing

NOW_MS = 1_700_000_000_000

WRONG = {
    "no command": ("", "txn: a command is missing; there are list, describe, abort, force-terminate, find-hanging"),
    "unknown command": ("commit", "no command 'commit'"),
    "unknown option": ("list --stat Empty", "unknown option '--stat'; do you mean --state? There are"),
    "a flag with a value": ("list --json=yes", "--json takes no value"),
    "a state that there is not": ("list --state Open", "Ongoing"),
    "a producer id that is no number": ("list --producer-id one", "--producer-id 'one'"),
    "a producer id without end": (f"list --producer-id {'1' * 5_000}", "a whole number from 0"),
    "a duration that is negative": ("list --running-longer-than-ms -1", "a whole number from 0"),
    "two durations": ("list --running-longer-than-ms 1 --running-longer-than-ms 2", "was given 2 times"),
    "nothing to describe": ("describe", "needs --transactional-id"),
    "an empty id": ("describe --transactional-id=", "1 to 32767 bytes"),
    "an id that is too long": (f"describe --transactional-id {'x' * 32_768}", "1 to 32767 bytes"),
    "an id that is no UTF-8": ("describe --transactional-id \udcff", "no UTF-8"),
    "an abort without a topic": ("abort --partition 0 --start-offset 1", "needs --topic and --partition"),
    "an abort without a partition": ("abort --topic t --start-offset 1", "needs --topic and --partition"),
    "an abort of nothing": ("abort --topic t --partition 0", "either --start-offset, or --producer-id"),
    "an abort of both kinds": (
        "abort --topic t --partition 0 --start-offset 1 --producer-id 1",
        "either --start-offset",
    ),
    "an abort of half a producer": ("abort --topic t --partition 0 --producer-id 1 --producer-epoch 1", "needs all of"),
    "an epoch that is too high": ("abort --topic t --partition 0 --producer-epoch 32768", "0 to 32767"),
    "nothing to terminate": ("force-terminate", "needs --transactional-id"),
    "two to terminate": ("force-terminate --transactional-id a --transactional-id b", "was given 2 times"),
    "a partition of no topic": ("find-hanging --partition 1", "--partition needs --topic"),
    "a limit that is no number": ("find-hanging --max-transaction-timeout-ms soon", "'soon'"),
    "an address that is none": ("list --bootstrap here", "--bootstrap: 'here' is not HOST:PORT"),
    "a time-out that is none": ("list --timeout nan", "--timeout 'nan'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_command_line_exits_2_with_one_line_that_names_the_mistake(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line, said = WRONG[what]
    status = run(["txn", *line.split()])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("stuntbroker: ")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("line", ["txn --help", "txn list --help", "txn -h"])
def test_help_names_every_command_and_option(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    from stuntbroker.cli.commands.txn import VERBS

    assert run(line.split()) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for command, (_, options, *_) in VERBS.items():
        for word in (command, *options, "--bootstrap", "--timeout", "--json"):
            assert word in out
    assert run(["--help"]) == 0
    assert "txn" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["list", "find-hanging", "describe --transactional-id x"])
def test_an_unreachable_broker_exits_1_with_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["txn", *command.split(), "--bootstrap", "127.0.0.1:1"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "stuntbroker: cannot connect to 127.0.0.1:1: Connection refused\n"


STATES = {
    # state, start time, duration of the running transaction (None: none is running)
    "open": ("Ongoing", NOW_MS - 7, 7),
    "being committed": ("PrepareCommit", NOW_MS - 7, 7),
    "being aborted": ("PrepareAbort", NOW_MS - 7, 7),
    "committed": ("CompleteCommit", NOW_MS - 7, None),
    "aborted": ("CompleteAbort", NOW_MS - 7, None),
    "never begun": ("Empty", None, None),
    "open, it is not said since when": ("Ongoing", None, None),
}


@pytest.mark.parametrize("what", STATES)
def test_only_a_running_transaction_has_a_duration_and_is_listed_by_it(what: str) -> None:
    """A transaction that ends between ListTransactions and DescribeTransactions is not listed."""
    state, started_at_ms, running_ms = STATES[what]
    described = Description("id", 1, state, 42, 0, 60_000, started_at_ms, (("t", 0),))

    assert txn.document_of(described, NOW_MS)["running_ms"] == running_ms
    listed = txn.running_transactions((Listing("id", 1, 41, "Ongoing"),), {"id": described}, NOW_MS)
    assert len(listed.document["transactions"]) == (running_ms is not None)
    for each in listed.document["transactions"]:
        assert (each["running_ms"], each["state"], each["producer_id"]) == (7, state, 42)
    assert txn.running_transactions((Listing("id", 1, 41, "Ongoing"),), {"id": None}, NOW_MS).document == {
        "transactions": []
    }


def test_a_table_is_aligned_and_a_line_per_row() -> None:
    assert table(("NAME", "N"), [("a", 100), ("longer", 2), ("", 3), ("a\nb", 4)]) == (
        'NAME    N\na       100\nlonger  2\n""      3\na\\nb    4\n'
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        ("zahlung-ü", "zahlung-ü"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\tb", "a\\tb"),
        ("\u202ex", "\\u202ex"),
        ("", '""'),
        ("a b", "a b"),
    ],
)
def test_control_characters_in_names_are_escaped(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    "ms, expected",
    [
        (0, "1970-01-01T00:00:00.000Z"), (1_700_000_000_007, "2023-11-14T22:13:20.007Z"), (None, "-"), (-1, "-"),
        (-2, "-2"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"), (253_402_300_800_000, "253402300800000"),
        (2**63 - 1, "9223372036854775807"),
    ],
)  # fmt: skip
def test_a_timestamp_is_a_date_in_utc_unless_it_is_out_of_range(ms: int | None, expected: str) -> None:
    assert instant(ms) == expected
