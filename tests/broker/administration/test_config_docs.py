"""Every property has documentation in plain sentences, which says "No effect here" if the broker ignores the property."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from stuntbroker.broker.configuration.config_docs import BROKER_DOCS, TOPIC_DOCS
from stuntbroker.broker.configuration.properties import BROKER, TOPIC, Property
from stuntbroker.broker.configuration.property_names import FlagName, NumberName, TextName
from stuntbroker.broker.metadata.topics import Topic, Topics

LENGTH_MAX = 300
TEXTS = [
    *(pytest.param(name, text, id=f"topic-{name}") for name, text in TOPIC_DOCS.items()),
    *(pytest.param(name, text, id=f"broker-{name}") for name, text in BROKER_DOCS.items()),
]
NO_EFFECT = "No effect here"
ASKED_ELSEWHERE = {"min.insync.replicas"}
"""Topic properties that take effect outside the logs of the topic."""
PROPERTIES = [
    *(pytest.param(prop, id=f"topic-{name}") for name, (prop, _) in TOPIC.items()),
    *(pytest.param(prop, id=f"broker-{name}") for name, prop in BROKER.items()),
]


def test_the_documented_properties_are_exactly_the_known_properties() -> None:
    assert sorted(TOPIC_DOCS) == sorted(TOPIC)
    assert sorted(BROKER_DOCS) == sorted(BROKER)


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_documentation_is_plain_sentences(name: str, text: str) -> None:
    assert len(text) <= LENGTH_MAX
    assert text.isascii() and text.isprintable() and text == " ".join(text.split())
    assert text[0].isupper() and text.endswith(".")
    assert not re.search(r"[<>|`]", text), "neither HTML nor Markdown"
    assert NO_EFFECT not in text or re.search(NO_EFFECT + r"[:.]", text)


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_documentation_names_the_unit_that_the_name_ends_with(name: str, text: str) -> None:
    unit = {"ms": "millisecond", "bytes": "byte", "minutes": "minute", "hours": "hour"}.get(name.rpartition(".")[2])
    if name == "offset.metadata.max.bytes":  # Kafka counts characters here, not bytes.
        unit = "UTF-16 code unit"

    assert unit is None or unit in text.lower() or unit in text


def test_documentation_says_which_properties_of_a_topic_have_no_effect() -> None:
    used = set()

    def config_of(_: Topic, name: str) -> Any:
        used.add(name)
        return TOPIC[name][0].default

    Topics.log_config(SimpleNamespace(config_of=config_of), Topic("t", bytes(16), {}))  # type: ignore[arg-type]

    assert sorted(name for name, text in TOPIC_DOCS.items() if NO_EFFECT not in text) == sorted(used | ASKED_ELSEWHERE)


@pytest.mark.parametrize(
    "prop",
    [*BROKER.values(), *(prop for prop, _ in TOPIC.values())],
    ids=lambda prop: f"{'topic' if prop.is_of_topic else 'broker'}-{prop.name}",
)
def test_documentation_and_property_agree_on_whether_it_has_an_effect(prop: Property) -> None:
    assert prop.has_effect is (NO_EFFECT not in prop.documentation)


@pytest.mark.parametrize(("names", "kinds"), [(NumberName, (3, 4, 5)), (FlagName, (1,)), (TextName, (2, 7, 9))])
def test_the_names_that_a_type_checker_knows_are_those_of_the_properties(names: Any, kinds: tuple[int, ...]) -> None:
    assert sorted(get_args(names)) == sorted(name for name, prop in BROKER.items() if prop.kind in kinds)


@pytest.mark.parametrize("name", BROKER)
def test_the_default_of_a_property_has_the_type_of_the_property(name: str) -> None:
    assert (
        type(BROKER[name].default)
        is {1: bool, 2: str, 3: int, 4: int, 5: int, 6: float, 7: str, 9: str}[BROKER[name].kind]
    )


def test_a_broker_property_is_documented_as_the_default_of_its_topic_property() -> None:
    for name, (_, broker_name) in TOPIC.items():
        if broker_name is not None and broker_name in BROKER:
            text = BROKER_DOCS[broker_name]
            assert f"Default of the topic property {name}" in text
            assert (NO_EFFECT in text) is (NO_EFFECT in TOPIC_DOCS[name])
