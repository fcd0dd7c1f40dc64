"""Explanations of every kind of finding: its title, what it means, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Words:
    """Explanation of a kind of finding; `todo` may contain {topic}, {partition}, {id}, {first} and {file}."""

    title: str
    meaning: str
    todo: str


WORDS: Final = {
    "corrupt": Words(
        "Bytes that are no valid batch",
        "What was written here is not what is read back: a CRC does not match, or the bytes are no batch at all. The "
        "records in them are lost on this copy. A broker refuses to serve them, or stops reading its log here.",
        "Compare with another replica: if one has the same offsets in good order, delete this copy of the partition and "
        "let the broker fetch it anew. Then look at the disk, the memory and the kernel's log of this machine.",
    ),
    "format": Words(
        "Messages of an old format",
        "These messages are older than Kafka 0.11. They have no producer and no transaction, so nothing can be said of "
        "them. Kafka 4 does not read them any more.",
        "Copy the topic through a consumer and a producer of today, or let retention take the segment.",
    ),
    "torn_tail": Words(
        "An unfinished last batch",
        "The newest segment ends in the middle of a batch: the broker was stopped while it wrote. Nobody was told that "
        "this batch had been accepted.",
        "Nothing. The broker cuts it off when it starts.",
    ),
    "offset_order": Words(
        "Offsets that do not rise",
        "A batch has an offset that does not fit between those around it. Consumers get records twice, or skip some. A "
        "broker never writes this: segments were copied together, restored from different times, or edited, or a bit "
        "turned over, which no CRC covers here.",
        "Find out who touched {file}. Restore the partition from a replica or a backup that is of one piece.",
    ),
    "hanging": Words(
        "A hanging transaction",
        "Records of a transaction are in the partition, and nobody will ever end it: the coordinator has finished, or has"
        " never heard of it. Readers of committed records wait in front of it for ever, and compaction stops there too.",
        "Check that its producer is gone, then abort it in this partition with the broker running: `stuntbroker txn abort"
        " --topic {topic} --partition {partition} --start-offset {first}` (Kafka's own tool: `kafka-transactions.sh "
        "abort` with the same options). Producers of Kafka 4 with transaction version 2 (KIP-890) can no longer cause it.",
    ),
    "overdue": Words(
        "Open beyond its time-out",
        "The transaction is older than its time-out, and its coordinator has not aborted it. Readers of committed records"
        " wait for it.",
        "If the broker was simply stopped meanwhile, it is aborted soon after the next start. If it was running, its "
        "coordinator was not: look for errors of partition {partition} and of __transaction_state in the broker's log.",
    ),
    "open_two_phase": Words(
        "A prepared transaction waits for its owner",
        "This transaction is of two-phase commit (KIP-939): it has no time-out, and only its owner, who knows what the "
        "other system has decided, may end it. Until then readers of committed records wait for it.",
        "Start the application that owns {id}: it will commit or abort. If it is never coming back, `stuntbroker txn "
        "force-terminate --transactional-id {id}` aborts the transaction; what the other system committed is then not in "
        "Kafka.",
    ),
    "unknown_owner": Words(
        "Open, and nobody here knows whose",
        "The transaction is open, and its coordinator keeps its log elsewhere: some partitions of __transaction_state are"
        " not in this folder. A broker may have several folders (log.dirs), a cluster several brokers.",
        "Look at {topic} with the broker running: `stuntbroker txn find-hanging --topic {topic} --partition {partition}`.",
    ),
    "marker_pending": Words(
        "Decided, but not all told",
        "The coordinator had decided, and was stopped before each partition had its marker. The outcome is certain; it "
        "has not arrived yet.",
        "Start the broker: the coordinator then writes the missing markers. If this finding is there again afterwards, "
        "the coordinator cannot reach the leader of the partition.",
    ),
    "marker_missing": Words(
        "A marker was lost",
        "The coordinator has noted the transaction as complete, but this partition never got its marker. Readers of "
        "committed records wait in front of its records, or take them for part of the producer's next transaction: "
        "records of an aborted one can then be seen.",
        "The evidence says how it was decided. If it was an abort, `stuntbroker txn abort --topic {topic} --partition "
        "{partition} --start-offset {first}` gives this partition its marker. If it was a commit, no tool writes that "
        "marker: copy the records first, with a reader of uncommitted ones, and write them again after the abort. Report "
        "it to who maintains the broker: it must not happen.",
    ),
    "marker_contradicts": Words(
        "Told the opposite of what was decided",
        "The coordinator decided one thing, and the partition was told the other. The transaction is not atomic any more:"
        " some of its partitions have it, others do not.",
        "It cannot be mended in place. Find out what wrote the marker: an administrator's abort, a coordinator that had "
        "been replaced, or files that were restored. Correct the records by the application's own means.",
    ),
    "marker_undecided": Words(
        "A marker that nobody decided",
        "The partition has a marker of an epoch that the coordinator has not given out yet: it writes a decision down "
        "before it sends any marker. So the transaction ended here without its coordinator, which may decide otherwise.",
        "Find out what wrote the marker. If the machine had lost its power, the end of the transaction log may be gone: "
        "compare it with another replica.",
    ),
    "marker_without_data": Words(
        "A marker without records",
        "A transaction ended here without having written anything here: the partition was added to it and not used, or "
        "the marker was sent twice. Both are normal.",
        "Nothing. Many of them cost space and time: a client may add partitions that it does not write to.",
    ),
    "marker_suspicious": Words(
        "A marker that should not be",
        "A marker ends nothing, and is of an older coordinator, of an older epoch, or of a producer that nobody knows. "
        "Something that had been replaced was still writing.",
        "Look for two brokers that took themselves for the coordinator at that time, and for an administrator's abort. "
        "Check the transactions next to it: they could have been ended too early.",
    ),
    "stale_epoch": Words(
        "Records of a fenced producer",
        "The producer's epoch had gone up, and records of the old one came after that. A broker refuses them: an instance"
        " that had been replaced, or whose transaction had timed out, has written all the same.",
        "Take these records for what should not be there. Find out how they were let in: the producer's state was lost "
        "or had expired, segments were put together by hand, or the broker does not fence.",
    ),
    "mixed_epochs": Words(
        "A new epoch within a transaction",
        "The epoch of the producer went up before its transaction had ended. Only the end of a transaction may do that, "
        "so records of an older instance and of its successor are in the same transaction.",
        "Compare the records on both sides of the change. The application may have written something twice.",
    ),
    "duplicate": Words(
        "The same records twice",
        "A producer's sequence numbers repeat: a batch was written again although the first had been kept. The broker's "
        "check against duplicates had no memory of it: the producer's state was lost or had expired, or segments were put"
        " together by hand.",
        "Readers see these records twice. Remove them downstream by their key and look for an unclean election or a "
        "restored partition at that time.",
    ),
    "gap": Words(
        "Sequence numbers are missing",
        "Between two batches of a producer there are sequence numbers that the log does not have, although nothing was "
        "deleted here. Records that the broker had accepted are not there any more, or were never written.",
        "Look at the other replicas for the missing records, and for an unclean election or a cut-off log at that time.",
    ),
    "undecodable": Words(
        "Sound, but not readable",
        "The CRC is right, so the bytes are as they were written; but they do not hold what they say: who wrote them, "
        "wrote them so. Every consumer fails here.",
        "Find the client that wrote them (see the producer and the time of the batch below). Consumers must skip this "
        "offset.",
    ),
    "gone": Words(
        "Deleted meanwhile",
        "A broker works in this folder, and retention or a compaction deleted the file before it was read. What it held "
        "is unknown.",
        "Nothing; or stop the broker, or copy the folder at one moment, and audit that.",
    ),
    "unknown_before": Words(
        "Too old to be known",
        "Retention or compaction has taken the beginning of the partition, or its topic was deleted and made anew. "
        "Decisions of the coordinator list it whose markers would have been there: whether they were written can no longer"
        " be seen. That is no fault.",
        "Nothing. To see more, audit more often than the retention time.",
    ),
    "output_missing": Words(
        "An input without its output",
        "The group has committed this input as done, but what it should have become is not among the committed records of"
        " the output.",
        "The offsets and the output were not committed in the same transaction: check that the application sends its "
        "offsets with the transaction (sendOffsetsToTransaction) and has automatic commits switched off.",
    ),
    "output_duplicate": Words(
        "An input that was processed twice",
        "The output has this record more often than the committed input accounts for.",
        "Check that the application writes the output and its offsets in the same transaction, and that old instances are"
        " fenced.",
    ),
    "output_unexpected": Words(
        "An output that no input explains",
        "The output has a record that none of the committed input becomes.",
        "Look for another producer of the topic, or an input that the group took but did not commit.",
    ),
}

OTHER: Final = Words("Something else", "A finding of a kind that this page has no words for.", "Read the evidence.")


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason for a new epoch or producer id: its title, its source (KIP or request), and its symbol on the timeline."""

    title: str
    source: str
    symbol: str


REASONS: Final = {
    "first": Reason("a new id", "", "circle-open"),
    "first_seen": Reason("the first record that is left", "", "circle-open-dot"),
    "init": Reason("a new instance", "InitProducerId", "triangle-right"),
    "init_by_owner": Reason("bump by its owner", "KIP-360", "diamond"),
    "end": Reason("bump at the end", "KIP-890", "line-ns"),
    "end_or_fence": Reason("end, or fenced by a new instance", "KIP-890", "bowtie"),
    "timeout": Reason("aborted by the time-out", "KIP-588", "x"),
    "fence": Reason("fenced by a new instance", "InitProducerId", "cross"),
    "exhausted": Reason("epochs used up: a new producer id", "", "hexagon"),
    "keep": Reason("kept for a new instance", "KIP-939", "star"),
    "kept_end": Reason("end of what was kept", "KIP-939", "star-diamond"),
    "removed": Reason("removed after a long time idle", "", "square-x"),
}
