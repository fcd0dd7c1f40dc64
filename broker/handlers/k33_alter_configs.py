"""AlterConfigs, key 33, versions 0-2: replaces the whole configuration of topics or brokers. v2 flexible."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.configuration.config_change import (
    Outcome,
    change_broker,
    change_topic,
    common_refusal,
    set_unknown_property,
)
from stuntbroker.broker.requests.slices import Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.config_resources import ResourceType
from stuntbroker.protocol.messages.alter_configs_request import AlterConfigsRequest
from stuntbroker.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config_change import ConfigChangePorts
    from stuntbroker.broker.services import Asking, HasLongRequests, HasSyncer

    class Uses(ConfigChangePorts, HasLongRequests, HasSyncer, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 33
VERSIONS = range(0, 3)


def handle(request: Asking[Uses], body: AlterConfigsRequest, version: int) -> AlterConfigsResponse | None:
    """Replace the configuration of each resource; None when the response comes later."""
    return run_in_slices(request, _steps(request.broker, body))


def _replaced_by(wanted: dict[str, str | None], _before: object) -> dict[str, str | None]:
    return wanted


def _steps(broker: Uses, body: AlterConfigsRequest) -> Steps[AlterConfigsResponse]:
    responses = []
    times = Counter((resource.resource_type, resource.resource_name) for resource in body.resources)
    for resource in body.resources:
        wanted = {config.name: config.value for config in resource.configs}
        nulls = ",".join(name for name, value in wanted.items() if value is None)
        keys = [config.name for config in resource.configs]
        kind, name = resource.resource_type, resource.resource_name
        outcome = common_refusal(kind, name, times, keys, nulls)
        if outcome is None and kind in (ResourceType.CLIENT_METRICS, ResourceType.GROUP):
            outcome = set_unknown_property(broker, kind, name, keys)
        if outcome is None and kind == ResourceType.BROKER:
            outcome = _replace(broker, name, wanted, body.validate_only)
        error, message = outcome or change_topic(broker, kind, name, body.validate_only, partial(_replaced_by, wanted))
        yield cost_of_change(broker.syncer is not None, 1)
        responses.append(AlterConfigsResourceResponse(error, message, kind, name))
    return AlterConfigsResponse(responses=responses)


def _replace(broker: Uses, name: str, wanted: dict[str, str | None], validate_only: bool) -> Outcome:
    values = {key: value or "" for key, value in wanted.items()}
    return change_broker(broker, name, lambda dynamic, level: dynamic.replace(level, values, validate_only))
