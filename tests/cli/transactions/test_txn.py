"""`stuntbroker txn` against running brokers, ours and Apache Kafka, with the same expectations."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from producers import Hand, Producer

from stuntbroker.cli.main import run
from stuntbroker.client.errors import BrokerError
from tests.kit.processes.process import run as run_process

# Apache Kafka has to start, and the first run downloads its jars.
pytestmark = pytest.mark.timeout(600)

OLD_MS = 16 * 60_000


class Shell:
    """Runs `txn` commands against one broker."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = bootstrap
        self.capsys = capsys

    def type(self, line: str, status: int = 0) -> str:
        """Run a command; return its standard output, or standard error if the command fails or only reports its action."""
        self.capsys.readouterr()
        actual = run(["txn", *shlex.split(line), "--bootstrap", self.bootstrap])
        out, err = self.capsys.readouterr()
        is_talk = line.startswith(("abort", "force-terminate")) and "--json" not in line
        assert (actual, err if status == 0 and not is_talk else "") == (status, "")
        return err if status or is_talk else out

    def json(self, line: str) -> Any:
        return json.loads(self.type(f"{line} --json"))

    def rows(self, line: str) -> list[list[str]]:
        """Return the cells of the printed table, without its header."""
        return [row.split() for row in self.type(line).splitlines()[1:]]


