"""SCRAM: the example of RFC 7677, and both sides together."""

from __future__ import annotations

from base64 import b64decode

import pytest

from stuntbroker.broker.security.scram import (
    ScramError,
    credential_of,
    parse_client_first,
    salted_password,
    server_final,
    server_first,
)
from stuntbroker.protocol.scram import SCRAM_MECHANISMS, SHA_256
from tests.kit.scram_client import ScramClient


def test_the_messages_are_those_of_the_example_in_rfc_7677() -> None:
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"

    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )

    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of(SHA_256, salted_password(SHA_256, "pencil", salt, 4_096), salt, 4_096)
    first = parse_client_first(client.first())
    assert server_final(SHA_256, credential, first, challenge, client.final(challenge)) == (
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize("name", SCRAM_MECHANISMS)
@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_scram_succeeds_only_with_the_right_password(name: str, password: str) -> None:
    mechanism, user = SCRAM_MECHANISMS[name], "a,b=c"
    credential = credential_of(mechanism, salted_password(mechanism, "secret", b"salt", 4_096), b"salt", 4_096)
    client = ScramClient(name, user, password)
    first = parse_client_first(client.first())
    challenge = server_first("abcdef", credential)

    assert first.user == user
    if password == "secret":
        assert server_final(mechanism, credential, first, challenge, client.final(challenge)) == client.signature
    else:
        with pytest.raises(ScramError, match="does not know the password"):
            server_final(mechanism, credential, first, challenge, client.final(challenge))


@pytest.mark.parametrize("user", ["jürgen", "日本", "a\0b"])
def test_user_names_are_ascii_as_in_kafka(user: str) -> None:
    with pytest.raises(ScramError, match="malformed"):
        parse_client_first(f"n,,n={user},r=abc".encode())


def test_a_channel_binding_is_base64() -> None:
    credential = credential_of(SHA_256, salted_password(SHA_256, "secret", b"salt", 4_096), b"salt", 4_096)
    client = ScramClient("SCRAM-SHA-256", "user", "secret")
    first, challenge = parse_client_first(client.first()), server_first("abcdef", credential)
    final = client.final(challenge).replace(b"c=biws", b"c=biw")
    with pytest.raises(ScramError, match="not base64"):
        server_final(SHA_256, credential, first, challenge, final)


def test_extensions_are_ignored_and_the_proof_covers_only_those_of_the_first_message() -> None:
    credential = credential_of(SHA_256, salted_password(SHA_256, "secret", b"salt", 4_096), b"salt", 4_096)
    client = ScramClient("SCRAM-SHA-256", "user", "secret")
    first = parse_client_first(client.first() + b",q=1")
    assert (first.extensions, first.signed) == ({"q": "1"}, client.first().decode().removeprefix("n,,") + ",q=1")

    first, challenge = parse_client_first(client.first()), server_first("abcdef", credential)
    bare, _, proof = client.final(challenge).rpartition(b",p=")
    assert server_final(SHA_256, credential, first, challenge, bare + b",z=1,p=" + proof) == client.signature
