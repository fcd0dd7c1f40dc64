"""Keystores and truststores as Kafka's `ssl.*` properties name them: PEM (KIP-651), PKCS12, and Java's JKS.

The format is recognised by the content, because Java writes PKCS12 into files named `.jks`. PKCS12 is read by the command
`openssl`, which decrypts what Python's own library cannot; its password goes through a pipe.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from ssl import DER_cert_to_PEM_cert
from struct import error as StructError
from struct import unpack_from
from textwrap import wrap
from typing import Final, NamedTuple

from stuntbroker.security.der import read_length

OPENSSL_S_MAX: Final = 30
_JKS_MAGIC: Final = 0xFEEDFEED
_JKS_VERSION: Final = 2
_JKS_KEY, _JKS_CERTIFICATE = 1, 2
_JKS_DIGEST_SIZE: Final = 20
_JKS_PEPPER: Final = b"Mighty Aphrodite"
"""Java hashes it with the password and the content of a JKS file."""
_JKS_ALGORITHM: Final = bytes.fromhex("06 0a 2b 06 01 04 01 2a 02 11 01 01")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1 of Sun's protection of keys."""
_PEM: Final = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.*?-----END (?P=label)-----", re.DOTALL)


class KeystoreError(ValueError):
    """A keystore that cannot be read."""


class Keystore(NamedTuple):
    """The content of a keystore or truststore, in PEM."""

    key: str
    """The private key, encrypted if it was in a PEM file; empty if there is none."""
    chain: list[str]
    """The certificate of the key, and those of its issuers."""
    trusted: list[str]
    """Certificates without a key."""


