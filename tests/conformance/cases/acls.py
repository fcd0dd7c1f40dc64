"""ACL requests without an authorizer, and the operations that are then authorized."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.side import Side

ANY, UNKNOWN, TRANSACTIONAL_ID, USER, TWO_PHASE_COMMIT, NO_SUCH = 1, 0, 5, 7, 15, 99
UNKNOWN_TOPIC: Final = bytes.fromhex("00112233445546778899aabbccddeeff")
CODES: Final = (UNKNOWN, ANY, USER, TWO_PHASE_COMMIT, NO_SUCH)


def _filters(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a filter with ANY for all names, and variants of it with one other code each."""
    plain = dict.fromkeys(names, ANY)
    return [plain, *({**plain, name: code} for name in names for code in CODES)]


def acls_without_an_authorizer(side: Side) -> None:
    of_filters = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    of_acls = ("resource_type", "resource_pattern_type", "operation", "permission_type")
    for version in (1, 2, 3):
        for each in _filters(of_filters):
            side.ask("DescribeAcls", version, f"{each}", on=f"{each}", **each)
            side.ask("DeleteAcls", version, f"{each}", on=f"{each} delete", filters=[each])
        for each in _filters(of_acls):
            acl = {"resource_name": "t", "principal": "User:x", "host": "*", **each}
            side.ask("CreateAcls", version, f"{each}", on=f"{each} create", creations=[acl])
        odd = [{**acl, **wrong} for wrong in ({"principal": "nobody"}, {"resource_name": ""}, {"host": ""})]
        side.ask("CreateAcls", version, "odd ones", creations=odd)
        for api, field in (("CreateAcls", "creations"), ("DeleteAcls", "filters")):
            side.ask(api, version, "of nothing", **{field: []})


def what_everybody_may_do(side: Side) -> None:
    topic = side.topic()
    part = {"partition_index": 0, "committed_offset": 1}
    group = side.name("g")
    side.ask(
        "OffsetCommit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [part]}],
    )
    for request in (False, True):
        for version in range(3, 7):
            more = {"include_authorized_operations": request}
            side.ask("DescribeGroups", version, f"{request}", groups=[group, side.name("none")], **more)
        for version in (8, 10, 13):
            more = {"include_topic_authorized_operations": request}
            if version <= 10:
                more["include_cluster_authorized_operations"] = request
            for name in (topic, side.name("none"), "__consumer_offsets", "bad name", ""):
                side.ask(
                    "Metadata",
                    version,
                    f"{name} {request}",
                    topics=[{"name": name}],
                    allow_auto_topic_creation=False,
                    **more,
                )
            if version >= 12:
                unknown = [{"name": None, "topic_id": UNKNOWN_TOPIC}]
                side.ask(
                    "Metadata", version, f"{request} by id", topics=unknown, allow_auto_topic_creation=False, **more
                )
        for version in range(3):
            reply = side.quiet("DescribeCluster", version, include_cluster_authorized_operations=request)
            side.table(f"DescribeCluster v{version} {request}", {"": reply.cluster_authorized_operations})
    side.ask("DescribeTopicPartitions", 0, topics=[{"name": topic}, {"name": side.name("none")}])
