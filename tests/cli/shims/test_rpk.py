"""`rpk` as scripts and health checks call it. Layouts print and parse like those of franz-go, which rpk uses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from stuntbroker.cli.main import run
from stuntbroker.cli.shims.arguments import CommandError
from stuntbroker.cli.shims.rpk.offsets import parse_range
from stuntbroker.cli.shims.rpk.parsing import read_records
from stuntbroker.cli.shims.rpk.printing import Printed, printer
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import topic_config
from stuntbroker.client.commands.groups import commit_offsets
from stuntbroker.client.commands.reader import Row
from stuntbroker.client.commands.topics import create_topic
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.request_values import READ_COMMITTED
from tests.kit.processes.process import DEADLINE_S

TOPIC = "rpk-orders"
TIME_MS = 1_767_225_845_067
"""2026-01-01T00:04:05.067Z"""
PRINTED = Printed(
    "orders",
    3,
    Row(258, TIME_MS, b"k1", b"v\x00\xff", (("a", b"1"), ("bb", None))),
    number=1,
    leader_epoch=7,
    producer_id=4711,
    producer_epoch=2,
)


@pytest.fixture(scope="module")
def prepared(ours: str) -> Iterator[str]:
    """Yield our broker with a topic of two partitions. The first has five offsets, the last of which is a transaction marker."""
    broker = ("--bootstrap", ours)
    assert run(["topic", "create", TOPIC, "--partitions", "2", *broker]) == 0
    assert run(["produce", TOPIC, "a", "b", "c", "--partition", "0", "--key", "k", "--header", "h=1", *broker]) == 0
    assert run(["produce", TOPIC, "d", "--transactional-id", "rpk-id", "--partition", "0", *broker]) == 0
    yield ours


Rpk = Callable[..., str]


@pytest.fixture
def rpk(prepared: str, capsysbinary: pytest.CaptureFixture[bytes]) -> Rpk:
    """Return a function that runs rpk in this process and returns its output."""

    def call(*words: str) -> str:
        assert run(["rpk", *words, "-X", f"brokers={prepared}"]) == 0
        return capsysbinary.readouterr().out.decode()

    return call


def test_rpk_shows_and_changes_a_cluster(rpk: Rpk, prepared: str) -> None:
    assert re.search("Healthy:.+true", rpk("cluster", "health"))
    assert "BROKERS" in rpk("cluster", "info")
    assert "rpk-new  OK" in rpk("topic", "create", "rpk-new", "-p", "2", "-c", "retention.ms=7")
    assert re.search(r"rpk-new +2 +1", rpk("topic", "list"))
    assert "PARTITIONS  2" in rpk("topic", "describe", "rpk-new")
    assert rpk("topic", "list", "rpk-n.*", "-r") == rpk("topic", "list", "rpk-new")
    assert "__transaction_state" in rpk("topic", "list", "-i")
    assert re.search(r"retention.ms +7 +DYNAMIC_TOPIC_CONFIG", rpk("topic", "describe", "rpk-new"))
    assert "rpk-new  OK" in rpk("topic", "add-partitions", "rpk-new", "-n", "3")
    assert re.search(r"rpk-new +5 +1", rpk("topic", "list"))
    assert "rpk-new  OK" in rpk("topic", "alter-config", "rpk-new", "--set", "retention.ms=5", "-s", "segment.ms=9")
    assert "rpk-new  OK" in rpk("topic", "alter-config", "rpk-new", "--delete", "segment.ms")
    with Cluster(parse_bootstrap(prepared)) as cluster:
        values = [topic_config(cluster, "rpk-new", name) for name in ("retention.ms", "segment.ms")]
    assert values == ["5", "604800000"]
    assert "rpk-new  OK" in rpk("topic", "delete", "rpk-new")


@pytest.mark.parametrize(
    "line",
    [
        "-X brokers=BROKER cluster health",
        "-Xbrokers=BROKER cluster health --watch=false --exit-when-healthy=true",
        "--brokers BROKER -v cluster health -e",
        "cluster --brokers=BROKER health --watch=false",
        "-X=brokers=BROKER cluster health --verbose=true",
    ],
)
def test_rpk_accepts_options_in_any_position(line: str, prepared: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["rpk", *line.replace("BROKER", prepared).split()]) == 0
    out, err = capfd.readouterr()
    assert "CLUSTER HEALTH OVERVIEW" in out and not err


def test_rpk_names_the_options_that_it_ignores(prepared: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = [
        "-X",
        "tls.enabled=false",
        "--config",
        "rpk.yaml",
        "-Xadmin.hosts=here=",
        "-X",
        f"brokers={prepared}",
        "cluster",
        "info",
    ]
    assert run(["rpk", *words]) == 0
    assert capfd.readouterr().err == "rpk: ignored: --config -X admin.hosts\n"


def test_the_sections_of_a_cluster_are_printed_alone_or_below_titles(rpk: Rpk) -> None:
    topics = rpk("topic", "list", "-i")
    assert rpk("cluster", "info", "-t", "-i") == topics
    assert rpk("cluster", "status", "-b").splitlines()[0].split() == ["ID", "HOST", "PORT"]
    assert rpk("cluster", "metadata").splitlines()[:2] == ["CLUSTER", "======="]
    assert rpk("cluster", "metadata").endswith(f"TOPICS\n======\n{topics}\n")
    assert rpk("cluster", "info", TOPIC) == rpk("topic", "ls", TOPIC)
    assert rpk("cluster", "info", "-d", TOPIC) == rpk("topic", "list", "-d", TOPIC)


def test_topics_are_deleted_by_an_expression_and_listed_as_json(rpk: Rpk) -> None:
    rpk("topic", "create", "rpk-gone-1", "rpk-gone-2", "rpk-kept")
    assert json.loads(rpk("topic", "list", "--format", "json", "rpk-kept")) == [
        {"name": "rpk-kept", "partitions": 1, "replicas": 1}
    ]
    assert re.findall(r"(\S+) +OK", rpk("topic", "delete", "-r", "rpk-gone-.*")) == ["rpk-gone-1", "rpk-gone-2"]
    assert "rpk-gone" not in rpk("topic", "list") and "rpk-kept" in rpk("topic", "list")


def test_rpk_describes_a_topic(rpk: Rpk) -> None:
    assert rpk("topic", "describe", TOPIC, "-p").splitlines()[:2] == [
        "PARTITION  LEADER  EPOCH  REPLICAS  LOG-START-OFFSET  HIGH-WATERMARK",
        "0          1       0      [1]       0                 5",
    ]
    assert rpk("topic", "describe", f"^{TOPIC}$", "-r", "-s") == rpk("topic", "describe", TOPIC, "-s")
    assert rpk("topic", "list", TOPIC, "-d").splitlines() == [
        f"{TOPIC}, 2 partitions, 1 replicas",
        "      PARTITION  LEADER  EPOCH  REPLICAS",
        "      0          1       0      [1]",
        "      1          1       0      [1]",
    ]


def test_rpk_lists_describes_and_deletes_groups(rpk: Rpk, prepared: str) -> None:
    assert run(["consume", f"{TOPIC}:0", "--max", "1", "--group", "rpk-group", "--bootstrap", prepared]) == 0
    rpk("cluster", "info")

    assert re.search("1 +rpk-group", rpk("group", "list"))
    assert rpk("group", "describe", "-r", "rpk-gr") == rpk("group", "describe", "-r", ".") == ""
    assert "rpk-group" in rpk("group", "describe", "-r", "*")
    assert rpk("group", "describe", "-r", "rpk-gr.*").splitlines() == [
        "GROUP        rpk-group",
        "COORDINATOR  1",
        "STATE        Empty",
        "BALANCER",
        "MEMBERS      0",
        "TOTAL-LAG    4",
        "",
        "TOPIC       PARTITION  CURRENT-OFFSET  LOG-START-OFFSET  LOG-END-OFFSET  LAG",
        "rpk-orders  0          1               0                 5               4",
    ]
    assert rpk("group", "describe", "rpk-group", "-c").startswith("TOPIC")
    assert rpk("group", "describe", "rpk-group", "-s").endswith("TOTAL-LAG    4\n")
    assert "STATE        Dead" in rpk("group", "describe", "rpk-nobody", "-s")
    assert "rpk-group  OK" in rpk("group", "delete", "rpk-group")


def test_a_group_is_described_though_a_topic_of_it_is_gone(rpk: Rpk, prepared: str) -> None:
    broker = ("--bootstrap", prepared)
    assert run(["topic", "create", "rpk-gone", "--partitions", "1", *broker]) == 0
    with Cluster(parse_bootstrap(prepared)) as cluster:
        commit_offsets(cluster, "rpk-left", {("rpk-gone", 0): 1, (TOPIC, 0): 2})
    rpk("topic", "delete", "rpk-gone")
    assert re.search(rf"{TOPIC} +0 +2 +0 +5 +3\n", rpk("group", "describe", "rpk-left"))


def test_a_regular_expression_consumes_no_internal_topic(rpk: Rpk) -> None:
    topics = rpk("topic", "consume", "-r", ".*", "-o", ":end", "-f", "%t\n").splitlines()
    assert TOPIC in topics and not any(topic.startswith("__") for topic in topics)


def test_rpk_deletes_the_first_records_of_a_topic(rpk: Rpk, prepared: str) -> None:
    assert run(["topic", "create", "rpk-trim", "--partitions", "1", "--bootstrap", prepared]) == 0
    assert run(["produce", "rpk-trim", "a", "b", "c", "--bootstrap", prepared]) == 0
    rpk("cluster", "info")

    assert re.search(r"rpk-trim +0 +1 +-\n", rpk("topic", "trim-prefix", "rpk-trim", "-o", "1", "--no-confirm"))
    assert rpk("topic", "consume", "rpk-trim", "-o", ":end", "-f", "%o%v ") == "1b 2c "
    assert re.search(r"rpk-trim +0 +3 +-\n", rpk("topic", "trim", "rpk-trim", "-o", "end", "-p", "0"))
    assert rpk("topic", "consume", "rpk-trim", "-o", ":end") == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("topic add-partitions nowhere -n 1", "nowhere  UNKNOWN_TOPIC_OR_PARTITION"),
        (
            "topic add-partitions __consumer_offsets -n 1",
            "Unable to change __consumer_offsets without the --force flag.",
        ),
        ("topic alter-config nowhere --set retention.ms=1", "nowhere  UNKNOWN_TOPIC_OR_PARTITION"),
        ("topic alter-config nowhere", "No incremental configuration changes were requested!"),
        ("topic alter-config nowhere --set retention.ms", "'retention.ms' is not KEY=VALUE"),
        ("topic create other -c retention.ms", "'retention.ms' is not KEY=VALUE"),
        (f"topic trim-prefix {TOPIC} -o 99 -p 0", "OFFSET_OUT_OF_RANGE"),
        (f"topic consume {TOPIC} -f %q", "--format: %q is not here"),
        (f"topic consume {TOPIC} -o x:", "--offset 'x:': 'x' is no offset"),
        (f"topic consume {TOPIC} -f %v -m", "--meta-only goes with --format json alone"),
        (f"topic produce {TOPIC} -H k", "'k' is not KEY:VALUE"),
        ("group delete nowhere", "nowhere  GROUP_ID_NOT_FOUND"),
        (f"topic trim-prefix {TOPIC} -o 0 -p 9", "has no partition 9, it has 2"),
        ("topic list -d --format json", "--detailed is not available with --format json here"),
        (f"topic consume {TOPIC} -p 9", "there is no partition to consume from"),
        (f"topic consume {TOPIC} -o 3:1", "--offset '3:1': it ends before it begins"),
    ],
)
def test_rpk_exits_1_and_reports_the_error(
    words: str, said: str, prepared: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["rpk", *words.split(), "-X", f"brokers={prepared}"]) == 1
    printed = capfd.readouterr()
    assert said in printed.out + printed.err


# --- topic consume and topic produce


def test_records_are_printed_as_json_unless_a_layout_is_given(rpk: Rpk) -> None:
    consume = ("topic", "consume", TOPIC, "-p", "0,1")
    document = json.loads(rpk(*consume, "-n", "1"))
    time_ms = document.pop("timestamp")
    headers = [{"key": "h", "value": "1"}]
    assert document == {"topic": TOPIC, "key": "k", "value": "a", "headers": headers, "partition": 0, "offset": 0}
    assert rpk(*consume, "-n", "1", "--pretty-print=false", "-m") == (
        f'{{"topic":"{TOPIC}","key":"k","value_size":1,"headers":[{{"key":"h","value":"1"}}],'
        f'"timestamp":{time_ms},"partition":0,"offset":0}}\n'
    )
    assert rpk(*consume, "-n", "2", "-o", "1", "-f", "%p/%o:%k=%v%%\\n") == "0/1:k=b%\n0/2:k=c%\n"
    assert rpk(*consume, "-o", "3:end", "-f", "%v %a{transactional-bit} %e|") == "d 1 0|"


@pytest.mark.parametrize(
    ("offset", "values"),
    [
        (":end", "abcd"), ("0:end", "abcd"), (":2", "ab"), ("1:3", "bc"), ("@:end", "abcd"), ("@-1h:end", "abcd"),
        ("@2000-01-01:end", "abcd"), ("@2000-01-01T00:00:00Z:end", "abcd"), ("@2000-01-01:2000-01-02", ""),
        ("@2000-01-01:1h30m", ""), ("@-1h:-0s", "abcd"),
        ("@:1000000000000", ""),
        ("@0000000000000:end", "abcd"), ("@9999999999999:end", ""), ("4:end", ""),
    ],
)  # fmt: skip
def test_a_range_of_offsets_or_times_is_read_and_no_more(offset: str, values: str, rpk: Rpk) -> None:
    assert rpk("topic", "consume", TOPIC, "-o", offset, "-f", "%v") == values
    assert rpk("topic", "consume", TOPIC, "-o", offset, "-f", "%v", "--read-committed") == values


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ("+1", 1),
        ("+9", 5),
        ("-2", 3),
        ("-9", 0),
        ("start", 0),
        ("oldest", 0),
        ("end", 5),
        ("newest", 5),
        ("4", 4),
        ("4:", 4),
    ],
)
def test_rpk_consume_begins_at_the_given_offset(offset: str, expected: int, prepared: str) -> None:
    with Cluster(parse_bootstrap(prepared)) as cluster:
        bounds = parse_range(offset, READ_COMMITTED)
        assert (bounds.start(cluster, (TOPIC, 0)), bounds.end) == (expected, None)


@pytest.mark.parametrize(
    "offset", ["", ":", "x", "1:x", "x:1", "@", "@x", "@12", "@-", "@-5", "-", "+", "+1:2", "end:", "1:start"]
)
def test_an_offset_that_is_invalid_is_refused(offset: str) -> None:
    with pytest.raises(CommandError, match="--offset"):
        parse_range(offset, READ_COMMITTED)


def test_a_range_ends_though_a_transaction_is_open(rpk: Rpk, prepared: str) -> None:
    assert run(["topic", "create", "rpk-open", "--partitions", "1", "--bootstrap", prepared]) == 0
    assert run(["produce", "rpk-open", "a", "b", "--bootstrap", prepared]) == 0
    producer = Producer({"bootstrap.servers": prepared, "transactional.id": "rpk-open", "log_level": 0})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce("rpk-open", b"open")
    producer.flush(DEADLINE_S)
    rpk("cluster", "info")
    for offset in ("0:3", ":end", "@-1h:-0s"):
        assert rpk("topic", "consume", "rpk-open", "-o", offset, "-f", "%v", "--read-committed") == "ab"
    producer.abort_transaction(DEADLINE_S)


def test_rpk_produces_records_from_lines(prepared: str, rpk: Rpk) -> None:
    def produce(text: str, *words: str) -> str:
        command = [sys.executable, "-m", "stuntbroker", "rpk", "topic", "produce", *words, "--brokers", prepared]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=True
        ).stdout

    assert run(["topic", "create", "rpk-written", "--partitions", "2", "--bootstrap", prepared]) == 0
    rpk("cluster", "info")

    said = r"Produced to partition 1 at offset {} with timestamp [0-9]{{13}}\.\n"
    assert re.fullmatch(said.format(0) + said.format(1), produce("one\n\n", "rpk-written", "-p", "1"))
    layout = ("-f", "%t %k %p %H%h{%k=%v;}%v{hex}\n", "-o", "%t/%p/%o %k=%v %H\\n", "-H", "all:yes", "-z", "gzip")
    assert produce("rpk-written k 1 1a=b;6162\n", *layout) == "rpk-written/1/2 k=ab 2\n"
    assert produce(f"{TIME_MS} \n", "rpk-written", "-p", "1", "-f", "%d %v\n", "-k", "key", "-Z", "-o", "%o") == "3"
    printed = rpk("topic", "consume", "rpk-written", "-o", ":end", "-f", "%o %k %v %h{%k:%v,} %a{compression}\n")
    assert printed == "0  one  snappy\n1    snappy\n2 k ab all:yes,a:b, gzip\n3 key   snappy\n"
    parsed = ("-f", "%t %p %k %v\n", "-p", "1", "-k", "key", "-o", "%t/%p %k\n")
    assert produce("rpk-written 0 own x\n", "elsewhere", *parsed) == "rpk-written/0 own\n"
    assert rpk("topic", "consume", "rpk-written", "-o", "3:end", "-p", "1", "-f", "%d") == str(TIME_MS)


# --- Layouts. The right column is the result of franz-go 1.22 for the same record or input.


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("%t %T %k %K %v %V %H %p %o %e %d %x %y %i", b"orders 6 k1 2 v\x00\xff 3 2 3 258 7 1767225845067 4711 2 1"),
        ("%h{%k=%v;}", b"a=1;bb=;"),
        ("%H %h{%K{big8}%k{hex}:%V}", b"2 \x0161:1\x026262:0"),
        ("%h{[%k%%%{%v%}]}", b"[a%{1}][bb%{}]"),
        ("%v{hex} %v{base64} %v{base64raw} %k{}", b"7600ff dgD/ dgD/ k1"),
        ("%o{hex} %o{hex4} %o{hex8} %o{hex16} %o{hex32} %o{hex64}", b"102 2 02 0102 00000102 0000000000000102"),
        ("%o{big64}%o{big32}%o{big16}%o{big8}%o{byte}", b"\0\0\0\0\0\0\x01\x02\0\0\x01\x02\x01\x02\x02\x02"),
        ("%o{little64}%o{little32}%o{little16}%o{little8}", b"\x02\x01\0\0\0\0\0\0\x02\x01\0\0\x02\x01\x02"),
        ("%p{bool} %p{ascii} %p{number}", b"true 3 3"),
        ("%d{strftime[%F %T]} %d{strftime##%Y}%m##}", b"2026-01-01 00:04:05 2026}01"),
        ("%d{go[2006-01-02T15:04:05.000Z07:00]}", b"2026-01-01T00:04:05.067Z"),
        ("%d{go[2006-01-02 15:04:05.000000]}", b"2026-01-01 00:04:05.067000"),
        ("%d{go##Mon Jan 02 03:04:05PM 2006 MST -0700##}", b"Thu Jan 01 12:04:05AM 2026 UTC +0000"),
        ("%d{go[Jan 2, 2006 at 3:04pm (MST)]}", b"Jan 1, 2026 at 12:04am (UTC)"),
        ("%d{go[Mon Jan _2 15:04:05 2006]}", b"Thu Jan  1 00:04:05 2026"),
        ("%d{go[2006-01-02T15:04:05.999999999Z07:00]}", b"2026-01-01T00:04:05.067Z"),
        ("%d{go[02 Jan 06 15:04 -0700]}", b"01 Jan 26 00:04 +0000"),
        ("%d{go[3:04PM 1/2/06 002 __2]}", b"12:04AM 1/1/26 001   1"),
        ("%d{go[15:04:05,000 Monday January]}", b"00:04:05,067 Thursday January"),
        ("%d{go[2006-01-02T15:04:05.00Z0700 -07 .9 5.99]}", b"2026-01-01T00:04:05.06Z +00  5.06"),
        ("%d{go[4:5 2nd]}", b"4:5 1nd"),
        ("%d{hex}", b"19b76de654b"),
        (
            "%a{compression} %a{compression;number} %a{timestamp-type} %a{transactional-bit;bool} %a{control-bit}",
            b"none 0 0 false 0",
        ),
        ("%% %{%} \\t\\n\\r\\\\\\x00\\x41|", b"% {} \t\n\r\\\x00A|"),
        ("%{%k%}", b"{k1}"),
    ],
)
def test_a_layout_prints_a_record(layout: str, expected: bytes) -> None:
    assert printer(layout)(PRINTED) == expected


@pytest.mark.parametrize("layout", ["%d{strftime[%Y]}", "%d{go[2006]}"])
def test_a_time_that_is_no_date_is_a_number(layout: str) -> None:
    far = PRINTED._replace(row=PRINTED.row._replace(timestamp_ms=1 << 62))
    assert printer(layout)(far) == b"%d" % (1 << 62)


@pytest.mark.parametrize(
    ("layout", "text", "expected"),
    [
        ("%v\n", b"a\nb\n\nc\n", [(b"", b"a"), (b"", b"b"), (b"", b""), (b"", b"c")]),
        ("%k %v\n", b"k1 v 1\nk2 v2\n", [(b"k1", b"v 1"), (b"k2", b"v2")]),
        ("%k=%v", b"a=b=c\nd", [(b"a", b"b=c\nd")]),
        ("%K%k%V%v", b"2ab3xyz1c0", [(b"ab", b"xyz"), (b"c", b"")]),
        ("%K{big16}%V{byte}%k%v\n", b"\x00\x02\x01abc\n", [(b"ab", b"c")]),
        ("%k{hex} %v{base64}\n", b"6162 eHl6\n", [(b"ab", b"xyz")]),
        ("[%v]", b"[a][b]", [(b"", b"a"), (b"", b"b")]),
        ("%V{3}%v", b"abcdef", [(b"", b"abc"), (b"", b"def")]),
        ("%V{bool}%v\n", b"truex\nfalse\n", [(b"", b"x"), (b"", b"")]),
        ("%V{hex4}%v\n", b"2ab\n", [(b"", b"ab")]),
        ("%k%%%v\n", b"a%b\n", [(b"a", b"b")]),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1000])
def test_a_layout_reads_records(layout: str, text: bytes, expected: list[tuple[bytes, bytes]], chunk: int) -> None:
    records = list(read_records(reading(text, chunk), layout))

    assert [(record.key or b"", record.value) for record in records] == expected


def test_a_layout_reads_topic_partition_time_and_headers() -> None:
    (record,) = read_records(reading(b"orders,3,1767225845067,2a=1;b=2;hello\n"), "%t,%p,%d,%H%h{%k=%v;}%v\n")

    assert (record.topic, record.partition, record.timestamp_ms) == ("orders", 3, TIME_MS)
    assert (record.headers, record.value) == ((("a", b"1"), ("b", b"2")), b"hello")
    (sized,) = read_records(reading(b"1 abcd\n"), "%H %h{%K{2}%V{1}%k%v}%v\n")
    assert (sized.headers, sized.value) == ((("ab", b"c"),), b"d")


@pytest.mark.parametrize(
    ("layout", "text", "said"),
    [
        ("%v\n", b"a\nb", "the input ends within a record: no b'\\n' behind b'b'"),
        ("%k{hex} %v\n", b"6zz2 x\n", "b'6zz2' is not hex"),
        ("[%v]", b"[a]b]", "the input has b'b' where the layout has b'['"),
        ("%V{3}%v", b"abcde", "1 bytes too early"),
        ("%p %v\n", b"x y\n", "b'' where the layout has a number"),
        ("%V{bool}%v\n", b"truth\n", "where the layout has true or false"),
        ("%V{hex8}%v\n", b"0xabc\n", "where the layout has a hexadecimal number"),
        ("%V%v\n", b"-1a\n", "the size -1"),
        ("%k%v\n", b"ab\n", "nothing says where %k ends before %v"),
        ("%q", b"a", "%q cannot be read here"),
        ("%v{json}", b"{}", "%v{json} is not here; there are hex and base64"),
        ("%V{odd}%v", b"1", "%V{odd} is not here"),
        ("%h{%k}", b"a", "%h needs the number of headers before it"),
        ("%V{3}", b"abc", "the layout reads nothing"),
        ("%H{1}%h{}", b"abc", "the layout reads nothing"),
        ("", b"abc", "the layout reads nothing"),
    ],
)
def test_a_layout_or_an_input_that_is_wrong_is_reported(layout: str, text: bytes, said: str) -> None:
    with pytest.raises(CommandError, match=re.escape(said)):
        list(read_records(reading(text), layout))


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("%", "nothing follows the last %"),
        ("\\q", "\\q is not an escape"),
        ("\\x4", "\\x4 is not an escape"),
        ("%v{hex", "the brace before 'hex' is not closed"),
        ("%d{strftime[%F}", "lacks ']'"),
        ("%h", "%h needs braces"),
        ("%a{size}", "%a{size} is not here"),
        ("%a", "%a is not here"),
        ("%k{big8}", "%k{big8} is not here; %k takes {hex}, {base64}, {base64raw}"),
        ("%d{strftime}", "%d{strftime} is not here"),
        ("%[", "%[ is not here"),
    ],
)
def test_a_layout_that_cannot_be_printed_is_reported(layout: str, said: str) -> None:
    with pytest.raises(CommandError, match=re.escape(said)):
        printer(layout)


def reading(text: bytes, chunk: int = 1000) -> Callable[[int], bytes]:
    """Return the read function of a file that returns at most `chunk` bytes at a time."""
    chunks = iter([text[at : at + chunk] for at in range(0, len(text), chunk)])
    return lambda size: next(chunks, b"")


def test_rpk_starts_the_broker_that_its_options_describe(tmp_path: Path) -> None:
    words = ["--mode dev-container", "--smp=1", "--kafka-addr inside://127.0.0.1:0,outside://127.0.0.1:0"]
    words += ["--advertise-kafka-addr inside://broker,outside://localhost:19092", "--node-id 3"]
    words += ["--set redpanda.default_topic_partitions=3", "--set redpanda.nosuch=1"]
    environment = os.environ | {"KAFKA_LOG_DIRS": str(tmp_path / "data")}
    command = [sys.executable, "-m", "stuntbroker", "redpanda", "start", *words]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert broker.stdout is not None
        ready = broker.stdout.readline()
        assert ready.startswith("ready kafka=127.0.0.1:"), broker.communicate()
        assert "listener.INSIDE=" in ready and "listener.OUTSIDE=" in ready
        assert "Started Kafka API server" in "".join(broker.stdout.readline() for _ in range(5))
    finally:
        broker.terminate()
        _, err = broker.communicate(timeout=DEADLINE_S)
    assert broker.returncode == 0
    assert "rpk: ignored: --mode dev-container --smp=1 --set redpanda.nosuch=1" in err


def test_the_health_of_a_cluster_names_nodes_that_are_down_and_their_partitions(
    stuntbroker_factory: Callable[..., Broker], capfd: pytest.CaptureFixture[str]
) -> None:
    broker = stuntbroker_factory(nodes=3)
    create_topic(broker.cluster, "t", 1, replication_factor=3)
    broker.nodes.stop(3)
    assert run(["rpk", "-X", f"brokers={broker.bootstrap}", "cluster", "health"]) == 0
    shown = dict(re.findall(r"^(.+?): +(.*)$", capfd.readouterr().out, re.MULTILINE))
    assert {name: shown[name] for name in ("Healthy", "Unhealthy reasons", "All nodes", "Nodes down")} == {
        "Healthy": "false",
        "Unhealthy reasons": "[nodes_down under_replicated_partitions]",
        "All nodes": "[1 2 3]",
        "Nodes down": "[3]",
    }
    assert shown["Under-replicated partitions (1)"] == "[t/0]"


def test_records_without_a_key_are_spread_over_the_partitions(
    prepared: str, rpk: Rpk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["topic", "create", "rpk-spread", "--partitions", "4", "--bootstrap", prepared]) == 0
    reading, writing = os.pipe()
    os.write(writing, b"x\n" * 50)
    os.close(writing)
    with os.fdopen(reading) as lines:
        monkeypatch.setattr(sys, "stdin", lines)
        printed = rpk("topic", "produce", "rpk-spread", "-o", "%p ")
    assert len(set(printed.split())) > 1
