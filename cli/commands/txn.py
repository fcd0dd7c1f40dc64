"""`stuntbroker txn`: lists, describes and ends transactions of any Kafka (KIP-664, KIP-939, KIP-994)."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from stuntbroker.cli.arguments import UsageError, number, single
from stuntbroker.cli.commands.verbs import (
    COMMON_USAGE,
    CONNECTION_OPTIONS,
    Options,
    Shown,
    Verb,
    optional_number,
    run_verb,
    states,
)
from stuntbroker.cli.tables import instant, shown, table
from stuntbroker.client.commands.admin import (
    MAX_TRANSACTION_TIMEOUT_MS,
    Admin,
    Description,
    Listing,
    Marker,
    OpenTransaction,
)
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.protocol.primitives import INT16_MAX, INT32_MAX, INT64_MAX, STRING_MAX
from stuntbroker.protocol.transaction_states import ONGOING, PREPARE_ABORT, PREPARE_COMMIT, RUNNING, STATES

USAGE: Final = (
    """\
usage: stuntbroker txn COMMAND [options]        for any Kafka from 3.0 on

  list             list the transactional ids that match all given options
                     --state STATE                 Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit,
                                                   CompleteAbort; may be repeated
                     --producer-id N               may be repeated
                     --running-longer-than-ms N    with a transaction that started more than N ms ago and has not ended
                     --transactional-id PATTERN    ids that match the regular expression completely (RE2)
  describe         show what the coordinators know about transactional ids
                     --transactional-id ID         may be repeated
  abort            end a hanging transaction in one partition by an abort marker, without its coordinator
                     --topic T --partition P       and either
                     --start-offset O              its first offset, or, for Kafka 2.8,
                     --producer-id N --producer-epoch N --coordinator-epoch N
  force-terminate  abort the open transaction of an id, also a prepared one, and fence its producer
                     --transactional-id ID
  find-hanging     list hanging transactions, with the command that aborts each
                     --topic T --partition P       only in this topic, or in this partition of it (default: in all)
                     --broker-id N                 only in partitions with a replica on this broker
                     --max-transaction-timeout-ms N   only without a new record for this time (default 900000)

"""
    + COMMON_USAGE
    + """\
Examples:
  stuntbroker txn list --running-longer-than-ms 60000
  stuntbroker txn force-terminate --transactional-id payments-1
