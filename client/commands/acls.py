"""ACLs of a cluster: listing, creating and deleting them (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import check
from stuntbroker.protocol.acls import (
    ANY,
    Acl,
    AclFilter,
    Operation,
    Resource,
)
from stuntbroker.protocol.api_keys import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from stuntbroker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from stuntbroker.protocol.messages.create_acls_response import CreateAclsResponse
from stuntbroker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from stuntbroker.protocol.messages.delete_acls_response import DeleteAclsResponse
from stuntbroker.protocol.messages.describe_acls_request import DescribeAclsRequest
from stuntbroker.protocol.messages.describe_acls_response import DescribeAclsResponse

EVERYTHING: Final = AclFilter(ANY, None, ANY, None, None, ANY, ANY)
"""Matches every ACL."""
PRODUCER_OF: Final = {
    Resource.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
"""Type of a resource -> operations on it that a producer needs."""
CONSUMER_OF: Final = {
    Resource.TOPIC: (Operation.READ, Operation.DESCRIBE),
    Resource.GROUP: (Operation.READ,),
}
"""Type of a resource -> operations on it that a consumer needs."""


def list_acls(cluster: Cluster, wanted: AclFilter = EVERYTHING) -> list[Acl]:
    """Return the ACLs that match a filter, sorted by resource. Raises BrokerError."""

    def attempt() -> list[Acl]:
        answer = cluster.ask(cluster.controller_id(), DESCRIBE_ACLS, DescribeAclsRequest(*wanted), DescribeAclsResponse)
        check("listing ACLs", answer.error_code, answer.error_message)
        return sorted(
            Acl(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for resource in answer.resources
            for acl in resource.acls
        )

    return cluster.retrying(attempt)


def create_acls(cluster: Cluster, acls: Collection[Acl]) -> None:
    """Create ACLs; one that exists already is left as it is. Raises BrokerError for the first that is refused."""
    request = CreateAclsRequest([AclCreation(*acl) for acl in acls])

    def attempt() -> None:
        answer = cluster.ask(cluster.controller_id(), CREATE_ACLS, request, CreateAclsResponse)
        for acl, result in zip(acls, answer.results, strict=True):
            check(f"creating the ACL {acl.describe()}", result.error_code, result.error_message)

    cluster.retrying(attempt)


def delete_acls(cluster: Cluster, filters: Iterable[AclFilter]) -> list[Acl]:
    """Delete the ACLs that match any of the filters; return them, sorted by resource. Raises BrokerError."""
    request = DeleteAclsRequest([DeleteAclsFilter(*each) for each in filters])

    def attempt() -> list[Acl]:
        answer = cluster.ask(cluster.controller_id(), DELETE_ACLS, request, DeleteAclsResponse)
        deleted = set()
        for result in answer.filter_results:
            check("deleting ACLs", result.error_code, result.error_message)
            for each in result.matching_acls:
                acl = Acl(*(getattr(each, name) for name in Acl._fields))
                check(f"deleting the ACL {acl.describe()}", each.error_code, each.error_message)
                deleted.add(acl)
        return sorted(deleted)

    return cluster.retrying(attempt)
