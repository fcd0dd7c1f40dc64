"""Authenticate with Apache Kafka and Stuntbroker over listeners with SASL, and compare the replies, messages included.

A case gets one side, which is connected to the listener with SASL; every connection `on` another name is a new one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any, Final
from uuid import uuid4

import pytest

from stuntbroker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from tests.conformance.compare import Case, run_case
from tests.conformance.conftest import Pair
from tests.conformance.side import Side, Step
from tests.conformance.wire import Closed, NoResponse

ALICE: Final = b"\0alice\0alice-secret"
SALT: Final = b"saltsalt"
ITERATIONS: Final = 4_096
SETTLE_S: Final = 20.0


def shake_hands(side: Side, on: str, mechanism: str = "PLAIN", version: int = 1) -> None:
    side.ask("SaslHandshake", version, f"{on} {mechanism}", on=on, mechanism=mechanism)


def authenticate(side: Side, on: str, token: bytes, version: int = 2) -> Any:
    reply = side.quiet("SaslAuthenticate", version, on=on, auth_bytes=token)
    note(side, f"{on} {token!r}", reply)
    return reply


def note(side: Side, label: str, reply: Any) -> None:
    """Record the reply to a token, with its message; a server's nonce and signature differ each time."""
    if isinstance(reply, SaslAuthenticateResponse):
        token = bytes(reply.auth_bytes)
        shown = "a challenge" if token.startswith(b"r=") else "a signature" if token.startswith(b"v=") else token
        said = (reply.error_code, reply.error_message, shown, reply.session_lifetime_ms > 0)
    else:
        said = (repr(reply),)
    side.steps.append(Step(f"{len(side.steps)}: {label}", [repr(each) for each in said]))


def is_open(side: Side, on: str) -> None:
    side.ask("FindCoordinator", 2, f"{on}: is it open?", on=on, key="g", key_type=0)


def requests_out_of_turn(side: Side) -> None:
    is_open(side, "nothing before")
    authenticate(side, "no mechanism", ALICE)
    side.quiet("ApiVersions", 3, on="versions twice", client_software_name="x", client_software_version="1")
    reply = side.quiet("ApiVersions", 3, on="versions twice", client_software_name="x", client_software_version="1")
    note(side, "versions twice", reply if isinstance(reply, Closed | NoResponse) else "answered")
    shake_hands(side, "unknown mechanism", "NOPE")
    shake_hands(side, "unknown mechanism")
    shake_hands(side, "two mechanisms")
    shake_hands(side, "two mechanisms")
    authenticate(side, "two mechanisms", ALICE)
    shake_hands(side, "again at once")
    authenticate(side, "again at once", ALICE)
    shake_hands(side, "again at once")
    is_open(side, "again at once")
    authenticate(side, "again at once", ALICE)
    is_open(side, "again at once")


def plain_passwords(side: Side) -> None:
    for version in (0, 1, 2):
        on = f"right v{version}"
        shake_hands(side, on)
        authenticate(side, on, ALICE, version)
        is_open(side, on)
    wrong = (
        b"\0alice\0wrong", b"bob\0alice\0alice-secret", b"alice\0alice\0alice-secret", b"\0\0x", b"\0alice\0", b"\0alice", b"",
        ALICE + b"\0x", b"\0nobody\0x", b"\0\xff\xfe\0x",
    )  # fmt: skip
    for token in wrong:
        on = f"token {token!r}"
        shake_hands(side, on)
        authenticate(side, on, token)
        is_open(side, on)


def bare_tokens(side: Side) -> None:
    for token in (ALICE, b"\0alice\0wrong", b"x"):
        on = f"bare {token!r}"
        shake_hands(side, on, version=0)
        side.link(on).send_frame(token)
        answer = side.link(on).receive()
        side.steps.append(Step(f"{len(side.steps)}: {on}", repr(answer)))
        if isinstance(answer, bytes):
            is_open(side, on)


def _token(header: dict[str, Any], claims: dict[str, Any], signature: str = "") -> bytes:
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in (header, claims))
    return f"n,,\x01auth=Bearer {'.'.join(parts)}.{signature}\x01\x01".encode()


