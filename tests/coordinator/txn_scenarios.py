"""Plays a scenario file against the state machine (`coordinator.machine`), without a broker.

A file consists of blocks separated by an empty line: command lines (and `#` comments), `----`, and the resulting lines.

    cluster tv=2 [epoch=32766] [profile=kip-588]  transaction.version; first epoch that a new id gets
    init ID [v4] [2pc] [keep] [id=1000 epoch=3]   InitProducerId (of this version), Enable2Pc, KeepPreparedTxn
    32765 times COMMAND                           repeat; only the lines of the last one appear
    add ID tv1|tv2 id=1000 epoch=3 orders-0 ...   AddPartitions, or with tv2 the first produce to a partition
    verify ID id=1000 epoch=3 orders-0            asked by a partition on behalf of a TV1 client
    end ID tv1|tv2 id=1000 epoch=3 commit|abort   EndTxn of version 4, or 5
    wait MS
    restart                                       the coordinator reads its log again
    timeout ID                                    the sweep for timed-out transactions checks this id
    hold markers / release markers                between: the transaction stays prepared
    only stuntbroker: WHY                         tests/scenarios does not play the file against Apache Kafka

Some rules are outside the state machine. Their scenarios say `only the wire: WHY`, are not played here, and may use:

    init ID id=1000 | epoch=3 | timeout=0         only a producer id or only an epoch; another time-out
    expire ID                                     the sweep for unused transactional ids checks this id
    marker commit|abort tv1|tv2 id=1000 epoch=3 coordinator=0 orders-0
                                                  WriteTxnMarkers from a client that is no coordinator

Effects are performed as by the actor: the Complete record follows the markers, and `again` decides the request again.
"""

from __future__ import annotations

from txn_harness import PRODUCER, SPARE

from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.records import key_of, read_record, value_of
from stuntbroker.coordinator.requests import (
    TRANSACTION_TIMED_OUT,
    AddPartitions,
    Append,
    Context,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    Redecide,
    RejectNewRecords,
    Reply,
    Request,
    TimeOut,
    Verify,
    WriteMarkers,
)
from stuntbroker.coordinator.state import Phase, Txn, new_txn
from stuntbroker.protocol.batches.records import Record
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

RULE = "----"
TIMEOUT_MS = 60_000


