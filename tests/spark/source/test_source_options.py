"""Options of the source: names, defaults and errors."""

from __future__ import annotations

import pytest

from stuntbroker.client.commands.fetching import FetchSizes, TopicPartition
from stuntbroker.pipeline.spark.data_source import StuntbrokerDataSource
from stuntbroker.pipeline.spark.offsets import Position, SourceError
from stuntbroker.pipeline.spark.source_options import SourceOptions, Subscription, parse_options
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED

LEAST = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def parsed(streaming: bool = False, **more: str) -> SourceOptions:
    return parse_options(LEAST | more, streaming)


def test_the_defaults_are_those_of_sparks_own_source_but_for_the_isolation() -> None:
    batch, stream = parsed(), parsed(streaming=True)

    assert (batch.start.everywhere, batch.end.everywhere, stream.start.everywhere) == (EARLIEST, LATEST, LATEST)
    assert batch.isolation == READ_COMMITTED
    assert batch.fail_on_data_loss and not batch.include_headers
    assert (batch.min_partitions, batch.max_offsets, batch.min_offsets, batch.max_trigger_delay_s) == (
        None,
        None,
        None,
        900,
    )
    assert (batch.timeout_s, batch.sizes) == (120, FetchSizes(50 << 20, 4 << 20))


TAKEN = [
    ({"SUBSCRIBE": "a, b,a,"}, "subscription", Subscription(topics=("a", "b"))),
    ({"subscribe": "", "subscribePattern": "a.*"}, "subscription", Subscription(pattern="a.*")),
    ({"subscribe": "", "assign": '{"t": [1, 0, 1]}'}, "subscription", Subscription(partitions=(T0, T1))),
    ({"kafka.bootstrap.servers": "h:1, [::1]:2"}, "bootstrap", (Address("h", 1), Address("::1", 2))),
    ({"startingoffsets": " Earliest "}, "start", Position("startingOffsets", EARLIEST)),
    ({"startingOffsets": '{"t":{"0":5,"1":-2}}'}, "start", Position("startingOffsets", each={T0: 5, T1: -2})),
    ({"endingOffsets": '{"t":{"0":5,"1":-1}}'}, "end", Position("endingOffsets", each={T0: 5, T1: -1})),
    ({"startingTimestamp": "7", "startingOffsets": "earliest"}, "start", Position("startingTimestamp", 7, is_time=True)),
    ({"startingOffsetsByTimestamp": '{"t":{"0":7}}', "startingOffsetsByTimestampStrategy": "latest"}, "start",
     Position("startingOffsetsByTimestamp", each={T0: 7}, is_time=True, latest_if_none=True)),
    ({"endingOffsetsByTimestamp": '{"t":{"0":7}}'}, "end",
     Position("endingOffsetsByTimestamp", each={T0: 7}, is_time=True, latest_if_none=True)),
    ({"kafka.isolation.level": "read_uncommitted"}, "isolation", READ_UNCOMMITTED),
    ({"failOnDataLoss": "FALSE"}, "fail_on_data_loss", False),
    ({"kafka.fetch.max.bytes": "9", "kafka.max.partition.fetch.bytes": "8"}, "sizes", FetchSizes(9, 8)),
    ({"maxTriggerDelay": "90s"}, "max_trigger_delay_s", 90),
    ({"maxTriggerDelay": "500"}, "max_trigger_delay_s", 0.5),
    ({"maxOffsetsPerTrigger": str(2**62)}, "max_offsets", 2**62),
    ({"kafka.security.protocol": "plaintext"}, "bootstrap", (Address("h", 1),)),
    ({"kafka.session.timeout.ms": "1", "kafka.group.id": "g", "groupIdPrefix": "p"}, "min_partitions", None),
]  # fmt: skip


@pytest.mark.parametrize(("options", "name", "value"), TAKEN)
def test_an_option_is_taken_as_sparks_own_source_takes_it(options: dict[str, str], name: str, value: object) -> None:
    assert (
        getattr(parse_options({each.lower(): text for each, text in (LEAST | options).items()}, False), name) == value
    )


