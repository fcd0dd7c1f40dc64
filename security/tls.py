"""TLS contexts of a listener, and of a client, from Kafka's `ssl.*` properties."""

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

ANY_TRUSTED: Final = ssl.VERIFY_X509_PARTIAL_CHAIN
"""A certificate of a truststore is trusted, as in Java, also if another authority has signed it, or if it is no authority's."""
_ONE_LINE_PEM: Final = re.compile(r"(?P<begin>-----BEGIN [A-Z0-9 ]+-----)(?P<content>[^\n]+?)(?P<end>-----END)")

VERIFICATION: Final = "enable.ssl.certificate.verification"
PropertyOf = Callable[[str], str]
"""Returns the value of a property, or an empty string."""


class TlsError(ValueError):
    """`ssl.*` properties with which no connection can be made. The message names the property."""


def server_context(value_of: PropertyOf) -> ssl.SSLContext:
    """Return the context of a listener. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_flags |= ANY_TRUSTED
    _limit_versions(context, value_of("ssl.enabled.protocols"))
    if not _load_keystore(context, value_of):
        raise TlsError("ssl.keystore.location: not set; a listener with TLS needs a key and a certificate")
    client_auth = value_of("ssl.client.auth") or "none"
    context.verify_mode = CLIENT_AUTH[client_auth]
    # Unlike Kafka: without a truststore, Java trusts the authorities of the system, which sign no clients of tests.
    if client_auth != "none" and not _load_truststore(context, value_of):
        raise TlsError(f"ssl.truststore.location: not set, and ssl.client.auth={client_auth} needs one")
    return context


def client_context(value_of: PropertyOf) -> ssl.SSLContext:
    """Return the context of a client. Raises TlsError.

    Without a truststore, the system's authorities are trusted. An empty `ssl.endpoint.identification.algorithm` accepts any
    host name, and `enable.ssl.certificate.verification=false`, librdkafka's property, any certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ANY_TRUSTED
    _limit_versions(context, value_of("ssl.enabled.protocols"))
    context.check_hostname = bool(value_of("ssl.endpoint.identification.algorithm"))
    _load_keystore(context, value_of)
    if value_of(VERIFICATION).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not _load_truststore(context, value_of):
        context.load_default_certs()
    return context


def _load_keystore(context: ssl.SSLContext, value_of: PropertyOf) -> bool:
    """Load the keystore's key and certificates; return whether there is a keystore. Raises TlsError."""
    key, chain = value_of("ssl.keystore.key"), value_of("ssl.keystore.certificate.chain")
    location, password = value_of("ssl.keystore.location"), value_of("ssl.keystore.password")
    key_password = value_of("ssl.key.password")
    if key:
        name = "ssl.keystore.key"
        own = _checked(name, lambda: read_pem(f"{_lines(key)}\n{_lines(chain)}"))
    elif location:
        name = "ssl.keystore.location"
        own = _checked(name, lambda: read_keystore(location, password, key_password))
    else:
        return False
    if not own.key or not own.chain:
        raise TlsError(f"{name}: there is no private key with a certificate in it")
    _load_key(context, own, name, key_password)
    return True


def _load_truststore(context: ssl.SSLContext, value_of: PropertyOf) -> bool:
    """Trust the certificates of the truststore; return whether there is one. Raises TlsError."""
    location, certificates = value_of("ssl.truststore.location"), value_of("ssl.truststore.certificates")
    if certificates:
        name = "ssl.truststore.certificates"
        store = _checked(name, lambda: read_pem(_lines(certificates)))
    elif location:
        name = "ssl.truststore.location"
        store = _checked(name, lambda: read_keystore(location, value_of("ssl.truststore.password")))
    else:
        return False
    trusted = [*store.trusted, *store.chain]
    if not trusted:
        raise TlsError(f"{name}: there is no certificate in it")
    try:
        context.load_verify_locations(cadata="\n".join(trusted))
    except (ssl.SSLError, ValueError, TypeError) as fault:
        raise TlsError(f"{name}: {fault}") from fault
    return True


def _checked(name: str, read: Callable[[], Keystore]) -> Keystore:
    try:
        return read()
    except KeystoreError as fault:
        raise TlsError(f"{name}: {fault}") from fault


def _lines(pem: str) -> str:
    r"""Return PEM with its line ends, which may be `\n` or blanks in a properties file."""

    def with_line_ends(match: re.Match[str]) -> str:
        return f"{match['begin']}\n{match['content'].strip().replace(' ', chr(10))}\n{match['end']}"

    return _ONE_LINE_PEM.sub(with_line_ends, pem.replace("\\n", "\n"))


def _limit_versions(context: ssl.SSLContext, protocols: str) -> None:
    names = [name for name in map(str.strip, protocols.split(",")) if name]
    if unknown := [name for name in names if name not in PROTOCOLS]:
        raise TlsError(f"ssl.enabled.protocols: {unknown[0]!r} is none of {', '.join(PROTOCOLS)}")
    versions = [PROTOCOLS[name] for name in names]
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
            if "ENCRYPTED" in own.key:  # All that Python says is that OpenSSL has failed.
                raise TlsError("ssl.key.password: it does not decrypt the key") from fault
            raise TlsError(f"{name}: {fault.reason or fault}") from fault


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
