"""Principals of clients with a certificate: the subject as Java writes it, mapped by `ssl.principal.mapping.rules`."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from cryptography.x509.oid import ObjectIdentifier as Oid

from stuntbroker.broker.security.subject import (
    MappingError,
    NoMatchingRule,
    parse_mapping_rules,
    subject_of,
    user_of,
)

KEY = ec.generate_private_key(ec.SECP256R1())
CN = NameOID.COMMON_NAME


def certificate(*parts: dict[Oid, str]) -> bytes:
    """Return a certificate (DER) whose subject has these parts, in this order."""
    subject = x509.Name(
        [x509.RelativeDistinguishedName([x509.NameAttribute(*pair) for pair in part.items()]) for part in parts]
    )
    day = datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, day, day + datetime.timedelta(days=1))
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


AS_IN_JAVA: dict[str, tuple[list[dict[Oid, str]], str]] = {
    "all with a name": (
        [{NameOID.COUNTRY_NAME: "DE"}, {NameOID.STATE_OR_PROVINCE_NAME: "Berlin"}, {NameOID.LOCALITY_NAME: "Mitte"},
         {NameOID.ORGANIZATION_NAME: "Acme"}, {NameOID.ORGANIZATIONAL_UNIT_NAME: "Dev"}, {CN: "alice"}],
        "CN=alice,OU=Dev,O=Acme,L=Mitte,ST=Berlin,C=DE",
    ),
    "domain components": (
        [{NameOID.DOMAIN_COMPONENT: "org"}, {NameOID.DOMAIN_COMPONENT: "acme"}, {NameOID.USER_ID: "u1"}, {CN: "x"}],
        "CN=x,UID=u1,DC=acme,DC=org",
    ),
    "a street": ([{NameOID.STREET_ADDRESS: "Main 1"}, {CN: "s"}], "CN=s,STREET=Main 1"),
    "an e-mail address": (
        [{NameOID.EMAIL_ADDRESS: "a@b.org"}, {CN: "mail"}], "CN=mail,1.2.840.113549.1.9.1=#16076140622e6f7267",
    ),
    "a serial number": ([{CN: "ser"}, {NameOID.SERIAL_NUMBER: "1234"}], "2.5.4.5=#130431323334,CN=ser"),
    "a title": ([{CN: "t"}, {NameOID.TITLE: "Boss"}], "2.5.4.12=#0c04426f7373,CN=t"),
    "an unknown attribute": ([{Oid("1.2.3.4.5"): "odd"}, {CN: "o"}], "CN=o,1.2.3.4.5=#0c036f6464"),
    "signs": (
        [{NameOID.ORGANIZATION_NAME: 'Acme, Inc. "x" <y>; a+b=c\\d'}, {CN: "c"}],
        'CN=c,O=Acme\\, Inc. \\"x\\" \\<y\\>\\; a\\+b\\=c\\\\d',
    ),
    "blanks": ([{CN: " two  spaces "}], "CN=\\ two  spaces\\ "),
    "a number sign": ([{CN: "#x"}], "CN=\\#x"),
    "other letters": ([{CN: "Jürgen Ж 日本 😀"}], "CN=Jürgen Ж 日本 😀"),
    "two in one part": ([{CN: "m", NameOID.ORGANIZATIONAL_UNIT_NAME: "ou"}], "CN=m+OU=ou"),
    "a null": ([{CN: "a\0b"}], "CN=a\\00b"),
    "two names": ([{CN: "one"}, {CN: "two"}], "CN=two,CN=one"),
    "nothing": ([], ""),
}  # fmt: skip


@pytest.mark.parametrize("what", AS_IN_JAVA)
def test_a_subject_is_written_as_java_writes_it(what: str) -> None:
    parts, subject = AS_IN_JAVA[what]

    assert subject_of(certificate(*parts)) == subject


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (_ASN1Type.T61String, "a\xfc".encode("latin-1"), "a\ufffd"),
        (_ASN1Type.BMPString, "añ".encode("utf-16-be"), "\\00a\\00\ufffd"),
        (_ASN1Type.PrintableString, b"abc", "abc"),
    ],
)
def test_every_kind_of_text_is_read_as_utf_8(kind: _ASN1Type, value: bytes, shown: str) -> None:
    """Java decodes every string type as UTF-8, even types with another encoding."""
    marker = b"x" * len(value)
    encoded = certificate({CN: marker.decode()})
    before, after = bytes([0x0C, len(value)]) + marker, bytes([kind.value, len(value)]) + value
    assert encoded.count(before) == 2  # In the subject and the issuer.

    assert subject_of(encoded.replace(before, after)) == f"CN={shown}"


@pytest.mark.parametrize("size", [0, 1, 2, 30, 100])
def test_what_is_no_certificate_is_a_value_error(size: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        subject_of(certificate({CN: "a"})[:size])


SUBJECT = "CN=Alice,OU=Dev,C=DE"
MAPPED = {
    "DEFAULT": SUBJECT,
    "RULE:^CN=(.*?),OU=Dev.*$/$1/": "Alice",
    "RULE:^CN=(.*?),OU=Dev.*$/$1/U": "ALICE",
    "RULE:^CN=(.*?),OU=Ops.*$/ops/ , RULE:CN=([^,]*),.*/user-$1/L , DEFAULT": "user-alice",
    "RULE:^CN=(.*?),OU=(.*?),C=(.*?)$/$2\\/$3@$1/": "Dev/DE@Alice",
    "RULE:^CN=(.*?),.*$/\\$1/": "$1",
    "RULE:^CN=(.*?),.*$/$1$7/": "Alice$7",
    "RULE:^NO.*$/no/,DEFAULT": SUBJECT,
    "RULE:^CN=(?<who>.*?),.*$/is ${who}/L": "is alice",
    "RULE:^C(.)=(.)(.)(.)(.)(.),(.)(.)=(.)(.)(.),.*$/$10.$11.$12/": "e.v.N2",
    "RULE:^CN=(.*?),.*$/$12/": "Alice2",
    ",,DEFAULT": SUBJECT,
    "RULE:.*/x/": "xx",  # Java also replaces the empty match at the end.
}


@pytest.mark.parametrize("rules", MAPPED)
def test_the_first_rule_that_matches_names_the_user(rules: str) -> None:
    assert user_of(SUBJECT, parse_mapping_rules(rules)) == MAPPED[rules]


def test_a_subject_that_no_rule_matches_is_refused() -> None:
    with pytest.raises(NoMatchingRule, match="CN=Alice"):
        user_of(SUBJECT, parse_mapping_rules("RULE:^CN=Bob.*$/bob/"))


def test_letters_of_a_pattern_are_ascii_as_in_java() -> None:
    with pytest.raises(NoMatchingRule):
        user_of("CN=Jürgen", parse_mapping_rules(r"RULE:^CN=(\w+)$/$1/"))


@pytest.mark.parametrize("rules", ["default", "RULE:^C(.*)$/${who}/", "RULE:a/b", "RULE:(/x/", "RULE:^CN=(.*)$/$1/X"])
def test_rules_that_cannot_be_read_are_explained(rules: str) -> None:
    with pytest.raises(MappingError):
        parse_mapping_rules(rules)
