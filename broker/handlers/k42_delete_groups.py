"""DeleteGroups, key 42, versions 0-2.

Removes consumer groups that nobody is in, with all their offsets.
v1 as v0. v2 flexible. (v3, with messages, came after Kafka 4.3.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stuntbroker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from stuntbroker.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

KEY = 42
VERSIONS = range(3)


def handle(connection: Connection, request: DeleteGroupsRequest, version: int) -> DeleteGroupsResponse:
    groups = connection.broker.groups
    names = dict.fromkeys(request.groups_names)  # Named twice, deleted once.
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, groups.delete_group(name)) for name in names])
