"""The state that results from the changes of a journal; an invalid change is an error."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stuntbroker.broker.metadata.image import Image, ImageError, TopicImage, image_of
from stuntbroker.storage.ownership import Deleted

A, B = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"
LONG_MAX = 2**63 - 1


def create(name: str = "a", topic_id: str = A, partitions: Any = 2, configs: Any = None) -> dict[str, Any]:
    return {"create": name, "id": topic_id, "partitions": partitions, "configs": {} if configs is None else configs}


def image(*changes: dict[str, Any]) -> Image:
    return image_of(changes)


def test_the_image_has_the_state_of_topics_after_the_last_change() -> None:
    actual = image(
        create(configs={"retention.ms": "5"}),
        create("b", B),
        {"partitions": "a", "count": 7},
        {"configs": "a", "set": {"retention.ms": "6"}},
        {"delete": "b"},
    )
    assert actual.topics == {"a": TopicImage(bytes.fromhex(A), 7, {"retention.ms": "6"})}
    assert actual.deleted == {"b": Deleted({bytes.fromhex(B)}, 2)}


def test_the_image_keeps_all_ids_and_the_largest_partition_count_of_a_deleted_topic_name() -> None:
    actual = image(create(partitions=3), {"delete": "a"}, create("a", B, 1), {"delete": "a"})
    assert actual.topics == {}
    assert actual.deleted == {"a": Deleted({bytes.fromhex(A), bytes.fromhex(B)}, 3)}


def test_deletions_of_one_topic_name_are_read_in_linear_time() -> None:
    def cpu_s(deletions: int) -> float:
        changes = [change for number in range(deletions) for change in (create("a", f"{number:032x}"), {"delete": "a"})]
        before_s = time.process_time()
        assert len(image(*changes).deleted["a"].ids) == deletions
        return time.process_time() - before_s

    cpu_s(100)
    assert cpu_s(20_000) < 50 * cpu_s(2_000)  # It was 200 times when each deletion copied the earlier ids.


def test_the_image_has_the_last_value_of_changes_that_are_not_about_topics() -> None:
    actual = image(
        {"producer_ids_below": 1_000},
        {"transaction_version": 1, "features_epoch": 2},
        {"producer_ids_below": 2_000},
        {"transaction_version": 0, "features_epoch": 3},
        {"producer_ids_below": 2_000},
    )
    assert actual.others == {"producer_ids_below": 2_000, "transaction_version": 0, "features_epoch": 3}
    assert image().others == {}


def test_quotas_of_an_entity_are_the_last_that_were_set() -> None:
    alice = {"user": "alice", "client-id": None}
    actual = image(
        {"quotas": alice, "set": {"producer_byte_rate": "1.5"}},
        {"quotas": {"ip": None}, "set": {"connection_creation_rate": "2.0"}},
        {"quotas": {"client-id": None, "user": "alice"}, "set": {"request_percentage": "inf"}},
        {"quotas": {"ip": None}, "set": {}},
    )
    assert actual.quotas == {(("client-id", None), ("user", "alice")): {"request_percentage": float("inf")}}


def acl(operation: int = 3, exists: bool = True) -> dict[str, Any]:
    return {"acl": [2, "t", 3, "User:alice", "*", operation, 3], "exists": exists}


SENSELESS: dict[str, tuple[list[Any], str]] = {
    "a topic twice": ([create(), create("a", B)], "topic a is created, but exists already"),
    "an id twice": ([create(), create("b", A)], "topic b gets an invalid id, or the id of another topic"),
    "the id of one that was deleted": ([create(), {"delete": "a"}, create("a", A)], "topic a gets an invalid id"),
    "an id that is none": ([create(topic_id="x" * 32)], "topic a gets an invalid id"),
    "a short id": ([create(topic_id="00")], "topic a gets an invalid id"),
    "an id that is a number": ([create() | {"id": 5}], "unknown kind of change"),
    "a name that none may have": ([create("a/b")], "one or more characters other than"),
    "no name": ([create("")], "the empty string"),
    "a name that is a number": ([create() | {"create": 5}], "unknown kind of change"),
    "no partitions": ([create(partitions=0)], "0 is not a whole number in 1..2147483647"),
    "many partitions": ([create(partitions=2**31)], "2147483648 is not a whole number"),
    "partitions in words": ([create(partitions="two")], "'two' is not a whole number"),
    "partitions that are true": ([create(partitions=True)], "True is not a whole number"),
    "configuration in a list": ([create(configs=["a"])], "not a mapping of strings"),
    "configuration with numbers": ([create(configs={"retention.ms": 5})], "not a mapping of strings"),
    "a member too many": ([create() | {"crb": "01234567"}], "unknown kind of change, with 'create'"),
    "creatd": ([{"creatd": "a", "id": A, "partitions": 1, "configs": {}}], "unknown kind of change, with 'creatd', 'id'"),
    "a member missing": ([{"create": "a", "id": A, "partitions": 1}], "unknown kind of change"),
    "nothing": ([{}], "unknown kind of change, with no field"),
    "fewer partitions": ([create(), {"partitions": "a", "count": 1}], "1 is not a whole number in 2"),
    "partitions for nobody": ([{"partitions": "a", "count": 1}], "topic a is changed, but does not exist"),
    "configuration for nobody": ([{"configs": "a", "set": {}}], "topic a is changed, but does not exist"),
    "a deletion of nobody": ([{"delete": "a"}], "topic a is changed, but does not exist"),
    "a deletion twice": ([create(), {"delete": "a"}, {"delete": "a"}], "topic a is changed, but does not exist"),
    "producer ids again": ([{"producer_ids_below": 9}, {"producer_ids_below": 8}], "8 is not a whole number in 9"),
    "producer ids below none": ([{"producer_ids_below": -1}], "-1 is not a whole number"),
    "producer ids without end": ([{"producer_ids_below": LONG_MAX + 1}], "is not a whole number"),
    "producer ids in words": ([{"producer_ids_below": "9"}], "'9' is not a whole number"),
    "producer ids of another name": ([{"producer_ids_belov": 9}], "unknown kind of change, with 'producer_ids_belov'"),
    "a level that is none": ([{"transaction_version": 3, "features_epoch": 2}], "3 is not a whole number in 0..2"),
    "an epoch again": (
        [{"transaction_version": 0, "features_epoch": 3}, {"transaction_version": 1, "features_epoch": 2}],
        "2 is not a whole number in 3",
    ),
    "quotas of an unknown type": ([{"quotas": {"users": "a"}, "set": {"x": "1"}}], "not an entity with quotas"),
    "quotas of no entity": ([{"quotas": {}, "set": {"x": "1"}}], "not an entity with quotas"),
    "quotas of a number": ([{"quotas": {"user": 5}, "set": {"x": "1"}}], "not an entity with quotas"),
    "quotas of a name": ([{"quotas": "user", "set": {"x": "1"}}], "not an entity with quotas"),
    "quotas that are numbers": ([{"quotas": {"user": "a"}, "set": {"x": 1}}], "not a mapping of strings"),
    "quotas in words": ([{"quotas": {"user": "a"}, "set": {"x": "one"}}], "'one' is not a number"),
    "quotas removed twice": (
        [{"quotas": {"user": "a"}, "set": {"x": "1"}}, *[{"quotas": {"user": "a"}, "set": {}}] * 2],
        "removed, but there are none",
    ),
    "an ACL twice": ([acl(), acl()], "an ACL is created, but exists already"),
    "an ACL removed that is none": ([acl(exists=False)], "an ACL is removed, but does not exist"),
    "an ACL of an impossible operation": ([acl(operation=2**70)], "not an ACL"),
    "an ACL for any operation": ([acl(operation=1)], "not an ACL"),
    "an ACL with a code that is true": ([acl(operation=True)], "not an ACL"),
    "a short ACL": ([{"acl": [2, "t"], "exists": True}], "not an ACL"),
    "an ACL that perhaps exists": ([acl() | {"exists": 1}], "unknown kind of change"),
    "a level alone": ([{"transaction_version": 1}], "unknown kind of change"),
}  # fmt: skip


@pytest.mark.parametrize("case", SENSELESS)
def test_an_invalid_change_is_refused_with_its_line_number(case: str) -> None:
    changes, reason = SENSELESS[case]
    with pytest.raises(ImageError, match=reason) as refused:
        image_of(changes)
    assert refused.value.line == len(changes)
