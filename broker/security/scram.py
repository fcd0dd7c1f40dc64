"""SCRAM (RFC 5802, RFC 7677): credentials, and the messages of an authentication.

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
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from stuntbroker.protocol.scram import ScramMechanism

PASSWORDS_KEPT: Final = 1_000
"""Number of salted passwords that are kept, as each takes milliseconds."""
# As in Kafka, ASCII only, although credentials can be stored for other names.
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_NAME}))?,"
    rf"n=(?P<user>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+={_VALUE})*)"
)
_CLIENT_FINAL: Final = re.compile(
    rf"c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+={_VALUE})*"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramError(Exception):
    """A message that is malformed, or that proves nothing."""


class ScramCredential(NamedTuple):
    """Credential that a server stores in place of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


@lru_cache(maxsize=PASSWORDS_KEPT)
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

    signed: str
    """The part that the client's proof covers."""
    user: str
    authorization_id: str
    nonce: str
    extensions: dict[str, str]


def parse_client_first(message: bytes) -> ClientFirst:
    """Parse the first message of a client. Raises ScramError."""
    match = _parsed(_CLIENT_FIRST, message)
    extensions = dict(part.split("=", 1) for part in match["extensions"].split(",")[1:])
    # As in Kafka, an extension that comes twice is signed once, and only the user is unescaped.
    signed = ",".join(
        (f"n={match['user']}", f"r={match['nonce']}", *(f"{name}={value}" for name, value in extensions.items()))
    )
    user, authorization_id = _unescaped(match["user"]), match["authorization_id"] or ""
    return ClientFirst(signed, user, authorization_id, match["nonce"], extensions)


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
    _decoded(match["binding"])  # As in Kafka, it need not be that of the first message, and extensions are not signed.
    signed = f"c={match['binding']},r={match['nonce']}"
    exchange = b",".join((first.signed.encode(), challenge, signed.encode()))
    signature = hmac.digest(credential.stored_key, exchange, mechanism.hash_name)
    client_key = _xor(signature, _decoded(match["proof"]))
    if not hmac.compare_digest(hashlib.new(mechanism.hash_name, client_key).digest(), credential.stored_key):
        raise ScramError("the client does not know the password")
    return b"v=" + b64encode(hmac.digest(credential.server_key, exchange, mechanism.hash_name))


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
