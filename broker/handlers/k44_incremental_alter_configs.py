"""IncrementalAlterConfigs, key 44, versions 0-1: sets, deletes, appends to and subtracts from single values. v1 flexible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.config import TOPIC as TOPIC_CONFIGS
from stuntbroker.broker.config import ConfigError, show
from stuntbroker.broker.config_change import LISTS, Outcome, change
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stuntbroker.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection
    from stuntbroker.broker.server import Broker

KEY: Final = 44
VERSIONS = range(0, 2)
SET, DELETE, APPEND, SUBTRACT = range(4)


def handle(
    connection: Connection, request: IncrementalAlterConfigsRequest, version: int
) -> IncrementalAlterConfigsResponse:
    responses = []
    for resource in request.resources:
        error, message = _one(connection.broker, resource, request.validate_only)
        responses.append(AlterConfigsResourceResponse(error, message, resource.resource_type, resource.resource_name))
    return IncrementalAlterConfigsResponse(responses=responses)


def _one(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> Outcome:
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        return Outcome(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in resource.configs if c.value is None and c.config_operation != DELETE]
    if nulls:
        return Outcome(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    return change(
        broker,
        resource.resource_type,
        resource.resource_name,
        validate_only,
        lambda present: _changed(broker, present, resource.configs),
    )


def _changed(
    broker: Broker, present: dict[str, str], configs: Sequence[AlterableConfig]
) -> dict[str, str | None]:
    after: dict[str, str | None] = dict(present)
    for config in configs:
        name, operation, value = config.name, config.config_operation, config.value or ""
        if name not in TOPIC_CONFIGS:
            raise ConfigError(f"Unknown topic config name: {name}")
        if operation == SET:
            after[name] = value
        elif operation == DELETE:
            after.pop(name, None)
        elif operation in (APPEND, SUBTRACT):
            if name not in LISTS:
                raise ConfigError(f"Can't {'APPEND' if operation == APPEND else 'SUBTRACT'} to key {name} because its type is not LIST.")
            before = (after.get(name) or show(broker.config.topic_default(name))).split(",")
            given = [part.strip() for part in value.split(",")]
            if operation == APPEND:
                merged = [*before, *(part for part in given if part not in before)]
            else:
                merged = [part for part in before if part not in given]
            after[name] = ",".join(merged)
        else:
            raise ConfigError(f"Unknown operation type {operation}")
    return after
