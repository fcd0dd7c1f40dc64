"""Spans and measurements: what is written, read, committed and aborted can be seen, and costs nothing else."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from aiokafka.errors import KafkaError
from model_broker import ModelBroker
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

import stuntbroker
from stuntbroker.client import (
    AuthorizationError,
    CommitFailedError,
    Measurement,
    State,
    TransactionalConsumer,
    TransactionalProducer,
    blocking,
)
from stuntbroker.protocol.errors import ErrorCode
from tests.kit.transactions.faults import Fault

INVALID_RECORD, NOT_PERMITTED = 87, 53


class Spans:
    """The spans that a tracer has exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def tracer(self) -> Tracer:
        """A tracer of OpenTelemetry's own SDK."""
        return self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of a name that have ended, in that order."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture(params=[1, 2], ids=["level 1", "level 2"])
def broker(request: pytest.FixtureRequest) -> Iterator[ModelBroker]:
    with ModelBroker(request.param) as broker:
        yield broker


def producer_of(
    broker: ModelBroker, spans: Spans | None, measured: list[Measurement] | None = None
) -> TransactionalProducer:
    return TransactionalProducer(
        bootstrap_servers=str(broker.address),
        transactional_id="id",
        client_id="billing",
        retry_backoff_ms=1,
        tracer=spans and spans.tracer,
        on_measurement=None if measured is None else measured.append,
    )


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


async def test_a_transaction_and_its_records_are_spans(broker: ModelBroker, spans: Spans) -> None:
    async with producer_of(broker, spans) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("t", b"a", partition=1)
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"b", partition=1)
        await producer.abort_transaction()

    committed, aborted = spans.named("transaction id")
    assert attributes(committed) == {
        "messaging.system": "kafka",
        "messaging.client.id": "billing",
        "messaging.operation.name": "transaction",
        "stuntbroker.transactional_id": "id",
        "stuntbroker.transaction.outcome": "committed",
    }
    assert attributes(aborted)["stuntbroker.transaction.outcome"] == "aborted"
    first, second = spans.named("send t")
    assert first.kind is SpanKind.PRODUCER
    assert attributes(first) == {
        "messaging.system": "kafka",
        "messaging.client.id": "billing",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "1",
        "messaging.kafka.offset": 7,
        "server.address": broker.address.host,
        "server.port": broker.address.port,
    }
    assert [span.parent and span.parent.span_id for span in (first, second)] == [
        span.context.span_id for span in (committed, aborted)
    ]


async def test_the_current_span_is_the_parent_of_records_sent_in_it(broker: ModelBroker, spans: Spans) -> None:
    async with producer_of(broker, spans) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            with spans.tracer.start_as_current_span("order"):
                await producer.send("t", b"a")

    (order,), (sent,) = spans.named("order"), spans.named("send t")
    assert sent.parent is not None and sent.parent.span_id == order.context.span_id


async def test_failed_records_and_transactions_have_an_error_in_their_spans(broker: ModelBroker, spans: Spans) -> None:
    broker.script = lambda request, count: Fault(INVALID_RECORD) if (request, count) == ("Produce", 1) else None
    async with producer_of(broker, spans) as producer:
        await producer.init_transactions()
        with pytest.raises(CommitFailedError):
            async with producer.transaction():
                await producer.send("t", b"a")
        await producer.begin_transaction()
        broker.script = lambda request, count: Fault(NOT_PERMITTED) if request == "EndTxn (commit)" else None
        await producer.send("t", b"b")
        with pytest.raises(AuthorizationError):
            await producer.commit_transaction()

    failed, fatal = spans.named("transaction id")
    assert (attributes(failed)["stuntbroker.transaction.outcome"], failed.status.status_code) == (
        "aborted",
        StatusCode.ERROR,
    )
    assert attributes(fatal)["stuntbroker.transaction.outcome"] == "failed"
    assert attributes(fatal)["error.type"] == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    refused, written = spans.named("send t")
    assert attributes(refused)["error.type"] == "INVALID_RECORD"
    assert "error.type" not in attributes(written)


async def test_on_measurement_gets_counts_of_records_and_durations_of_calls(broker: ModelBroker) -> None:
    measured: list[Measurement] = []
    async with producer_of(broker, None, measured) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for n in range(5):
                await producer.send("t", b"%d" % n, partition=n % 2)
        await producer.begin_transaction()
        await producer.abort_transaction()

    sent = [each for each in measured if each.name == "messaging.client.sent.messages"]
    assert {each.attributes["messaging.destination.partition.id"]: each.value for each in sent} == {"0": 3, "1": 2}
    timed = Counter(
        each.attributes["messaging.operation.name"]
        for each in measured
        if each.name == "messaging.client.operation.duration" and each.value >= 0
    )
    assert timed == {"send": 2, "commit": 1, "abort": 1}


