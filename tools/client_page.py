"""Write docs/client.md from the docstrings and tables of the transactional client; `--check` only checks it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from generated import write_or_check

from stuntbroker import client
from stuntbroker.client.blocking import SentRecord
from stuntbroker.client.blocking import TransactionalConsumer as BlockingConsumer
from stuntbroker.client.producer.error_table import (
    DEFAULT_KINDS,
    DRAFT_NAMES,
    FACTS,
    RULES,
    TABLE,
    Fact,
    Kind,
    Request,
    Rule,
)
from stuntbroker.client.producer.states import OUTCOMES, Call, Outcome, State, diagram
from stuntbroker.client.transactional_errors import FailureType, ProducerError
from stuntbroker.protocol.errors import ErrorCode

PAGE: Final = Path(__file__).parent.parent / "docs" / "client.md"
INTRODUCTION: Final = """\
<!-- Written by `make properties`: change tools/client_page.py or client/ instead. -->
# The transactional client

`from stuntbroker.client import TransactionalProducer, TransactionalConsumer`. [Write exactly once from Python](how-to/client.md)
shows how to use it and what differs from aiokafka. It works against Stuntbroker and against Apache Kafka 2.5 and later; two-phase
commit needs a broker with the complete KIP-939, which Apache Kafka 4.3.1 does not have.
"""
CLASSES: Final = (
    "TransactionalProducer",
    "TransactionalConsumer",
    "Connections",
    "RecordFuture",
    "RecordMetadata",
    "GroupMetadata",
    "PreparedTxnState",
    "Measurement",
)
METHODS: Final = {
    "Connections": ("start", "stop"),
    "SentRecord": ("done", "result", "exception", "add_done_callback"),
}
"""Class -> the methods to document, where some public methods are only for the producers."""
BLOCKING: Final = """\
## Without asyncio

`from stuntbroker.client.blocking import TransactionalProducer, TransactionalConsumer`: the same calls with the same parameters
and errors, which wait. Only what `send` returns is another class, and a consumer is iterated by `for`. Before `start`, a consumer
can be given its subscription or assignment, and nothing can be asked of it. At the end of a process, `stop` aborts an open
transaction; if it is not called, the transaction is left to its time-out.
"""
COLUMNS: Final = tuple(Request)
REMARKS: Final = """\
A connection that breaks, or a response that does not come within `request_timeout_ms`, is R for every request.

Metadata of a topic that a record is sent to: TOPIC_AUTHORIZATION_FAILED is A at once; after any other error the metadata is
requested again until `max_block_ms` is over, which is A. Of a connection: UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE,
SASL_AUTHENTICATION_FAILED and a certificate that is not trusted are F set-up (`AuthenticationError`); an error of
ApiVersions is handled as a broken connection.