def unsecured_tokens(side: Side) -> None:
    unsecured, now_s = {"alg": "none"}, int(time.time())
    later_s = now_s + 600
    tokens = {
        "right": _token(unsecured, {"sub": "alice", "exp": later_s}),
        "issued": _token(unsecured, {"sub": "alice", "iat": now_s - 1, "exp": later_s}),
        "issued later": _token(unsecured, {"sub": "alice", "iat": now_s + 100, "exp": later_s}),
        "expired": _token(unsecured, {"sub": "alice", "exp": now_s - 1}),
        "never expiring": _token(unsecured, {"sub": "alice"}),
        "nobody's": _token(unsecured, {"exp": later_s}),
        "signed": _token({"alg": "HS256"}, {"sub": "alice", "exp": later_s}, "c2ln"),
        "with a signature": _token(unsecured, {"sub": "alice", "exp": later_s}, "c2ln"),
        "a number as user": _token(unsecured, {"sub": 7, "exp": later_s}),
        "a text as time": _token(unsecured, {"sub": "alice", "exp": "soon"}),
        "no token": b"n,,\x01auth=Bearer x.y\x01\x01",
        "no message": b"hello",
        "another user": _token(unsecured, {"sub": "alice", "exp": later_s}).replace(b"n,,", b"n,a=bob,"),
    }
    for on, token in tokens.items():
        shake_hands(side, on, "OAUTHBEARER")
        side.steps.append(Step(f"{len(side.steps)}: {on}", ""))
        note(side, on, side.quiet("SaslAuthenticate", 2, on=on, auth_bytes=token))
        note(side, f"{on}, acknowledged", side.quiet("SaslAuthenticate", 2, on=on, auth_bytes=b"\x01"))


def scram_proofs(side: Side) -> None:
    shake_hands(side, "admin")
    authenticate(side, "admin", b"\0admin\0admin-secret")
    user, salted = side.name("u,=r"), hashlib.pbkdf2_hmac("sha256", b"pw", SALT, ITERATIONS)
    upsertion = {"name": user, "mechanism": 1, "iterations": ITERATIONS, "salt": SALT, "salted_password": salted}
    side.quiet("AlterUserScramCredentials", 0, on="admin", deletions=[], upsertions=[upsertion])
    name = user.replace("=", "=3D").replace(",", "=2C")
    _wait_for_user(side, name)
    for first in (
        f"n,,n={name},r=abc", f"n,,n={name},r=abc,x=1", f"n,a={name},n={name},r=abc", f"n,a=al,n={name},r=abc",
        f"y,,n={name},r=abc", f"p=tls,,n={name},r=abc", f"n,,n={user},r=abc", f"n,,n={name},r=", f"n,,n={name},r=a b", "n,,r=abc",
        f"n,,n={name},r=abc,tokenauth=true", "n,,n=nobody,r=abc", "",
    ):  # fmt: skip
        _prove(side, first, salted)
    _prove(side, f"n,,n={name},r=abc", b"x" * 32)
    _prove(side, f"n,,n={name},r=abc", salted, final="c=eSws,r={nonce},p={proof}")
    _prove(side, f"n,,n={name},r=abc", salted, final="c=biws,r={nonce}x,p={proof}")
    _prove(side, f"n,,n={name},r=abc", salted, final="hello")


def _wait_for_user(side: Side, name: str) -> None:
    """A Kafka broker learns of a user a little later than its controller."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        on = uuid4().hex
        side.quiet("SaslHandshake", 1, on=on, mechanism="SCRAM-SHA-256")
        reply = side.quiet("SaslAuthenticate", 2, on=on, auth_bytes=f"n,,n={name},r=abc".encode())
        if not reply.error_code:
            return
        assert time.monotonic() < deadline, f"there is no user {name}"


def _prove(side: Side, first: str, salted: bytes, final: str = "{bare},p={proof}") -> None:
    on = f"{first} {final} {salted[:1]!r}"
    shake_hands(side, on, "SCRAM-SHA-256")
    reply = side.quiet("SaslAuthenticate", 2, on=on, auth_bytes=first.encode())
    note(side, f"first {on}", reply)
    if isinstance(reply, Closed | NoResponse) or reply.error_code:
        return
    challenge = bytes(reply.auth_bytes).decode()
    header = first[: first.index("n=", 2)]
    nonce = challenge.split(",")[0].removeprefix("r=")
    bare = f"c={base64.b64encode(header.encode()).decode()},r={nonce}"
    message = f"{first.removeprefix(header)},{challenge},{bare}".encode()
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    token = final.format(bare=bare, nonce=nonce, proof=proof).encode()
    note(side, f"final {on}", side.quiet("SaslAuthenticate", 2, on=on, auth_bytes=token))
    is_open(side, on)


CASES: Final[list[Case]] = [requests_out_of_turn, plain_passwords, bare_tokens, unsecured_tokens, scram_proofs]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_authentication_has_the_outcome_and_the_messages_of_kafka(
    pair: Pair, sasl_pair: Pair, case: Case, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("kafka", ""):
        pytest.skip("the running Kafka has no listener with SASL that this test knows of")
    actual = run_case(case, *sasl_pair, f"{case.__name__}-{uuid4().hex[:6]}")

    assert [str(each) for each in actual if not each.allowance] == []
