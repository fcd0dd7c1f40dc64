"""JAAS configuration: the login modules and options in which Kafka keeps user names and passwords.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="alice-secret";

A file (`java.security.auth.login.config`) has such modules in named contexts: `KafkaServer { ... };`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""
    \s+ | /\*.*?\*/ | /[^\n]*        # blanks and comments
    | (?P<quoted> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<sign> [{};=] )
    | (?P<word> (?:[A-Za-z_$*]|[^\x00-\x9f])(?:[\w.$*-]|[^\x00-\x9f])* )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


SIGNS: Final = ("{", "}", ";", "=")


class _Quoted(str):
    """A token in quotation marks, which is never a sign."""


class JaasError(ValueError):
    """A JAAS configuration that cannot be read."""


class LoginModule(NamedTuple):
    """A login module: its Java class, and its options."""

    class_name: str
    options: dict[str, str]


def parse_jaas_config(text: str) -> LoginModule:
    """Return the one login module of a `sasl.jaas.config`. Raises JaasError."""
    tokens = _Tokens(text)
    module = _module(tokens)
    if tokens.next() is not None:
        raise JaasError("there is text after the first login module; only one module is allowed")
    return module


def parse_jaas_file(text: str) -> dict[str, list[LoginModule]]:
    """Return context name -> its login modules. Raises JaasError."""
    tokens = _Tokens(text)
    contexts: dict[str, list[LoginModule]] = {}
    while (name := tokens.next()) is not None:
        tokens.expect("{")
        modules = contexts[name] = []
        while tokens.peek() != "}":
            modules.append(_module(tokens))
        tokens.expect("}")
        tokens.expect(";")
    return contexts


class _Tokens:
    """The tokens of a configuration, one after the other; None at the end."""

    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self._next: str | None = next(self._tokens, None)

    def peek(self) -> str | None:
        return self._next

    def next(self) -> str | None:
        token, self._next = self._next, next(self._tokens, None)
        return token

    def expect(self, *wanted: str) -> str:
        token = self.next()
        if token is None or token not in wanted or isinstance(token, _Quoted):
            # Not the token itself, which may be a part of a password.
            where = "at its end" if token is None else f"before {token!r}" if token in SIGNS else "before another word"
            raise JaasError(f"expected {' or '.join(map(repr, wanted))} {where}")
        return token


def _split(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] in "\"'":
                raise JaasError(f"the quotation mark at character {at + 1} is not closed")
            # As in Java, where a value without quotation marks begins with a letter, and has digits and . _ - $ after it.
            raise JaasError(f"character {at + 1}: put values into quotation marks, and begin comments with //")
        at = match.end()
        if match["quoted"]:
            content = match["quoted"][1:-1]
            yield _Quoted(_ESCAPE.sub(_unescaped, content))
        elif match["sign"] or match["word"]:
            yield match[0]


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code, 8)) if code.isdigit() and code < "8" else _ESCAPES.get(code, code)


def _module(tokens: _Tokens) -> LoginModule:
    class_name = tokens.next()
    if class_name is None or class_name in "{};=":
        raise JaasError(
            "expected the class of a login module, such as org.apache.kafka.common.security.plain.PlainLoginModule"
        )
    flag = tokens.next()
    if flag is None or flag.lower() not in FLAGS:
        raise JaasError(f"expected {', '.join(FLAGS)} after {class_name}")
    options: dict[str, str] = {}
    while (name := tokens.next()) != ";":
        if name is None:
            raise JaasError("a login module has to end with a semicolon")
        tokens.expect("=")
        value = tokens.next()
        if value is None or (value == ";" and not isinstance(value, _Quoted)):
            raise JaasError(f"the option {name} has no value")
        options[name] = value
    return LoginModule(class_name, options)