def partition_of(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return topic, int(index)


def text_of(partitions: frozenset[TopicPartition]) -> str:
    return "".join(f" {topic}-{index}" for topic, index in sorted(partitions))


def record(txn: Txn) -> str:
    parts = [f"append {txn.phase.name} id={txn.producer_id} epoch={txn.producer_epoch}"]
    if txn.last_producer_epoch != -1:
        parts.append(f"last={txn.last_producer_epoch}")
    if txn.next_producer_id != -1:
        parts.append(f"next={txn.next_producer_id}" + (f"/{txn.next_producer_epoch}" if txn.is_recovered else ""))
    if txn.timed_out_epoch != -1:
        parts.append(f"timed_out={txn.timed_out_epoch}")
    if txn.previous_producer_id != txn.producer_id:
        parts.append(f"previous={txn.previous_producer_id}")
    return " ".join(parts) + text_of(txn.partitions)


class Story:
    def __init__(self) -> None:
        self.at = Context(0, 2, SPARE)
        self.txn: Txn | None = None
        self.initial_epoch = 0
        self.is_drafted = False
        """Clients are of profile kip-588."""
        self.held = False
        self.transcript: list[str] = []

    def command(self, line: str) -> None:
        words = line.split()
        given = {name: value for name, _, value in (word.partition("=") for word in words) if value}
        facts = {name: int(value) for name, value in given.items() if name != "profile"}
        match words:
            case ["cluster", *_]:
                self.is_drafted = given.get("profile") == "kip-588"
                self.at = self.at._replace(transaction_version=facts["tv"])
                self.initial_epoch = facts.get("epoch", 0)
            case ["wait", ms]:
                self.at = self.at._replace(now_ms=self.at.now_ms + int(ms))
            case ["hold", "markers"]:
                self.held = True
            case ["release", "markers"]:
                self.held = False
                self._completed()
            case ["init", name, *_]:
                if self.txn is None:
                    self.txn = new_txn(name, PRODUCER, self.initial_epoch - 1)
                version = next((int(word[1:]) for word in words if word[0] == "v" and word[1:].isdigit()), 4)
                timeout_ms = TIMEOUT_NONE if "2pc" in words else TIMEOUT_MS
                owner = facts.get("id", -1), facts.get("epoch", -1)
                self._ask(InitProducerId(timeout_ms, *owner, "keep" in words, version if self.is_drafted else -1))
            case [count, "times", *_]:
                steps_before = len(self.transcript)
                for _ in range(int(count) - 1):
                    self.command(line.partition(" times ")[2])
                del self.transcript[steps_before:]
                self.command(line.partition(" times ")[2])
            case ["restart"]:
                self._restart()
            case ["add", _, ("tv1" | "tv2") as client, _, _, *partitions]:
                wanted = frozenset(map(partition_of, partitions))
                self._ask(AddPartitions(facts["id"], facts["epoch"], wanted, 2 if client == "tv2" else 0))
            case ["verify", _, _, _, partition]:
                self._ask(Verify(facts["id"], facts["epoch"], partition_of(partition)))
            case ["end", _, ("tv1" | "tv2") as client, _, _, ("commit" | "abort") as outcome]:
                self._ask(EndTxn(facts["id"], facts["epoch"], outcome == "commit", 2 if client == "tv2" else 0))
            case ["timeout", _]:
                self._ask(TimeOut())
            case _:
                raise ValueError(f"no such command: {line}")

    def _restart(self) -> None:
        assert self.txn is not None, "nothing is in the log yet"
        value = value_of(self.txn, min(1, self.at.transaction_version))
        actual = read_record(Record(0, 0, key_of(self.txn.transactional_id), value))
        assert actual is not None
        self.txn = actual[1]
        assert self.txn is not None
        self.transcript.append(record(self.txn).replace("append", "read"))

    def _ask(self, request: Request) -> None:
        assert self.txn is not None, "nobody has asked for a producer id yet"
        decision = decide(self.txn, request, self.at)
        if decision.allocated_producer_id:
            self.at = self.at._replace(next_producer_id=self.at.next_producer_id + 1)
        if not decision.effects:
            self.transcript.append("nothing")
        for effect in decision.effects:
            match effect:
                case Append(txn):
                    self.transcript.append(record(txn))
                    self.txn = txn
                case WriteMarkers(txn) if not self.held:
                    self._markers(txn)
                    self._completed()
                case WriteMarkers():
                    self.transcript.append("markers held")
                case RejectNewRecords(txn):
                    self.transcript.append(f"sealed{text_of(txn.partitions)}")
                case Reply(error, producer_id, epoch, ongoing_id, ongoing_epoch):
                    known = "" if producer_id == -1 else f" id={producer_id} epoch={epoch}"
                    kept = "" if ongoing_id == -1 else f" ongoing={ongoing_id}/{ongoing_epoch}"
                    name = "TRANSACTION_TIMED_OUT" if error == TRANSACTION_TIMED_OUT else ErrorCode(error).name
                    self.transcript.append(f"reply {name}{known}{kept}")
                case Redecide():
                    self.transcript.append("again")
                    self._ask(request)

    def _markers(self, txn: Txn) -> None:
        outcome = "commit" if txn.phase is Phase.PREPARE_COMMIT else "abort"
        into = text_of(txn.partitions) or " nowhere"
        self.transcript.append(f"markers {outcome} id={txn.producer_id} epoch={txn.producer_epoch}{into}")

    def _completed(self) -> None:
        assert self.txn is not None
        if not self.transcript or not self.transcript[-1].startswith("markers"):
            self._markers(self.txn)
        (append,) = decide(self.txn, MarkersWritten(), self.at).effects
        assert isinstance(append, Append)
        self.txn = append.txn
        self.transcript.append(record(append.txn))


def replay(text: str) -> str:
    """The same file with the lines that the state machine produces now."""
    story = Story()
    blocks = []
    for block in text.strip().split("\n\n"):
        commands = block.partition(f"\n{RULE}")[0]
        story.transcript = []
        for line in commands.splitlines():
            if not line.startswith(("#", "only ")):
                story.command(line)
        blocks.append("\n".join([commands, RULE, *story.transcript]))
    return "\n\n".join(blocks) + "\n"
