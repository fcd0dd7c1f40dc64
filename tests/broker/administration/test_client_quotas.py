"""Client quotas (KIP-546): validation with the error messages of Kafka 4.3.1, filters of DescribeClientQuotas, the journal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.data_folder import JOURNAL
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages import alter_client_quotas_request as alter_messages
from stuntbroker.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from stuntbroker.storage.errors import StorageError
from tests.kit.rig import Client, SyncedAtOnce, running_rig

NONE, INVALID, UNSUPPORTED = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION
PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"
PERCENTAGE, MUTATIONS, CONNECTIONS = "request_percentage", "controller_mutation_rate", "connection_creation_rate"
REMOVE = None
EXACT, DEFAULT, SPECIFIED = 0, 1, 2

Entity = tuple[tuple[str, str | None], ...]
Ops = list[tuple[str, float | None]]


def user(name: str | None) -> Entity:
    return (("user", name),)


def ip(name: str | None) -> Entity:
    return (("ip", name),)


ALICE, BOB, ANY_USER = user("alice"), user("bob"), user(None)
C1, ANY_CLIENT = (("client-id", "c1"),), (("client-id", None),)


def alter(
    client: Client, *entries: tuple[Entity, Ops], version: int = 1, only: bool = False
) -> list[tuple[Entity, int, str | None]]:
    created = [
        alter_messages.EntryData(
            [alter_messages.EntityData(*part) for part in entity],
            [alter_messages.OpData(key, 0.0 if value is REMOVE else value, value is REMOVE) for key, value in ops],
        )
        for entity, ops in entries
    ]
    response = client.ask(alter_messages.AlterClientQuotasRequest(created, only), version)
    return [
        (tuple((part.entity_type, part.entity_name) for part in each.entity), each.error_code, each.error_message)
        for each in response.entries
    ]


def ask_for(client: Client, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    return client.ask(DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict), version)


def quotas(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> dict[Entity, dict[str, float]]:
    response = ask_for(client, *components, strict=strict, version=version)
    assert (response.error_code, response.error_message) == (NONE, "")
    assert response.entries is not None
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in response.entries
    }


# --- one entry

DUPLICATE_ALICE = "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})"
COMBINATION = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
ACCEPTED: dict[str, tuple[Entity, Ops]] = {
    "every quota of a user": (ALICE, [(PRODUCE, 1.0), (CONSUME, 2.0), (PERCENTAGE, 0.5), (MUTATIONS, 1e-320)]),
    "every quota of a client id": (C1, [(PRODUCE, 1.0), (CONSUME, 2.0), (PERCENTAGE, 50.0), (MUTATIONS, 0.1)]),
    "a user with a client id": (C1 + ALICE, [(PRODUCE, 1.0)]),
    "default user": (ANY_USER, [(PRODUCE, 1.0)]),
    "default user and default client id": (ANY_CLIENT + ANY_USER, [(PRODUCE, 1.0)]),
    "default address": (ip(None), [(CONNECTIONS, 7.0)]),
    "an odd name": (user("a b/ü%"), [(PRODUCE, 1.0)]),
    "the largest LONG": (ALICE, [(PRODUCE, 2.0**63)]),
    "the largest INT": (ip("10.0.0.1"), [(CONNECTIONS, 2.0**31 - 1)]),
    "almost an integer": (ALICE, [(PRODUCE, 1.0000009)]),
    "almost zero": (ALICE, [(PRODUCE, 1e-7)]),
    "an infinite DOUBLE": (ALICE, [(PERCENTAGE, math.inf)]),
    **{f"address {text}": (ip(text), [(CONNECTIONS, 1.0)]) for text in (
        "10.0.0.1", "::1", "[::1]", "fe80::1%1", "localhost", "LOCALHOST", "127.1", "1", "1.2.3", "01.02.03.04", "4294967295",
        "host-1.example.org",
    )},
}  # fmt: skip
REFUSED: dict[str, tuple[Entity, Ops, str]] = {
    "no entity": ((), [(PRODUCE, 1.0)], "Invalid empty client quota entity"),
    "an unknown type": ((("foo", "x"),), [(PRODUCE, 1.0)], "Unhandled client quota entity type: foo"),
    "an unknown type without a name": ((("foo", ""),), [(PRODUCE, 1.0)], "Unhandled client quota entity type: foo"),
    "a type in capitals": ((("User", "x"),), [(PRODUCE, 1.0)], "Unhandled client quota entity type: User"),
    "an unknown type beside an address": ((*ip("1.2.3.4"), ("foo", "x")), [], "Unhandled client quota entity type: foo"),
    "no user": (user(""), [(PRODUCE, 1.0)], "Empty user not supported"),
    "no client id": ((("client-id", ""),), [(PRODUCE, 1.0)], "Empty client-id not supported"),
    "neither": ((("client-id", ""), ("user", "")), [], "Empty client-id not supported"),
    "no address": (ip(""), [(CONNECTIONS, 1.0)], "Empty ip not supported"),
    "a user with an address": (ALICE + ip("10.0.0.1"), [(PRODUCE, 1.0)], COMBINATION),
    "a client id with an address": (C1 + ip("not an ip"), [(CONNECTIONS, 1.0)], COMBINATION),
    "an unknown quota": (ALICE, [("foo", 1.0)], "Invalid configuration key foo"),
    "a quota without a name": (ALICE, [("", 1.0)], "Invalid configuration key "),
    "a user's quota of an address": (ip("10.0.0.1"), [(PRODUCE, 1.0)], f"Invalid configuration key {PRODUCE}"),
    "an address's quota of a user": (ALICE, [(CONNECTIONS, 1.0)], f"Invalid configuration key {CONNECTIONS}"),
    "a good quota and an unknown one": (ALICE, [(PRODUCE, 1.0), ("foo", 1.0)], "Invalid configuration key foo"),
    "zero": (ALICE, [(PRODUCE, 0.0)], f"Quota {PRODUCE} must be greater than 0"),
    "minus zero": (ALICE, [(PERCENTAGE, -0.0)], f"Quota {PERCENTAGE} must be greater than 0"),
    "a negative quota": (ip(None), [(CONNECTIONS, -1.0)], f"Quota {CONNECTIONS} must be greater than 0"),
    "minus infinity": (ALICE, [(MUTATIONS, -math.inf)], f"Quota {MUTATIONS} must be greater than 0"),
    "a fraction of a LONG": (ALICE, [(PRODUCE, 1.5)], f"{PRODUCE} cannot be a fractional value."),
    "just below an integer": (ALICE, [(CONSUME, 0.9999999)], f"{CONSUME} cannot be a fractional value."),
    "just above an integer": (ALICE, [(CONSUME, 1.000002)], f"{CONSUME} cannot be a fractional value."),
    "a fraction of an INT": (ip(None), [(CONNECTIONS, 0.1)], f"{CONNECTIONS} cannot be a fractional value."),
    "too large a LONG": (ALICE, [(PRODUCE, 9.3e18)], f"Proposed value for {PRODUCE} is too large for a LONG."),
    "an infinite LONG": (ALICE, [(CONSUME, math.inf)], f"Proposed value for {CONSUME} is too large for a LONG."),
    "too large an INT": (ip(None), [(CONNECTIONS, 2.0**31)], f"Proposed value for {CONNECTIONS} is too large for an INT."),
    "too large and broken": (ip(None), [(CONNECTIONS, 2**31 - .5)], f"Proposed value for {CONNECTIONS} is too large for an INT."),
    "a quota twice": (ALICE, [(PRODUCE, 1.0), (PRODUCE, 2.0)], DUPLICATE_ALICE),
    "a quota set and removed": (
        ANY_CLIENT + ALICE, [(PRODUCE, 1.0), (PRODUCE, REMOVE)],
        "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=alice})",
    ),
    "an unknown quota twice": (ALICE, [("foo", 1.0)] * 2, DUPLICATE_ALICE),
    **{f"address {text[:20]}": (ip(text), [], f"{text} is not a valid IP or resolvable host.") for text in (
        "not an ip", "999.0.0.1", "256.1.1.1", "1.2.3.4.5", "1.2.3.", " 1.2.3.4", "1.2.3.4 ", "4294967296", "0x7f.1", "a_b",
        "a.invalid", ".", "::1::", "[::1", "-a", "x" * 254, "9" * 5_000,
    )},
}  # fmt: skip


@pytest.mark.parametrize("version", (0, 1))
@pytest.mark.parametrize("case", ACCEPTED)
async def test_quotas_that_are_accepted_are_described(case: str, version: int, data_dir: Path) -> None:
    entity, ops = ACCEPTED[case]
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert alter(client, (entity, ops), version=version, only=True) == [(entity, NONE, None)]
        assert quotas(client, version=version) == {}
        assert alter(client, (entity, ops), version=version) == [(entity, NONE, None)]
        assert quotas(client, version=version) == {entity: dict(ops)}


@pytest.mark.parametrize("version", (0, 1))
@pytest.mark.parametrize("case", REFUSED)
async def test_quotas_that_are_refused_change_nothing(case: str, version: int, data_dir: Path) -> None:
    entity, ops, message = REFUSED[case]
    async with running_rig(data_dir) as rig:
        client = rig.client()
        for only in (True, False):
            assert alter(client, (entity, ops), version=version, only=only) == [(entity, INVALID, message)]
        assert quotas(client, version=version) == {}


async def test_nan_passes_every_check(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        alter(client, (ALICE, [(PRODUCE, math.nan), (PERCENTAGE, math.nan)]), (ip(None), [(CONNECTIONS, math.nan)]))
        shown = quotas(client)
        assert list(shown) == [ALICE, ip(None)]
        assert all(math.isnan(value) for values in shown.values() for value in values.values())


# --- several entries


async def test_each_entity_is_altered_by_itself_and_answered_once(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        actual = alter(client, (ALICE, [(PRODUCE, 1.0)]), ((("foo", "x"),), [(PRODUCE, 1.0)]), (BOB, [(CONSUME, 2.0)]))
        assert actual == [
            (ALICE, NONE, None), ((("foo", "x"),), INVALID, "Unhandled client quota entity type: foo"), (BOB, NONE, None),
        ]  # fmt: skip
        assert quotas(client) == {ALICE: {PRODUCE: 1.0}, BOB: {CONSUME: 2.0}}
        assert alter(client) == []


@pytest.mark.parametrize("second", ([(CONSUME, 2.0)], [(PRODUCE, 2.0)], [("foo", 1.0)], [(PRODUCE, REMOVE)], []))
async def test_of_two_entries_of_an_entity_the_first_is_carried_out_and_the_second_is_reported(
    second: Ops, data_dir: Path
) -> None:
    """Kafka 4.3.1 responds like this for any values of the second entry."""
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert alter(client, (ALICE, [(PRODUCE, 1.0)]), (ALICE, second)) == [(ALICE, INVALID, DUPLICATE_ALICE)]
        assert quotas(client) == {ALICE: {PRODUCE: 1.0}}
        assert alter(client, (BOB, [("foo", 1.0)]), (BOB, [(PRODUCE, 1.0)]))[0][1] == INVALID
        assert quotas(client) == {ALICE: {PRODUCE: 1.0}}


async def test_the_parts_of_an_entity_are_sorted_and_the_last_of_a_type_counts(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert alter(client, (ALICE + BOB + C1, [(PRODUCE, 1.0)])) == [(C1 + BOB, NONE, None)]
        assert quotas(client) == {C1 + BOB: {PRODUCE: 1.0}}


async def test_removals_are_not_checked_and_an_entity_without_quotas_disappears(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        alter(client, (ALICE, [(PRODUCE, 1.0), (CONSUME, 2.0)]))
        assert alter(client, (ALICE, [("foo", REMOVE), (CONNECTIONS, REMOVE)]), (BOB, [(PRODUCE, REMOVE)])) == [
            (ALICE, NONE, None),
            (BOB, NONE, None),
        ]
        alter(client, (ALICE, [(PRODUCE, REMOVE), (PERCENTAGE, 5.0)]))
        assert quotas(client) == {ALICE: {CONSUME: 2.0, PERCENTAGE: 5.0}}
        alter(client, (ALICE, [(CONSUME, REMOVE), (PERCENTAGE, REMOVE)]))
        assert quotas(client) == {}


# --- filters

STORED: dict[Entity, dict[str, float]] = {
    ANY_USER: {PRODUCE: 1.0}, C1: {PERCENTAGE: 50.0}, ANY_CLIENT: {PERCENTAGE: 60.0}, C1 + ALICE: {PRODUCE: 3.0},
    ANY_CLIENT + ALICE: {PRODUCE: 4.0}, ANY_CLIENT + ANY_USER: {PRODUCE: 5.0}, C1 + ANY_USER: {MUTATIONS: 5.5},
    BOB: {MUTATIONS: 1.0}, ip("10.0.0.1"): {CONNECTIONS: 7.0}, ip(None): {CONNECTIONS: 8.0},
}  # fmt: skip
WITH_CLIENT = {C1, ANY_CLIENT, C1 + ALICE, ANY_CLIENT + ALICE, ANY_CLIENT + ANY_USER, C1 + ANY_USER}
WITH_BOTH = {C1 + ALICE, ANY_CLIENT + ALICE, ANY_CLIENT + ANY_USER, C1 + ANY_USER}
FILTERS: list[tuple[list[tuple[str, int, str | None]], set[Entity], set[Entity]]] = [
    ([], set(STORED), set()),
    ([("user", EXACT, "alice")], {C1 + ALICE, ANY_CLIENT + ALICE}, set()),
    ([("user", EXACT, "carol")], set(), set()),
    ([("user", EXACT, "")], set(), set()),
    ([("user", DEFAULT, None)], {ANY_USER, ANY_CLIENT + ANY_USER, C1 + ANY_USER}, {ANY_USER}),
    ([("user", SPECIFIED, None)], {ANY_USER, BOB} | WITH_BOTH, {ANY_USER, BOB}),
    ([("client-id", EXACT, "c1")], {C1, C1 + ALICE, C1 + ANY_USER}, {C1}),
    ([("client-id", SPECIFIED, None)], WITH_CLIENT, {C1, ANY_CLIENT}),
    ([("user", SPECIFIED, None), ("client-id", SPECIFIED, None)], WITH_BOTH, WITH_BOTH),
    ([("client-id", DEFAULT, None), ("user", EXACT, "alice")], {ANY_CLIENT + ALICE}, {ANY_CLIENT + ALICE}),
    ([("ip", EXACT, "10.0.0.1")], {ip("10.0.0.1")}, {ip("10.0.0.1")}),
    ([("ip", DEFAULT, None)], {ip(None)}, {ip(None)}),
    ([("ip", SPECIFIED, None)], {ip("10.0.0.1"), ip(None)}, {ip("10.0.0.1"), ip(None)}),
    ([("ip", EXACT, "not an ip")], set(), set()),
]
COMPONENTS = (
    "Invalid entity filter component combination. "
    "IP filter component should not be used with user or clientId filter component."
)
BAD_FILTERS: dict[str, tuple[list[tuple[str, int, str | None]], ErrorCode, str]] = {
    "an unknown type": ([("foo", EXACT, "x")], UNSUPPORTED, "Unsupported entity type foo"),
    "a type in capitals": ([("User", SPECIFIED, None)], UNSUPPORTED, "Unsupported entity type User"),
    "an unknown type and match": ([("foo", 7, None)], UNSUPPORTED, "Unsupported entity type foo"),
    "an unknown type twice": ([("foo", EXACT, "x")] * 2, UNSUPPORTED, "Unsupported entity type foo"),
    "an unknown type last": ([("ip", 2, None), ("user", 2, None), ("foo", 2, None)], UNSUPPORTED, "Unsupported entity type foo"),
    "no type": ([("", SPECIFIED, None)], INVALID, "Invalid empty entity type."),
    "an unknown match": ([("user", 3, None)], INVALID, "Unknown match type 3"),
    "a negative match": ([("user", -1, "x")], INVALID, "Unknown match type -1"),
    "exactly null": ([("user", EXACT, None)], INVALID, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
    "a default with a name": (
        [("user", DEFAULT, "x")], INVALID, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
    ),
    "any with a name": (
        [("user", SPECIFIED, "x")], INVALID, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
    ),
    "a type twice": (
        [("user", EXACT, "a"), ("user", 7, None)], INVALID, "Entity type user cannot appear more than once in the filter.",
    ),
    "a user and an address": ([("user", SPECIFIED, None), ("ip", SPECIFIED, None)], INVALID, COMPONENTS),
    "an address and a client id": ([("ip", SPECIFIED, None), ("client-id", SPECIFIED, None)], INVALID, COMPONENTS),
}  # fmt: skip


@pytest.mark.parametrize("version", (0, 1))
async def test_a_filter_finds_the_entities_that_have_its_types(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        alter(client, *((entity, list(values.items())) for entity, values in STORED.items()), version=version)
        for components, loosely, strictly in FILTERS:
            for strict, expected in ((False, loosely), (True, strictly)):
                actual = quotas(client, *components, strict=strict, version=version)
                assert actual == {entity: STORED[entity] for entity in expected}, (components, strict)


@pytest.mark.parametrize("version", (0, 1))
@pytest.mark.parametrize("case", BAD_FILTERS)
async def test_a_refused_filter_returns_null_entries(case: str, version: int, data_dir: Path) -> None:
    components, error, message = BAD_FILTERS[case]
    async with running_rig(data_dir) as rig:
        client = rig.client()
        alter(client, (ALICE, [(PRODUCE, 1.0)]))
        for strict in (False, True):
            response = ask_for(client, *components, strict=strict, version=version)
            assert (response.error_code, response.error_message, response.entries) == (error, message, None)


# --- the journal


@pytest.mark.parametrize("durability", ("process", "power"))
async def test_quotas_survive_a_restart(durability: str, data_dir: Path) -> None:
    executor = SyncedAtOnce() if durability == "power" else None
    async with running_rig(data_dir, {}, durability, executor) as rig:
        for entity, values in STORED.items():
            alter(rig.client(), (entity, list(values.items())))
        alter(rig.client(), (BOB, [(MUTATIONS, math.inf), (PRODUCE, 1.0)]))
        alter(rig.client(), (C1, [(PERCENTAGE, REMOVE)]))
    expected = {**STORED, BOB: {MUTATIONS: math.inf, PRODUCE: 1.0}}
    del expected[C1]
    for _ in range(2):
        async with running_rig(data_dir, {}, durability) as rig:
            assert quotas(rig.client()) == expected


async def test_quotas_survive_a_rewrite_of_the_journal(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        for number in range(1_200):
            alter(rig.client(), (ALICE, [(PRODUCE, number + 1.0)]))
        alter(rig.client(), (ANY_CLIENT + BOB, [(CONSUME, 5.0)]))
    for _ in range(2):
        async with running_rig(data_dir) as rig:
            assert quotas(rig.client()) == {ALICE: {PRODUCE: 1_200.0}, ANY_CLIENT + BOB: {CONSUME: 5.0}}
    assert (data_dir / JOURNAL).read_bytes().count(b"\n") == 3


async def test_a_quota_alteration_without_a_change_is_not_journalled(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        alter(client, (ALICE, [(PRODUCE, 1.0)]))
        before = (data_dir / JOURNAL).read_bytes()
        alter(client, (ALICE, [(PRODUCE, 1.0), (CONSUME, REMOVE)]), (BOB, []), (BOB, [(PRODUCE, REMOVE)]))
        assert (data_dir / JOURNAL).read_bytes() == before
        assert rig.events.names().count("client_quotas_altered") == 1


async def test_quotas_that_cannot_be_written_are_not_taken(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(change: dict[str, Any]) -> None:
        raise StorageError("no space left")

    async with running_rig(data_dir) as rig:
        client = rig.client()
        alter(client, (ALICE, [(PRODUCE, 1.0)]))
        monkeypatch.setattr(rig.broker.data_dir, "journal", full)
        error = ErrorCode.KAFKA_STORAGE_ERROR
        assert alter(client, (ALICE, [(PRODUCE, REMOVE)]), (BOB, [(PRODUCE, 1.0)])) == [
            (ALICE, error, "no space left"),
            (BOB, error, "no space left"),
        ]
        assert quotas(client) == {ALICE: {PRODUCE: 1.0}}
