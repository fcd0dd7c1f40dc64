"""Plays the scenarios against Apache Kafka: one process for all of them, in real time.

States that a client cannot create are written to Kafka's transaction log: an id with few epochs left, an id that was long
unused, a transaction without its markers. The log accepts records from a client with the client id `__admin_client`, and
Kafka loads them at the next start. All scenarios that need a restart share one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from struct import pack
from typing import Any, Final

from stuntbroker.coordinator.records import key_of, value_of
from stuntbroker.coordinator.state import Phase, Txn, new_txn, txn_of
from tests.conformance.batches import batch, record
from tests.conformance.side import BUSY, Side, errors_of, prepare
from tests.conformance.wire import APIS_BY_NAME, Link, header, read_reply, request_body
from tests.kit.brokers.kafka_broker import apache_kafka
from tests.scenarios.observer import PAUSE_S, SETTLE_S_MAX, TXN_STATE, Names, Observer
from tests.scenarios.player import Player
from tests.scenarios.script import Command, Script

ADMIN_CLIENT: Final = "__admin_client"
NOT_ENOUGH_REPLICAS: Final = 19
"""Error of Produce before version 12 while the previous transaction is being completed."""
AT_ONCE: Final = 16
FASTER: Final = 30
"""Factor by which time-outs that a scenario waits for are shorter."""
EXPIRED_MS: Final = 8 * 86_400_000
INTERVALS: Final = {
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 100,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 500,
}
Heard = dict[str, list[str] | Exception]
"""Script name -> the transcript of Kafka, or the exception that prevented it."""
UPGRADE, SAFE_DOWNGRADE = 1, 2
LEVELS: Final = (2, 1, 0)


class KafkaHand:
    """Controls Kafka for one scenario."""

    holds_markers = False
    retried = BUSY | {NOT_ENOUGH_REPLICAS}

    def __init__(self, stage: KafkaStage) -> None:
        self._stage = stage

    @property
    def address(self) -> str:
        return self._stage.address

    def timeout_ms(self, asked_ms: int, soon: bool) -> int:
        return asked_ms // FASTER if soon else asked_ms

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def hold(self) -> None:
        """Kafka cannot hold markers: the player skips requests until the script releases them."""

    def release(self) -> None: ...

    def wait(self, ms: int) -> None:
        """Do nothing: `sweep` waits for time-outs, and expiry is written to the log."""

    def sweep(self, observer: Observer, overdue: bool) -> None:
        if overdue:
            _until(lambda: observer.described().transaction_state != Phase.ONGOING.kafka_name)

    def expire(self, observer: Observer, overdue: bool) -> None:
        if overdue:
            _until(lambda: bool(observer.described().error_code))

    def seed(self, side: Side, names: Names, epoch: int) -> bool:
        created = side.quiet(
            "InitProducerId", 5, transactional_id=names.transactional_id, transaction_timeout_ms=60_000, retry=BUSY
        )
        txn = new_txn(names.transactional_id, created.producer_id, epoch - 1)
        fields = {"previous_producer_id": created.producer_id, "timeout_ms": 60_000, "updated_at_ms": self.now_ms()}
        self._write(txn_of(**(txn.as_dict() | fields)))
        return True

    def restarts(self, command: Command, observer: Observer) -> bool:
        match command.words:
            case ["restart"]:
                if observer.passed_on:
                    self._write(observer.back_to_prepared())
                    observer.pass_over()
                return True
            case ["expire", *_] if command.transcript != ["nothing"]:
                assert observer.last is not None
                fields = {"updated_at_ms": self.now_ms() - EXPIRED_MS}
                self._write(txn_of(**(observer.last.as_dict() | fields)))
                observer.pass_over()
                return True
        return False

    def _write(self, txn: Txn) -> None:
        """Append a record to the transaction log, which the coordinator loads when it starts."""
        at = Observer.log_of(txn.transactional_id)[1]
        level = min(1, self._stage.level)
        records = batch(
            [record(key=key_of(txn.transactional_id), value=value_of(txn, level))], base_timestamp=self.now_ms()
        )
        reply = _ask_as_admin_client(
            self.address,
            "Produce",
            9,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[{"name": TXN_STATE, "partition_data": [{"index": at, "records": records}]}],
        )
        assert errors_of(reply) == {0}, f"the transaction log takes no record: {reply}"


def _until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLE_S_MAX
    while not ready():
        assert time.monotonic() < deadline, "what is overdue was never found"
        time.sleep(PAUSE_S)


def _ask_as_admin_client(address: str, api: str, version: int, **fields: Any) -> Any:
    known, link = APIS_BY_NAME[api], Link(address)
    try:
        head = header(known.key, version, 1, client_id=ADMIN_CLIENT, flexible=True)
        link.send_frame(head + request_body(known, version, fields))
        answer = link.receive()
    finally:
        link.close()
    assert isinstance(answer, bytes)
    return read_reply(known, version, answer)


class KafkaStage:
    """Plays scripts concurrently, one transaction version after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = ""
        self.level = LEVELS[0]

    def play(self, scripts: Sequence[Script]) -> Heard:
        players = {script.name: Player(script, KafkaHand(self), script.name.replace("_", "-")) for script in scripts}
        plays = {name: player.play() for name, player in players.items()}
        heard: Heard = {}

        def continue_play(name: str) -> None:
            players[name].side.address = self.address
            try:
                next(plays[name])
            except StopIteration:
                heard[name] = players[name].page
            except Exception as fault:
                heard[name] = fault

        while len(heard) < len(scripts):
            with ExitStack() as running, ThreadPoolExecutor(AT_ONCE) as threads:
                self.address = running.enter_context(apache_kafka(self._folder, **INTERVALS))
                prepare(self.address)
                for level in LEVELS:
                    left = [s.name for s in scripts if s.name not in heard and s.transaction_version == level]
                    if left:
                        self._set_level(level)
                        list(threads.map(continue_play, left))
                self._set_level(LEVELS[0])  # At a lower level, Kafka could not complete prepared TV2 transactions.
        return heard

    def _set_level(self, level: int) -> None:
        """Set `transaction.version` of the running cluster, and wait until the broker has it."""
        if level == self.level:
            return
        kind = UPGRADE if level > self.level else SAFE_DOWNGRADE
        name = b"transaction.version"
        update = pack(">b", len(name) + 1) + name + pack(">hbb", level, kind, 0)
        link = Link(self.address)
        try:
            link.send_frame(header(57, 1, 1, flexible=True) + pack(">ib", 10_000, 2) + update + b"\x00\x00")
            answer = link.receive()
        finally:
            link.close()
        assert isinstance(answer, bytes) and answer[9:11] == b"\x00\x00", answer
        self.level = level
        side = Side(self.address, "features")
        side.until(
            lambda reply: (
                level in [each.max_version_level for each in reply.finalized_features if each.name == name.decode()]
                or level == 0
            ),
            "ApiVersions",
            3,
            client_software_name="scenarios",
            client_software_version="1",
        )
        side.close()