def read_keystore(path: str, password: str, key_password: str = "") -> Keystore:
    """Read a keystore of any of the three formats. Raises KeystoreError, which names the file.

    `key_password`: of the key in a JKS file, if it is another one than the file's.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as fault:
        raise KeystoreError(f"{path}: {fault.strerror}") from fault
    try:
        if content[:4] == _JKS_MAGIC.to_bytes(4, "big"):
            return _read_jks(content, password, key_password or password)
        if b"-----BEGIN " in content:
            return read_pem(content.decode("utf-8", "replace"))
        if content[:1] == b"\x30":
            return _read_pkcs12(content, password)
    except KeystoreError as fault:
        raise KeystoreError(f"{path}: {fault}") from None
    except (StructError, IndexError):  # A JKS file that is cut off, or whose sizes are wrong.
        raise KeystoreError(f"{path}: the file is damaged") from None
    raise KeystoreError(f"{path}: neither PEM, PKCS12 nor JKS")


def read_pem(text: str) -> Keystore:
    """Read a key and certificates in PEM. Raises KeystoreError.

    With a key, all certificates are those of its chain; without one they are trusted certificates.
    """
    keys, certificates = [], []
    for match in _PEM.finditer(text):
        if match["label"].endswith("PRIVATE KEY"):
            keys.append(match[0])
        elif match["label"] == "CERTIFICATE":
            certificates.append(match[0])
    if len(keys) > 1:
        raise KeystoreError(f"there are {len(keys)} private keys; only one is allowed")
    if keys:
        return Keystore(keys[0], certificates, [])
    return Keystore("", [], certificates)


def _read_pkcs12(content: bytes, password: str) -> Keystore:
    text = _openssl(content, password)
    key, _, _ = read_pem(text)
    certificates = _certificates_of_pkcs12(text)
    if not key:
        return Keystore("", [], [pem for _, pem in certificates])
    # The certificate of the key has its "localKeyID"; openssl writes the others in the order of the file.
    own = [pem for attributes, pem in certificates if "localKeyID" in attributes]
    others = [pem for attributes, pem in certificates if "localKeyID" not in attributes]
    return Keystore(key, own + others, [])


def _certificates_of_pkcs12(text: str) -> list[tuple[str, str]]:
    """Return (attributes, certificate) of what openssl wrote."""
    before, certificates = 0, []
    for match in _PEM.finditer(text):
        if match["label"] == "CERTIFICATE":
            certificates.append((text[before : match.start()], match[0]))
        before = match.end()
    return certificates


def _openssl(content: bytes, password: str) -> str:
    """Return a PKCS12 file in PEM. Raises KeystoreError."""
    fault = ""
    for options in ((), ("-legacy",)):  # Java before 16 encrypted certificates with RC2.
        run = _run_openssl(content, password, options)
        if run.returncode == 0:
            return run.stdout.decode()
        fault = run.stderr.decode("utf-8", "replace").strip()
        if "unsupported" not in fault.lower():
            break
    if "password" in fault.lower() or "mac verify" in fault.lower():
        raise KeystoreError("the password is wrong")
    raise KeystoreError(f"openssl cannot read it: {fault.splitlines()[-1] if fault else 'no reason given'}")


def _run_openssl(content: bytes, password: str, options: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    reader, writer = os.pipe()
    try:
        with open(writer, "wb") as pipe:
            pipe.write(password.encode() + b"\n")
        command = ["openssl", "pkcs12", "-nodes", "-passin", f"fd:{reader}", *options]
        return subprocess.run(
            command, input=content, capture_output=True, pass_fds=[reader], timeout=OPENSSL_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise KeystoreError(f"openssl has not ended within {OPENSSL_S_MAX} s") from None
    except FileNotFoundError:
        raise KeystoreError(
            "PKCS12 is read by the command openssl, which is not installed: install it, or convert the file to PEM"
        ) from None
    finally:
        os.close(reader)


# --- JKS: magic, version, number of entries, entries, SHA-1 of all that with the password


def _read_jks(content: bytes, password: str, key_password: str) -> Keystore:
    hashed = hashlib.sha1(
        password.encode("utf-16-be") + _JKS_PEPPER + content[:-_JKS_DIGEST_SIZE], usedforsecurity=False
    )
    # As in Java, certificates can be read without a password: it only proves that nobody has changed the file.
    if password and hashed.digest() != content[-_JKS_DIGEST_SIZE:]:
        raise KeystoreError("the password is wrong, or the file is damaged")
    key, chain, trusted = "", [], []
    for protected, certificates in _jks_entries(content):
        if protected is None:
            trusted += certificates
        elif not key:  # Java also takes the first key.
            key, chain = _pem_of_key(_jks_key(protected, key_password)), certificates
    return Keystore(key, chain, trusted)


def _jks_entries(content: bytes) -> Iterator[tuple[bytes | None, list[str]]]:
    """Yield (protected key or None, certificates) of each entry."""
    _, version, count = unpack_from(">III", content)
    if version != _JKS_VERSION:
        raise KeystoreError(f"JKS of version {version} is not supported")
    at = 12

    def take(length_size: int) -> bytes:
        nonlocal at
        size = int.from_bytes(content[at : at + length_size], "big")
        at += length_size + size
        return content[at - size : at]

    for _ in range(count):
        (tag,) = unpack_from(">I", content, at)
        at += 4
        take(2)  # The alias.
        at += 8  # The time at which it was made.
        protected = take(4) if tag == _JKS_KEY else None
        certificates = 1
        if tag == _JKS_KEY:
            (certificates,) = unpack_from(">I", content, at)
            at += 4
        elif tag != _JKS_CERTIFICATE:
            raise KeystoreError(f"entries of kind {tag} are not supported")
        pems = []
        for _ in range(certificates):
            take(2)  # The type of the certificate: X.509.
            pems.append(DER_cert_to_PEM_cert(take(4)))
        yield protected, pems


def _jks_key(protected: bytes, password: str) -> bytes:
    """Return the PKCS8 key of an EncryptedPrivateKeyInfo with Sun's protection. Raises KeystoreError."""
    at = protected.find(_JKS_ALGORITHM)
    if at < 0:
        raise KeystoreError("the key has a protection that is not Sun's")
    at += len(_JKS_ALGORITHM)
    if protected[at : at + 2] == b"\x05\x00":
        at += 2
    _, at = read_length(protected, at + 1)  # The header of the octet string.
    salt, encrypted, check = protected[at : at + 20], protected[at + 20 : -20], protected[-20:]
    secret, block, stream = password.encode("utf-16-be"), salt, bytearray()
    while len(stream) < len(encrypted):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(encrypted, stream, strict=False))
    if hashlib.sha1(secret + key, usedforsecurity=False).digest() != check:
        raise KeystoreError("the password of the key is wrong")
    return key


def _pem_of_key(key: bytes) -> str:
    lines = wrap(b64encode(key).decode(), 64)
    return "\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"))
