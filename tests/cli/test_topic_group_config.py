"""`stuntbroker topic`, `group`, `config`, `produce` and `consume` against our broker and against Apache Kafka."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from stuntbroker.cli.main import run
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.producing import NewRecord, produce
from stuntbroker.client.commands.reader import Tail
from stuntbroker.client.commands.topics import create_topic, delete_topic
from stuntbroker.protocol.addresses import parse_bootstrap
from tests.kit.processes.process import until

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def call(bootstrap: str, capsys: Capture) -> Any:
    """Return a function that runs a command and returns (exit status, standard output, standard error)."""

    def called(*words: str) -> tuple[int, str, str]:
        status = run([*words, "--bootstrap", bootstrap])
        return status, *capsys.readouterr()

    return called


def answer(result: tuple[int, str, str]) -> Any:
    """Return the JSON output of a command, which must have succeeded."""
    status, out, err = result
    assert status == 0, err
    return json.loads(out)


def values(result: tuple[int, str, str]) -> list[str]:
    status, out, err = result
    assert status == 0, err
    return out.splitlines()


def test_a_topic_is_created_described_grown_and_deleted(call: Any, own: str) -> None:
    name = own + "orders"

    created = call("topic", "create", name, "--partitions", "3", "--config", "cleanup.policy=compact")
    assert created == (0, "", f"created topic {name}\n")
    assert call("topic", "create", name)[0] == 1
    assert call("topic", "create", name, "--if-not-exists")[2] == f"topic {name} exists already\n"
    assert name in values(call("topic", "list"))
    (described,) = answer(call("topic", "describe", name, "--json"))["topics"]
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert described["configuration"]["cleanup.policy"] == "compact"
    assert call("topic", "grow", name, "--partitions", "5")[0] == 0
    # Kafka responds before its brokers apply the change.
    assert until(lambda: call("topic", "describe", name)[1].count("\n") == 2 + 1 + 5, "five partitions")
    assert call("topic", "grow", name, "--partitions", "2")[0] == 1
    status, out, err = call("topic", "delete", name, own + "missing")
    assert (status, out) == (1, "")
    assert err.startswith(f"deleted topic {name}\n") and f"there is no topic '{own}missing'" in err
    assert until(lambda: name not in values(call("topic", "list")), "the topic gone")
    assert call("topic", "delete", name, "--if-exists")[0] == 0


def test_records_come_back_with_their_keys_headers_and_partitions(call: Any, own: str) -> None:
    topic = own + "records"
    answer(call("topic", "create", topic, "--partitions", "2", "--json"))

    assert call("produce", topic, "one", "two", "--key", "k", "--header", "trace=7")[0] == 0
    assert call("produce", topic, "three", "--partition", "1", "--compression", "gzip")[0] == 0
    assert call("produce", topic, "--key", "k", "--null")[0] == 0

    records = [json.loads(line) for line in values(call("consume", topic, "--json"))]
    by_key = [each for each in records if each["key"] == "k"]
    assert [each["value"] for each in by_key] == ["one", "two", None]
    assert len({each["partition"] for each in by_key}) == 1
    assert [each["headers"] for each in by_key] == [[["trace", "7"]], [["trace", "7"]], []]
    assert [each["value"] for each in records if each["partition"] == 1 and each["key"] is None] == ["three"]
    assert values(call("consume", f"{topic}:1", "--max", "1", "--from", "latest")) == []
    status, printed, note = call("consume", f"{topic}:1", "--from", "99")
    assert (status, printed) == (0, "")
    assert note.startswith(f"stuntbroker: {topic}-1 has the offsets 0 to ")


def test_bytes_that_are_not_utf_8_are_shown_escaped(call: Any, own: str) -> None:
    topic = own + "bytes"
    assert call("produce", topic, "v\udcfe", "--key", "k\udcff", "--header", "h=\udcfd")[0] == 0

    (line,) = values(call("consume", topic, "--verbose"))
    assert line.split("  ")[2:5] == [r"k\xff", r"v\xfe", r"h=\xfd"]
    document = call("consume", topic, "--json")[1].strip()
    assert json.loads(document)["value"] == {"base64": "dv4="}
    assert call("produce", topic, document, "--from-json")[0] == 0
    first, second = (json.loads(each) for each in call("consume", topic, "--json")[1].splitlines())
    assert [second[name] for name in ("key", "value", "headers")] == [
        first[name] for name in ("key", "value", "headers")
    ]
    assert call("produce", topic, '{"value": {"base64": "!"}}', "--from-json")[0] == 2


def test_consume_shows_committed_records_and_optionally_uncommitted_records_and_markers(call: Any, own: str) -> None:
    topic = own + "payments"
    call("topic", "create", topic, "--partitions", "1")
    # A marker may be written after its transaction was answered: only the next transaction of the same id waits for it.
    assert call("produce", topic, "plain")[0] == 0
    assert call("produce", topic, "a", "b", "--transactional-id", own + "id")[2] == f"committed 2 records to {topic}\n"
    assert call("produce", topic, "c", "--transactional-id", own + "id", "--abort")[0] == 0
    assert call("produce", topic, "d", "--transactional-id", own + "id", "--leave-open")[0] == 0

    assert values(call("consume", topic)) == ["plain", "a", "b"]
    assert values(call("consume", topic, "--isolation", "read_uncommitted")) == ["plain", "a", "b", "c", "d"]
    shown = values(call("consume", topic, "--isolation", "read_uncommitted", "--show-markers", "--json"))
    kinds = [
        ("marker", each["marker"]["is_commit"]) if "marker" in each else each["value"]
        for each in map(json.loads, shown)
    ]
    assert kinds == ["plain", "a", "b", ("marker", True), "c", ("marker", False), "d"]
    assert call("txn", "force-terminate", "--transactional-id", own + "id")[0] == 0
    assert values(call("consume", topic, "--max", "2")) == ["plain", "a"]


def test_what_consume_prints_as_json_can_be_produced_again(
    call: Any, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = own + "source", own + "copy"
    call("produce", source, "x", "--key", "k", "--header", "h=1", "--header", "h= 2 ")
    status, out, err = call("consume", source, "--json")
    assert status == 0, err

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    assert call("produce", copy, "--from-json")[0] == 0

    (record,) = map(json.loads, values(call("consume", copy, "--json")))
    assert (record["key"], record["value"], record["headers"]) == ("k", "x", [["h", "1"], ["h", " 2 "]])


def test_one_end_of_a_line_is_left_out_of_its_record(call: Any, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\r\nb\r\r\nc\n\nd")))
    call("topic", "create", own + "ends")
    assert call("produce", own + "ends")[0] == 0

    records = map(json.loads, values(call("consume", own + "ends", "--json")))
    assert [record["value"] for record in records] == ["a", "b\r", "c", "", "d"]


def test_an_invalid_line_is_reported_with_the_number_of_records_written_before(
    call: Any, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = own + "lines"
    large = json.dumps({"value": "x" * 600_000}) + "\n"

    def produced(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((3 * large + "oops\n").encode())))
        result: tuple[int, str, str] = call("produce", topic, "--from-json", *words)
        return result

    status, _, err = produced()
    written = len(values(call("consume", topic)))
    assert (status, written) == (1, 2)
    assert "line 4, 'oops': it is no JSON" in err and err.endswith("; 2 records were written before that\n")

    status, _, err = produced("--transactional-id", own + "lines")
    assert status == 1 and "were written" not in err
    assert len(values(call("consume", topic))) == written


def test_topics_that_cannot_be_created_do_not_hide_the_others(call: Any, own: str) -> None:
    call("topic", "create", own + "b")

    status, out, err = call("topic", "create", own + "a", own + "b", own + "c", "--json")

    assert status == 1 and "TOPIC_ALREADY_EXISTS" in err
    assert [each["name"] for each in json.loads(out)["topics"]] == [own + "a", own + "c"]


def test_consume_follow_ends_at_max_records_or_its_time_limit(call: Any, own: str) -> None:
    topic = own + "followed"
    call("produce", topic, "a", "b", "--partition", "0")

    assert values(call("consume", topic, "--follow", "--max", "2")) == ["a", "b"]
    assert values(call("consume", topic, "--follow", "--for", "0.1", "--from", "latest")) == []


@pytest.mark.parametrize(("start", "position"), [("earliest", 0), ("latest", 1)])
def test_consume_follow_goes_on_in_a_topic_that_was_deleted_and_created_again(
    start: str, position: int, call: Any, own: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = own + "recreated"
    call("produce", topic, "a", "b", "--partition", "0")
    poll, polls = Tail.poll, iter(range(1_000))

    def poll_another_topic(tail: Tail, wait_ms: int) -> Any:
        if next(polls) == 1:
            with Cluster(parse_bootstrap(bootstrap)) as cluster:
                delete_topic(cluster, topic)
                assert poll(tail, 0) == []  # The tail waits for the topic.
                until(lambda: create_topic(cluster, topic, if_not_exists=True), "the topic")
                produce(cluster, topic, [NewRecord(None, b"c", (), 0)])
            tail.positions[topic, 0] = 2
        return poll(tail, wait_ms)

    monkeypatch.setattr(Tail, "poll", poll_another_topic)
    status, out, err = call("consume", f"{topic}:0", "--follow", "--from", start, "--for", "2")
    assert (status, out.split()) == (0, ["a", "b", "c"] if start == "earliest" else []), err
    assert f"has the offsets 0 to 1: after offset 2, reading goes on at {position}" in err


def test_a_group_is_listed_described_reset_and_deleted(call: Any, own: str) -> None:
    topic, group = own + "numbers", own + "group"
    call("produce", topic, *map(str, range(10)), "--partition", "0")

    assert values(call("consume", f"{topic}:0", "--max", "4", "--group", group)) == ["0", "1", "2", "3"]
    assert values(call("consume", f"{topic}:0", "--max", "2", "--group", group)) == ["4", "5"]

    assert values(call("consume", f"{topic}:0", "--from", "500", "--group", own + "far")) == []
    (far,) = answer(call("group", "describe", own + "far", "--json"))["offsets"]
    assert far["committed"] == 10  # The end of the log: no later record exists.

    assert group in [each["group_id"] for each in answer(call("group", "list", "--json"))["groups"]]
    (row,) = answer(call("group", "describe", group, "--json"))["offsets"]
    assert (row["committed"], row["end"], row["lag"]) == (6, 10, 4)
    for to, offset in (("earliest", 0), ("latest", 10), ("3", 3), ("99", 10)):
        (row,) = answer(call("group", "reset", group, "--to", to, "--json"))["offsets"]
        assert row["committed"] == offset
    answer(call("group", "reset", group, "--to", "earliest", "--dry-run", "--json"))
    (row,) = answer(call("group", "describe", group, "--json"))["offsets"]
    assert row["committed"] == 10
    (row,) = answer(call("group", "reset", group, "--to-timestamp-ms", "1", "--topic", f"{topic}:0", "--json"))[
        "offsets"
    ]
    assert row["committed"] == 0
    assert call("group", "delete", group)[0] == 0
    status, _, err = call("group", "describe", group)
    assert (status, err) == (1, f"stuntbroker: there is no group '{group}'\n")


def test_a_property_is_set_shown_and_unset(call: Any, own: str) -> None:
    topic = own + "configured"
    call("topic", "create", topic)

    assert call("config", "set", "--topic", topic, "retention.ms=60000")[0] == 0

    def shown(*words: str) -> list[tuple[str, str, str]]:
        properties = answer(call("config", "describe", "--topic", topic, "--json", *words))["properties"]
        return [(each["name"], each["value"], each["source"]) for each in properties]

    # Kafka responds before its brokers apply the change.
    assert until(lambda: ("retention.ms", "60000", "DYNAMIC_TOPIC_CONFIG") in shown(), "the property set")
    assert call("config", "unset", "--topic", topic, "retention.ms")[0] == 0
    assert until(lambda: ("retention.ms", "604800000", "DEFAULT_CONFIG") in shown("--all"), "the property unset")
    assert call("config", "set", "--topic", topic, "retention.sm=1")[0] == 1
    status, _, err = call("config", "unset", "--topic", topic, "retention.sm")
    assert status == 1
    assert err == f"stuntbroker: there is no property 'retention.sm' of topic '{topic}': do you mean retention.ms?\n"
    for words in (("set", "retention.ms=1"), ("unset", "retention.ms"), ("describe",)):
        status, _, err = call("config", *words, "--topic", own + "missing")
        assert (status, err) == (1, f"stuntbroker: there is no topic '{own}missing'\n")
