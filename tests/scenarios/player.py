"""Plays a script against a running broker: every command becomes the request that a client would send.

    init            InitProducerId v5; v6 with `2pc` or `keep`
    add tv1         AddPartitionsToTxn v3, for offsets AddOffsetsToTxn v3
    add tv2         Produce v12, for offsets TxnOffsetCommit v5: they add the partition implicitly
    verify          Produce v11, for offsets TxnOffsetCommit v4: they verify that the partition was added
    end tv1, tv2    EndTxn v4, v5
    marker          WriteTxnMarkers v2

The result is the page of the script with the responses and the logs of the broker. If a broker cannot hold markers, the
requests that the script makes while it holds them are skipped.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Generator
from struct import Struct, pack
from typing import Any, Final, Protocol

from stuntbroker.protocol.errors import ErrorCode
from tests.conformance.batches import TRANSACTIONAL, some
from tests.conformance.side import Side, errors_of
from tests.conformance.wire import ANSWER_S_MAX, APIS_BY_NAME, header, request_body
from tests.scenarios.observer import Names, Observer, Partition
from tests.scenarios.script import Command, Script

TIMEOUT_MS: Final = 60_000
TXN2: Final = "tv2"
INIT_FLAGS: Final = {"2pc": "enable_2pc", "keep": "keep_prepared_txn"}
INIT_ANSWER: Final = Struct(">4xi5xh21x")
"""Correlation id and error code in the response to InitProducerId v6."""
UNDER_WAY: Final = 1_000
# Errors of partitions and group coordinators -> the coordinator's errors.
AS_PRODUCE_SAYS: Final = {ErrorCode.INVALID_PRODUCER_EPOCH: "PRODUCER_FENCED"}
AS_OLD_PRODUCE_SAYS: Final = AS_PRODUCE_SAYS | {ErrorCode.NOT_ENOUGH_REPLICAS: "CONCURRENT_TRANSACTIONS"}
DRAFTED: Final = {90: "TRANSACTION_TIMED_OUT", 91: "PRODUCER_FENCED"}
"""Error codes of profile kip-588."""


class Hand(Protocol):
    """Controls a broker beyond requests."""

    @property
    def address(self) -> str: ...

    @property
    def holds_markers(self) -> bool:
        """Whether the broker is holding markers now."""

    @property
    def retried(self) -> frozenset[int]:
        """Retriable errors after which the player repeats a request."""

    def timeout_ms(self, asked_ms: int, soon: bool) -> int:
        """The time-out to request for that of the script; `soon`: the script waits for it to expire."""

    def now_ms(self) -> int: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def wait(self, ms: int) -> None: ...

    def sweep(self, observer: Observer, overdue: bool) -> None:
        """Sweep for timed-out transactions. If one is `overdue`, return after it is aborted."""

    def expire(self, observer: Observer, overdue: bool) -> None:
        """Sweep for unused transactional ids. If one is `overdue`, return after it is removed."""

    def seed(self, side: Side, names: Names, epoch: int) -> bool:
        """Let the transactional id begin at this epoch. True if that needs a restart."""

    def restarts(self, command: Command, observer: Observer) -> bool:
        """Whether the broker must be restarted before this command. Also prepares the log for that restart."""


class Player:
    """Plays one script. `play` yields where the broker must be restarted, and continues after the restart."""

    def __init__(self, script: Script, hand: Hand, own: str) -> None:
        self.script = script
        self.hand = hand
        self.side = Side(hand.address, own)
        self.page: list[str] = []
        """The transcript, line by line, including the commands."""
        self._soon = False
        """The script waits for a time-out before the next InitProducerId."""
        self._wanted = ""
        """The last line that the script expects of the current command."""
        self._sequences: dict[tuple[int, int, Partition], int] = defaultdict(int)

    def play(self) -> Generator[None, None, None]:
        try:
            yield from self._play()
        finally:
            self.side.close()

    def _play(self) -> Generator[None, None, None]:
        for topic, partitions in self.script.topics().items():
            self.side.topic(topic, partitions)
        self.names = Names(self.side)
        if self.script.first_epoch and self.hand.seed(self.side, self.names, self.script.first_epoch):
            yield from self._restarted()
        self.observer = Observer(self.side, self.names)
        for at, command in enumerate(self.script.commands):
            later = (each.words[0] for each in self.script.commands[at + 1 :])
            self._soon = next((word for word in later if word in ("init", "timeout")), "") == "timeout"
            if self.hand.restarts(command, self.observer):
                yield from self._restarted()
            self.page += [f"> {command.text}", *self._transcript(command)]
        self.page += [f"nobody told: {line}" for line in self.observer.unexplained()]

    def _restarted(self) -> Generator[None, None, None]:
        self.side.drop()
        yield
        self.side.address = self.hand.address

    def _transcript(self, command: Command) -> list[str]:
        self.observer.held_here = self.hand.holds_markers
        if self.observer.passed_on and command.words[0] != "release":
            messages = {line.split()[0] for line in command.transcript}
            assert messages <= {"reply", "nothing"}, f"{command.text} cannot be passed over"
            return command.transcript  # This broker cannot hold markers, so the request is skipped.
        if command.times > 1:
            self._init_often(command)
        self._wanted = command.transcript[-1] if command.transcript else ""
        messages = self._do(command)
        self.observer.held_here = self.hand.holds_markers
        if command.words[0] in ("restart", "wait", "hold"):
            return messages  # Their log lines belong to a later command.
        reply = messages.pop() if messages and messages[-1].startswith("reply ") else None
        messages += self.observer.lines()
        if reply is not None:
            messages.append(reply)
        elif not messages and command.words[0] in ("timeout", "expire"):
            messages.append("nothing")
        return messages

    def _do(self, command: Command) -> list[str]:
        words, facts = command.words, command.facts
        match words:
            case ["wait", ms]:
                self.hand.wait(int(ms))
            case ["hold", "markers"]:
                self.observer.held = True
                self.hand.hold()
            case ["release", "markers"]:
                self.observer.held = False
                self.hand.release()
            case ["restart"]:
                return [self.observer.read()]
            case ["timeout", _]:
                self.hand.sweep(self.observer, command.transcript != ["nothing"])
            case ["expire", _]:
                self.hand.expire(self.observer, command.transcript != ["nothing"])
            case ["init", *_]:
                return [self._init(words, facts)]
            case ["add", _, client, *_]:
                return [self._add(client, facts, words[5:])]
            case ["verify", *_]:
                return [self._verify(facts, words[4])]
            case ["end", _, client, *_]:
                return [self._end(client, facts, words[-1] == "commit")]
            case ["marker", *_]:
                return self._marker(words, facts)
            case _:
                raise ValueError(f"no such command: {command.text}")
        return []

    # --- requests

    def _ask(self, api: str, version: int, **fields: Any) -> Any:
        return self.side.quiet(api, version, retry=self.hand.retried, **fields)

    def _producer(self, facts: dict[str, str]) -> dict[str, int]:
        """Producer id and epoch for a request; -1 where the script gives none."""
        producer_id = int(facts.get("id", -1))
        return {
            "producer_id": producer_id if producer_id == -1 else self.names.actual(producer_id),
            "producer_epoch": int(facts.get("epoch", -1)),
        }

    def _init_request(self, words: list[str], facts: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Version and fields of an InitProducerId request."""
        flags = {name: True for word, name in INIT_FLAGS.items() if word in words}
        named = next((int(word[1:]) for word in words if word[0] == "v" and word[1:].isdigit()), 5)
        asked_ms = int(facts.get("timeout", TIMEOUT_MS))
        return 6 if flags else named, {
            "transactional_id": self.names.transactional_id,
            "transaction_timeout_ms": self.hand.timeout_ms(asked_ms, self._soon),
            **self._producer(facts),
            **flags,
        }

    def _init_often(self, command: Command) -> None:
        """Send all but the last of many InitProducerId requests pipelined; sequentially they would take minutes."""
        version, fields = self._init_request(command.words, command.facts)
        api = APIS_BY_NAME["InitProducerId"]
        body = request_body(api, version, fields)
        host, port = self.side.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=ANSWER_S_MAX) as connection:
            for done in range(1, command.times, UNDER_WAY):
                numbers = range(done, min(done + UNDER_WAY, command.times))
                frames = (header(api.key, version, number, flexible=True) + body for number in numbers)
                connection.sendall(b"".join(pack(">i", len(frame)) + frame for frame in frames))
                heard = bytearray()
                while len(heard) < len(numbers) * INIT_ANSWER.size:
                    heard += connection.recv(1 << 16)
                answers = list(INIT_ANSWER.iter_unpack(heard))
                assert answers == [(number, 0) for number in numbers], f"one of {command.text} got an error"
        self.observer.pass_over(to_the_end=True)

    def _init(self, words: list[str], facts: dict[str, str]) -> str:
        version, fields = self._init_request(words, facts)
        reply = self._ask("InitProducerId", version, **fields)
        ongoing = ""
        if reply.ongoing_txn_producer_id != -1:
            known = self.names.known(reply.ongoing_txn_producer_id)
            ongoing = f" ongoing={known}/{reply.ongoing_txn_producer_epoch}"
        return self._reply(reply) + ongoing

    def _name(self, code: int) -> str:
        drafted = DRAFTED.get(code) if self.script.facts.get("profile") == "kip-588" else None
        return drafted or ErrorCode(code).name

    def _end(self, client: str, facts: dict[str, str], commit: bool) -> str:
        version = 5 if client == TXN2 else 4
        own = {"transactional_id": self.names.transactional_id, **self._producer(facts)}
        return self._reply(self._ask("EndTxn", version, committed=commit, **own))

    def _reply(self, reply: Any) -> str:
        line = f"reply {self._name(reply.error_code)}"
        if reply.producer_id == -1:
            return line
        return f"{line} id={self.names.known(reply.producer_id)} epoch={reply.producer_epoch}"

    def _add(self, client: str, facts: dict[str, str], names: list[str]) -> str:
        partitions = [self.names.partition(name) for name in names]
        offsets = self.names.offsets in partitions
        topics = [partition for partition in partitions if partition != self.names.offsets]
        errors: set[str] = set()
        if client == TXN2:
            errors |= self._produce(12, facts, topics) if topics else set()
            errors |= self._commit_offsets(5, facts) if offsets else set()
        else:
            errors |= self._add_partitions(facts, topics) if topics else set()
            errors |= self._add_offsets(facts) if offsets else set()
        return f"reply {' and '.join(sorted(errors))}"

    def _verify(self, facts: dict[str, str], name: str) -> str:
        partition = self.names.partition(name)
        if partition == self.names.offsets:
            (error,) = self._commit_offsets(4, facts)
        else:
            (error,) = self._produce(11, facts, [partition])
        return f"reply {error}"

    def _add_partitions(self, facts: dict[str, str], partitions: list[Partition]) -> set[str]:
        owner = {f"v3_and_below_{name}": value for name, value in self._producer(facts).items()}
        reply = self._ask(
            "AddPartitionsToTxn",
            3,
            v3_and_below_transactional_id=self.names.transactional_id,
            **owner,
            v3_and_below_topics=[{"name": name, "partitions": which} for name, which in _by_topic(partitions).items()],
        )
        results = reply.results_by_topic_v3_and_below
        return {self._name(part.partition_error_code) for topic in results for part in topic.results_by_partition}

    def _add_offsets(self, facts: dict[str, str]) -> set[str]:
        own = {"transactional_id": self.names.transactional_id, **self._producer(facts)}
        return {self._name(self._ask("AddOffsetsToTxn", 3, group_id=self.names.group, **own).error_code)}

    def _produce(self, version: int, facts: dict[str, str], partitions: list[Partition]) -> set[str]:
        """Produce one record to each partition. A refused record uses no sequence number."""
        owner = self._producer(facts)
        data = [
            {
                "name": name,
                "partition_data": [
                    {
                        "index": at,
                        "records": some(
                            1,
                            attributes=TRANSACTIONAL,
                            base_timestamp=self.hand.now_ms(),
                            base_sequence=self._sequences[owner["producer_id"], owner["producer_epoch"], (name, at)],
                            **owner,
                        ),
                    }
                    for at in which
                ],
            }
            for name, which in _by_topic(partitions).items()
        ]
        reply = self._ask(
            "Produce", version, transactional_id=self.names.transactional_id, acks=-1, timeout_ms=5_000, topic_data=data
        )
        for topic in reply.responses:
            for part in topic.partition_responses:
                if not part.error_code:
                    self._sequences[owner["producer_id"], owner["producer_epoch"], (topic.name, part.index)] += 1
        names = AS_OLD_PRODUCE_SAYS if version < 12 else AS_PRODUCE_SAYS
        return {self._meant(code, names) for code in errors_of(reply)}

    def _commit_offsets(self, version: int, facts: dict[str, str]) -> set[str]:
        part = {"partition_index": 0, "committed_offset": 1}
        reply = self._ask(
            "TxnOffsetCommit",
            version,
            transactional_id=self.names.transactional_id,
            group_id=self.names.group,
            topics=[{"name": self.side.name("orders"), "partitions": [part]}],
            **self._producer(facts),
        )
        return {self._meant(code, AS_PRODUCE_SAYS) for code in errors_of(reply)}

    def _meant(self, code: int, names: dict[ErrorCode, str]) -> str:
        """The coordinator's error for the one of a partition, which has a single code for all kinds of fencing."""
        if code == ErrorCode.PRODUCER_FENCED:
            return "PRODUCER_FENCED, which must not be passed on"
        if code == ErrorCode.INVALID_PRODUCER_EPOCH and self._wanted == "reply TRANSACTION_TIMED_OUT":
            return "TRANSACTION_TIMED_OUT"
        return names.get(ErrorCode(code), ErrorCode(code).name)

    def _marker(self, words: list[str], facts: dict[str, str]) -> list[str]:
        partition = self.names.partition(words[-1])
        owner = self._producer(facts)
        each = {
            "transaction_result": "commit" in words, "coordinator_epoch": int(facts.get("coordinator", 0)),
            "topics": [{"name": partition[0], "partition_indexes": [partition[1]]}],
            "transaction_version": 2 if TXN2 in words else 0, **owner,
        }  # fmt: skip
        (error,) = errors_of(self._ask("WriteTxnMarkers", 2, markers=[each]))
        return [*self.observer.new_markers(partition, owner["producer_id"]), f"reply {ErrorCode(error).name}"]


def _by_topic(partitions: list[Partition]) -> dict[str, list[int]]:
    actual: dict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        actual[topic].append(index)
    return actual
