"""The subject of a client's certificate, as Java writes it, and the user that the rules of a listener make of it (KIP-371).

ACLs and `super.users` have these names, so they have to be the same as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from stuntbroker.security.der import elements, oid_of

_EXPLICIT_VERSION: Final = 0xA0
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that have a name in RFC 2253; all others are written as OID=#hexadecimal."""
_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""Tags of texts. As in Java, all of them are read as UTF-8, even if their own encoding is another one."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
    r"|)\s*(?:,|\n|$)"
)
_JAVA_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
_REFERENCE: Final = re.compile(r"\\(?P<escaped>.)|\$(?:(?P<number>[0-9]+)|\{(?P<name>\w+)\})", re.DOTALL)


class MappingError(ValueError):
    """Rules that cannot be read. The message says which one."""


class NoMatchingRule(Exception):
    """No rule applies to the subject: the client is not authenticated."""


class _Rule(NamedTuple):
    """A rule: its pattern, which has to match the whole subject, and the user's name; without a pattern, the subject."""

    pattern: re.Pattern[str] | None
    replacement: str
    change_case: Callable[[str], str]


MappingRules = tuple[_Rule, ...]


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) in the form of RFC 2253: its last part first. Raises ValueError."""
    (whole,) = elements(certificate)
    to_be_signed, *_ = elements(whole.content)
    fields = [field for field in elements(to_be_signed.content) if field.tag != _EXPLICIT_VERSION]
    _serial, _algorithm, _issuer, _validity, subject, *_ = fields
    parts = ["+".join(map(_text_of, _attributes(part.content))) for part in elements(subject.content)]
    return ",".join(reversed(parts))


class _Attribute(NamedTuple):
    oid: str
    tag: int
    content: bytes
    encoded: bytes


def _attributes(part: bytes) -> Iterator[_Attribute]:
    for pair in elements(part):
        oid, value = elements(pair.content)
        yield _Attribute(oid_of(oid.content), *value)


def _text_of(attribute: _Attribute) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    if keyword is None or attribute.tag not in _TEXTS:
        return f"{keyword or attribute.oid}=#{attribute.encoded.hex()}"
    return f"{keyword}={_escaped(attribute.content.decode('utf-8', 'replace'))}"


def _escaped(value: str) -> str:
    first, stop = len(value) - len(value.lstrip(_BLANKS)), len(value.rstrip(_BLANKS))
    return "".join(
        "\\00" if letter == "\0" else f"\\{letter}" if letter in _ESCAPED or not first <= at < stop else letter
        for at, letter in enumerate(value)
    )


def parse_mapping_rules(text: str) -> MappingRules:
    """Return the rules of `ssl.principal.mapping.rules`: DEFAULT, or RULE:PATTERN/REPLACEMENT/[LU]. Raises MappingError."""
    rules = []
    at = 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise MappingError(
                f"at {text[at : at + 40]!r}: a rule is DEFAULT, or RULE:PATTERN/REPLACEMENT/ with L or U at its end"
            )
        if match["default"]:
            rules.append(_Rule(None, "", str))
        elif match["pattern"] is not None:
            rules.append(_rule_of(match))
        at = match.end()
    return tuple(rules)


def _rule_of(match: re.Match[str]) -> _Rule:
    # Unlike Kafka: Python's regular expressions; of Java's own, named groups are translated.
    try:
        pattern = re.compile(_JAVA_GROUP.sub("(?P<", match["pattern"]), re.ASCII)
        _check_references(pattern, match["replacement"])
    except (re.error, LookupError) as fault:
        raise MappingError(f"RULE:{match['pattern']}/{match['replacement']}/: {fault}") from None
    return _Rule(pattern, match["replacement"], {"L": str.lower, "U": str.upper}.get(match["case"], str))


def _check_references(pattern: re.Pattern[str], replacement: str) -> None:
    """Raise LookupError for a named group that the pattern does not have."""
    for reference in _REFERENCE.finditer(replacement):
        if reference["name"] and reference["name"] not in pattern.groupindex:
            raise LookupError(f"there is no group {reference['name']}")


def user_of(subject: str, rules: MappingRules) -> str:
    """Return the user that the first matching rule makes of a subject. Raises NoMatchingRule."""
    for rule in rules:
        if rule.pattern is None:
            return subject
        if rule.pattern.fullmatch(subject):
            # As in Java, where a pattern that matches nothing, too, is replaced once more at the end.
            return rule.change_case(rule.pattern.sub(partial(_replacement_of, rule.replacement), subject))
    raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules applies to {subject!r}")


def _replacement_of(replacement: str, match: re.Match[str]) -> str:
    """Fill the groups of a match into a replacement of Java: `$1`, `${name}`, or `\\$` for the sign itself."""

    def text_of(reference: re.Match[str]) -> str:
        if reference["escaped"]:
            return reference["escaped"]
        if reference["name"]:
            return match[reference["name"]] or ""
        return _group_text(reference["number"], match)

    return _REFERENCE.sub(text_of, replacement)


def _group_text(digits: str, match: re.Match[str]) -> str:
    """Return the text of `$` and digits: as many digits are the number as there are groups, and the others follow it."""
    count = len(match.groups())
    number, used = int(digits[0]), 1
    if number > count:
        return f"${digits}"
    while used < len(digits) and number * 10 + int(digits[used]) <= count:
        number, used = number * 10 + int(digits[used]), used + 1
    return (match[number] or "") + digits[used:]
