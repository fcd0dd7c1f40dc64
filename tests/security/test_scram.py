"""SCRAM: the example of RFC 7677, and both sides together."""

from __future__ import annotations

from base64 import b64decode

import pytest

from stuntbroker.security.scram import (
    MECHANISMS,
    SHA_256,
    ScramClient,
    ScramError,
    credential_of,
    parse_client_first,
    salted_password,
    server_final,
    server_first,
)


def test_the_messages_are_those_of_the_example_in_rfc_7677() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"

    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")

    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of(SHA_256, salted_password(SHA_256, "pencil", salt, 4_096), salt, 4_096)
    first = parse_client_first(client.first())
    assert server_final(SHA_256, credential, first, challenge, client.final(challenge)) == (
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_only_the_right_password_is_proved(name: str, password: str) -> None:
    mechanism, user = MECHANISMS[name], "a,b=c"
    credential = credential_of(mechanism, salted_password(mechanism, "secret", b"salt", 4_096), b"salt", 4_096)
    client = ScramClient(mechanism, user, password, "abc")
    first = parse_client_first(client.first())
    challenge = server_first("abcdef", credential)

    assert first.user == user
    if password == "secret":
        client.check(server_final(mechanism, credential, first, challenge, client.final(challenge)))
    else:
        with pytest.raises(ScramError, match="does not know the password"):
            server_final(mechanism, credential, first, challenge, client.final(challenge))


def test_a_client_refuses_a_server_that_does_not_know_the_password() -> None:
    client = ScramClient(SHA_256, "user", "secret", "abc")
    with pytest.raises(ScramError, match="nonce"):
        client.final(b"r=other,s=c2FsdA==,i=4096")
    client.final(b"r=abcd,s=c2FsdA==,i=4096")
    with pytest.raises(ScramError, match="the server does not know"):
        client.check(b"v=AAAA")
