"""IncrementalAlterConfigs, key 44, versions 0-1: changes single properties of topics or brokers. v1 flexible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.configuration.config_change import (
    LIST_PROPERTIES,
    WITHOUT_CONFIGS,
    Outcome,
    change_broker,
    change_topic,
    common_refusal,
    set_unknown_property,
)
from stuntbroker.broker.configuration.dynamic_config import Change, merged_list
from stuntbroker.broker.configuration.properties import TOPIC as TOPIC_CONFIGS
from stuntbroker.broker.configuration.properties import ConfigError, show
from stuntbroker.broker.requests.slices import Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.config_resources import ResourceType
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
from stuntbroker.protocol.request_values import APPEND, DELETE, SET, SUBTRACT

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config_change import ConfigChangePorts
    from stuntbroker.broker.services import Asking, HasConfig, HasLongRequests, HasSyncer

    class Uses(ConfigChangePorts, HasConfig, HasLongRequests, HasSyncer, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 44
VERSIONS = range(0, 2)


def handle(
    request: Asking[Uses], body: IncrementalAlterConfigsRequest, version: int
) -> IncrementalAlterConfigsResponse | None:
    """Change single properties of each resource; None when the response comes later."""
    return run_in_slices(request, _steps(request.broker, body))


def _steps(broker: Uses, body: IncrementalAlterConfigsRequest) -> Steps[IncrementalAlterConfigsResponse]:
    responses = []
    times = Counter((resource.resource_type, resource.resource_name) for resource in body.resources)
    for resource in body.resources:
        error, message = _alter_resource(broker, resource, times, body.validate_only)
        yield cost_of_change(broker.syncer is not None, 1)
        responses.append(AlterConfigsResourceResponse(error, message, resource.resource_type, resource.resource_name))
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter_resource(
    broker: Uses, resource: AlterConfigsResource, times: Counter[tuple[int, str]], validate_only: bool
) -> Outcome:
    kind, name = resource.resource_type, resource.resource_name
    keys = [config.name for config in resource.configs]
    nulls = ",".join(c.name for c in resource.configs if c.value is None and c.config_operation != DELETE)
    if refusal := common_refusal(kind, name, times, keys, nulls):
        return refusal
    if kind == ResourceType.BROKER:
        changes = [Change(config.name, config.config_operation, config.value or "") for config in resource.configs]
        return change_broker(broker, name, lambda dynamic, level: dynamic.alter(level, changes, validate_only))
    for config in resource.configs:
        if not SET <= config.config_operation <= SUBTRACT:
            message = f"Unknown operation type {config.config_operation} for key {config.name}."
            return Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    if kind in WITHOUT_CONFIGS:
        # Kafka accepts the deletion of any property of the other two types.
        names = [c.name for c in resource.configs if c.config_operation != DELETE or kind == ResourceType.BROKER_LOGGER]
        return set_unknown_property(broker, kind, name, names)
    return change_topic(broker, kind, name, validate_only, lambda present: _changed(broker, present, resource.configs))


def _changed(broker: Uses, present: dict[str, str], configs: Sequence[AlterableConfig]) -> dict[str, str | None]:
    after: dict[str, str | None] = dict(present)
    for config in configs:
        name, operation, value = config.name, config.config_operation, config.value or ""
        if operation == DELETE:
            after.pop(name, None)
            continue
        if name not in TOPIC_CONFIGS:
            raise ConfigError(f"Unknown topic config name: {name}")
        if operation == SET:
            after[name] = value
            continue
        if name not in LIST_PROPERTIES:
            verb = "append" if operation == APPEND else "subtract"
            raise ConfigError(f"Can't {verb} to key {name} because its type is not LIST.")
        present_value = after.get(name)
        before = show(broker.config.topic_default(name)) if present_value is None else present_value
        after[name] = merged_list(before, value, operation)
    return after