The table follows Apache Kafka's Java producer 4.3.1, except where [differences.md](differences.md) says so. KIP-691
proposes other classes for some: fatal for FENCED_INSTANCE_ID, ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID of offsets,
GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, and UNSUPPORTED_FOR_MESSAGE_FORMAT of records; abortable for
INVALID_PRODUCER_ID_MAPPING.
"""
LETTERS: Final = {
    Kind.SUCCESS: "ok",
    Kind.RETRY: "r",
    Kind.REFRESH: "R",
    Kind.ABORTABLE: "A",
    Kind.ABORTABLE_WITH_BUMP: "A+",
    Kind.SPLIT: "S",
    Kind.ABORT_TO_DETERMINE_OUTCOME: "P",
    Kind.RECOVERABLE: "F new",
    Kind.CONFIGURATION: "F set-up",
    Kind.FATAL: "F",
}


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION]
    for name in CLASSES:
        parts += _reference(getattr(client, name), name)
        if name == "TransactionalConsumer":
            parts += _inherited()
    parts += [BLOCKING, *_reference(SentRecord, "SentRecord")]
    parts += [*_errors(), *_table(), *_states()]
    return "\n".join(parts).rstrip() + "\n"


def _reference(cls: type, name: str) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{_text(cls)}\n"
    if fields := getattr(cls, "_fields", ()):  # Of a named tuple.
        yield f"Fields: {', '.join(f'`{field}: {_type_of(cls, field)}`' for field in fields)}.\n"
    if "__init__" in vars(cls) and vars(cls)["__init__"].__doc__:
        yield f"**`{name}({parameters_of(cls.__init__)})`**: {_text(cls.__init__)}\n"
    for method_name, member in vars(cls).items():
        function = inspect.unwrap(member.__func__ if isinstance(member, staticmethod | classmethod) else member)
        if method_name.startswith("_") or not inspect.getdoc(function):
            continue
        if name in METHODS and method_name not in METHODS[name]:
            continue
        if isinstance(member, property):
            yield f"**`{method_name}`**: {_text(member)}\n"
        elif inspect.isfunction(function):
            start = "await " if inspect.iscoroutinefunction(function) else ""
            start = "async with " if inspect.isasyncgenfunction(function) else start
            yield f"**`{start}{method_name}({parameters_of(function)})`**: {_text(function)}\n"


def _type_of(cls: type, field: str) -> str:
    annotation = cls.__annotations__[field]
    return str(getattr(annotation, "__forward_arg__", annotation))


def _inherited() -> Iterator[str]:
    """The methods that TransactionalConsumer inherits, with the docstrings of its blocking twin."""
    yield "The other methods are those of AIOKafkaConsumer:\n"
    yield "| method | what it does |\n|---|---|"
    for name, method in vars(BlockingConsumer).items():
        if name.startswith("_") or name in vars(client.TransactionalConsumer) or not inspect.getdoc(method):
            continue
        start = "await " if inspect.iscoroutinefunction(getattr(client.TransactionalConsumer, name)) else ""
        yield f"| `{start}{name}({parameters_of(method)})` | {' '.join(_text(method).split())} |"
    yield ""


def _text(thing: Any) -> str:
    """Return a docstring as Markdown, with its indented blocks as code."""
    lines: list[str] = []
    is_code = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        if line.startswith("    ") and not is_code:
            lines.append("```python")
            is_code = True
        elif is_code and line and not line.startswith("    "):
            lines.insert(len(lines) - 1 if not lines[-1] else len(lines), "```")
            is_code = False
        lines.append(line[4:] if is_code else line)
    return "\n".join(lines)


def parameters_of(function: Any) -> str:
    """Return the parameters of a method as Python writes them, without types."""
    signature = inspect.signature(function)
    named = [parameter for parameter in signature.parameters.values() if parameter.name not in ("self", "cls")]
    by_name = [parameter for parameter in named if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    needs_star = by_name and all(parameter.kind is not inspect.Parameter.VAR_POSITIONAL for parameter in named)
    shown = []
    for parameter in named:
        if needs_star and parameter is by_name[0]:
            shown.append("*")
        shown.append(_parameter(parameter))
    return ", ".join(shown)


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
    return f"{stars}{parameter.name}{default}"


def _errors() -> Iterator[str]:
    yield "## What to do with which error\n"
    yield "The class of an error says what the application does. All but IllegalStateError derive from aiokafka's `KafkaError`.\n"
    yield "| error | derives from | meaning |\n|---|---|---|"
    for name in client.__all__:
        cls = getattr(client, name)
        if isinstance(cls, type) and issubclass(cls, Exception):
            base = "RuntimeError" if not issubclass(cls, ProducerError) else cls.__bases__[0].__name__
            yield f"| `{name}` | `{base}` | {' '.join((inspect.getdoc(cls) or '').split())} |"
    yield ""
    yield "`ProduceFailedError.failure_type` is one of:\n"
    texts = {
        FailureType.MESSAGE_REJECTED: "because of this record or its batch: too large, invalid, or not permitted in the topic",
        FailureType.DELIVERY_FAILED: "it could not be delivered in time",
        FailureType.TRANSACTION_FAILED: "its transaction failed or was aborted, which other calls report: it may be ignored",
    }
    for failure in FailureType:
        yield f"- `{failure.name}`: {texts[failure]}"
    yield ""


def _table() -> Iterator[str]:
    yield "## Every error code in every response\n"
    yield "\n".join(f"- **{letter}**: {kind.value}" for kind, letter in LETTERS.items())
    yield ""
    yield "A code that KIP-1050 gives a class has it in every response, also where the table says F: an authorization error is an"
    yield "AuthorizationError; ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID are ApplicationRecoverableErrors;"
    yield "INVALID_TOPIC_EXCEPTION and others about settings are InvalidConfigurationErrors.\n"
    yield f"| code | {' | '.join(request.value for request in COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}"
    for code in ErrorCode:
        if code is ErrorCode.NONE or not any(code in TABLE[request] for request in COLUMNS):
            continue
        cells = [LETTERS[TABLE[request].get(code, DEFAULT_KINDS[request])] for request in COLUMNS]
        yield f"| {code.name} {code.value} | {' | '.join(cells)} |"
    yield f"| any other | {' | '.join(LETTERS[DEFAULT_KINDS[request]] for request in COLUMNS)} |\n"
    yield "Some cells depend on versions or on earlier events; every other one is the same for all versions of a request, and for"
    yield "both transaction versions. The rules are applied from top to bottom:\n"
    yield "| while | response to | cell | becomes |\n|---|---|---|---|"
    for fact, text in FACTS.items():
        for rule in RULES:
            if rule.fact is fact:
                yield f"| {text} | {_requests_of(rule)} | {_replaced_by(rule)} | {LETTERS[rule.kind]} |"
    yield f"\n{REMARKS}"


def _requests_of(rule: Rule) -> str:
    left_out = [request.value for request in COLUMNS if request not in rule.requests]
    if len(left_out) > 1:
        return ", ".join(request.value for request in COLUMNS if request in rule.requests)
    return f"every request but {left_out[0]}" if left_out else "every request"


def _replaced_by(rule: Rule) -> str:
    if isinstance(rule.replaced, Kind):
        return LETTERS[rule.replaced]
    if rule.fact is Fact.KIP_588_DRAFT:
        return f"{DRAFT_NAMES[rule.replaced]} {rule.replaced}"
    return f"{ErrorCode(rule.replaced).name} {rule.replaced}"


def _states() -> Iterator[str]:
    yield "## States\n"
    yield "FATAL_ERROR and CLOSED can follow every state and are left out.\n"
    yield "```mermaid"
    yield from diagram()
    yield "```\n"
    letters = {
        Outcome.RUN: "yes",
        Outcome.WAIT: "waits",
        Outcome.ABORTABLE: "abortable",
        Outcome.COMMIT_FAILED: "CommitFailed",
        Outcome.FATAL: "fatal",
        Outcome.ILLEGAL: "no",
    }
    yield "\n".join(f"- **{letter}**: {outcome.value}" for outcome, letter in letters.items())
    yield ""
    yield f"| call | {' | '.join(state.name for state in State)} |\n|---|{'---|' * len(State)}"
    for call in Call:
        yield f"| `{call.value}` | {' | '.join(letters[OUTCOMES[state, call]] for state in State)} |"


def main() -> int:
    """Write or check; return the exit status."""
    return write_or_check(PAGE, page(), "make properties")


if __name__ == "__main__":
    sys.exit(main())
