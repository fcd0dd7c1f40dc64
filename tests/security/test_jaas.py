"""JAAS configurations: what Kafka's own documentation shows is read, and a broken one is explained."""

from __future__ import annotations

import pytest

from stuntbroker.security.jaas import JaasError, LoginModule, parse_jaas_config, parse_jaas_file

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f"{PLAIN} required\n  username='a'\n  user_bob=plain-word;", {"username": "a", "user_bob": "plain-word"}),
        (f'{PLAIN} REQUIRED password="a \\"quoted\\" ; = one";', {"password": 'a "quoted" ; = one'}),
        (f"{PLAIN} required /* nothing */ // more\n ;", {}),
        (f"{PLAIN} required password=';' username=\"=\";", {"password": ";", "username": "="}),
        (f'{PLAIN} required password="\\101\\tb\\x\\9" user-a.b=$x-1;', {"password": "A\tbx9", "user-a.b": "$x-1"}),
    ],
)
def test_a_login_module_has_its_options(text: str, options: dict[str, str]) -> None:
    assert parse_jaas_config(text) == LoginModule(PLAIN, options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected the class of a login module"),
        (PLAIN, "expected required"),
        (f"{PLAIN} required a=b", "semicolon"),
        (f"{PLAIN} required a;", "expected '='"),
        (f"{PLAIN} required a=;", "has no value"),
        (f'{PLAIN} required a="b;', "not closed"),
        (f'{PLAIN} required a="b\n";', "not closed"),
        (f"{PLAIN} required a=12;", "quotation marks"),
        (f"{PLAIN} required a=b@c;", "quotation marks"),
        (f"{PLAIN} required; # no comment", "comments with //"),
        (f"{PLAIN} required; {PLAIN} required;", "only one module"),
    ],
)
def test_an_invalid_login_module_is_explained(text: str, said: str) -> None:
    with pytest.raises(JaasError, match=said):
        parse_jaas_config(text)


def test_a_file_has_modules_by_context() -> None:
    text = f'KafkaServer {{ {PLAIN} required user_a="b"; }};\n// the client\nKafkaClient {{ {PLAIN} required; }};'

    assert parse_jaas_file(text) == {
        "KafkaServer": [LoginModule(PLAIN, {"user_a": "b"})],
        "KafkaClient": [LoginModule(PLAIN, {})],
    }
