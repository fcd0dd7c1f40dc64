"""OpenTelemetry spans, and measurements for a function of the application, from transactional producers and consumers.

Names and attributes follow OpenTelemetry's semantic conventions for messaging. OpenTelemetry is needed, and imported, only if
a tracer is given. Spans contain no keys or values of records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec

from stuntbroker.client.errors import NAMES
from stuntbroker.client.logger import log
from stuntbroker.client.producer.batches import Headers, RecordFuture
from stuntbroker.client.producer.states import State
from stuntbroker.client.transactional_errors import ProducerError
from stuntbroker.protocol.addresses import Address

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer


SYSTEM: Final = {"messaging.system": "kafka"}
SENT: Final = "messaging.client.sent.messages"
CONSUMED: Final = "messaging.client.consumed.messages"
DURATION: Final = "messaging.client.operation.duration"
ENDING: Final = {State.COMMITTING_TRANSACTION: "commit", State.ABORTING_TRANSACTION: "abort"}
"""State -> operation whose duration is measured."""
TRACE_CONTEXT: Final = frozenset({"traceparent", "tracestate"})
"""Headers of a W3C trace context."""
LINKS_MAX: Final = 128
"""Maximum links of a consumer span: OpenTelemetry keeps no more."""


class Measurement(NamedTuple):
    """A count or a duration, for `on_measurement`."""

    name: str
    """`messaging.client.sent.messages`, `messaging.client.consumed.messages`: a number of records to add to a counter.
    `messaging.client.operation.duration`: seconds for a histogram."""
    value: float
    attributes: Mapping[str, str]


OnMeasurement = Callable[[Measurement], object]
Arguments = ParamSpec("Arguments")


def harmless(method: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Decorate a method so that an error of the tracer is logged, and does not affect records or transactions."""

    @wraps(method)
    def guarded(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        try:
            method(*arguments, **named)
        except Exception:
            log.exception("the tracer raised an error")

    return guarded


class Telemetry:
    """Telemetry common to producers and consumers."""

    def __init__(self, tracer: Tracer | None, on_measurement: OnMeasurement | None) -> None:
        self.tracer = tracer
        self._on_measurement = on_measurement

    def measure(self, name: str, value: float, attributes: Mapping[str, str]) -> None:
        """Pass a measurement to the application's function, whose errors are logged and otherwise ignored."""
        if self._on_measurement is None:
            return
        try:
            self._on_measurement(Measurement(name, value, {**SYSTEM, **attributes}))
        except Exception:
            log.exception("on_measurement raised an error")


class ProducerTelemetry(Telemetry):
    """A span for each transaction and for each record; counts and durations of batches, commits and aborts."""

    def __init__(
        self, tracer: Tracer | None, on_measurement: OnMeasurement | None, client_id: str, transactional_id: str
    ) -> None:
        super().__init__(tracer, on_measurement)
        self._attributes = {**SYSTEM, "messaging.client.id": client_id}
        self._transactional_id = transactional_id
        self._span: Span | None = None
        self._since_s = 0.0

    # --- transactions

    @harmless
    def on_transition(self, before: State, after: State, error: ProducerError | None) -> None:
        """Update the transaction's span and measurements after a change of the producer's state."""
        if after is State.IN_TRANSACTION:
            self._begin()
        elif after in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION):
            self._since_s = time.monotonic()
        elif after is State.ABORTABLE_ERROR:
            self._note_error(error)
            self._measure_end(before, error)
        elif after in (State.FATAL_ERROR, State.CLOSED):
            self._note_error(error)
            self._measure_end(before, error)
            self._end("failed" if after is State.FATAL_ERROR else "left open")
        elif before in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION):
            self._measure_end(before)
            self._end("committed" if before is State.COMMITTING_TRANSACTION else "aborted")

    def _measure_end(self, before: State, error: ProducerError | None = None) -> None:
        """Pass on how long a commit or an abort has taken, with the type of its error if it has failed."""
        operation = ENDING.get(before)
        if operation is not None:
            attributes = {"messaging.operation.name": operation} | (
                {} if error is None else {"error.type": error_type(error)}
            )
            self.measure(DURATION, time.monotonic() - self._since_s, attributes)

    def _begin(self) -> None:
        if self.tracer is not None:
            attributes = {
                **self._attributes,
                "messaging.operation.name": "transaction",
                "stuntbroker.transactional_id": self._transactional_id,
            }
            self._span = self.tracer.start_span(f"transaction {self._transactional_id}", attributes=attributes)

    def _note_error(self, error: ProducerError | None) -> None:
        if self._span is None or error is None:
            return
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", error_type(error))
        self._span.set_status(StatusCode.ERROR, str(error.args[0]))

    def _end(self, outcome: str) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.set_attribute("stuntbroker.transaction.outcome", outcome)
            span.end()

    # --- records

    def begin_record(
        self, topic: str, partition: int, headers: Headers, is_tombstone: bool, leader: Address | None = None
    ) -> tuple[Span | None, Headers]:
        """Return the span of a record, and its headers with the trace context, to which consumers link.

        The span's parent is the current span, or the transaction's if there is none. A trace context that the application has
        put into the headers stays, and the span links to it. Without a tracer, or with one that fails, there is no span, and the
        headers are returned as they are.
        """
        if self.tracer is None:
            return None, headers
        try:
            return self._begin_record(self.tracer, topic, partition, headers, is_tombstone, leader)
        except Exception:
            log.exception("the tracer raised an error")
            return None, headers

    def _begin_record(
        self,
        tracer: Tracer,
        topic: str,
        partition: int,
        headers: Headers,
        is_tombstone: bool,
        leader: Address | None,
    ) -> tuple[Span, Headers]:
        from opentelemetry import propagate, trace

        context: Context | None = None
        if self._span is not None and not trace.get_current_span().get_span_context().is_valid:
            context = trace.set_span_in_context(self._span)
        attributes: dict[str, str | int] = {
            **self._attributes,
            **server_attributes(leader),
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(partition),
        }
        if is_tombstone:
            attributes["messaging.kafka.message.tombstone"] = True
        given = _context_of(headers)
        links = [trace.Link(given)] if given is not None else []
        span = tracer.start_span(f"send {topic}", context, trace.SpanKind.PRODUCER, attributes, links)
        if given is not None:
            return span, headers
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        # A trace context that cannot be read is replaced. Other fields, such as baggage, stay as the application gave them.
        kept = [(name, value) for name, value in headers if name not in TRACE_CONTEXT]
        names = {name for name, _ in kept}
        return span, [*kept, *((name, value.encode()) for name, value in carrier.items() if name not in names)]

    @harmless
    def end_record(self, span: Span, record: RecordFuture) -> None:
        """End the span of a record that is written or has failed."""
        from opentelemetry.trace import StatusCode

        error = record.exception()
        if error is None:
            span.set_attribute("messaging.kafka.offset", record.result().offset)
        else:
            span.set_attribute("error.type", error_type(error))
            span.set_status(StatusCode.ERROR, str(error.args[0]))
        span.end()

    @harmless
    def end_unsent(self, span: Span, fault: BaseException) -> None:
        """End the span of a record that was not added to a batch."""
        from opentelemetry.trace import StatusCode

        span.set_attribute("error.type", error_type(fault))
        span.set_status(StatusCode.ERROR, str(fault))
        span.end()

    def record_rejected(self, topic: str, partition: int, error: ProducerError, is_tombstone: bool) -> None:
        """Report a record that was rejected because it can never be written."""
        span, _ = self.begin_record(topic, partition, [], is_tombstone)
        if span is not None:
            self.end_unsent(span, error)
        self.batch_ended(topic, partition, 0, 0.0, error)

    def batch_ended(
        self, topic: str, partition: int, sent_records: int, seconds: float, error: ProducerError | None
    ) -> None:
        """Report a batch that was written or has failed `seconds` after its first record.

        `sent_records`: 0 for a batch that was never sent.
        """
        attributes = {
            "messaging.operation.name": "send",
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(partition),
        }
        if error is not None:
            attributes["error.type"] = error_type(error)
        if sent_records:
            self.measure(SENT, sent_records, attributes)
        self.measure(DURATION, seconds, attributes)


