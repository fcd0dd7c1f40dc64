"""Keys and certificates of a test, in the files that Kafka's `ssl.*` properties name."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificates

PASSWORD = "secret"


def write_keystores(folder: Path) -> trustme.CA:
    """Write `server`, a key and its certificate, and `trust`, its authority's, as .pem and .pkcs12; `client.pem` is a client's.

    The certificate is for localhost, and for a container with the name `broker`.
    Return the authority.
    """
    authority = trustme.CA()
    pem = authority.issue_cert("localhost", "broker").private_key_and_cert_chain_pem.bytes()
    own, *others = load_pem_x509_certificates(pem)
    secret = BestAvailableEncryption(PASSWORD.encode())
    key = load_pem_private_key(pem, None)
    trusted = [pkcs12.PKCS12Certificate(load_pem_x509_certificates(authority.cert_pem.bytes())[0], b"ca")]
    (folder / "server.pem").write_bytes(pem)
    (folder / "server.pkcs12").write_bytes(pkcs12.serialize_key_and_certificates(b"server", key, own, others, secret))  # type: ignore[arg-type]
    (folder / "trust.pkcs12").write_bytes(pkcs12.serialize_java_truststore(trusted, secret))
    authority.cert_pem.write_to_path(str(folder / "trust.pem"))
    authority.issue_cert("alice@example.org").private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
    return authority
