"""Refusal of requests to describe resources of an unknown type, for the handler and for the permission check before it."""

from __future__ import annotations

from stuntbroker.protocol.config_resources import ResourceType
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest
from stuntbroker.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult


def unknown_type_refusal(request: DescribeConfigsRequest) -> DescribeConfigsResponse | None:
    """Return the response that refuses all resources if the type of one is unknown, as in Kafka; None if all are known."""
    unknown = [each.resource_type for each in request.resources if each.resource_type not in frozenset(ResourceType)]
    if not unknown:
        return None
    message = f"Unsupported resource type: {unknown[0]}"
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(ErrorCode.INVALID_REQUEST, message, each.resource_type, each.resource_name, [])
            for each in request.resources
        ]
    )
