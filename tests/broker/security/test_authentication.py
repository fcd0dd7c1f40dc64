"""SASL: authentication, the requests allowed before it, and the end of sessions. tests/conformance compares with Kafka."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from stuntbroker.broker.clock import Clock
from stuntbroker.broker.permissions.authorizer import ANONYMOUS, Principal
from stuntbroker.broker.security.scram import salted_password
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stuntbroker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from stuntbroker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from stuntbroker.protocol.scram import SHA_256, SHA_512, ScramMechanism
from stuntbroker.storage.errors import StorageError
from tests.kit.rig import Client, Rig, SyncedAtOnce, frame, raw_frame, running_rig
from tests.kit.scram_client import ScramClient

PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "stuntbroker.users": "alice:alice-secret,bob:bob:secret",
}
ALICE, BOB = b"\0alice\0alice-secret", b"\0bob\0bob:secret"
SASL = 1
"""Number of the listener with SASL."""


def shake_hands(client: Client, mechanism: str = "PLAIN", version: int = 1) -> ErrorCode:
    return ErrorCode(client.ask(SaslHandshakeRequest(mechanism), version).error_code)


def authenticate(client: Client, token: bytes, version: int = 2) -> Any:
    return client.ask(SaslAuthenticateRequest(token), version)


def is_served(client: Client) -> bool:
    client.feed(frame(FindCoordinatorRequest("g", 0, ["g"]), 2))
    return len(client.answers()) == 1


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("token", "user"), [(ALICE, "alice"), (BOB, "bob")])
async def test_the_right_password_makes_the_user_the_principal(token: bytes, user: str, version: int) -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        client = rig.client(SASL)
        assert client.connection.principal == ANONYMOUS
        assert shake_hands(client) == ErrorCode.NONE
        assert authenticate(client, token, version).error_code == ErrorCode.NONE
        assert client.connection.principal == Principal("User", user)
        assert is_served(client)


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_a_wrong_password_is_answered_and_ends_the_connection(durability: str) -> None:
    executor = SyncedAtOnce() if durability == "power" else None
    async with running_rig(properties=PROPERTIES, durability=durability, executor=executor) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        answer = authenticate(client, b"\0alice\0wrong")
        assert (answer.error_code, answer.error_message) == (58, "Authentication failed: Invalid username or password")
        assert client.transport.closed
        assert client.connection.principal == ANONYMOUS
        assert "authentication_failed" in rig.events.names()


@pytest.mark.parametrize("before", ["nothing", "versions", "mechanism", "bare"])
async def test_no_request_is_served_before_the_client_is_authenticated(before: str) -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        client = rig.client(SASL)
        if before == "versions":
            client.ask(ApiVersionsRequest("x", "1"), 3)
        elif before != "nothing":
            shake_hands(client, version=int(before == "mechanism"))
        assert not is_served(client)
        assert client.transport.closed


async def test_the_request_size_is_limited_until_the_client_is_authenticated() -> None:
    """No part of a larger request is buffered, as thousands of unauthenticated clients could fill the memory."""
    large = pack(">i", 524_289) + bytes(1_000)
    async with running_rig(properties=PROPERTIES) as rig:
        stranger = rig.client(SASL)
        for byte in large[:3]:
            stranger.feed(bytes([byte]))
        assert not stranger.transport.closed
        stranger.feed(large[3:])
        assert stranger.transport.closed
        assert rig.events.kept[-1][1]["size_max"] == 524_288

        encrypted = rig.client(SASL)
        encrypted.feed(b"\x16\x03\x01\x02\x00" + bytes(1_000))
        assert encrypted.transport.closed
        assert "the client speaks TLS" in rig.events.kept[-1][1]["reason"]

        client = rig.client(SASL)
        shake_hands(client)
        client.feed(pack(">i", 524_288) + bytes(1_000))
        assert not client.transport.closed

        alice = rig.client(SASL)
        shake_hands(alice)
        authenticate(alice, ALICE)
        alice.feed(large)
        assert not alice.transport.closed


async def test_a_client_may_repeat_api_versions_only_after_an_unsupported_version() -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        client = rig.client(SASL)
        newer = bytearray(frame(ApiVersionsRequest("x", "1"), 3))
        newer[6:8] = (99).to_bytes(2, "big")
        client.feed(newer)
        assert len(client.answers()) == 1
        assert client.ask(ApiVersionsRequest("x", "1"), 3).error_code == ErrorCode.NONE
        client.feed(frame(ApiVersionsRequest("x", "1"), 3))
        assert client.transport.closed


def bearer(claims: bytes, after: bytes = b"", before: bytes = b"") -> bytes:
    """Return an OAUTHBEARER message with an unsecured token; `before` and `after` are inserted around the token."""
    header, encoded = (urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg": "none"}', claims))
    return b"n,,\x01" + before + b"auth=Bearer " + header + b"." + encoded + b"." + after + b"\x01\x01"


VALID = b'{"sub": "a", "exp": 9007199254740990}'
INSUFFICIENT = b'{"status":"insufficient_scope", "scope":"[r, w]"}'
INVALID_TOKEN = b'{"status":"invalid_token"}'
RULES = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredValidatorPrincipalClaimName=name "
    'unsecuredValidatorRequiredScope="r w" unsecuredValidatorAllowableClockSkewMs="2000";'
)
TOKENS: dict[str, tuple[str, bytes, object]] = {
    "valid": ("", bearer(VALID), "a"),
    "with a pair before": ("", bearer(VALID, before=b"host=h\x01"), "a"),
    "a blank user": ("", bearer(b'{"sub": " ", "exp": 9007199254740990}'), INVALID_TOKEN),
    "a scope that is a number": ("", bearer(b'{"sub": "a", "scope": 7, "exp": 9007199254740990}'), INVALID_TOKEN),
    "an end before its begin": ("", bearer(b'{"sub": "a", "iat": 5, "exp": 5}'), INVALID_TOKEN),
    "filled to a multiple of four": ("", bearer(VALID).replace(b".\x01", b"=.\x01"), None),
    "another token after it": ("", bearer(VALID, after=b"\x01auth=x"), None),
    "an empty pair": ("", bearer(VALID, after=b"\x01k="), None),
    "a pair with other letters": ("", bearer(VALID, after="\x01k=ü".encode()), None),
    "the scopes": (RULES, bearer(b'{"sub": "a", "name": "n", "scope": ["w", "r", "x"], "exp": 9007199254740990}'), "n"),
    "the scopes in one text": (
        RULES, bearer(b'{"name": "n", "scope": "r w", "exp": 9007199254740990}'), INSUFFICIENT
    ),
    "no scope": (RULES, bearer(b'{"name": "n", "exp": 9007199254740990}'), INSUFFICIENT),
    "scopes in another claim, with blanks": (
        RULES.replace("required ", "required unsecuredValidatorScopeClaimName=may "),
        bearer(b'{"name": "n", "may": [" r", "w "], "exp": 9007199254740990}'), "n",
    ),
    "no such claim": (RULES, bearer(b'{"sub": "a", "scope": ["r", "w"], "exp": 9007199254740990}'), INVALID_TOKEN),
}  # fmt: skip


@pytest.mark.parametrize("what", TOKENS)
async def test_a_token_is_accepted_as_kafka_accepts_it(what: str) -> None:
    rules, token, outcome = TOKENS[what]
    properties = {**PROPERTIES, "sasl.enabled.mechanisms": "OAUTHBEARER"}
    if rules:
        properties["listener.name.sasl.oauthbearer.sasl.jaas.config"] = rules
    async with running_rig(properties=properties) as rig:
        client = rig.client(SASL)
        shake_hands(client, "OAUTHBEARER")
        answer = authenticate(client, token)
        if isinstance(outcome, str):
            assert (answer.error_code, client.connection.principal) == (ErrorCode.NONE, Principal("User", outcome))
        elif outcome is None:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        else:
            assert (answer.error_code, bytes(answer.auth_bytes)) == (ErrorCode.NONE, outcome)


@pytest.mark.parametrize(
    ("issued_in_ms", "ends_in_ms", "is_valid"),
    [(0, -1_999, False), (-5_000, -1_999, True), (-5_000, -2_001, False), (1_999, 9_000, True), (2_001, 9_000, False)],
)
async def test_clocks_may_differ_as_much_as_the_listener_allows(
    issued_in_ms: int, ends_in_ms: int, is_valid: bool
) -> None:
    """A token that expires before its issue time is invalid in any case."""
    properties = {
        **PROPERTIES, "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl.oauthbearer.sasl.jaas.config":
            "x.OAuthBearerLoginModule required unsecuredValidatorAllowableClockSkewMs=\"2000\";",
    }  # fmt: skip
    async with running_rig(properties=properties) as rig:
        client = rig.client(SASL)
        shake_hands(client, "OAUTHBEARER")
        issued_s, end_s = ((rig.broker.clock.now_ms() + each) / 1000 for each in (issued_in_ms, ends_in_ms))
        answer = authenticate(client, bearer(json.dumps({"sub": "a", "iat": issued_s, "exp": end_s}).encode()))
        assert (bytes(answer.auth_bytes) == b"") is is_valid
        assert answer.session_lifetime_ms >= 0, "a session may end at once, but not before it began"


@pytest.mark.parametrize(
    "claims",
    [b'{"sub": "a", "exp": Infinity}', b'{"sub": "a", "exp": 1e308}', b"[" * 100_000],
    ids=["infinite", "huge", "deep"],
)
async def test_a_token_with_odd_json_is_refused(claims: bytes) -> None:
    async with running_rig(properties={**PROPERTIES, "sasl.enabled.mechanisms": "OAUTHBEARER"}) as rig:
        client = rig.client(SASL)
        shake_hands(client, "OAUTHBEARER")
        parts = [urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg": "none"}', claims)]
        answer = authenticate(client, b"n,,\x01auth=Bearer " + b".".join(parts) + b".\x01\x01")
        assert bytes(answer.auth_bytes) == b'{"status":"invalid_token"}'


async def test_tokens_have_no_request_header_after_sasl_handshake_version_0() -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        client = rig.client(SASL)
        assert shake_hands(client, version=0) == ErrorCode.NONE
        client.feed(raw_frame(ALICE))
        assert client.answers() == [b""]
        assert is_served(client)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512], ids=lambda mechanism: mechanism.name)
async def test_scram_proves_the_configured_password(mechanism: ScramMechanism) -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        client, scram = rig.client(SASL), ScramClient(mechanism.name, "alice", "alice-secret")
        shake_hands(client, mechanism.name)
        final = scram.final(bytes(authenticate(client, scram.first()).auth_bytes))
        assert bytes(authenticate(client, final).auth_bytes) == scram.signature
        assert client.connection.principal == Principal("User", "alice")


def upsertion(user: str, password: str) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, 1, 4_096, b"salt", salted_password(SHA_256, password, b"salt", 4_096))


def proves(rig: Rig, user: str, password: str) -> bool:
    client, scram = rig.client(SASL), ScramClient(SHA_256.name, user, password)
    shake_hands(client, SHA_256.name)
    challenge = authenticate(client, scram.first())
    return not challenge.error_code and not authenticate(client, scram.final(bytes(challenge.auth_bytes))).error_code


async def test_a_scram_credential_that_was_set_comes_before_the_configured_one_and_survives_restarts(
    tmp_path: Path,
) -> None:
    for number in range(3):
        async with running_rig(tmp_path, PROPERTIES) as rig:
            admin = rig.client()
            if number == 0:
                answer = admin.ask(
                    AlterUserScramCredentialsRequest([], [upsertion("alice", "new"), upsertion("eve", "x")]), 0
                )
                assert [each.error_code for each in answer.results] == [0, 0]
            assert proves(rig, "alice", "new")
            assert not proves(rig, "alice", "alice-secret")
            assert proves(rig, "eve", "x")
    async with running_rig(tmp_path, PROPERTIES) as rig:
        removal = [ScramCredentialDeletion("alice", 1), ScramCredentialDeletion("eve", 1)]
        rig.client().ask(AlterUserScramCredentialsRequest(removal, []), 0)
        assert proves(rig, "alice", "alice-secret")
        assert not proves(rig, "eve", "x")
    async with running_rig(tmp_path, PROPERTIES) as rig:
        assert not proves(rig, "eve", "x")


async def test_a_credential_that_cannot_be_stored_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise StorageError("no room")

    async with running_rig(properties=PROPERTIES) as rig:
        with monkeypatch.context() as failing:
            failing.setattr(rig.broker.data_dir, "journal", full)
            answer = rig.client().ask(AlterUserScramCredentialsRequest([], [upsertion("eve", "x")]), 0)
        assert answer.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not proves(rig, "eve", "x")


REAUTHENTICATION = {**PROPERTIES, "listener.name.sasl.connections.max.reauth.ms": "1000"}


async def test_a_session_ends_unless_the_client_authenticates_again() -> None:
    async with running_rig(properties=REAUTHENTICATION) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        assert authenticate(client, ALICE).session_lifetime_ms == 1_000
        rig.pass_time(999)
        assert is_served(client)
        assert shake_hands(client) == ErrorCode.NONE
        assert authenticate(client, ALICE).session_lifetime_ms == 1_000
        rig.pass_time(1_000)
        assert not is_served(client)
        assert client.transport.closed


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (BOB, "Cannot change principals during re-authentication from User.alice: User.bob"),
        (b"\0alice\0no", "Authentication failed: Invalid username or password"),
    ],
)
async def test_reauthentication_of_another_user_or_with_a_wrong_password_is_refused(token: bytes, said: str) -> None:
    async with running_rig(properties=REAUTHENTICATION) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        authenticate(client, ALICE)
        shake_hands(client)
        assert authenticate(client, token).error_message.startswith(said)
        assert client.transport.closed


@pytest.mark.parametrize(("mechanism", "is_known"), [("SCRAM-SHA-256", True), ("GSSAPI", False)])
async def test_reauthentication_by_another_mechanism_closes_the_connection_without_a_response(
    mechanism: str, is_known: bool
) -> None:
    async with running_rig(properties=REAUTHENTICATION) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        authenticate(client, ALICE)
        client.feed(frame(SaslHandshakeRequest(mechanism), 1))
        assert (len(client.answers()), client.transport.closed) == ((1, False) if is_known else (0, True))
        if is_known:
            client.feed(frame(SaslAuthenticateRequest(b"n,,n=alice,r=abc"), 2))
            assert (client.answers(), client.transport.closed) == ([], True)
        assert mechanism in rig.events.kept[-1][1]["reason"]


async def test_a_client_whose_session_does_not_end_may_not_authenticate_again() -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        authenticate(client, ALICE)
        assert shake_hands(client) == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(client, ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert is_served(client)


async def test_a_bare_token_of_another_mechanism_closes_the_connection() -> None:
    async with running_rig(properties=REAUTHENTICATION) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        authenticate(client, ALICE)
        assert shake_hands(client, "SCRAM-SHA-256", version=0) == ErrorCode.NONE
        client.feed(raw_frame(b"n,,n=alice,r=abc"))
        assert (client.answers(), client.transport.closed) == ([], True)


async def test_a_client_authenticates_again_while_a_test_has_paused_the_clock() -> None:
    class PausedClock(Clock):
        """The clock of the broker stands still, while the time that clients wait goes on."""

        waited_ms = 0

        def now_ms(self) -> int:
            return 1_000_000

        monotonic_ms = now_ms

        def client_ms(self) -> int:
            return self.waited_ms

    clock = PausedClock()
    async with running_rig(properties=REAUTHENTICATION, clock=clock) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        authenticate(client, ALICE)
        for _ in range(3):
            clock.waited_ms += 1_000
            assert shake_hands(client) == ErrorCode.NONE
            assert authenticate(client, ALICE).error_code == ErrorCode.NONE


async def test_a_client_authenticates_again_at_most_once_a_second() -> None:
    async with running_rig(
        properties={**REAUTHENTICATION, "listener.name.sasl.connections.max.reauth.ms": "5000"}
    ) as rig:
        client = rig.client(SASL)
        for waits_ms, error in (
            (0, ErrorCode.NONE),
            (0, ErrorCode.NONE),
            (999, ErrorCode.ILLEGAL_SASL_STATE),
            (1, ErrorCode.NONE),
        ):
            rig.pass_time(waits_ms)
            assert shake_hands(client) == error
            assert authenticate(client, ALICE).error_code == error
            assert is_served(client)


async def test_a_session_may_have_another_limit_by_mechanism() -> None:
    limits = {"listener.name.sasl.plain.connections.max.reauth.ms": "3000", "connections.max.reauth.ms": "7000"}
    async with running_rig(properties={**PROPERTIES, **limits}) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        assert authenticate(client, ALICE).session_lifetime_ms == 3_000
        scram = rig.client(SASL)
        shake_hands(scram, "SCRAM-SHA-256")
        proof = ScramClient("SCRAM-SHA-256", "alice", "alice-secret")
        challenge = bytes(authenticate(scram, proof.first()).auth_bytes)
        assert authenticate(scram, proof.final(challenge)).session_lifetime_ms == 7_000


async def test_passwords_are_never_described() -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        resource = DescribeConfigsResource(4, "1", ["stuntbroker.users", "sasl.enabled.mechanisms"])
        (shown,) = rig.client().ask(DescribeConfigsRequest([resource], include_synonyms=True), 4).results
        users = next(each for each in shown.configs if each.name == "stuntbroker.users")
        assert (users.value, users.is_sensitive) == (None, True)
        assert {each.value for each in users.synonyms} <= {None}


SECRETS = (
    "listener.name.sasl.plain.sasl.jaas.config",
    "listener.name.sasl.ssl.keystore.password",
    "listener.name.sasl.ssl.keystore.key",
)


@pytest.mark.parametrize("name", SECRETS)
async def test_a_secret_of_a_listener_that_was_set_later_is_never_described(name: str) -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        client = rig.client()
        change = AlterConfigsResource(4, "1", [AlterableConfig(name, 0, "top-secret")])
        client.ask(IncrementalAlterConfigsRequest([change]), 1)
        described = client.ask(
            DescribeConfigsRequest([DescribeConfigsResource(4, "1", [name])], include_synonyms=True), 4
        )
        assert "top-secret" not in repr(described)
        assert [each.is_sensitive for each in described.results[0].configs] == [True]


async def test_an_unauthenticated_token_is_parsed_in_linear_time() -> None:
    """A regular expression once took minutes for half a megabyte, and blocked all other clients."""
    async with running_rig(properties={**PROPERTIES, "sasl.enabled.mechanisms": "OAUTHBEARER"}) as rig:
        client = rig.client(SASL)
        shake_hands(client, "OAUTHBEARER")
        token = b"n,,\x01" + b"auth=bearer a\x01" * 20_000 + b"a=\x01" * 60_000
        assert authenticate(client, token).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_an_unsupported_sasl_mechanism_is_named_in_the_log() -> None:
    async with running_rig(properties=PROPERTIES) as rig:
        assert shake_hands(rig.client(SASL), "GSSAPI") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert rig.events.kept[-1][1]["reason"].startswith("the listener has no mechanism 'GSSAPI'; it has PLAIN")


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_carol="carol-secret";'


@pytest.mark.parametrize("where", ["property", "file"])
async def test_users_may_come_from_jaas(where: str, tmp_path: Path) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(f"KafkaServer {{ {JAAS} }};")
    given = (
        {"listener.name.sasl.plain.sasl.jaas.config": JAAS}
        if where == "property"
        else {"stuntbroker.jaas.file": str(path)}
    )
    properties = {name: value for name, value in PROPERTIES.items() if name != "stuntbroker.users"}
    async with running_rig(properties={**properties, **given}) as rig:
        client = rig.client(SASL)
        shake_hands(client)
        assert authenticate(client, b"\0carol\0carol-secret").error_code == ErrorCode.NONE
