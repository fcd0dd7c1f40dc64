"""SCRAM (RFC 5802, RFC 7677): credentials, and the messages of an authentication, on both sides.

    client first  n,,n=USER,r=NONCE              server first  r=NONCE...,s=SALT,i=ITERATIONS
    client final  c=biws,r=NONCE...,p=PROOF      server final  v=SIGNATURE

User names and passwords are used as they are, without SASLprep, as in Kafka.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
_NAME: Final = "(?:[^=,]|=2C|=3D)+"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=[^,]+)*))"
)
_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>\d+)"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramError(Exception):
    """A message that is malformed, or that proves nothing."""


class ScramMechanism(NamedTuple):
    """One of the two mechanisms, with its number in Kafka's protocol (ScramMechanism)."""

    name: str
    hash_name: str
    number: int


SHA_256: Final = ScramMechanism("SCRAM-SHA-256", "sha256", 1)
SHA_512: Final = ScramMechanism("SCRAM-SHA-512", "sha512", 2)
MECHANISMS: Final = {mechanism.name: mechanism for mechanism in (SHA_256, SHA_512)}


class ScramCredential(NamedTuple):
    """What a server stores of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password, from which both keys are derived."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return ScramCredential(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", mechanism.hash_name))


class ClientFirst(NamedTuple):
    """The first message of a client."""

    header: str
    bare: str
    user: str
    authorization_id: str
    nonce: str
    extensions: dict[str, str]


def parse_client_first(message: bytes) -> ClientFirst:
    """Parse the first message of a client. Raises ScramError."""
    match = _parsed(_CLIENT_FIRST, message)
    extensions = dict(part.split("=", 1) for part in match["extensions"].split(",")[1:])
    # As in Kafka, only the user is unescaped.
    user, authorization_id = _unescaped(match["user"]), match["authorization_id"] or ""
    return ClientFirst(match["header"], match["bare"], user, authorization_id, match["nonce"], extensions)


def server_first(nonce: str, credential: ScramCredential) -> bytes:
    """Return the server's answer to the first message. `nonce`: the client's, with the server's appended."""
    return f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}".encode()


def server_final(
    mechanism: ScramMechanism, credential: ScramCredential, first: ClientFirst, challenge: bytes, final: bytes
) -> bytes:
    """Check the client's proof, and return the server's signature. Raises ScramError.

    `challenge`: what `server_first` returned; `final`: the client's second message.
    """
    match = _parsed(_CLIENT_FINAL, final)
    if not challenge.startswith(f"r={match['nonce']},".encode()):
        raise ScramError("the client's nonce is not the server's")
    if _decoded(match["binding"]) != first.header.encode():
        raise ScramError("the client's channel binding is not that of its first message")
    exchange = _exchange(first.bare, challenge, match["bare"])
    signature = hmac.digest(credential.stored_key, exchange, mechanism.hash_name)
    client_key = _xor(signature, _decoded(match["proof"]))
    if not hmac.compare_digest(hashlib.new(mechanism.hash_name, client_key).digest(), credential.stored_key):
        raise ScramError("the client does not know the password")
    return b"v=" + b64encode(hmac.digest(credential.server_key, exchange, mechanism.hash_name))


class ScramClient:
    """The client's side of one authentication."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the second message, with the proof. Raises ScramError."""
        match = _parsed(_SERVER_FIRST, challenge)
        if not match["nonce"].startswith(self._nonce):
            raise ScramError("the server's nonce does not begin with the client's")
        salted = salted_password(self._mechanism, self._password, _decoded(match["salt"]), int(match["iterations"]))
        credential = credential_of(self._mechanism, salted, b"", 0)
        bare = f"c=biws,r={match['nonce']}"
        exchange = _exchange(self._bare, challenge, bare)
        self._signature = hmac.digest(credential.server_key, exchange, self._mechanism.hash_name)
        client_key = hmac.digest(salted, b"Client Key", self._mechanism.hash_name)
        proof = _xor(client_key, hmac.digest(credential.stored_key, exchange, self._mechanism.hash_name))
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def check(self, final: bytes) -> None:
        """Check the server's signature. Raises ScramError."""
        if not hmac.compare_digest(final, b"v=" + b64encode(self._signature)):
            raise ScramError("the server does not know the password")


def _exchange(client_first_bare: str, challenge: bytes, client_final_bare: str) -> bytes:
    return b",".join((client_first_bare.encode(), challenge, client_final_bare.encode()))


def _parsed(pattern: re.Pattern[str], message: bytes) -> re.Match[str]:
    try:
        match = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise ScramError("the message is malformed")
    return match


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error as fault:
        raise ScramError(f"not base64: {fault}") from fault


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise ScramError("the proof has the wrong length")
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
