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
        "Invalid batch",
        "The bytes read here are not the bytes that were written: the CRC does not match, or there is no valid batch. This "
        "copy of the partition has lost the records. A broker refuses to serve them, or stops reading its log here.",
        "Compare with another replica. If its log is valid at these offsets, delete this copy of the partition and let the "
        "broker fetch it again. Then check the disk, the memory and the kernel log of this machine.",
    ),
    "format": Words(
        "Messages in an old format",
        "These messages are older than Kafka 0.11. They name neither a producer nor a transaction, so the audit cannot "
        "check them. Kafka 4 cannot read them.",
        "Copy the topic with a consumer and a producer of a current version, or wait until retention deletes the segment.",
    ),
    "torn_tail": Words(
        "Incomplete last batch",
        "The newest segment ends in the middle of a batch: the broker was stopped while it wrote the batch. The broker had "
        "not acknowledged this batch.",
        "Nothing. The broker truncates the segment at its next start.",
    ),
    "offset_order": Words(
        "Offsets out of order",
        "A batch has an offset that does not fit between the offsets before and after it. Consumers read records twice, or "
        "skip some. A broker never writes this. Segments were copied together, restored from different times or edited, or "
        "a bit of the offset has flipped; the CRC does not cover the offset.",
        "Find out what changed {file}. Restore the partition from one replica or one backup.",
    ),
    "hanging": Words(
        "Hanging transaction",
        "The partition has records of a transaction that no coordinator will end: the coordinator has completed the "
        "transaction, or does not know it. The last stable offset stays before these records, and compaction stops there.",
        "Check that the producer has stopped. Then abort the transaction in this partition while the broker runs: "
        "`stuntbroker txn abort --topic {topic} --partition {partition} --start-offset {first}` (Kafka's own tool: "
        "`kafka-transactions.sh abort` with the same options). Producers of Kafka 4 with transaction version 2 (KIP-890) "
        "cannot cause this any more.",
    ),
    "overdue": Words(
        "Transaction beyond its time-out",
        "The transaction has been open for longer than its time-out, and its coordinator has not aborted it. Consumers with "
        "read_committed wait for the end of the transaction.",
        "If the broker was stopped in the meantime, the coordinator aborts the transaction soon after the next start. If "
        "the broker was running, its coordinator was not: look in the broker's log for errors of partition {partition} and "
        "of __transaction_state.",
    ),
    "open_two_phase": Words(
        "Prepared transaction of two-phase commit",
        "This transaction takes part in a two-phase commit (KIP-939). It has no time-out: only the application that "
        "prepared it knows the decision of the other system, and may end it. Until then, consumers with read_committed wait.",
        "Start the application that uses {id}: it commits or aborts. If the application will never run again, `stuntbroker "
        "txn force-terminate --transactional-id {id}` aborts the transaction. Kafka then lacks what the other system may "
        "have committed.",
    ),
    "unknown_owner": Words(
        "Open transaction of an unknown coordinator",
        "The transaction is open, and the log of its coordinator is not in this folder: some partitions of "
        "__transaction_state are missing here. A broker may have several folders (log.dirs), and a cluster several brokers.",
        "Query {topic} while the broker runs: `stuntbroker txn find-hanging --topic {topic} --partition {partition}`.",
    ),
    "marker_pending": Words(
        "Decided transaction without all its markers",
        "The coordinator decided the transaction, and was stopped before it had written a marker into each partition. The "
        "outcome is certain, but this partition does not have its marker yet.",
        "Start the broker: the coordinator writes the missing markers. If a later audit has this finding again, the "
        "coordinator cannot reach the leader of the partition.",
    ),
    "marker_missing": Words(
        "Missing marker",
        "The coordinator has recorded the transaction as complete, but this partition has no marker for it. Consumers with "
        "read_committed wait before its records, or take them for a part of the producer's next transaction: they may then "
        "read records of an aborted transaction.",
        "The evidence names the decision. If the transaction was aborted, `stuntbroker txn abort --topic {topic} "
        "--partition {partition} --start-offset {first}` writes the marker. If the transaction was committed, no tool "
        "writes that marker: copy the records with a read_uncommitted consumer, abort, and write the records again. Report "
        "the finding to the maintainers of the broker: this must not happen.",
    ),
    "marker_contradicts": Words(
        "Marker that contradicts the decision",
        "The coordinator decided to commit and the partition has an abort marker, or the other way round. The transaction "
        "is not atomic: some of its partitions have it committed, others aborted.",
        "This cannot be repaired in the log. Find out what wrote the marker: an administrator's abort, a coordinator that "
        "had been replaced, or a restored file. Correct the records with the means of the application.",
    ),
    "marker_undecided": Words(
        "Marker without a decision",
        "The marker has an epoch that the coordinator has not given out yet. A coordinator records its decision before it "
        "sends markers, so something else ended the transaction here, and the coordinator may decide otherwise.",
        "Find out what wrote the marker. After a power failure, the end of the transaction log may be lost: compare it with "
        "another replica.",
    ),
    "marker_without_data": Words(
        "Marker without records",
        "A transaction ended in this partition without any record here: the producer added the partition and did not write "
        "to it, or the coordinator sent the marker twice. Both are normal.",
        "Nothing. Many such markers cost space and time: a client may add partitions to which it does not write.",
    ),
    "marker_suspicious": Words(
        "Marker of an old coordinator, an old epoch or an unknown producer",
        "The marker ends no transaction, and it has an older coordinator epoch, an older producer epoch, or an unknown "
        "producer id. A coordinator or producer that had been replaced was still active.",
        "Find out whether two brokers acted as the coordinator at that time, and whether an administrator aborted a "
        "transaction. Check the neighbouring transactions: they may have been ended too early.",
    ),
    "stale_epoch": Words(
        "Records of a fenced producer",
        "The producer's epoch was raised, and later records have the old epoch. A broker refuses such records: they are from "
        "an instance that had been replaced, or whose transaction had timed out.",
        "Treat these records as invalid. Find out why they were accepted: the producer's state was lost or had expired, "
        "segments were put together by hand, or the broker does not fence.",
    ),
    "mixed_epochs": Words(
        "New epoch within a transaction",
        "The producer's epoch was raised before its transaction had ended. Only the end of a transaction may raise it, so "
        "the transaction has records of an old instance and of its successor.",
        "Compare the records before and after the change of the epoch. The application may have written records twice.",
    ),
    "duplicate": Words(
        "Duplicate records",
        "A producer's sequence numbers repeat: a batch was appended twice. The broker's check for duplicates did not know the "
        "first batch: the producer's state was lost or had expired, or segments were put together by hand.",
        "Consumers read these records twice. Remove them downstream by their key, and look for an unclean election or a "
        "restored partition at that time.",
    ),
    "gap": Words(
        "Missing sequence numbers",
        "Sequence numbers are missing between two batches of a producer, although nothing was deleted here. The log has lost "
        "records that the broker had accepted, or the broker has never written them.",
        "Search the other replicas for the missing records, and look for an unclean election or a truncated log at that time.",
    ),
    "undecodable": Words(
        "Undecodable records",
        "The CRC is valid, so the bytes are as they were written, but they are not valid records: the client wrote them "
        "wrongly. Every consumer fails at this offset.",
        "Find the client that wrote them, by the producer and the time of the batch below. Consumers must skip this offset.",
    ),
    "segment_deleted": Words(
        "File deleted during the audit",
        "A broker uses this folder, and retention or compaction deleted the file before the audit could read it. Its content "
        "is unknown.",
        "Nothing; or stop the broker, or take a snapshot of the folder, and audit that.",
    ),
    "unknown_before": Words(
        "Transaction older than the log",
        "Retention or compaction has removed the beginning of the partition, or its topic was deleted and created again. The "
        "coordinator's log has decisions about this partition whose markers would have been in the removed part, so the "
        "audit cannot check them. This is not an error.",
        "Nothing. To check more, run the audit more often than the retention time.",
    ),
    "output_missing": Words(
        "Input without output",
        "The group has committed the offset of this input record, but the output topics have no committed record for it.",
        "The offsets and the output were not committed in the same transaction. Check that the application sends its offsets "
        "with the transaction (sendOffsetsToTransaction), and that automatic commits are switched off.",
    ),
    "output_duplicate": Words(
        "Input with more than one output",
        "The output topics have this record more often than the committed input explains.",
        "Check that the application writes the output and its offsets in the same transaction, and that old instances are "
        "fenced.",
    ),
    "output_unexpected": Words(
        "Output without input",
        "The output topics have a record that no committed input record explains.",
        "Look for another producer of the topic, or for input that the group processed without committing its offset.",
    ),
}

OTHER: Final = Words("Unknown kind", "This page has no explanation for this kind of finding.", "Read the evidence.")


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason for a new epoch or producer id: its title, its source (KIP or request), and its symbol on the timeline."""

    title: str
    source: str
    symbol: str


REASONS: Final = {
    "first": Reason("new transactional id", "", "circle-open"),
    "first_seen": Reason("first record in the log", "", "circle-open-dot"),
    "init": Reason("new instance", "InitProducerId", "triangle-right"),
    "init_by_owner": Reason("epoch raised by its producer", "KIP-360", "diamond"),
    "end": Reason("epoch raised at the end", "KIP-890", "line-ns"),
    "end_or_fence": Reason("end, or fenced by a new instance", "KIP-890", "bowtie"),
    "timeout": Reason("aborted by the time-out", "KIP-588", "x"),
    "fence": Reason("fenced by a new instance", "InitProducerId", "cross"),
    "exhausted": Reason("epochs exhausted: new producer id", "", "hexagon"),
    "recover": Reason("recovered by a new instance", "KIP-939", "star"),
    "recovered_end": Reason("end of a recovered transaction", "KIP-939", "star-diamond"),
    "removed": Reason("expired", "", "square-x"),
}
