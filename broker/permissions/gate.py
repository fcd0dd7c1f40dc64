"""Which permissions each API needs: the table of all checks. They are installed only when there is an authorizer with ACLs.

The Fetch handler checks its topics itself, as those of a session are not in the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.configuration.config_change import broker_id_of
from stuntbroker.broker.configuration.unknown_types import unknown_type_refusal
from stuntbroker.broker.permissions import group_checks, topic_checks
from stuntbroker.broker.permissions.checks import (
    for_all,
    for_cluster,
    for_each,
    itself,
    shows_only,
    topic_name,
    unless_on_cluster,
)
from stuntbroker.protocol import api_keys
from stuntbroker.protocol.acls import CLUSTER_NAME, Operation, Resource
from stuntbroker.protocol.config_resources import ResourceType

if TYPE_CHECKING:
    from stuntbroker.broker.permissions.checks import CheckedRequest
    from stuntbroker.broker.requests.routes import Handler, Interceptor, Routes

READ, WRITE, DELETE, ALTER = Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER
DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
CLUSTER_ACTION: Final = Operation.CLUSTER_ACTION
TOPIC, GROUP, TRANSACTIONAL_ID = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID


def _group(body: Any, version: int) -> list[str]:
    return [body.group_id]


def _transactional_id(body: Any, version: int) -> list[str]:
    return [body.transactional_id]


def _configs(operation: Operation, answered: str) -> tuple[Interceptor, ...]:
    """Return the checks that refuse the resources whose configuration the client may not read or change."""
    name_of = _configured if operation is DESCRIBE_CONFIGS else _changed
    return tuple(
        for_each(
            operation,
            resource,
            "resources",
            answered,
            partial(name_of, of_types=types),
            repeated_fails=operation is ALTER_CONFIGS and resource is not Resource.CLUSTER,
        )
        for resource, types in CONFIGURED.items()
    )


def _configured(request: CheckedRequest, resource: Any, version: int, of_types: frozenset[int]) -> str | None:
    """Return the name of a resource with a configuration; None for those of other types."""
    if resource.resource_type not in of_types:
        return None
    return CLUSTER_NAME if of_types is OF_CLUSTER else str(resource.resource_name)


def _changed(request: CheckedRequest, resource: Any, version: int, of_types: frozenset[int]) -> str | None:
    """As `_configured`; None also for an unknown broker, whose configuration nobody can change."""
    is_broker = resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    if is_broker and resource.resource_name and broker_id_of(resource.resource_name) not in request.broker.nodes.by_id:
        return None
    return _configured(request, resource, version, of_types)


def _only_known_types(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
    """Refuse a request with a resource of an unknown type before all else."""
    return unknown_type_refusal(body) or handle(request, body, version)


def _topics(operation: Operation, answered: str = "topics", **options: bool) -> Interceptor:
    return for_each(operation, TOPIC, "topics", answered, topic_name, **options)


OF_CLUSTER: Final = frozenset({ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS})
CONFIGURED: Final[dict[Resource, frozenset[int]]] = {
    TOPIC: frozenset({ResourceType.TOPIC}),
    Resource.CLUSTER: OF_CLUSTER,
    GROUP: frozenset({ResourceType.GROUP}),
}
"""Type of the resource on which a permission is needed -> types of resources with a configuration."""
READ_GROUP: Final = for_all(READ, GROUP, _group)
WRITE_TRANSACTIONAL_ID: Final = for_all(WRITE, TRANSACTIONAL_ID, _transactional_id)

CHECKS: Final[dict[int, Sequence[Interceptor]]] = {
    api_keys.PRODUCE: [topic_checks.check_produce],
    api_keys.LIST_OFFSETS: [_topics(DESCRIBE)],
    api_keys.METADATA: [topic_checks.check_metadata],
    api_keys.OFFSET_COMMIT: [READ_GROUP, _topics(READ)],
    api_keys.OFFSET_FETCH: [group_checks.check_offset_fetch],
    api_keys.FIND_COORDINATOR: [group_checks.check_find_coordinator],
    api_keys.JOIN_GROUP: [READ_GROUP],
    api_keys.HEARTBEAT: [READ_GROUP],
    api_keys.LEAVE_GROUP: [READ_GROUP],
    api_keys.SYNC_GROUP: [READ_GROUP],
    api_keys.DESCRIBE_GROUPS: [
        for_each(DESCRIBE, GROUP, "groups", "groups", itself),
        group_checks.check_describe_groups,
    ],
    api_keys.LIST_GROUPS: [unless_on_cluster(DESCRIBE, shows_only(DESCRIBE, GROUP, "groups", "group_id"))],
    api_keys.CREATE_TOPICS: [topic_checks.check_create_topics],
    api_keys.DELETE_TOPICS: [unless_on_cluster(DELETE, topic_checks.check_delete_topics)],
    api_keys.DELETE_RECORDS: [_topics(DELETE)],
    api_keys.INIT_PRODUCER_ID: [group_checks.check_init_producer_id],
    api_keys.OFFSET_FOR_LEADER_EPOCH: [unless_on_cluster(CLUSTER_ACTION, _topics(DESCRIBE))],
    api_keys.ADD_PARTITIONS_TO_TXN: [group_checks.check_add_partitions_to_txn],
    api_keys.ADD_OFFSETS_TO_TXN: [WRITE_TRANSACTIONAL_ID, READ_GROUP],
    api_keys.END_TXN: [WRITE_TRANSACTIONAL_ID],
    api_keys.WRITE_TXN_MARKERS: [for_cluster(ALTER, CLUSTER_ACTION)],
    api_keys.TXN_OFFSET_COMMIT: [WRITE_TRANSACTIONAL_ID, READ_GROUP, _topics(READ)],
    api_keys.DESCRIBE_ACLS: [for_cluster(DESCRIBE)],
    api_keys.CREATE_ACLS: [for_cluster(ALTER)],
    api_keys.DELETE_ACLS: [for_cluster(ALTER)],
    api_keys.DESCRIBE_CONFIGS: [_only_known_types, *_configs(DESCRIBE_CONFIGS, "results")],
    api_keys.ALTER_CONFIGS: _configs(ALTER_CONFIGS, "responses"),
    api_keys.ALTER_REPLICA_LOG_DIRS: [for_cluster(ALTER)],
    api_keys.DESCRIBE_LOG_DIRS: [for_cluster(DESCRIBE)],
    api_keys.CREATE_PARTITIONS: [_topics(ALTER, "results", repeated_fails=True)],
    api_keys.DELETE_GROUPS: [for_each(DELETE, GROUP, "groups_names", "results", itself)],
    api_keys.ELECT_LEADERS: [for_cluster(ALTER)],
    api_keys.INCREMENTAL_ALTER_CONFIGS: _configs(ALTER_CONFIGS, "responses"),
    api_keys.ALTER_PARTITION_REASSIGNMENTS: [for_cluster(ALTER)],
    api_keys.LIST_PARTITION_REASSIGNMENTS: [for_cluster(DESCRIBE)],
    api_keys.OFFSET_DELETE: [for_all(DELETE, GROUP, _group), _topics(READ, handles_none=True)],
    api_keys.DESCRIBE_CLIENT_QUOTAS: [for_cluster(DESCRIBE_CONFIGS)],
    api_keys.ALTER_CLIENT_QUOTAS: [for_cluster(ALTER_CONFIGS)],
    api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS: [for_cluster(DESCRIBE)],
    api_keys.ALTER_USER_SCRAM_CREDENTIALS: [for_cluster(ALTER)],
    api_keys.DESCRIBE_QUORUM: [for_cluster(DESCRIBE)],
    api_keys.UPDATE_FEATURES: [for_cluster(ALTER)],
    api_keys.DESCRIBE_CLUSTER: [topic_checks.check_describe_cluster],
    api_keys.DESCRIBE_PRODUCERS: [_topics(READ)],
    api_keys.DESCRIBE_TRANSACTIONS: [
        for_each(DESCRIBE, TRANSACTIONAL_ID, "transactional_ids", "transaction_states", itself),
        group_checks.check_describe_transactions,
    ],
    api_keys.LIST_TRANSACTIONS: [shows_only(DESCRIBE, TRANSACTIONAL_ID, "transaction_states", "transactional_id")],
    api_keys.LIST_CONFIG_RESOURCES: [for_cluster(DESCRIBE_CONFIGS)],
    api_keys.DESCRIBE_TOPIC_PARTITIONS: [topic_checks.check_describe_topic_partitions],
}
"""API -> its checks, in the order in which they are made."""
NEEDING_NONE: Final = frozenset({
    api_keys.FETCH, api_keys.SASL_HANDSHAKE, api_keys.API_VERSIONS, api_keys.SASL_AUTHENTICATE,
})  # fmt: skip
"""APIs without a check here."""


def install(router: Routes) -> None:
    """Check every request from now on."""
    for key, checks in CHECKS.items():
        for check in checks:
            router.add_check(check, {key})