REFUSED = [
    ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing: give HOST:PORT"),
    ({"kafka.bootstrap.servers": "h"}, "kafka.bootstrap.servers: 'h' is not HOST:PORT"),
    ({"subscribe": ""}, "exactly one of assign, subscribe, subscribePattern is needed, the query has none"),
    ({"assign": "{}"}, "the query has assign and subscribe"),
    ({"subscribe": " , "}, "subscribe names no topic"),
    ({"subscribe": "", "subscribePattern": "("}, "subscribePattern is no regular expression"),
    ({"subscribe": "", "subscribePattern": "[a-z&&[^x]]"}, "subscribePattern has another meaning in Java: Possible"),
    ({"subscribe": "", "assign": '{"t": 0}'}, r"assign gives 't' the partitions 0; it looks like .*\[0, 1\]"),
    ({"subscribe": "", "assign": "t"}, "assign is no JSON"),
    ({"startingOffset": "earliest"}, "no option 'startingoffset': did you mean startingOffsets"),
    ({"kafka.isolation": "x"}, "did you mean kafka.isolation.level"),
    ({"kafka.ssl.truststore.location": "x"}, "option kafka.ssl.truststore.location has no effect without TLS or SASL: set"),
    ({"kafka.sasl.mechanism": "PLAIN"}, "option kafka.sasl.mechanism has no effect without TLS or SASL"),
    ({"kafka.ssl.cipher.suites": "x"}, "option kafka.ssl.cipher.suites is not supported; there are security.protocol, "),
    ({"kafka.security.protocol": "TLS"}, "option kafka.security.protocol=TLS: it must be one of PLAINTEXT, "),
    ({"kafka.security.protocol": "SASL_SSL"}, "option kafka.sasl.mechanism=GSSAPI, the default, is not one that"),
    (
        {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/no"},
        "option kafka.ssl.truststore.location: /no: No such file",
    ),
    ({"kafka.isolation.level": "committed"}, "not read_committed or read_uncommitted"),
    ({"startingOffsets": "latest"}, r"startingOffsets cannot be latest \(-1\)"),
    ({"startingOffsets": '{"t":{"0":-1}}'}, r"startingOffsets cannot be latest \(-1\)"),
    ({"endingOffsets": "earliest"}, r"endingOffsets cannot be earliest \(-2\)"),
    ({"endingOffsets": '{"t":{"0":-2}}'}, r"endingOffsets cannot be earliest \(-2\)"),
    ({"startingOffsets": '{"t":{"0":5}'}, "startingOffsets is no JSON .*; it looks like earliest, latest or JSON such as"),
    ({"startingOffsets": '{"t":5}'}, "startingOffsets gives 't' 5; it looks like"),
    ({"startingOffsets": '{"t":{"x":5}}'}, "gives partition 'x' of 't' 5, not a whole number from -2"),
    ({"startingOffsets": '{"t":{"0":-3}}'}, "gives partition '0' of 't' -3"),
    ({"startingOffsets": '{"t":{"0":true}}'}, "gives partition '0' of 't' True"),
    ({"startingOffsets": "[]"}, "it looks like earliest, latest or JSON"),
    ({"startingTimestamp": "2026-01-01"}, "not milliseconds since 1970"),
    ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "not a whole number from 0"),
    ({"startingOffsetsByTimestampStrategy": "x"}, "not error or latest"),
    ({"failOnDataLoss": "no"}, "failOnDataLoss is 'no', not true or false"),
    ({"minPartitions": "0"}, "minPartitions is '0', not a whole number from 1"),
    ({"kafka.fetch.max.bytes": str(2**31)}, "kafka.fetch.max.bytes is '2147483648', not a whole number from 1"),
    ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon', not a time such as"),
    ({"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"}, r"minOffsetsPerTrigger \(2\) is more than"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "text"), REFUSED)
def test_a_wrong_option_is_one_line_that_says_what_to_do(options: dict[str, str], text: str) -> None:
    with pytest.raises(SourceError, match=text) as raised:
        parsed(**options)

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_ending_offsets_are_rejected_for_a_stream(name: str) -> None:
    with pytest.raises(SourceError, match=f"{name} is for batch queries only"):
        parsed(streaming=True, **{name: "5"})


def test_a_stream_may_start_at_the_latest_offset() -> None:
    assert parsed(streaming=True, startingOffsets='{"t":{"0":-1}}').start.each == {T0: LATEST}


def test_a_hint_about_security_repeats_no_password() -> None:
    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    for options in ({}, login):
        with pytest.raises(SourceError) as raised:
            parsed(**options, **{"kafka.sasl.jaas.config": "password=secret"})

        assert "kafka.sasl.jaas.config" in str(raised.value) and "secret" not in str(raised.value)


def test_options_that_are_printed_show_no_password() -> None:
    options = parsed(
        **{
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": 'x required username="alice" password="secret";',
        }
    )

    assert dict(options.security)["sasl.mechanism"] == "PLAIN" and "secret" not in repr(options)


@pytest.mark.parametrize(("text", "includes"), [("true", True), (" TRUE ", True), ("false", False), ("", False)])
def test_the_schema_has_headers_exactly_when_the_options_do(text: str, includes: bool) -> None:
    assert parsed(includeHeaders=text).include_headers is includes
    assert ("headers" in StuntbrokerDataSource({"includeHeaders": text}).schema()) is includes


def test_the_schema_refuses_a_flag_that_is_neither_true_nor_false() -> None:
    with pytest.raises(SourceError, match="includeHeaders is 'yes', not true or false"):
        StuntbrokerDataSource({"includeheaders": "yes"}).schema()
