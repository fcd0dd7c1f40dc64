"""The allowed differences from Kafka, with their reasons. Any other difference is a bug in Stuntbroker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from stuntbroker.broker.requests.apis import SERVED


def _any(kafka: Any, ours: Any) -> bool:
    return True


def _we_have_none(kafka: Any, ours: Any) -> bool:
    return bool(ours == "nothing")


def _differ_in_coordinator_epoch(kafka: Any, ours: Any) -> bool:
    if isinstance(kafka, str) and isinstance(ours, str):  # A marker's record ends with the epoch and no headers.
        return len(kafka) == len(ours) == 34 and kafka[:24] == ours[:24] and ours[24:] == "0000000000"
    return bool(kafka != -1 and ours == 0)


@dataclass(frozen=True, slots=True)
class AllowedDifference:
    reason: str
    where: str
    """A regular expression over `case | step | path`."""
    holds: Callable[[Any, Any], bool] = _any
    """Whether the allowance covers these two values (Kafka's, ours)."""


KEY_MAX: Final = 92
"""Highest API key of Apache Kafka 4.3.1."""
ABSENT_APIS: Final = "|".join(str(key) for key in range(KEY_MAX + 1) if key not in SERVED)

ALLOWANCES: Final[dict[str, AllowedDifference]] = {
    "absent APIs": AllowedDifference(
        "security, changes of the quorum, and the groups of KIP-848, KIP-932 and KIP-1071 are not served",
        rf"^api_versions \| .*ranges v\d \| ({ABSENT_APIS})$",
        _we_have_none,
    ),
    "two-phase commit": AllowedDifference(
        "InitProducerId v6 (KIP-939) is served; Kafka has it behind `unstable.api.versions.enable`, and in part",
        r"^api_versions \| .*ranges v\d \| 22$",
        lambda kafka, ours: (kafka, ours) == ("0-5", "0-6"),
    ),
    "absent features": AllowedDifference(
        "of Kafka's features there is transaction.version; the others switch APIs that are not served",
        r"^api_versions \| .*(supported|finalized) v\d \| "
        r"(metadata|group|kraft|share|streams|eligible\.leader\.replicas)\.version$",
        _we_have_none,
    ),
    "updates of absent features": AllowedDifference(
        "what is not served has no feature: it is unknown to UpdateFeatures",
        r"^features_that_we_have_not \| .*UpdateFeatures",
        lambda kafka, ours: ours in (95, "nothing"),
    ),
    "answer instead of closing": AllowedDifference(
        "an ApiVersions request of an unknown version is answered whatever its header is",
        r"^api_versions_of_a_later_day \| .*header v1",
        lambda kafka, ours: bool(kafka == "closed"),
    ),
    "strict tags": AllowedDifference(
        "a tag that is there twice, or a count of tags that no frame can hold, closes the connection",
        r"^client_ids \| .*header v2, (a tag twice|2\^32-1 tags)",
        lambda kafka, ours: bool(ours == "closed"),
    ),
    "topics of this run": AllowedDifference(
        "the answer lists all topics, and the brokers have not the same ones",
        r"^bodies_that_lie \| .*Metadata v1 with -\d+ topics",
    ),
    "topics at once": AllowedDifference(
        "a topic that Metadata makes is there at once, Kafka says UNKNOWN_TOPIC_OR_PARTITION and has it a little later",
        r"^metadata_makes_topics \| .*(first|collides)",
    ),
    "fixed broker": AllowedDifference(
        "the configuration of a running broker cannot be changed: all of it is read-only",
        r"^describe_configs_.* \| .*\.read_only$",
        lambda kafka, ours: bool(kafka is False and ours is True),
    ),
    "answered once": AllowedDifference(
        "what is asked for twice in one request is answered once",
        r"^describe_configs_by_key \| .*a resource twice \| results\[1\]$",
        _we_have_none,
    ),
    "start of the log in refusals": AllowedDifference(
        "a batch that is refused before the log is looked at is refused without its start offset, which clients do not read then",
        r"^\w+ \| .*Produce v\d+ .*\.log_start_offset$",
        lambda kafka, ours: bool(ours == -1),
    ),
    "coordinator epoch": AllowedDifference(
        "the coordinator epoch, in markers too, is 0 as long as there is one broker; Kafka's rises when it is started again",
        r"^random_with_high_epochs \| .*\.(coordinator_epoch|records)$",
        _differ_in_coordinator_epoch,
    ),
    "metadata journal": AllowedDifference(
        "the metadata log is a journal without offsets, epochs and a listener of its own: its length is the number of its lines",
        r"^describe_quorum \| .*\.(high_watermark|log_end_offset|leader_epoch|listeners\[CONTROLLER\])$",
    ),
    "batches of no client": AllowedDifference(
        "the headers of these batches lie, and are kept as they came where Kafka mends them",
        r"^batches_that_are_wrong \| .*"
        r"(log append time|max timestamp wrong|timestamp -2) \|",
    ),
    "records of no client": AllowedDifference(
        "an uncompressed batch of more than two records is stored without a look into them; in a compressed one a wrong length "
        "of a record is refused, as no consumer can read it; a length of more than five bytes is INVALID_RECORD",
        r"^records_that_are_wrong \| .*"
        r"(third with a header count -1|(codec [1-4],|Fetch v12) length one (less|more)|codec 0, length without end) \|",
    ),
}