def server_attributes(broker: Address | None) -> dict[str, str | int]:
    """Return the attributes of a broker's address, none if it is not known."""
    return {} if broker is None else {"server.address": broker.host, "server.port": broker.port}


def _context_of(headers: Headers) -> SpanContext | None:
    """Return the trace context in the headers of a record, as the application's propagator reads it; None if there is none."""
    from opentelemetry import propagate, trace

    fields = propagate.get_global_textmap().fields
    carrier = {
        name: value.decode("ascii", "replace") for name, value in headers if value is not None and name in fields
    }
    context = trace.get_current_span(propagate.extract(carrier)).get_span_context() if carrier else None
    return context if context is not None and context.is_valid else None


def error_type(error: BaseException) -> str:
    """Return Kafka's name of an error; without a code, the class name of its cause or its own."""
    code = error.code if isinstance(error, ProducerError) else None
    return type(error.__cause__ or error).__name__ if code is None else NAMES.get(code, str(code))


class ConsumerTelemetry(Telemetry):
    """A span for each call that returned records, linked to those of their producers; counts of records."""

    def __init__(
        self,
        tracer: Tracer | None,
        on_measurement: OnMeasurement | None,
        client_id: str,
        group: str,
        leader_of: Callable[[str, int], Address | None],
    ) -> None:
        """`leader_of`: the address of the broker that a partition is read from, if it is known."""
        super().__init__(tracer, on_measurement)
        self._leader_of = leader_of
        self._attributes = {
            **SYSTEM,
            "messaging.client.id": client_id,
            "messaging.consumer.group.name": group,
            "messaging.operation.name": "poll",
            "messaging.operation.type": "receive",
        }
        self._measured = {"messaging.operation.name": "poll", "messaging.consumer.group.name": group}

    @harmless
    def received(self, batches: Sequence[Sequence[Any]], since_ns: int, is_single: bool = False) -> None:
        """Report the records, one sequence for each partition, of a call that began at `since_ns` (nanoseconds since 1970).

        `is_single`: the call returns one record, not a batch.
        """
        for batch in batches:
            if batch:
                attributes = {
                    **self._measured,
                    "messaging.destination.name": batch[0].topic,
                    "messaging.destination.partition.id": str(batch[0].partition),
                }
                self.measure(CONSUMED, len(batch), attributes)
        if any(batches):
            self.measure(DURATION, max(0, time.time_ns() - since_ns) / 1e9, self._measured)
        if self.tracer is not None and any(batches):
            leaders = {self._leader_of(batch[0].topic, batch[0].partition) for batch in batches if batch}
            leader = leaders.pop() if len(leaders) == 1 else None
            self._trace([record for batch in batches for record in batch], since_ns, leader, is_single)

    def _trace(self, records: Sequence[Any], since_ns: int, leader: Address | None, is_single: bool) -> None:
        from opentelemetry import trace

        assert self.tracer is not None
        topics = {record.topic for record in records}
        links = []
        for record in records[:LINKS_MAX]:
            if (context := _context_of(record.headers)) is not None:
                links.append(trace.Link(context))
        attributes: dict[str, str | int] = {**self._attributes, **server_attributes(leader)}
        if is_single:
            attributes["messaging.destination.partition.id"] = str(records[0].partition)
            attributes["messaging.kafka.offset"] = records[0].offset
        else:
            attributes["messaging.batch.message_count"] = len(records)
        name = "poll"
        if len(topics) == 1:
            attributes["messaging.destination.name"] = topic = topics.pop()
            name = f"poll {topic}"
        span = self.tracer.start_span(
            name, kind=trace.SpanKind.CLIENT, attributes=attributes, links=links, start_time=since_ns
        )
        span.end()
