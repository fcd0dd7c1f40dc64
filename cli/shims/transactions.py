"""kafka-transactions: list, describe, abort and end transactions."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from stuntbroker.cli.shims.arguments import INT, LONG, SHORT, CommandError, Parser, guarded, run_with_cluster
from stuntbroker.client.commands.admin import MAX_TRANSACTION_TIMEOUT_MS, Admin, Marker
from stuntbroker.client.commands.cluster import Cluster

MINUTE_MS = 60_000


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    return guarded("", lambda: _run(command, arguments))


def _run(command: str, arguments: list[str]) -> int:
    parser = Parser(command)
    parser.add_cluster_options()
    verbs = parser.add_subparsers(dest="verb", required=True, parser_class=_VerbParser)
    listing = verbs.add_parser("list", help="list transactions")
    listing.add_argument(
        "--duration-filter", type=LONG, default=-1, metavar="MS", help="only those that have been open for longer"
    )
    listing.add_argument("--transactional-id-pattern", metavar="REGEX", help="only those whose id matches")
    describe = verbs.add_parser("describe", help="show one transaction")
    describe.add_argument("--transactional-id", required=True, metavar="ID", help="its transactional id")
    producers = verbs.add_parser("describe-producers", help="show the producers of a partition")
    producers.add_argument("--broker-id", type=INT, metavar="ID", help="broker to ask (default: the leader)")
    producers.add_argument("--topic", required=True, help="topic of the partition")
    producers.add_argument("--partition", type=INT, required=True, metavar="N", help="number of the partition")
    abort = verbs.add_parser("abort", help="abort a hanging transaction in one partition")
    abort.add_argument("--topic", required=True, help="topic of the partition")
    abort.add_argument("--partition", type=INT, required=True, metavar="N", help="number of the partition")
    abort.add_argument("--start-offset", type=LONG, metavar="N", help="offset at which the transaction starts")
    abort.add_argument("--producer-id", type=LONG, metavar="ID", help="producer id, instead of --start-offset")
    abort.add_argument("--producer-epoch", type=SHORT, metavar="N", help="with --producer-id: its epoch")
    abort.add_argument("--coordinator-epoch", type=INT, metavar="N", help="with --producer-id: the coordinator's epoch")
    hanging = verbs.add_parser("find-hanging", help="find transactions that no coordinator knows")
    hanging.add_argument("--broker-id", type=INT, metavar="ID", help="search the partitions of this broker")
    hanging.add_argument(
        "--max-transaction-timeout",
        type=LONG,
        default=MAX_TRANSACTION_TIMEOUT_MS // MINUTE_MS,
        metavar="MINUTES",
        help="only those whose last record is older (default: %(default)s minutes)",
    )
    hanging.add_argument("--topic", help="search this topic")
    hanging.add_argument("--partition", type=INT, metavar="N", help="search this partition of --topic")
    terminate = verbs.add_parser("forceTerminateTransaction", help="abort the open transaction of a transactional id")
    terminate.add_argument("--transactionalId", required=True, metavar="ID", help="the transactional id")
    options = parser.parse_args(arguments)
    return run_with_cluster(options, lambda cluster: _VERBS[options.verb](cluster, options))


class _VerbParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(message)


def _table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    widths = [max(len(str(row[at])) for row in (headers, *rows)) for at in range(len(headers))]
    lines = (
        "".join(f"{cell!s:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in (headers, *rows)
    )
    return "".join(f"{line}\n" for line in lines)


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    admin = Admin(cluster)
    longer_ms = options.duration_filter if options.duration_filter >= 0 else None
    listings, _ = admin.list_transactions(running_longer_than_ms=longer_ms, pattern=options.transactional_id_pattern)
    sys.stdout.write(_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), listings))
    return 0


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    described = Admin(cluster).describe_transactions([options.transactional_id])[options.transactional_id]
    if described is None:
        raise CommandError(f"Could not find transactional ID {options.transactional_id}")
    started_ms = described.started_at_ms
    row = (
        described.coordinator_id,
        described.transactional_id,
        described.producer_id,
        described.producer_epoch,
        described.state,
        described.timeout_ms,
        "None" if started_ms is None else started_ms,
        "None" if started_ms is None else _now_ms() - started_ms,
        ",".join(f"{topic}-{partition}" for topic, partition in described.partitions),
    )
    headers = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    sys.stdout.write(_table(headers, [row]))
    return 0


def _describe_producers(cluster: Cluster, options: argparse.Namespace) -> int:
    headers = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    states = Admin(cluster).describe_producers(options.topic, options.partition, options.broker_id)
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else "None",
        )
        for each in states
    ]
    sys.stdout.write(_table(headers, rows))
    return 0


def _abort(cluster: Cluster, options: argparse.Namespace) -> int:
    admin = Admin(cluster)
    if options.start_offset is not None:
        admin.abort_at(options.topic, options.partition, options.start_offset)
    elif None in (options.producer_id, options.producer_epoch, options.coordinator_epoch):
        raise CommandError("abort needs --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")
    else:
        marker = Marker(options.producer_id, options.producer_epoch, options.coordinator_epoch)
        admin.abort(options.topic, options.partition, marker)
    return 0


def _find_hanging(cluster: Cluster, options: argparse.Namespace) -> int:
    if options.broker_id is None and options.topic is None:
        raise CommandError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    limit_ms = options.max_transaction_timeout * MINUTE_MS
    hanging, _ = Admin(cluster).find_hanging(options.topic, options.partition, options.broker_id, limit_ms)
    headers = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    rows = [(*each, (_now_ms() - each.last_timestamp_ms) // MINUTE_MS) for each in hanging]
    sys.stdout.write(_table(headers, rows))
    return 0


def _terminate(cluster: Cluster, options: argparse.Namespace) -> int:
    Admin(cluster).force_terminate(options.transactionalId)
    return 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_VERBS = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _terminate,
}
