"""`serve --config FILE.properties`: the format of java.util.Properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from stuntbroker.cli.serving.properties import parse_java
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from tests.kit.processes.process import Peer, run, serving

JAVA = {
    "equals sign": (b"a.b=c", {"a.b": "c"}),
    "colon": (b"a.b : c", {"a.b": "c"}),
    "blank": (b"a.b \t c d", {"a.b": "c d"}),
    "no value": (b"a.b", {"a.b": ""}),
    "only the first separator separates": (b"a==b:c", {"a": "=b:c"}),
    "blanks at the end stay": (b"a=b ", {"a": "b "}),
    "comments and empty lines": (b"# a=1\n  ! b=2\n\n \t\nc=3#4", {"c": "3#4"}),
    "a continued line": (b"a=1,\\\n   2,\\\r\n#3", {"a": "1,2,#3"}),
    "no continuation after two backslashes": (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    "a comment is not continued": (b"# a\\\nb=2", {"b": "2"}),
    "escapes": (b"a\\ b\\=\\:c=\\t\\n\\x\\\\", {"a b=:c": "\t\nx\\"}),
    "unicode": (b"a=\\u20ac\xe9", {"a": "\u20ac\xe9"}),
    "unicode beyond 16 bits": (b"a=\\ud83d\\ude00b", {"a": "\U0001f600b"}),
    "every end of a line": (b"a=1\rb=2\r\nc=3\n", {"a": "1", "b": "2", "c": "3"}),
    "the last one counts": (b"a=1\na=2", {"a": "2"}),
}


@pytest.mark.parametrize("what", JAVA)
def test_a_properties_file_is_read_as_java_reads_it(what: str) -> None:
    data, properties = JAVA[what]

    assert parse_java(data) == properties


def test_a_properties_file_configures_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# A broker of ours\nnum.partitions = 3\ntransaction.max.timeout.ms : \\\n  7000\n")

    with serving("--config", str(path)) as broker, Peer(broker.address) as peer:
        (actual,) = peer.ask(DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)]), 4).results

    values = {each.name: each.value for each in actual.configs}
    assert [values[name] for name in ("num.partitions", "transaction.max.timeout.ms")] == ["3", "7000"]


@pytest.mark.parametrize("text", ["num.partition=3", "num.partitions=\\u12"], ids=["misspelt", "a wrong escape"])
def test_a_wrong_properties_file_exits_2_with_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.properties").write_text(text)

    done = run("serve", "--config", str(tmp_path / "x.properties"))

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
