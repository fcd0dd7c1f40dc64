"""The client's side of SCRAM (RFC 5802), written without the broker's code, to which it is compared."""

from __future__ import annotations

import base64
import hashlib
import hmac

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ScramClient:
    """One authentication: send `first()`, then `final(challenge)`; `signature` is what the server has to answer."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str = "abc") -> None:
        self._hash = HASHES[mechanism]
        self._password = password
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self.signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        nonce, salt, iterations = (part[2:] for part in challenge.decode().split(",", 2))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), base64.b64decode(salt), int(iterations))
        bare = f"c=biws,r={nonce}"
        messages = f"{self._bare},{challenge.decode()},{bare}".encode()
        client_key, server_key = (hmac.digest(salted, text, self._hash) for text in (b"Client Key", b"Server Key"))
        proof = hmac.digest(hashlib.new(self._hash, client_key).digest(), messages, self._hash)
        proved = bytes(left ^ right for left, right in zip(client_key, proof, strict=True))
        self.signature = b"v=" + base64.b64encode(hmac.digest(server_key, messages, self._hash))
        return f"{bare},p={base64.b64encode(proved).decode()}".encode()