"""
)

LIST_COLUMNS: Final = ("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE")
"""Table headers for the fields of a Listing."""

ENDED_BY_ABORT: Final = (ONGOING, PREPARE_ABORT)
"""States before force-terminate in which the transaction is aborted by it, or was being aborted."""

Operation = Callable[[Admin], Shown]


def txn(arguments: list[str]) -> int:
    """Run one of the transactional admin commands; return the exit status."""
    return run_verb("txn", VERBS, arguments)


def _verb(prepare: Callable[[Options], Operation], *names: str) -> Verb:
    """Return a command whose operation needs an Admin."""

    def prepared(given: Options) -> Callable[[Cluster], Shown]:
        operation = prepare(given)
        return lambda cluster: operation(Admin(cluster))

    return Verb(prepared, names)


# --- list


def _list(given: Options) -> Operation:
    wanted = states(given, STATES)
    # Unlike Kafka: its tool's --duration-filter also shows ids without a transaction, and finished ones.
    longer_ms = optional_number(given, "--running-longer-than-ms", 0, INT64_MAX)
    pattern = single(given, "--transactional-id", "") or None
    if pattern is not None:
        _checked_id(pattern)
    producer_ids = [_number("--producer-id", text, 0, INT64_MAX) for text in given.get("--producer-id", ())]

    def operation(admin: Admin) -> Shown:
        listings, notes = admin.list_transactions(wanted, producer_ids, longer_ms, pattern)
        for note in notes:
            sys.stderr.write(f"stuntbroker: {shown(note)}\n")
        if longer_ms is not None:
            described = admin.describe_transactions(listing.transactional_id for listing in listings)
            return running_transactions(listings, described, _now_ms())
        text = table(LIST_COLUMNS, listings)
        return Shown(text, {"transactions": [listing._asdict() for listing in listings]})

    return operation


def running_transactions(listings: tuple[Listing, ...], described: dict[str, Description | None], now_ms: int) -> Shown:
    """Return listed transactions with start and duration, without those that have ended since they were listed."""
    rows, documents = [], []
    for listing in listings:
        more = described[listing.transactional_id]
        if more is None or more.state not in RUNNING or more.started_at_ms is None:
            continue
        running_ms = max(0, now_ms - more.started_at_ms)
        listed = listing._replace(producer_id=more.producer_id, state=more.state)
        rows.append((*listed, instant(more.started_at_ms), running_ms))
        documents.append(listed._asdict() | {"started_at_ms": more.started_at_ms, "running_ms": running_ms})
    return Shown(table((*LIST_COLUMNS, "STARTED", "RUNNING-MS"), rows), {"transactions": documents})


# --- describe


def _describe(given: Options) -> Operation:
    ids = [_checked_id(text) for text in given.get("--transactional-id", ())]
    if not ids:
        raise UsageError("txn describe needs --transactional-id ID")

    def operation(admin: Admin) -> Shown:
        described = admin.describe_transactions(ids)
        missing = [each for each, description in described.items() if description is None]
        there = [each for each in described.values() if each is not None]
        failure = f"there is no transactional id {', '.join(map(repr, missing))}" if missing else ""
        now_ms = _now_ms()
        document = {"transactions": [document_of(each, now_ms) for each in there], "not_found": missing}
        return Shown(_descriptions(there, now_ms) if there else "", document, failure)

    return operation


def _descriptions(described: list[Description], now_ms: int) -> str:
    headers = (
        "TRANSACTIONAL-ID",
        "COORDINATOR",
        "STATE",
        "PRODUCER-ID",
        "EPOCH",
        "TIMEOUT-MS",
        "STARTED",
        "RUNNING-MS",
        "PARTITIONS",
    )
    rows = [
        (
            description.transactional_id,
            description.coordinator_id,
            description.state,
            description.producer_id,
            description.producer_epoch,
            "none (two-phase)" if description.two_phase else description.timeout_ms,
            instant(description.started_at_ms),
            "-" if (running_ms := _running_ms(description, now_ms)) is None else running_ms,
            _joined(description.partitions) or "-",
        )
        for description in described
    ]
    return table(headers, rows)


def document_of(description: Description, now_ms: int) -> dict[str, Any]:
    """Return a description as a JSON document."""
    partitions = [{"topic": topic, "partition": partition} for topic, partition in description.partitions]
    facts = {
        "two_phase": description.two_phase,
        "running_ms": _running_ms(description, now_ms),
        "partitions": partitions,
    }
    return description._asdict() | facts


def _running_ms(description: Description, now_ms: int) -> int | None:
    if not description.running or description.started_at_ms is None:
        return None
    return max(0, now_ms - description.started_at_ms)


# --- abort


def _abort(values: Options) -> Operation:
    topic = single(values, "--topic", "")
    if not topic or "--partition" not in values:
        raise UsageError("txn abort needs --topic and --partition")
    partition = number(values, "--partition", 0, 0, INT32_MAX)
    start_offset = optional_number(values, "--start-offset", 0, INT64_MAX)
    producer_id = optional_number(values, "--producer-id", 0, INT64_MAX)
    producer_epoch = optional_number(values, "--producer-epoch", 0, INT16_MAX)
    coordinator_epoch = optional_number(values, "--coordinator-epoch", -1, INT32_MAX)
    given = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (given == (None, None, None)):
        raise UsageError(
            "txn abort needs either --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
        )
    if start_offset is None and None in given:
        raise UsageError("txn abort needs all of --producer-id, --producer-epoch and --coordinator-epoch")

    def operation(admin: Admin) -> Shown:
        if start_offset is not None:
            marker = admin.abort_at(topic, partition, start_offset)
        else:
            assert producer_id is not None and producer_epoch is not None and coordinator_epoch is not None
            marker = admin.abort(topic, partition, Marker(producer_id, producer_epoch, coordinator_epoch))
        text = (
            f"wrote an abort marker for producer {marker.producer_id}, epoch {marker.producer_epoch}, "
            f"coordinator epoch {marker.coordinator_epoch}, to {topic}-{partition}\n"
        )
        where = {"topic": topic, "partition": partition, "start_offset": start_offset}
        return Shown(text, {"aborted": where | marker._asdict()}, is_data=False)

    return operation


# --- force-terminate


def _force_terminate(given: Options) -> Operation:
    if "--transactional-id" not in given:
        raise UsageError("txn force-terminate needs --transactional-id ID")
    transactional_id = _checked_id(single(given, "--transactional-id", ""))

    def operation(admin: Admin) -> Shown:
        # Unlike Kafka: kafka-transactions.sh creates an id that it does not find. A typing error should not do that.
        before = admin.force_terminate(transactional_id)
        document = {"before": document_of(before, _now_ms()), "aborted": before.state in ENDED_BY_ABORT}
        return Shown(_terminated(before), document, is_data=False)

    return operation


def _terminated(before: Description) -> str:
    name = shown(before.transactional_id)
    kind = "two-phase transaction" if before.two_phase else "transaction"
    if before.state in ENDED_BY_ABORT:
        what = f"aborted the {kind} of {name} since {instant(before.started_at_ms)}"
        if before.partitions:
            what += f" in {shown(_joined(before.partitions))}"
    elif before.state == PREPARE_COMMIT:
        what = f"the {kind} of {name} was being committed already, and is committed now"
    else:
        what = f"{name} had no open transaction ({shown(before.state)})"
    return f"{what}; producer {before.producer_id}, epoch {before.producer_epoch}, is fenced\n"


# --- find-hanging


def _find_hanging(values: Options) -> Operation:
    topic = single(values, "--topic", "") or None
    partition = optional_number(values, "--partition", 0, INT32_MAX)
    broker_id = optional_number(values, "--broker-id", 0, INT32_MAX)
    if partition is not None and topic is None:
        raise UsageError("txn find-hanging: --partition needs --topic")
    limit_ms = number(values, "--max-transaction-timeout-ms", MAX_TRANSACTION_TIMEOUT_MS, 0, INT64_MAX)
    given = [word for name in CONNECTION_OPTIONS for value in values.get(name, ()) for word in (name, value)]

    def operation(admin: Admin) -> Shown:
        transactions, leaderless = admin.find_hanging(topic, partition, broker_id, limit_ms)
        now_ms = _now_ms()
        documents = [
            transaction._asdict()
            | {
                "idle_ms": max(0, now_ms - transaction.last_timestamp_ms),
                "abort_command": _abort_command(transaction, given),
            }
            for transaction in transactions
        ]
        missed = [{"topic": name, "partition": index} for name, index in leaderless]
        failure = f"not checked, because they have no leader: {_joined(leaderless)}" if leaderless else ""
        document = {"max_transaction_timeout_ms": limit_ms, "hanging": documents, "leaderless": missed}
        return Shown(_hanging(transactions, now_ms, given, limit_ms), document, failure)

    return operation


def _hanging(transactions: tuple[OpenTransaction, ...], now_ms: int, given: list[str], limit_ms: int) -> str:
    looked_for = f"without a new record for {limit_ms} ms or longer (--max-transaction-timeout-ms)\n"
    if not transactions:
        return f"no hanging transactions {looked_for}"
    headers = (
        "TOPIC",
        "PARTITION",
        "PRODUCER-ID",
        "EPOCH",
        "COORDINATOR-EPOCH",
        "START-OFFSET",
        "LAST-RECORD",
        "IDLE-MS",
    )
    rows = [
        (
            transaction.topic,
            transaction.partition,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.coordinator_epoch,
            transaction.start_offset,
            instant(transaction.last_timestamp_ms),
            max(0, now_ms - transaction.last_timestamp_ms),
        )
        for transaction in transactions
    ]
    commands = "".join(f"  {_abort_command(transaction, given)}\n" for transaction in transactions)
    return f"open transactions {looked_for}{table(headers, rows)}\nto abort them:\n{commands}"


def _abort_command(transaction: OpenTransaction, given: list[str]) -> str:
    """Return the command that aborts a transaction; `given`: its options for the connection."""
    words = [
        "stuntbroker",
        "txn",
        "abort",
        *given,
        "--topic",
        transaction.topic,
        "--partition",
        str(transaction.partition),
        "--start-offset",
        str(transaction.start_offset),
    ]
    return shlex.join(words)


VERBS: Final = {
    "list": _verb(_list, "--state", "--producer-id", "--running-longer-than-ms", "--transactional-id"),
    "describe": _verb(_describe, "--transactional-id"),
    "abort": _verb(
        _abort, "--topic", "--partition", "--start-offset", "--producer-id", "--producer-epoch", "--coordinator-epoch"
    ),
    "force-terminate": _verb(_force_terminate, "--transactional-id"),
    "find-hanging": _verb(_find_hanging, "--topic", "--partition", "--broker-id", "--max-transaction-timeout-ms"),
}


# --- parsing of arguments


def _checked_id(text: str) -> str:
    try:
        if not 0 < len(text.encode()) <= STRING_MAX:
            raise UsageError(f"--transactional-id: it must have 1 to {STRING_MAX} bytes")
    except UnicodeEncodeError:
        raise UsageError(f"--transactional-id {text!r}: it is no UTF-8") from None
    return text


def _number(name: str, text: str, low: int, high: int) -> int:
    return number({name: [text]}, name, 0, low, high)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _joined(partitions: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions)
