"""Every request is authorized if the broker has an authorizer, and none if it has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from stuntbroker.broker.configuration.properties import ConfigError
from stuntbroker.broker.permissions.authorizer import ANONYMOUS, Principal
from stuntbroker.protocol.acls import Operation, Resource
from stuntbroker.protocol.config_resources import ResourceType
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from stuntbroker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from stuntbroker.protocol.messages.describe_acls_request import DescribeAclsRequest
from stuntbroker.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from stuntbroker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.kit.groups.group_requests import init
from tests.kit.rig import running_rig

STANDARD = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ALICE = Principal("User", "alice")
ANYTHING = (1, None, 1, None, None, 1, 1)


def of_alice(resource: Resource, name: str, operation: Operation) -> AclCreation:
    return AclCreation(resource, name, 3, str(ALICE), "*", operation, 3)


async def test_acls_are_kept_over_a_restart_and_a_rewritten_journal(tmp_path: Path) -> None:
    kept = of_alice(Resource.TOPIC, "kept", Operation.READ)
    removed = of_alice(Resource.TOPIC, "removed", Operation.READ)
    for _ in range(3):  # The journal is rewritten at every start.
        async with running_rig(tmp_path / "data", STANDARD) as rig:
            client = rig.client()
            client.ask(CreateAclsRequest([kept, removed]), 3)
            client.ask(DeleteAclsRequest([DeleteAclsFilter(*ANYTHING[:1], "removed", *ANYTHING[2:])]), 3)
            described = client.ask(DescribeAclsRequest(*ANYTHING), 3)
            assert [each.resource_name for each in described.resources] == ["kept"]


async def test_an_acl_is_listed_by_every_filter_that_it_matches_though_it_is_deleted_once(tmp_path: Path) -> None:
    async with running_rig(tmp_path / "data", STANDARD) as rig:
        client = rig.client()
        client.ask(CreateAclsRequest([of_alice(Resource.TOPIC, name, Operation.READ) for name in ("a", "b")]), 3)
        of_a = DeleteAclsFilter(*ANYTHING[:1], "a", *ANYTHING[2:])
        results = client.ask(DeleteAclsRequest([of_a, DeleteAclsFilter(*ANYTHING), of_a]), 3).filter_results
        names = [[each.resource_name for each in result.matching_acls] for result in results]
        assert names == [["a"], ["a", "b"], ["a"]]
        assert client.ask(DescribeAclsRequest(*ANYTHING), 3).resources == []


async def test_stored_acls_survive_a_restart_without_an_authorizer(tmp_path: Path) -> None:
    async with running_rig(tmp_path / "data", STANDARD) as rig:
        rig.client().ask(CreateAclsRequest([of_alice(Resource.TOPIC, "t", Operation.READ)]), 3)
    async with running_rig(tmp_path / "data") as rig:
        client = rig.client()
        assert client.ask(DescribeAclsRequest(*ANYTHING), 3).error_code == ErrorCode.SECURITY_DISABLED
    async with running_rig(tmp_path / "data", STANDARD) as rig:
        described = rig.client().ask(DescribeAclsRequest(*ANYTHING), 3)
        assert [each.resource_name for each in described.resources] == ["t"]


@pytest.mark.parametrize("count", [3, 3_000])
async def test_list_transactions_of_any_length_has_only_the_ids_that_the_client_may_describe(
    count: int, tmp_path: Path
) -> None:
    """This includes long responses, which are encoded in slices."""
    async with running_rig(tmp_path / "data", STANDARD) as rig:
        admin, alice = rig.client(), rig.client()
        alice.connection.principal = ALICE
        for number in range(count):
            init(admin, f"t{number}", version=4)
        assert len(admin.ask(ListTransactionsRequest(), 0).transaction_states) == count
        assert list(alice.ask(ListTransactionsRequest(), 0).transaction_states) == []

        admin.ask(CreateAclsRequest([of_alice(Resource.TRANSACTIONAL_ID, "t1", Operation.DESCRIBE)]), 3)

        assert [each.transactional_id for each in alice.ask(ListTransactionsRequest(), 0).transaction_states] == ["t1"]


async def test_a_topic_is_created_on_demand_only_for_a_client_that_may_create_it(tmp_path: Path) -> None:
    async with running_rig(tmp_path / "data", STANDARD) as rig:
        admin, alice = rig.client(), rig.client()
        alice.connection.principal = ALICE
        admin.ask(
            CreateAclsRequest(
                [of_alice(Resource.TOPIC, name, Operation.DESCRIBE) for name in ("a", "b")]
                + [of_alice(Resource.TOPIC, "b", Operation.CREATE)]
            ),
            3,
        )
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in ("a", "b", "c")])

        answer = alice.ask(request, 9)

        assert {each.name: each.error_code for each in answer.topics} == {
            "a": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "b": ErrorCode.NONE,
            "c": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        assert set(rig.broker.topics.by_name) == {"b"}


@pytest.mark.parametrize("name", ["", "1", "2", "+2"])
async def test_a_client_without_permission_changes_the_configuration_of_no_broker(name: str, tmp_path: Path) -> None:
    """The request goes to one node, and may name another node as the broker to change."""
    async with running_rig(tmp_path / "data", STANDARD | {"stuntbroker.nodes": "3"}) as rig:
        alice = rig.client()
        alice.connection.principal = ALICE
        before = rig.broker.config["message.max.bytes"]
        change = AlterableConfig("message.max.bytes", 0, "77")
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER, name, [change])])
        [response] = alice.ask(request, 1).responses
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert rig.broker.config["message.max.bytes"] == before


async def test_a_client_without_permission_sees_no_part_of_the_quorum(tmp_path: Path) -> None:
    async with running_rig(tmp_path / "data", STANDARD) as rig:
        alice = rig.client()
        alice.connection.principal = ALICE
        request = DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])])
        response = alice.ask(request, 2)
        assert (response.error_code, list(response.topics)) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


async def test_a_denied_request_is_logged_once_with_the_permission_and_filtered_topics_are_not(tmp_path: Path) -> None:
    async with running_rig(tmp_path / "data", STANDARD) as rig:
        rig.topic("secret")
        alice = rig.client()
        alice.connection.principal = ALICE
        alice.ask(MetadataRequest(None), 9)
        assert "permission_denied" not in rig.events.names()

        alice.ask(MetadataRequest([MetadataRequestTopic(name="secret")]), 9)

        (denied,) = [fields for name, fields in rig.events.kept if name == "permission_denied"]
        wanted = {"principal": "User:alice", "operation": "DESCRIBE", "resource": "TOPIC", "name": "secret"}
        assert wanted.items() <= denied.items()


TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECOND://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("given", "principals"),
    [
        ("", [ANONYMOUS, ANONYMOUS]),
        ("User:alice", [ALICE, ALICE]),
        ("SECOND:User:alice", [ANONYMOUS, ALICE]),
        ("User:bob; second:User:alice", [Principal("User", "bob"), ALICE]),
        ("User:CN=a:b,O=c", [Principal("User", "CN=a:b,O=c")] * 2),
    ],
)
async def test_unauthenticated_clients_get_the_principal_of_the_property(
    given: str, principals: list[Principal]
) -> None:
    async with running_rig(None, {**TWO_LISTENERS, "stuntbroker.principal": given}) as rig:
        assert [listener.principal for listener in rig.broker.listeners] == principals


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("stuntbroker.principal", "alice", "'alice' is neither User:NAME nor LISTENER:User:NAME"),
        ("stuntbroker.principal", "NOWHERE:User:alice", "listeners has no NOWHERE"),
        ("stuntbroker.principal", "User:bob,SECOND:User:alice", "entries are separated by semicolons"),
        ("super.users", "alice", "'alice' is not User:NAME"),
        ("authorizer.class.name", "com.example.Mine", "'com.example.Mine' is not implemented"),
    ],
)
async def test_an_invalid_property_about_permissions_is_refused_with_its_reason(
    name: str, value: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        async with running_rig(None, {**TWO_LISTENERS, name: value}):
            pass
