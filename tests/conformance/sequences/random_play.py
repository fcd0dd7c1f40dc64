"""Play acts (random_acts.py) on one side: transactions, producers and readers."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Any, Final

from stuntbroker.protocol.errors import ErrorCode
from tests.conformance.batches import CONTROL, T0, TRANSACTIONAL, batch, record
from tests.conformance.sequences.random_acts import IMPLICIT_ADD_FROM, Act
from tests.conformance.sequences.random_acts import TRANSACTIONAL as OWNERS
from tests.conformance.sequences.random_play_broker import BrokerPlayer
from tests.conformance.sequences.random_play_groups import GroupPlayer
from tests.conformance.sequences.random_play_topics import TopicPlayer
from tests.conformance.shape import NEAR_MS
from tests.conformance.side import BUSY, Side, errors_of
from tests.conformance.wire import APIS_BY_NAME, Closed, header, request_body

UNKNOWN_ID: Final = 5_000_099
LATEST_TIME: Final = -3
"""Special timestamp in ListOffsets: the record with the largest timestamp."""
SEQUENCE_LAST: Final = 2**31 - 1
TIMEOUT_MS: Final = 60_000
PRODUCE_BUSY: Final = {*BUSY, ErrorCode.NOT_ENOUGH_REPLICAS}
"""Retriable errors; an old Produce gets NOT_ENOUGH_REPLICAS while the previous transaction is being completed."""
SOON_MS: Final = 60
"""A short time-out that still lasts until the broker has handled the request."""
NEWEST_AT_LEVEL_0: Final = {"end": 4, "put": 11, "commit_offsets": 4}
TELLS_OF_GROUPS: Final = ("describe_group", "list_groups", "delete_group", "offset_delete")
"""Acts whose replies show whether a group without offsets exists."""
UNFINISHED: Final = ("PrepareCommit", "PrepareAbort")


class Producer:
    """State of a client instance."""

    def __init__(self, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.lives: list[tuple[int, int]] = []
        """(producer id, epoch), the newest last."""
        self.next: dict[str, int] = {}
        """Partition -> the sequence number of the next record."""
        self.last: dict[str, tuple[int, int]] = {}
        """Partition -> (first sequence number, count) of the last batch that was written."""

    def becomes(self, producer_id: int, epoch: int) -> None:
        self.lives.append((producer_id, epoch))
        self.next.clear()
        self.last.clear()

    def sequence(self, part: str, meant: str, count: int) -> int:
        then = self.next.get(part, 0)
        match meant:
            case "gap":
                return (then + 2) & SEQUENCE_LAST
            case "again":
                return self.last.get(part, (then, 0))[0]
            case "before":
                return max(self.last.get(part, (then, 0))[0] - 1, 0)
            case "far":
                return SEQUENCE_LAST - 1
            case "zero" | "one" | "two":
                return ("zero", "one", "two").index(meant)
        return then


class Player(TopicPlayer, GroupPlayer, BrokerPlayer):
    """Plays acts on one side, and holds the state of its clients."""

    def __init__(self, side: Side) -> None:
        super().__init__(side)
        self.producers: dict[str, Producer] = {}
        self.created = 0
        """Number of batches so far; each has different contents and timestamps."""
        self.records_are_new = False
        """Records have the current time, not that of an hour ago, as producers expire by the timestamps of their records."""
        self.is_verified = True
        """The broker verifies the first records of a transaction with the coordinator, whatever the Produce version."""

    def play(self, act: Act) -> None:
        self.label = str(act)
        args = act.args
        if self.has_level_0 and act.kind in NEWEST_AT_LEVEL_0:
            # At level 0 Kafka cannot store the state of newer requests, and the id then never replies again.
            args = args | {"version": min(args["version"], NEWEST_AT_LEVEL_0[act.kind])}
        if self.first_to_expire and (act.kind in TELLS_OF_GROUPS or "member" in args):
            self.settle_groups()
        getattr(self, act.kind)(**args)

    # --- producers and their credentials

    def producer(self, who: str) -> Producer:
        if who not in self.producers:
            own = self.side.name(who.split(".")[0]) if who in OWNERS else None
            self.producers[who] = Producer(own)
        return self.producers[who]

    def credentials(self, who: str, meant: str = "own", shift: int = 0) -> tuple[int, int]:
        lives = self.producer(who).lives
        match meant:
            case "none":
                return -1, -1
            case "nobody":
                return UNKNOWN_ID, 0
            case "old" if len(lives) > 1:
                producer_id, epoch = lives[-2]
            case "other" if others := [
                p.lives for name, p in sorted(self.producers.items()) if name != who and p.lives
            ]:
                producer_id, epoch = others[0][-1]
            case _:
                producer_id, epoch = lives[-1] if lives else (UNKNOWN_ID, 0)
        return producer_id, min(epoch + shift, 32_767)

    def transactional_id(self, who: str, meant: str = "own") -> str | None:
        own = self.producer(who).transactional_id
        match meant:
            case "none":
                return None
            case "unknown":
                return self.side.name("none")
            case "other":
                return self.side.name("x1" if who.startswith("x0") else "x0")
        return own

    def settle(self, transactional_id: str | None) -> None:
        """Wait until the transaction is complete, as Kafka completes it after replying to EndTxn."""
        if transactional_id:
            self.side.until(
                lambda r: r.transaction_states[0].transaction_state not in UNFINISHED,
                "DescribeTransactions",
                0,
                transactional_ids=[transactional_id],
            )

    # --- transactions

    def init(
        self, who: str, version: int, give: str = "", epoch: int = 0, timeout_ms: int = TIMEOUT_MS, forget: bool = False
    ) -> None:
        producer = self.producer(who)
        fields: dict[str, Any] = {}
        if give and version >= 3:
            named, at = self.credentials(who, "own" if give == "half" else give, epoch)
            fields = {"producer_id": named, "producer_epoch": -1 if give == "half" else at}
        own = producer.transactional_id
        reply = self.ask(
            "InitProducerId", version, retry=BUSY, transactional_id=own, transaction_timeout_ms=timeout_ms, **fields
        )
        self.settle(own)
        if not reply.error_code and not forget:
            producer.becomes(reply.producer_id, reply.producer_epoch)

    def bump(self, who: str) -> None:
        """Bump the epoch locally, as an idempotent client does after a failure."""
        producer_id, epoch = self.credentials(who)
        self.producer(who).becomes(producer_id, min(epoch + 1, 32_767))

    def add(
        self, who: str, version: int, parts: Sequence[str], cred: str = "own", epoch: int = 0, txn: str = "own"
    ) -> None:
        producer_id, at = self.credentials(who, cred, epoch)
        own = self.transactional_id(who, txn) or ""
        topics = [{"name": name, "partitions": indexes} for name, indexes in self.by_topic(parts)]
        if version >= 4:
            each = {"transactional_id": own, "producer_id": producer_id, "producer_epoch": at, "topics": topics}
            self.ask("AddPartitionsToTxn", version, retry=BUSY, transactions=[each])
            return
        self.ask(
            "AddPartitionsToTxn",
            version,
            retry=BUSY,
            v3_and_below_transactional_id=own,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=at,
            v3_and_below_topics=topics,
        )

    def verify(self, who: str, version: int, parts: Sequence[str], epoch: int = 0) -> None:
        producer_id, at = self.credentials(who, "own", epoch)
        each = {
            "transactional_id": self.transactional_id(who), "producer_id": producer_id, "producer_epoch": at,
            "verify_only": True, "topics": [{"name": name, "partitions": at} for name, at in self.by_topic(parts)],
        }  # fmt: skip
        self.ask("AddPartitionsToTxn", version, retry=BUSY, transactions=[each])

    def add_batch(self, who: Sequence[str], version: int, parts: Sequence[str]) -> None:
        topics = [{"name": name, "partitions": at} for name, at in self.by_topic(parts)]
        all_of_them = []
        for each in who:
            producer_id, epoch = self.credentials(each)
            own = {"transactional_id": self.transactional_id(each), "producer_id": producer_id, "producer_epoch": epoch}
            all_of_them.append({**own, "topics": topics})
        self.ask("AddPartitionsToTxn", version, retry=BUSY, transactions=all_of_them)

    def add_offsets(
        self, who: str, version: int, group: str, cred: str = "own", epoch: int = 0, txn: str = "own"
    ) -> None:
        producer_id, at = self.credentials(who, cred, epoch)
        self.ask(
            "AddOffsetsToTxn",
            version,
            retry=BUSY,
            transactional_id=self.transactional_id(who, txn) or "",
            producer_id=producer_id,
            producer_epoch=at,
            group_id=self.side.name(group),
        )

    def commit_offsets(
        self,
        who: str,
        version: int,
        group: str,
        parts: Sequence[str],
        offset: int = 0,
        cred: str = "own",
        epoch: int = 0,
        txn: str = "own",
        member: str = "",
        generation: int | None = None,
        metadata: int = 2,
    ) -> None:
        producer_id, at = self.credentials(who, cred, epoch)
        more: dict[str, Any] = {}
        if member and version >= 3:
            known, latest = self.membership(group, member)
            more = {"member_id": known, "generation_id_or_member_epoch": latest if generation is None else generation}
        part = {"committed_offset": offset, "committed_metadata": "m" * metadata}
        reply = self.ask(
            "TxnOffsetCommit",
            version,
            retry=BUSY,
            transactional_id=self.transactional_id(who, txn) or "",
            group_id=self.side.name(group),
            producer_id=producer_id,
            producer_epoch=at,
            topics=[
                {"name": name, "partitions": [{"partition_index": index, **part} for index in indexes]}
                for name, indexes in self.by_topic(parts)
            ],
            **more,
        )
        if ErrorCode.OFFSET_METADATA_TOO_LARGE in errors_of(reply):
            self.show(group)

    def end(
        self,
        who: str,
        version: int,
        commit: bool,
        cred: str = "own",
        epoch: int = 0,
        txn: str = "own",
        forget: bool = False,
    ) -> None:
        producer_id, at = self.credentials(who, cred, epoch)
        own = self.transactional_id(who, txn)
        reply = self.ask(
            "EndTxn",
            version,
            retry=BUSY,
            transactional_id=own or "",
            producer_id=producer_id,
            producer_epoch=at,
            committed=commit,
        )
        self.settle(own)
        if version >= 5 and not reply.error_code and not forget and reply.producer_id >= 0:
            self.producer(who).becomes(reply.producer_id, reply.producer_epoch)

    def time_out(self, who: str) -> None:
        """Let a transaction time out, without the client's knowledge."""
        own = self.producer(who).transactional_id
        self.init(who, 4, timeout_ms=SOON_MS)
        if self.has_level_0:
            self.add(who, 3, ["t0-0"])
        else:
            self.put(who, 12, ["t0-0"])
        self.side.until(
            lambda r: r.transaction_states[0].transaction_state not in (*UNFINISHED, "Ongoing"),
            "DescribeTransactions",
            0,
            transactional_ids=[own],
        )

    def write_marker(
        self, who: str, version: int, part: str, commit: bool, epoch: int = 0, transaction_version: int = 0
    ) -> None:
        producer_id, at = self.credentials(who, "nobody" if who == "nobody" else "own", epoch)
        ((topic, indexes),) = self.by_topic([part])
        each = {
            "producer_id": producer_id, "producer_epoch": at, "transaction_result": commit, "coordinator_epoch": 0,
            "topics": [{"name": topic, "partition_indexes": indexes}], "transaction_version": transaction_version,
        }  # fmt: skip
        self.ask("WriteTxnMarkers", version, markers=[each])

    # --- records

    def put(
        self,
        who: str,
        version: int,
        parts: Sequence[str],
        count: int = 1,
        sequence: str = "next",
        cred: str = "own",
        epoch: int = 0,
        txn: str = "own",
        plain: bool = False,
        control: bool = False,
        acks: int = -1,
        codec: int = 0,
        forget: bool = False,
    ) -> None:
        producer = self.producer(who)
        own = self.transactional_id(who, txn)
        is_owner = producer.transactional_id is not None and not plain
        if who == "p":
            cred = "none"
        elif plain and producer.transactional_id:
            own = None
        if plain or (version < IMPLICIT_ADD_FROM and not self.is_verified):
            # The partition would accept a higher epoch, and then reject the coordinator's marker for ever.
            epoch = min(epoch, 0)
        producer_id, at = self.credentials(who, cred, epoch)
        attributes = codec | (TRANSACTIONAL if is_owner else 0) | (CONTROL if control else 0)
        self.created += 1
        records = [
            record(n, b"k%d" % n, b"batch %d, record %d" % (self.created, n), time_delta=n) for n in range(count)
        ]
        began = {part: producer.sequence(part, sequence, count) if producer_id >= 0 else -1 for part in parts}
        first_ms = int(time.time() * 1_000) if self.records_are_new else T0 + 10 * self.created
        stamps = {"base_timestamp": first_ms, "max_timestamp": first_ms + count - 1}
        data = {
            part: batch(
                records,
                attributes=attributes,
                producer_id=producer_id,
                producer_epoch=at,
                base_sequence=first,
                **stamps,
            )
            for part, first in began.items()
        }
        fields = {
            "transactional_id": own, "acks": acks, "timeout_ms": 5_000,
            "topic_data": [
                {**self.topic(name, "Produce", version), "partition_data": [
                    {"index": index, "records": data[f"{label}-{index}"]} for index in indexes
                ]}
                for label, name, indexes in self.by_label(parts)
            ],
        }  # fmt: skip
        if acks == 0:
            self._put_and_forget(version, fields)
            return
        reply = self.ask("Produce", version, retry=PRODUCE_BUSY, **fields)
        if forget or isinstance(reply, Closed):
            return
        answered = {
            (topic.name or topic.topic_id, part.index): part.error_code
            for topic in reply.responses
            for part in topic.partition_responses
        }
        for part, first in began.items():
            ((name, (index,)),) = self.by_topic([part])
            named = self.topic(name, "Produce", version)
            if answered.get((named.get("name") or named.get("topic_id"), index)) == 0 and first >= 0:
                producer.last[part] = first, count
                producer.next[part] = (first + count) & SEQUENCE_LAST

    def _put_and_forget(self, version: int, fields: dict[str, Any]) -> None:
        """Send Produce with acks=0, which has no response; the next request shows whether the connection was closed."""
        api = APIS_BY_NAME["Produce"]
        link = self.side.link("acks 0")
        body = request_body(api, version, fields)
        link.send_frame(header(api.key, version, 1, flexible=version >= api.flexible_from) + body)
        link.send_frame(header(18, 0, 2, flexible=False))
        answer = link.receive()
        messages = struct.unpack_from(">i", answer)[0] if isinstance(answer, bytes) else repr(answer)
        if not isinstance(answer, bytes):
            self.side.drop("acks 0")
        self.side.note(f"Produce v{version} {self.label}, then", messages)

    # --- reading

    def fetch(
        self, version: int, parts: Sequence[str], isolation: int, offset: int | str = "start", limit: int = 1 << 20
    ) -> None:
        self.ask(
            "Fetch",
            version,
            max_wait_ms=0,
            min_bytes=1,
            isolation_level=isolation,
            topics=[
                {
                    **self.topic(name, "Fetch", version, "topic"),
                    "partitions": [
                        {
                            "partition": index,
                            "partition_max_bytes": limit,
                            "fetch_offset": self.log_start(name, index) if offset == "start" else offset,
                        }
                        for index in indexes
                    ],
                }
                for _, name, indexes in self.by_label(parts)
            ],
        )

    def list_offsets(self, version: int, parts: Sequence[str], isolation: int, timestamp: int | str) -> None:
        at = {"T0": T0, "T0+": T0 + 10 * (self.created // 2)}.get(timestamp, timestamp)  # type: ignore[arg-type]
        reply = self.side.quiet(
            "ListOffsets",
            version,
            replica_id=-1,
            isolation_level=isolation,
            topics=[
                {"name": name, "partitions": [{"partition_index": index, "timestamp": at} for index in indexes]}
                for name, indexes in self.by_topic(parts)
            ],
        )
        for part in (part for topic in reply.topics for part in topic.partitions):
            if timestamp == LATEST_TIME and part.timestamp > T0 + NEAR_MS:
                part.offset = min(part.offset, 0)  # It is random which of the broker's own records is the latest.
        self.side.note(f"ListOffsets v{version} {self.label}", reply)

    def describe_producers(self, parts: Sequence[str]) -> None:
        topics = [{"name": name, "partition_indexes": at} for name, at in self.by_topic(parts)]
        self.ask("DescribeProducers", 0, topics=topics)

    def describe_transactions(self, ids: Sequence[str]) -> None:
        self.ask("DescribeTransactions", 0, transactional_ids=[self.side.name(each) for each in ids])

    def list_transactions(self, version: int, states: Sequence[str] = ()) -> None:
        """List only this sequence's transactions, as the brokers have others too."""
        reply = self.side.quiet("ListTransactions", version, state_filters=list(states))
        own = [each for each in reply.transaction_states if each.transactional_id.startswith(self.side.own)]
        self.side.note(f"ListTransactions v{version} {self.label}", own)
