"""Keystores in every format that Kafka's properties name, and the TLS contexts made of them."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from ssl import CERT_REQUIRED, TLSVersion

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificates

from stuntbroker.security.keystores import KeystoreError, read_keystore
from stuntbroker.security.tls import TlsError, server_context
from tests.kit.keystore_files import PASSWORD, write_keystores

FORMATS = ("pem", "pkcs12", "jks")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    write_keystores(folder)
    return folder


def store(stores: Path, name: str, kind: str) -> str:
    """Return the path of a keystore; a JKS file is made of the PKCS12 file by Java's keytool."""
    path = stores / f"{name}.{kind}"
    if kind == "jks" and not path.exists():
        keytool = shutil.which("keytool")
        if keytool is None:
            pytest.skip("needs keytool, which comes with a JDK")
        command = [
            keytool,
            "-importkeystore",
            "-noprompt",
            "-srckeystore",
            str(stores / f"{name}.pkcs12"),
            "-destkeystore",
        ]
        command += [str(path), "-deststoretype", "JKS", "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD]
        subprocess.run(command, check=True, capture_output=True)
    return str(path)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_keystore_has_the_same_key_and_certificates_in_every_format(stores: Path, kind: str) -> None:
    actual = read_keystore(store(stores, "server", kind), PASSWORD)
    expected = read_keystore(str(stores / "server.pem"), "")

    assert load_pem_private_key(actual.key.encode(), None).private_numbers() == (  # type: ignore[union-attr]
        load_pem_private_key(expected.key.encode(), None).private_numbers()  # type: ignore[union-attr]
    )
    assert load_pem_x509_certificates("\n".join(actual.chain).encode()) == (
        load_pem_x509_certificates("\n".join(expected.chain).encode())
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_a_tls_context_is_created_from_every_keystore_format(stores: Path, kind: str) -> None:
    properties = {
        "ssl.keystore.location": store(stores, "server", kind),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": store(stores, "trust", kind),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    context = server_context(lambda name: properties.get(name, ""))

    assert (context.verify_mode, context.minimum_version) == (CERT_REQUIRED, TLSVersion.TLSv1_3)
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("password", "said"),
    [("", "ssl.key.password: not set"), ("wrong", "ssl.key.password: it does not decrypt"), (PASSWORD, "")],
)
def test_an_encrypted_key_needs_its_password(stores: Path, tmp_path: Path, password: str, said: str) -> None:
    key = load_pem_private_key((stores / "server.pem").read_bytes(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode()))
    chain = "\n".join(read_keystore(str(stores / "server.pem"), "").chain)
    (tmp_path / "key.pem").write_text(f"{encrypted.decode()}\n{chain}")
    properties = {"ssl.keystore.location": str(tmp_path / "key.pem"), "ssl.key.password": password}

    with pytest.raises(TlsError, match=said) if said else nullcontext():
        server_context(lambda name: properties.get(name, ""))


@pytest.mark.parametrize("line_end", ["\\n", " "], ids=["escaped", "blank"])
def test_a_key_may_be_in_the_property_itself(stores: Path, line_end: str) -> None:
    pem = (stores / "server.pem").read_text()

    properties = {"ssl.keystore.key": pem.replace("\n", line_end)}
    server_context(lambda name: properties.get(name, ""))


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "ssl.keystore.location: not set"),
        ({"ssl.keystore.location": "{folder}/none"}, "ssl.keystore.location: .*none: No such file"),
        ({"ssl.keystore.location": "{folder}/server.pkcs12", "ssl.keystore.password": "no"}, "the password is wrong"),
        ({"ssl.keystore.location": "{folder}/trust.pem"}, "no private key with a certificate"),
        (
            {"ssl.keystore.location": "{folder}/server.pem", "ssl.client.auth": "required"},
            "ssl.truststore.location: not set",
        ),
        ({"ssl.keystore.location": "{folder}/junk"}, "neither PEM, PKCS12 nor JKS"),
    ],
)
def test_unusable_tls_properties_are_explained(stores: Path, properties: dict[str, str], said: str) -> None:
    (stores / "junk").write_bytes(b"junk")
    given = {name: value.format(folder=stores) for name, value in properties.items()}

    with pytest.raises(TlsError, match=said):
        server_context(lambda name: given.get(name, ""))


@pytest.mark.parametrize("spoil", ["password", "content"])
def test_a_jks_file_with_a_wrong_password_or_damage_is_refused(stores: Path, tmp_path: Path, spoil: str) -> None:
    content = bytearray(Path(store(stores, "server", "jks")).read_bytes())
    if spoil == "content":
        content[40] ^= 1
    (tmp_path / "spoilt").write_bytes(content)

    with pytest.raises(KeystoreError, match="the password is wrong, or the file is damaged"):
        read_keystore(str(tmp_path / "spoilt"), "other" if spoil == "password" else PASSWORD)


def test_a_jks_file_that_is_cut_off_anywhere_is_refused(stores: Path, tmp_path: Path) -> None:
    content = Path(store(stores, "server", "jks")).read_bytes()
    for size in (*range(4, 120), *range(120, len(content) - 20, 37)):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(KeystoreError):
            read_keystore(str(tmp_path / "cut"), "")