@pytest.fixture
def shell(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(bootstrap, capsys)


def begun(hand: Hand, transactional_id: str, topic: str, *partitions: int, timeout_ms: int = 60_000) -> Producer:
    """Open a transaction with records in these partitions; return its producer."""
    producer = hand.init(transactional_id, timeout_ms)
    hand.add(producer, topic, *partitions)
    for partition in partitions:
        hand.produce(producer, topic, partition)
    return producer


def hanging(hand: Hand, transactional_id: str | None, topic: str, partition: int) -> tuple[Producer, int]:
    """Write records of a transaction that no coordinator knows; return the producer and the first offset."""
    producer = hand.init(transactional_id)
    return producer, hand.produce(producer, topic, partition, age_ms=OLD_MS)


def test_list_shows_every_id_and_filters_by_state_producer_id_and_pattern(hand: Hand, shell: Shell, own: str) -> None:
    hand.make_topic(own)
    opened = begun(hand, f"{own}open", own, 0)
    ended = begun(hand, f"{own}ended", own, 1)
    hand.end(ended, commit=True)
    empty = hand.init(f"{own}empty")
    pattern = f"--transactional-id '{own}.*'"
    rows = {
        "empty": [empty.transactional_id, "1", str(empty.producer_id), "Empty"],
        "ended": [ended.transactional_id, "1", str(ended.producer_id), "CompleteCommit"],
        "open": [opened.transactional_id, "1", str(opened.producer_id), "Ongoing"],
    }

    # Wait for the markers, which may be written after the response.
    hand.settled(ended)
    assert shell.rows(f"list {pattern}") == [rows["empty"], rows["ended"], rows["open"]]
    assert rows["open"] in shell.rows("list")
    assert shell.rows(f"list {pattern} --state Empty --state Ongoing") == [rows["empty"], rows["open"]]
    assert shell.rows(f"list --producer-id {ended.producer_id}") == [rows["ended"]]
    assert shell.rows(f"list --transactional-id '{own}e.*d'") == [rows["ended"]]
    assert shell.rows("list --transactional-id nothing-of-the-kind") == []
    assert "INVALID_REGULAR_EXPRESSION" in shell.type("list --transactional-id '('", status=1)
    assert shell.json(f"list {pattern} --state Ongoing") == {
        "transactions": [
            {
                "transactional_id": opened.transactional_id, "coordinator_id": hand.node_id,
                "producer_id": opened.producer_id, "state": "Ongoing",
            }
        ]
    }  # fmt: skip


def test_running_longer_lists_only_running_transactions(hand: Hand, shell: Shell, own: str) -> None:
    """KIP-939 asks for running transactions; the broker's filter alone would also include the two other ids."""
    hand.make_topic(own)
    opened = begun(hand, f"{own}open", own, 0)
    ended = begun(hand, f"{own}ended", own, 1)
    hand.end(ended, commit=False)
    hand.settled(ended)
    hand.init(f"{own}empty")
    pattern = f"--transactional-id '{own}.*'"

    hand.until(lambda: shell.rows(f"list {pattern} --running-longer-than-ms 1"))
    ((name, _, _, state, started, running_ms),) = shell.rows(f"list {pattern} --running-longer-than-ms 1")
    assert (name, state) == (opened.transactional_id, "Ongoing")
    assert started.startswith("20") and started.endswith("Z")
    assert int(running_ms) > 0
    (actual,) = shell.json(f"list {pattern} --running-longer-than-ms 1")["transactions"]
    described = shell.json(f"describe --transactional-id {opened.transactional_id}")["transactions"][0]
    assert actual["started_at_ms"] == described["started_at_ms"]
    assert shell.rows(f"list {pattern} --running-longer-than-ms 3600000") == []
    assert shell.rows(f"list {pattern} --running-longer-than-ms 1 --state Empty") == []
    hand.end(opened, commit=True)


def test_describe_shows_transactions_and_fails_for_unknown_transactional_ids(
    hand: Hand, shell: Shell, own: str
) -> None:
    hand.make_topic(own)
    opened = begun(hand, f"{own}open", own, 0, 1, timeout_ms=45_000)
    empty = hand.init(f"{own}empty")

    (row,) = shell.rows(f"describe --transactional-id {opened.transactional_id}")
    assert row[:6] == [opened.transactional_id, "1", "Ongoing", str(opened.producer_id), "0", "45000"]
    assert row[8] == f"{own}-0,{own}-1"
    assert int(row[7]) >= 0

    document = shell.json(
        f"describe --transactional-id {opened.transactional_id} --transactional-id {empty.transactional_id}"
    )
    first, second = document["transactions"]
    assert first["partitions"] == [{"topic": own, "partition": 0}, {"topic": own, "partition": 1}]
    assert first["two_phase"] is False
    assert (second["started_at_ms"], second["running_ms"], second["partitions"]) == (None, None, [])
    said = shell.type(f"describe --transactional-id {empty.transactional_id} --transactional-id {own}nobody", status=1)
    assert said == f"stuntbroker: there is no transactional id '{own}nobody'\n"
    hand.end(opened, commit=False)


def test_commands_printed_by_find_hanging_abort_the_hanging_transactions(hand: Hand, shell: Shell, own: str) -> None:
    hand.make_topic(own, partitions=4)
    opened = begun(hand, f"{own}open", own, 0)
    hand.produce(opened, own, 0, age_ms=OLD_MS, sequence=2)  # Old, but known to the coordinator.
    known, known_offset = hanging(hand, f"{own}known", own, 1)
    unknown, unknown_offset = hanging(hand, None, own, 2)
    young = hand.init(f"{own}young")
    hand.produce(young, own, 3)

    actual = shell.json(f"find-hanging --topic {own}")["hanging"]
    assert [(each["partition"], each["producer_id"], each["start_offset"]) for each in actual] == [
        (1, known.producer_id, known_offset),
        (2, unknown.producer_id, unknown_offset),
    ]
    assert all(each["idle_ms"] >= OLD_MS and each["coordinator_epoch"] == -1 for each in actual)
    for narrower in ("--partition 1", f"--partition 1 --broker-id {hand.node_id}"):
        assert shell.json(f"find-hanging --topic {own} {narrower}")["hanging"][0]["producer_id"] == known.producer_id
    assert (
        len(shell.json(f"find-hanging --topic {own} --max-transaction-timeout-ms {OLD_MS + 3_600_000}")["hanging"]) == 0
    )
    everywhere = [each for each in shell.json("find-hanging")["hanging"] if each["topic"] == own]
    assert [each["producer_id"] for each in everywhere] == [known.producer_id, unknown.producer_id]

    assert hand.last_stable_offset(own, 1) == known_offset
    table = shell.type(f"find-hanging --topic {own}")
    assert table.startswith(
        "open transactions without a new record for 900000 ms or longer (--max-transaction-timeout-ms)\n"
    )
    assert shell.json(f"find-hanging --topic {own} --max-transaction-timeout-ms 7")["max_transaction_timeout_ms"] == 7
    commands = [line.strip() for line in table.splitlines() if "txn abort" in line]
    assert len(commands) == 2
    for command in commands:
        assert shlex.split(command)[:3] == ["stuntbroker", "txn", "abort"]
        assert run(shlex.split(command)[1:]) == 0
    assert shell.type(f"find-hanging --topic {own}") == (
        "no hanging transactions without a new record for 900000 ms or longer (--max-transaction-timeout-ms)\n"
    )
    assert hand.last_stable_offset(own, 1) == known_offset + 3  # Two records and the marker.
    hand.end(opened, commit=True)


def test_abort_shows_the_aborted_producer_or_the_open_transactions_when_none_matches(
    hand: Hand, shell: Shell, own: str
) -> None:
    hand.make_topic(own)
    producer, offset = hanging(hand, f"{own}id", own, 0)
    where = f"abort --topic {own} --partition 0"

    assert f"open transactions start at {offset}" in shell.type(f"{where} --start-offset {offset + 1}", status=1)
    assert shell.json(f"{where} --start-offset {offset}") == {
        "aborted": {
            "topic": own, "partition": 0, "start_offset": offset, "producer_id": producer.producer_id,
            "producer_epoch": 0, "coordinator_epoch": 0,
        }
    }  # fmt: skip
    assert "the partition has no open transaction" in shell.type(f"{where} --start-offset {offset}", status=1)
    restarted = hand.produce(producer, own, 0, age_ms=OLD_MS, sequence=2)
    given = f"--producer-id {producer.producer_id} --producer-epoch 0 --coordinator-epoch"
    assert f"producer {producer.producer_id}, epoch 0, coordinator epoch 0" in shell.type(f"{where} {given} -1")
    assert hand.last_stable_offset(own, 0) == restarted + 3
    assert shell.type(f"{where} {given} 9") != ""
    assert "TRANSACTION_COORDINATOR_FENCED" in shell.type(f"{where} {given} 2", status=1)
    assert "no topic 'nowhere'" in shell.type("abort --topic nowhere --partition 0 --start-offset 0", status=1)
    assert "has no partition 9" in shell.type(f"abort --topic {own} --partition 9 --start-offset 0", status=1)


def test_force_terminate_aborts_and_fences_and_creates_no_id(hand: Hand, shell: Shell, own: str) -> None:
    hand.make_topic(own)
    opened = begun(hand, f"{own}open", own, 0, 1)
    before = hand.last_stable_offset(own, 0)

    said = shell.type(f"force-terminate --transactional-id {opened.transactional_id}")
    assert said.startswith(f"aborted the transaction of {opened.transactional_id} since 20")
    assert said.endswith(f"in {own}-0,{own}-1; producer {opened.producer_id}, epoch 0, is fenced\n")
    assert hand.last_stable_offset(own, 0) == before + 3
    with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
        hand.end(opened, commit=True)

    document = shell.json(f"force-terminate --transactional-id {opened.transactional_id}")
    assert (document["aborted"], document["before"]["state"]) == (False, "Empty")
    assert "had no open transaction (Empty)" in shell.type(
        f"force-terminate --transactional-id {opened.transactional_id}"
    )
    said = shell.type(f"force-terminate --transactional-id {own}typo", status=1)
    assert said == f"stuntbroker: there is no transactional id '{own}typo'; nothing was done\n"
    assert shell.rows(f"list --transactional-id {own}typo") == []


def test_a_two_phase_transaction_is_shown_without_a_time_out_and_can_be_terminated(
    hand: Hand, shell: Shell, own: str
) -> None:
    """KIP-939. Apache Kafka serves InitProducerId v6 only with unstable API versions enabled."""
    if not hand.has_two_phase():
        pytest.skip("this broker does not serve InitProducerId v6")
    hand.make_topic(own)
    producer = hand.init_two_phase(f"{own}id")
    hand.add(producer, own, 0)
    hand.produce(producer, own, 0)

    assert "none (two-phase)" in shell.type(f"describe --transactional-id {own}id")
    (actual,) = shell.json(f"describe --transactional-id {own}id")["transactions"]
    assert (actual["two_phase"], actual["timeout_ms"]) == (True, 2**31 - 1)
    said = shell.type(f"force-terminate --transactional-id {own}id")
    assert said.startswith(f"aborted the two-phase transaction of {own}id since 20")
    (actual,) = shell.json(f"describe --transactional-id {own}id")["transactions"]
    assert (actual["two_phase"], actual["state"], actual["timeout_ms"]) == (False, "Empty", 1)


def test_txn_list_prints_one_document_and_exits_0_as_a_process(ours: str) -> None:
    done = run_process("txn", "list", "--json", "--bootstrap", ours)
    assert (done.returncode, done.stderr) == (0, "")
    assert "transactions" in json.loads(done.stdout)