@pytest.mark.parametrize(
    ("code", "error_type", "next_state"),
    [
        (ErrorCode.INVALID_TXN_STATE, "INVALID_TXN_STATE", State.ABORTABLE_ERROR),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", State.FATAL_ERROR),
    ],
)
async def test_a_commit_that_fails_is_timed_with_its_error(code: ErrorCode, error_type: str, next_state: State) -> None:
    measured: list[Measurement] = []
    with ModelBroker(2, lambda request, count: Fault(code) if request == "EndTxn (commit)" else None) as broker:
        async with producer_of(broker, None, measured) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("t", b"x", partition=0)
            with pytest.raises(KafkaError):
                await producer.commit_transaction()
            assert producer.state is next_state

    timed = [each.attributes for each in measured if each.attributes.get("messaging.operation.name") == "commit"]
    assert [each["error.type"] for each in timed] == [error_type]


async def test_an_error_in_on_measurement_is_logged_and_the_transaction_continues(
    broker: ModelBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(measurement: Measurement) -> None:
        raise ValueError(measurement.name)

    async with TransactionalProducer(
        bootstrap_servers=str(broker.address), transactional_id="id", on_measurement=refuse
    ) as producer:
        await producer.init_transactions()
        with caplog.at_level(logging.ERROR):
            async with producer.transaction():
                await producer.send("t", b"a")
    assert broker.committed == [b"a"]
    assert "on_measurement raised an error" in caplog.text


async def test_spans_of_read_records_are_linked_to_the_spans_that_sent_them(spans: Spans) -> None:
    measured: list[Measurement] = []
    with stuntbroker.broker(topics={"t": 1}) as broker:
        async with TransactionalProducer(
            bootstrap_servers=broker.bootstrap, transactional_id="id", tracer=spans.tracer
        ) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                for n in range(3):
                    await producer.send("t", b"%d" % n, headers=[("own", b"header")])
        async with TransactionalConsumer(
            "t",
            bootstrap_servers=broker.bootstrap,
            group_id="readers",
            tracer=spans.tracer,
            on_measurement=measured.append,
        ) as consumer:
            async with asyncio.timeout(60):
                first = await consumer.getone()
                others: list[object] = []
                while len(others) < 2:
                    others += [each for batch in (await consumer.getmany(timeout_ms=50)).values() for each in batch]

    assert [name for name, _ in first.headers] == ["own", "traceparent"]
    polls = spans.named("poll t")
    assert all(span.kind is SpanKind.CLIENT for span in polls)
    linked = [link.context.span_id for span in polls for link in span.links]
    assert linked == [span.context.span_id for span in spans.named("send t")]
    single, *batches = [attributes(span) for span in polls]
    assert "messaging.batch.message_count" not in single
    assert (single["messaging.destination.partition.id"], single["messaging.kafka.offset"]) == ("0", 0)
    assert sum(each["messaging.batch.message_count"] for each in batches) == 2
    assert not any("messaging.kafka.offset" in each for each in batches)
    assert attributes(polls[0])["messaging.consumer.group.name"] == "readers"
    assert attributes(polls[0])["server.port"] == int(broker.bootstrap.split(":")[1])
    assert sum(each.value for each in measured if each.name == "messaging.client.consumed.messages") == 3
    assert {each.name for each in measured} == {
        "messaging.client.consumed.messages",
        "messaging.client.operation.duration",
    }
    assert {each.attributes["messaging.consumer.group.name"] for each in measured} == {"readers"}


async def test_a_trace_context_of_the_application_stays_in_the_headers_and_is_linked(spans: Spans) -> None:
    given = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with stuntbroker.broker(topics={"t": 1}) as broker:
        async with TransactionalProducer(
            bootstrap_servers=broker.bootstrap, transactional_id="id", tracer=spans.tracer
        ) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("t", b"with", headers=[("traceparent", given), ("own", b"header")])
                with_baggage = [("traceparent", b"no context"), ("tracestate", b"a=1"), ("baggage", b"app=1")]
                await producer.send("t", None, b"key", headers=with_baggage)
        with_context, replaced = (list(record.headers) for record in broker.records("t"))

    linked, unlinked = spans.named("send t")
    assert [f"{link.context.span_id:x}" for link in linked.links] == ["b7ad6b7169203331"]
    assert not unlinked.links
    assert "messaging.kafka.message.tombstone" not in attributes(linked)
    assert attributes(unlinked)["messaging.kafka.message.tombstone"] is True
    assert with_context == [("traceparent", given), ("own", b"header")]
    assert [name for name, _ in replaced] == ["baggage", "traceparent"] and replaced[0][1] == b"app=1"
    assert replaced[1][1].split(b"-")[2] == b"%016x" % unlinked.context.span_id


def test_the_blocking_producer_has_spans(broker: ModelBroker, spans: Spans) -> None:
    with blocking.TransactionalProducer(
        bootstrap_servers=str(broker.address), transactional_id="id", tracer=spans.tracer
    ) as producer:
        producer.init_transactions()
        with spans.tracer.start_as_current_span("request"), producer.transaction():
            producer.send("t", b"a")

    (request,), (transaction,) = spans.named("request"), spans.named("transaction id")
    assert transaction.parent is not None and transaction.parent.span_id == request.context.span_id
    assert len(spans.named("send t")) == 1


def test_the_current_span_of_the_thread_that_sends_is_the_parent(broker: ModelBroker, spans: Spans) -> None:
    with blocking.TransactionalProducer(
        bootstrap_servers=str(broker.address), transactional_id="id", tracer=spans.tracer
    ) as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(50):
                with spans.tracer.start_as_current_span(f"work {number}"):
                    producer.send("t", b"value", partition=0)

    works = {number: spans.named(f"work {number}")[0].get_span_context().span_id for number in range(50)}
    assert [span.parent and span.parent.span_id for span in spans.named("send t")] == list(works.values())


async def test_every_span_of_a_record_ends(broker: ModelBroker, spans: Spans) -> None:
    async with producer_of(broker, spans) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            with pytest.raises(TypeError):
                await producer.send("t", "no bytes", partition=0)
            await producer.send("t", b"value", partition=0)

    refused, written = spans.named("send t")
    assert (attributes(refused)["error.type"], "error.type" in attributes(written)) == ("TypeError", False)


def test_without_a_tracer_nothing_of_opentelemetry_is_imported() -> None:
    code = (
        "import sys; from stuntbroker.client import TransactionalConsumer, TransactionalProducer; import json; print(\
json.dumps([name for name in sys.modules if name.startswith('opentelemetry')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_record_that_is_not_taken_is_a_span_and_is_not_counted_as_sent(
    broker: ModelBroker, spans: Spans
) -> None:
    measured: list[Measurement] = []
    producer = TransactionalProducer(
        bootstrap_servers=str(broker.address),
        transactional_id="id",
        max_request_size=500,
        tracer=spans.tracer,
        on_measurement=measured.append,
    )
    async with producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("t", b"x" * 1_000, partition=0)
        await producer.abort_transaction()

    (span,) = spans.named("send t")
    assert (attributes(span)["error.type"], span.status.status_code) == ("MESSAGE_TOO_LARGE", StatusCode.ERROR)
    assert [(each.name, each.attributes["error.type"]) for each in measured if "error.type" in each.attributes] == [
        ("messaging.client.operation.duration", "MESSAGE_TOO_LARGE")
    ]


class FailingProcessor(SpanProcessor):
    """Raises an error when a span of a name begins, or ends."""

    def __init__(self, when: str, name: str) -> None:
        self.when, self.name = when, name
        self.raised = 0

    def on_start(self, span: Span, parent_context: object = None) -> None:
        self._fail("begins", span.name)

    def on_end(self, span: ReadableSpan) -> None:
        self._fail("ends", span.name)

    def _fail(self, when: str, name: str) -> None:
        if when == self.when and name.startswith(self.name):
            self.raised += 1
            raise RuntimeError("the exporter is full")


def failing_tracer(when: str, name: str) -> tuple[FailingProcessor, Tracer]:
    processor, provider = FailingProcessor(when, name), TracerProvider()
    provider.add_span_processor(processor)
    return processor, provider.get_tracer("test")


@pytest.mark.parametrize("when", ["begins", "ends"])
@pytest.mark.parametrize("name", ["transaction", "send"])
async def test_a_tracer_that_fails_changes_nothing_about_a_transaction(
    broker: ModelBroker, when: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    processor, tracer = failing_tracer(when, name)
    options = {"bootstrap_servers": str(broker.address), "transactional_id": "id"}
    before = asyncio.all_tasks()
    async with TransactionalProducer(tracer=tracer, max_request_size=500, **options) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_and_wait("t", b"committed")
        await producer.begin_transaction()
        await producer.send("t", b"x" * 1000)
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.stop(leave_open=True)

    assert (broker.committed, producer.state) == ([b"committed"], State.CLOSED)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert processor.raised >= 2
    assert caplog.text.count("the tracer raised an error") == processor.raised


async def test_a_tracer_that_fails_loses_no_record() -> None:
    processor, tracer = failing_tracer("begins", "poll")
    with stuntbroker.broker(topics=["t"]) as broker:
        await asyncio.to_thread(broker.produce, "t", b"1", b"2", b"3")
        async with TransactionalConsumer(
            "t", bootstrap_servers=broker.bootstrap, group_id="g", tracer=tracer
        ) as consumer:
            values = [(await consumer.getone()).value]
            values += [
                record.value for batch in (await consumer.getmany(timeout_ms=5_000)).values() for record in batch
            ]
    assert (values, processor.raised) == ([b"1", b"2", b"3"], 2)
