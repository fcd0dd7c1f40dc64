"""kafka-console-consumer with --group: a member of the group, with aiokafka's consumer."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import time

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from stuntbroker.cli.shims.arguments import CommandError, pattern
from stuntbroker.cli.shims.record_lines import (
    COMMIT_S,
    NONE_IN_TIME,
    WAIT_MS,
    Formatter,
    deadline_of,
    finish,
    write_line,
)
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.producing import partition_count
from stuntbroker.client.commands.reader import Row

TIMESTAMP_TYPE_LOG_APPEND = 1
CLIENT_ID = "console-consumer"
OPTIONS = {
    "session.timeout.ms": ("session_timeout_ms", int),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", int),
    "max.poll.interval.ms": ("max_poll_interval_ms", int),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", int),
    "group.instance.id": ("group_instance_id", str),
    "client.id": ("client_id", str),
}
"""Consumer property -> (option of aiokafka, its type)."""


ENDED = "ended by SIGTERM"


def consume_as_member(
    cluster: Cluster, options: argparse.Namespace, properties: dict[str, str], formatter: Formatter
) -> int:
    """Print records until --max-messages, --timeout-ms or an interruption; return the exit status.

    The offsets of printed records are committed every five seconds and at the end. Raises CommandError, ClientError.
    """
    if options.offset is not None:
        raise CommandError("The partition is required when offset is specified.")
    if options.topic is not None:
        partition_count(cluster, options.topic)  # Creates the topic if the broker auto-creates topics.
    try:
        return asyncio.run(_consume_until_sigterm(cluster, options, properties, formatter))
    except KafkaError as fault:
        raise CommandError(f"{type(fault).__name__}: {fault}") from fault


async def _consume_until_sigterm(
    cluster: Cluster, options: argparse.Namespace, properties: dict[str, str], formatter: Formatter
) -> int:
    """Consume until SIGTERM, which ends a wait as Ctrl-C does: printed offsets are committed, and the member leaves."""
    consuming = asyncio.ensure_future(_consume(cluster, options, properties, formatter))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consuming.cancel, ENDED)
    try:
        return await consuming
    except asyncio.CancelledError as cancelled:
        if cancelled.args == (ENDED,):
            return 128 + signal.SIGTERM
        raise


async def _consume(
    cluster: Cluster, options: argparse.Namespace, properties: dict[str, str], formatter: Formatter
) -> int:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=[str(address) for address in cluster.bootstrap],
        group_id=options.group,
        isolation_level=options.isolation_level,
        auto_offset_reset="earliest" if options.from_beginning else "latest",
        enable_auto_commit=False,
        **{"client_id": CLIENT_ID, **_options(properties), **(cluster.security or {})},
    )
    if options.include is not None:
        consumer.subscribe(pattern=f"^(?:{pattern(options.include).pattern})$")
    else:
        consumer.subscribe([options.topic])
    records = 0
    printed: dict[TopicPartition, int] = {}
    commits = properties.get("enable.auto.commit", "true").lower() == "true"
    try:
        await consumer.start()
        deadline_s = deadline_of(options.timeout_ms)
        commit_s = time.monotonic() + COMMIT_S
        while options.max_messages is None or records < options.max_messages:
            if time.monotonic() >= deadline_s:
                sys.stderr.write(NONE_IN_TIME)
                break
            wait_ms = max(1, int(min(WAIT_MS, (deadline_s - time.monotonic()) * 1000)))
            left = None if options.max_messages is None else options.max_messages - records
            batches = await consumer.getmany(timeout_ms=wait_ms, max_records=left)
            offsets: dict[TopicPartition, int] = {}
            for partition, batch in batches.items():
                for record in batch:
                    row = Row(record.offset, record.timestamp, record.key, record.value, record.headers)
                    records += 1
                    is_log_append = record.timestamp_type == TIMESTAMP_TYPE_LOG_APPEND
                    skips_errors = options.skip_message_on_error
                    write_line(formatter, partition.partition, row, is_log_append, skips_errors=skips_errors)
                    offsets[partition] = record.offset + 1
            sys.stdout.flush()
            printed |= offsets
            if batches:
                deadline_s = deadline_of(options.timeout_ms)
            if commits and printed and time.monotonic() >= commit_s:
                await _commit(consumer, printed)
                commit_s = time.monotonic() + COMMIT_S
    finally:
        try:
            if commits and printed:
                await _commit(consumer, printed)
        finally:
            await consumer.stop()
        finish(options, records)
    return 0


async def _commit(consumer: AIOKafkaConsumer, printed: dict[TopicPartition, int]) -> None:
    """Commit offsets of the partitions that are still assigned to this member."""
    own = {partition: offset for partition, offset in printed.items() if partition in consumer.assignment()}
    if own:
        with contextlib.suppress(CommitFailedError, IllegalStateError):  # The group was rebalanced meanwhile.
            await consumer.commit(own)


def _options(properties: dict[str, str]) -> dict[str, int | str]:
    """Return aiokafka's options for consumer properties. Raises CommandError for a value that is not a number."""
    given: dict[str, int | str] = {}
    for name, (option, kind) in OPTIONS.items():
        if name in properties:
            try:
                given[option] = kind(properties[name])
            except ValueError:
                raise CommandError(f"{name}={properties[name]} is not a number") from None
    return given
