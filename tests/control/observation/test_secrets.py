"""The request log shows no passwords."""

from __future__ import annotations

from stuntbroker.broker.requests.plain_messages import HIDDEN, plain_message
from stuntbroker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


def test_values_of_passwords_and_of_unknown_properties_are_hidden_and_no_others() -> None:
    """An unknown property may be the password of a plug-in, so DescribeConfigs also hides it."""
    names = {
        "ssl.keystore.password": HIDDEN,
        "listener.name.ssl.ssl.keystore.key": HIDDEN,
        "listener.name.sasl.plain.sasl.jaas.config": HIDDEN,
        "listener.name.ssl.ssl.keystore.location": "x",
        "num.partitions": "x",
        "retention.ms": "x",
        "unknown": HIDDEN,
        "listener.name.a.unknown": HIDDEN,
    }
    configs = [AlterableConfig(name, 0, "x") for name in names]

    plain = plain_message(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", configs)]))

    assert {each["name"]: each["value"] for each in plain["resources"][0]["configs"]} == names
