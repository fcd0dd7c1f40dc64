"""SASL requests on a listener without SASL, and the SCRAM credentials of users. Error messages are compared too."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from tests.conformance.side import Side

SHA_256, SHA_512, UNKNOWN = 1, 2, 0
SALT: Final = b"saltsalt"


def sasl_requests_without_sasl(side: Side) -> None:
    for version in (0, 1):
        side.ask("SaslHandshake", version, "", mechanism="PLAIN")
    for version in (0, 1, 2):
        side.ask("SaslAuthenticate", version, "", auth_bytes=b"\0alice\0alice-secret")
    side.ask("FindCoordinator", 2, "afterwards", key="g", key_type=0)


def _set(user: str, mechanism: int = SHA_256, iterations: int = 4_096, **fields: Any) -> dict[str, Any]:
    return {
        "name": user, "mechanism": mechanism, "iterations": iterations, "salt": SALT,
        "salted_password": hashlib.pbkdf2_hmac("sha256", b"pw", SALT, 4_096), **fields,
    }  # fmt: skip


def scram_credentials_of_users(side: Side) -> None:
    alice, bob, carol = side.name("alice"), side.name("bob"), side.name("carol")

    def alter(note: str, *upsertions: dict[str, Any], remove: tuple[tuple[str, int], ...] = ()) -> None:
        deletions = [{"name": name, "mechanism": mechanism} for name, mechanism in remove]
        reply = side.quiet("AlterUserScramCredentials", 0, deletions=deletions, upsertions=list(upsertions))
        side.table(note, {each.user: f"{each.error_code} {each.error_message}" for each in reply.results})

    def describe(note: str, *users: str) -> None:
        reply = side.quiet("DescribeUserScramCredentials", 0, users=[{"name": user} for user in users])
        shown = {
            each.user: [f"{each.error_code} {each.error_message}", *sorted(map(repr, each.credential_infos))]
            for each in reply.results
        }
        side.table(note, shown)

    def await_bob() -> None:
        """Wait until the broker has learned of bob from its controller."""
        users = [{"name": bob}]
        side.until(lambda reply: not reply.results[0].error_code, "DescribeUserScramCredentials", 0, users=users)

    describe("unknown users", alice, alice, bob, "")
    alter("set", _set(alice))
    for iterations in (4_095, 16_384, 16_385, -1):
        alter(f"{iterations} iterations", _set(alice, iterations=iterations))
    for mechanism in (UNKNOWN, 7, SHA_512):
        alter(f"mechanism {mechanism}", _set(alice, mechanism))
    alter("no user", _set(""))
    alter("twice", _set(bob), _set(bob))
    alter("first wrong", _set(carol, iterations=1), _set(carol))
    alter("two mechanisms", _set(bob), _set(bob, SHA_512))
    alter("one of two is wrong", _set(carol), _set(carol, SHA_512, 1))
    alter("removed and set", _set(bob), remove=((bob, SHA_256),))
    alter("removed, which is there, and set", _set(alice), remove=((alice, SHA_256),))
    alter("removed, which is not there", remove=((bob, SHA_256), (alice, SHA_512), (alice, 9), ("", SHA_256)))
    alter("nothing")
    alter("two users", _set(bob), _set(carol))
    await_bob()
    describe("all of them", alice, bob, carol)
    describe("one twice", alice, bob, alice)
    alter("some good and some not", _set(bob, SHA_512), _set(carol, SHA_512, 1), remove=((alice, SHA_512),))
    alter("removed", remove=((alice, SHA_256),))
    alter("removed again", remove=((alice, SHA_256),))
