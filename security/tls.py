"""TLS contexts from Kafka's `ssl.*` properties, for listeners and for clients."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import Final

from stuntbroker.security.keystores import Keystore, KeystoreError, read_keystore, read_pem

PROTOCOLS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

PropertyOf = Callable[[str], str]
"""Returns the value of a property, or an empty string."""


class TlsError(ValueError):
    """`ssl.*` properties with which no connection can be made. The message names the property."""


def server_context(value_of: PropertyOf) -> ssl.SSLContext:
    """Return the context of a listener. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own, prefix = _keystore(value_of)
    if not own.key or not own.chain:
        raise TlsError(f"{prefix}: there is no private key with a certificate in it")
    _limit_versions(context, value_of("ssl.enabled.protocols"))
    _load_key(context, own, prefix, value_of("ssl.key.password"))
    client_auth = value_of("ssl.client.auth") or "none"
    context.verify_mode = CLIENT_AUTH[client_auth]
    if client_auth != "none":
        # Java trusts the certificates of the system without a truststore; clients of tests have none of those.
        _trust(context, value_of, f"ssl.client.auth={client_auth}")
    return context


def client_context(value_of: PropertyOf) -> ssl.SSLContext:
    """Return the context of a client. Raises TlsError.

    Without a truststore, the certificates of the system are trusted. An empty `ssl.endpoint.identification.algorithm`,
    as opposed to `https`, switches the check of the host name off.
    """
    context = ssl.create_default_context()
    context.check_hostname = value_of("ssl.endpoint.identification.algorithm").lower() == "https"
    _limit_versions(context, value_of("ssl.enabled.protocols"))
    if value_of("ssl.truststore.location") or value_of("ssl.truststore.certificates"):
        context = _without_trust(context)
        _trust(context, value_of, "")
    if value_of("ssl.keystore.location") or value_of("ssl.keystore.key"):
        own, prefix = _keystore(value_of)
        _load_key(context, own, prefix, value_of("ssl.key.password"))
    return context


def _without_trust(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return a context with the same checks, which trusts nobody yet."""
    empty = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    empty.check_hostname = context.check_hostname
    empty.minimum_version, empty.maximum_version = context.minimum_version, context.maximum_version
    return empty


def _keystore(value_of: PropertyOf) -> tuple[Keystore, str]:
    """Return the keystore, and the property that names it. Raises TlsError."""
    key, chain = value_of("ssl.keystore.key"), value_of("ssl.keystore.certificate.chain")
    if key:
        return _checked("ssl.keystore.key", lambda: read_pem(f"{_lines(key)}\n{_lines(chain)}")), "ssl.keystore.key"
    location = value_of("ssl.keystore.location")
    if not location:
        raise TlsError("ssl.keystore.location: not set; a listener with TLS needs a key and a certificate")
    password, key_password = value_of("ssl.keystore.password"), value_of("ssl.key.password")
    keystore = _checked("ssl.keystore.location", lambda: read_keystore(location, password, key_password))
    return keystore, "ssl.keystore.location"


def _trust(context: ssl.SSLContext, value_of: PropertyOf, needed_for: str) -> None:
    """Trust the certificates of the truststore. Raises TlsError."""
    location, certificates = value_of("ssl.truststore.location"), value_of("ssl.truststore.certificates")
    if certificates:
        name, store = (
            "ssl.truststore.certificates",
            _checked("ssl.truststore.certificates", lambda: read_pem(_lines(certificates))),
        )
    elif location:
        name, store = (
            "ssl.truststore.location",
            _checked("ssl.truststore.location", lambda: read_keystore(location, value_of("ssl.truststore.password"))),
        )
    else:
        raise TlsError(f"ssl.truststore.location: not set, and {needed_for} needs one")
    trusted = [*store.trusted, *store.chain]
    if not trusted:
        raise TlsError(f"{name}: there is no certificate in it")
    try:
        context.load_verify_locations(cadata="\n".join(trusted))
    except (ssl.SSLError, ValueError) as fault:
        raise TlsError(f"{name}: {fault}") from fault


def _checked(name: str, read: Callable[[], Keystore]) -> Keystore:
    try:
        return read()
    except KeystoreError as fault:
        raise TlsError(f"{name}: {fault}") from fault


def _lines(pem: str) -> str:
    r"""Return PEM with its line ends: in a properties file they may be `\n` or blanks."""
    text = pem.replace("\\n", "\n")
    return re.sub(
        r"(-----BEGIN [A-Z0-9 ]+-----)(.*?)(-----END)",
        lambda match: (
            f"{match[1]}\n{match[2].strip().replace(' ', chr(10))}\n{match[3]}"
            if "\n" not in match[2].strip()
            else match[0]
        ),
        text,
        flags=re.DOTALL,
    )


def _limit_versions(context: ssl.SSLContext, protocols: str) -> None:
    versions = [PROTOCOLS[name] for name in map(str.strip, protocols.split(",")) if name]
    if versions:
        context.minimum_version, context.maximum_version = min(versions), max(versions)


def _load_key(context: ssl.SSLContext, own: Keystore, name: str, key_password: str) -> None:
    """Load the key and its chain. Raises TlsError."""

    def password() -> str:
        if not key_password:
            raise TlsError("ssl.key.password: not set, and the key is encrypted")
        return key_password

    with _as_file("\n".join((own.key, *own.chain))) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as fault:
            reason = fault.reason or str(fault)
            if "BAD_DECRYPT" in reason or reason == "[SSL] PEM lib":
                reason = "the password of the key (ssl.key.password) is wrong"
            raise TlsError(f"{name}: {reason}") from fault


@contextmanager
def _as_file(content: str) -> Iterator[str]:
    """Give the path of a file with this content: Python's ssl reads keys from files only.

    On Linux, the file is in memory only, because the file system may be read-only.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stuntbroker-key")
        try:
            os.write(descriptor, content.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(content)
            file.flush()
            yield file.name
