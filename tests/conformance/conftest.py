"""Start Apache Kafka and Stuntbroker, one of each for all cases.

    pytest tests/conformance                          starts and stops both
    pytest tests/conformance --kafka=localhost:9092   uses a running Kafka

The option exists only if tests/conformance is on the command line, as pytest reads options before it collects other folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.side import Side, errors_of, prepare
from tests.kit.brokers.kafka_broker import apache_kafka
from tests.kit.brokers.our_broker import our_broker
from tests.kit.processes.free_ports import free_ports

SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
"""Settings of Stuntbroker that match those with which Kafka is started, as far as replies show them."""

SWEEP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
SWEEP_MS = 100
"""Interval in ms at which both brokers abort timed-out transactions (Kafka's default: 10 s)."""

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Settings of brokers that accept old Produce requests without verifying partitions with the transaction coordinator."""


EXPIRIES = {
    first: {
        "transactional.id.expiration.ms": ids_ms,
        "producer.id.expiration.ms": producers_ms,
        "transaction.remove.expired.transaction.cleanup.interval.ms": SWEEP_MS,
        "producer.id.expiration.check.interval.ms": SWEEP_MS,
        "offsets.retention.check.interval.ms": SWEEP_MS,
    }
    for first, ids_ms, producers_ms in (("producers", 4_000, 1_500), ("ids", 1_500, 4_000))
}
"""Settings of brokers with short expiration times, by what expires first; a random sequence is faster between two waits."""


DENYING = {"stuntbroker.deny.two.phase.commit": "denied, secret-*"}
WITH_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "unstable.api.versions.enable": "true",
    "transaction.two.phase.commit.enable": "true",
}
"""Settings with which Kafka serves InitProducerId v6 and has ACLs."""


PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
_KAFKA_MODULES = "org.apache.kafka.common.security"
USERS = {"admin": "admin-secret", "alice": "alice-secret"}
"""Users of the listeners with SASL -> their passwords."""
_KAFKA_SASL = {
    "sasl.enabled.mechanisms": MECHANISMS,
    **{
        f"listener.name.sasl.{name}.sasl.jaas.config": f"{_KAFKA_MODULES}.scram.ScramLoginModule required "
        'username="admin" password="admin-secret";'
        for name in ("scram-sha-256", "scram-sha-512")
    },
    "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{_KAFKA_MODULES}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="admin";',
    "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": (
        f"{_KAFKA_MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    ),
}


def kafka_sasl(users: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Kafka's listener SASL."""
    passwords = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    login = f"{_KAFKA_MODULES}.plain.PlainLoginModule required"
    plain = f'{login} username="admin" password="admin-secret" {passwords};'
    return {**_KAFKA_SASL, "listener.name.sasl.plain.sasl.jaas.config": plain}


class Pair(NamedTuple):
    kafka: str
    ours: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", default="", metavar="HOST:PORT", help="an Apache Kafka that is running already")


@contextmanager
def both(
    folder: Path,
    settings: Mapping[str, str | int],
    times: Mapping[str, str | int],
    transaction_version: int | None = None,
    kafka: str = "",
    kafka_settings: Mapping[str, str] | None = None,
    sasl: Pair | None = None,
    users: Mapping[str, str] = USERS,
) -> Iterator[Pair]:
    """Start and prepare both brokers. `times` are settings of both; `settings` are ours only, as Kafka's fixture has its own.

    `sasl`: addresses of a further listener of each, with SASL, for `users`; Kafka has it only if it is started here.
    """
    if sasl is not None:
        own_listeners = f"PLAINTEXT://127.0.0.1:0,SASL://{sasl.ours}"
        passwords = ",".join(f"{name}:{password}" for name, password in users.items())
        settings = {
            **settings, "sasl.enabled.mechanisms": MECHANISMS, "stuntbroker.users": passwords, "listeners": own_listeners,
            "listener.security.protocol.map": PROTOCOLS,
        }  # fmt: skip
    with ExitStack() as running:
        kafka = kafka or running.enter_context(
            apache_kafka(
                folder / "kafka",
                transaction_version=transaction_version,
                listeners={f"SASL://{sasl.kafka}": "SASL_PLAINTEXT"} if sasl is not None else {},
                settings={
                    **{name: str(value) for name, value in times.items()},
                    **(kafka_settings or {}),
                    **(kafka_sasl(users) if sasl is not None else {}),
                },
            )
        )
        ours = running.enter_context(
            our_broker(folder / "ours", folder / "stderr.log", *(f"{k}={v}" for k, v in {**settings, **times}.items()))
        )
        for address in (kafka, ours):
            prepare(address)
        yield Pair(kafka, ours)


def deny(kafka: str) -> None:
    """Create ACLs that deny two-phase commit for the ids of DENYING, and allow all other operations on them."""
    transactional_id, literal, prefixed, every, two_phase, denied, allowed = 5, 3, 4, 2, 15, 2, 3
    acls = [
        {
            "resource_type": transactional_id, "resource_name": name, "resource_pattern_type": pattern,
            "principal": "User:ANONYMOUS", "host": "*", "operation": operation, "permission_type": permission,
        }
        for name, pattern in (("denied", literal), ("secret-", prefixed))
        for operation, permission in ((two_phase, denied), (every, allowed))
    ]  # fmt: skip
    side = Side(kafka, "acls")
    try:
        assert errors_of(side.quiet("CreateAcls", 3, creations=acls)) == {0}
        request = {"transactional_id": "secret-", "transaction_timeout_ms": 1_000, "enable_2pc": True}
        # The broker applies the ACLs a little later than the controller.
        side.until(lambda reply: reply.error_code != 0, "InitProducerId", 6, **request)
    finally:
        side.close()


@pytest.fixture(scope="session")
def sasl_pair() -> Pair:
    """Addresses of the listeners with SASL of `pair`."""
    return Pair(*(f"127.0.0.1:{port}" for port in free_ports(2)))


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sasl_pair: Pair) -> Iterator[Pair]:
    kafka = request.config.getoption("kafka", "")
    with both(
        tmp_path_factory.mktemp("conformance"), SETTINGS, {SWEEP: SWEEP_MS}, kafka=kafka, sasl=sasl_pair
    ) as created:
        yield created


@pytest.fixture(scope="session")
def forgetful_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Brokers on which producers expire before transactional ids; some ids may not use two-phase commit."""
    folder, times = tmp_path_factory.mktemp("expiry"), {SWEEP: SWEEP_MS, **EXPIRIES["producers"]}
    with both(folder, {**SETTINGS, **DENYING}, times, kafka_settings=WITH_AUTHORIZER) as created:
        deny(created.kafka)
        yield created
