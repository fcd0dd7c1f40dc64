"""UpdateFeatures and the level of `transaction.version`: responses, persistence, effects on transactions (KIP-584, KIP-890)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.server import Broker
from stuntbroker.coordinator.records import read_record
from stuntbroker.coordinator.state import Phase
from stuntbroker.protocol.batches.records import HEADER_SIZE, read_records
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.features import UpgradeType
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from stuntbroker.protocol.topic_names import TXN_STATE
from stuntbroker.storage.errors import StorageError
from tests.kit.rig import Client, Rig, SyncedAtOnce, running_rig
from tests.kit.valid_requests import TOPIC

FEATURE = "transaction.version"
REFUSED = ErrorCode.INVALID_UPDATE_VERSION
TXN = "payments"
TIMEOUT_MS = 1_000


def update(
    client: Client, level: int, kind: int = UpgradeType.SAFE_DOWNGRADE, version: int = 2, only: bool = False
) -> Any:
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(FEATURE, level, True, kind)], validate_only=only)
    return client.ask(request, version)


def shown(client: Client, version: int = 4) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the finalized levels in ApiVersions, and their epoch."""
    said = client.ask(ApiVersionsRequest("test", "1"), version)
    return (
        {f.name: (f.min_version_level, f.max_version_level) for f in said.finalized_features},
        said.finalized_features_epoch,
    )


def begin(client: Client, timeout_ms: int = TIMEOUT_MS) -> tuple[int, int]:
    """Open a transaction with the protocol before KIP-890; return producer id and epoch."""
    created = client.ask(InitProducerIdRequest(TXN, timeout_ms), 4)
    pair = (created.producer_id, created.producer_epoch)
    added = client.ask(AddPartitionsToTxnRequest([], TXN, *pair, [AddPartitionsToTxnTopic(TOPIC, [0])]), 3)
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    return pair


def last_values(rig: Rig) -> list[Any]:
    """Return (version of the value, phase) of every record in the transaction log, oldest first."""
    actual = []
    for log in rig.logs(TXN_STATE):
        for header, batch in log.batches():
            for record in read_records(header, batch, HEADER_SIZE):
                kept = read_record(record)
                assert kept is not None and kept[1] is not None
                actual.append((int.from_bytes(record.value[:2], "big"), kept[1].phase))
    return actual


async def test_a_deferred_complete_record_is_written_in_the_format_of_its_own_level(data_dir: Path) -> None:
    """The Complete record waits for the next write to its file, and the level may be lowered in between."""
    async with running_rig(data_dir, {FEATURE: "1"}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        pair = begin(client)
        assert client.ask(EndTxnRequest(TXN, *pair, True), 3).error_code == 0
        assert update(client, 0).error_code == 0

        assert last_values(rig)[-1] == (1, Phase.COMPLETE_COMMIT)

        begin(client)
        assert last_values(rig)[-1] == (0, Phase.ONGOING)


async def test_a_new_level_and_a_higher_epoch_are_in_the_next_api_versions(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert shown(client) == ({FEATURE: (2, 2)}, 1)
        epochs = []
        for level, kind in (
            (1, UpgradeType.SAFE_DOWNGRADE),
            (2, UpgradeType.UPGRADE),
            (1, UpgradeType.UNSAFE_DOWNGRADE),
        ):
            assert update(client, level, kind).error_code == 0
            levels, epoch = shown(client, 3)
            assert levels == {FEATURE: (level, level)}
            epochs.append(epoch)
        assert epochs == sorted({1, *epochs})[1:]
        update(client, 0)
        assert shown(client)[0] == {}  # A feature at level 0 is not finalized.


@pytest.mark.parametrize("version", (0, 1, 2))
async def test_a_refused_update_has_the_code_of_kafka_and_changes_nothing(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir, {FEATURE: "1"}) as rig:
        client = rig.client()
        before = shown(client)
        refused = [(3, UpgradeType.UPGRADE), (-1, UpgradeType.UPGRADE), (0, UpgradeType.UPGRADE)]
        if version > 0:  # Version 0 has no upgrade type, and ignores AllowDowngrade.
            refused += [(2, UpgradeType.SAFE_DOWNGRADE), (2, UpgradeType.UNSAFE_DOWNGRADE), (2, 0), (1, 4), (1, -1)]
        else:
            refused += [(0, UpgradeType.SAFE_DOWNGRADE), (0, UpgradeType.UNSAFE_DOWNGRADE)]
        for level, kind in refused:
            said = update(client, level, kind, version)
            assert (said.error_code, list(said.results)) == (REFUSED, []), (level, kind)
            assert f"Invalid update version {level} for feature {FEATURE}." in said.error_message
        assert shown(client) == before


async def test_all_features_of_a_request_are_updated_or_none(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        good, unknown = (
            FeatureUpdateKey(FEATURE, 1, False, UpgradeType.SAFE_DOWNGRADE),
            FeatureUpdateKey("group.version", 1),
        )
        for updates in ([good, unknown], [unknown, good]):
            assert client.ask(UpdateFeaturesRequest(feature_updates=updates), 2).error_code == REFUSED
        assert shown(client) == ({FEATURE: (2, 2)}, 1)


async def test_of_two_updates_of_one_feature_the_last_counts_and_both_are_answered(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        twice = [
            FeatureUpdateKey(FEATURE, 7, False, UpgradeType.UPGRADE),
            FeatureUpdateKey(FEATURE, 1, False, UpgradeType.SAFE_DOWNGRADE),
        ]
        said = client.ask(UpdateFeaturesRequest(feature_updates=twice), 1)
        assert [(r.feature, r.error_code) for r in said.results] == [(FEATURE, 0), (FEATURE, 0)]
        assert shown(client)[0] == {FEATURE: (1, 1)}


async def test_validating_only_changes_nothing(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert update(client, 1, UpgradeType.SAFE_DOWNGRADE, only=True).error_code == 0
        assert update(client, 1, UpgradeType.UPGRADE, only=True).error_code == REFUSED
        assert shown(client) == ({FEATURE: (2, 2)}, 1)


async def test_a_feature_level_that_cannot_be_journalled_is_not_applied(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(change: dict[str, Any]) -> None:
        raise StorageError("no space left")

    async with running_rig(data_dir) as rig:
        client = rig.client()
        monkeypatch.setattr(rig.broker.data_dir, "journal", full)
        assert update(client, 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert shown(client) == ({FEATURE: (2, 2)}, 1)
        assert rig.broker.transactions.transaction_version == 2


@pytest.mark.parametrize("durability", ("process", "power"))
async def test_the_level_outlives_a_restart_and_the_epoch_does_not_fall(durability: str, data_dir: Path) -> None:
    async with running_rig(data_dir, {}, durability, SyncedAtOnce() if durability == "power" else None) as rig:
        update(rig.client(), 1)
        before = shown(rig.client())
    async with running_rig(data_dir, {}, durability) as rig:
        assert shown(rig.client()) == before == ({FEATURE: (1, 1)}, 2)
        assert rig.broker.transactions.transaction_version == 1
        assert "feature_set_by_property" not in rig.events.names()


async def test_the_feature_level_survives_a_rewrite_of_the_journal(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        for _ in range(600):
            update(rig.client(), 1)
            update(rig.client(), 2, UpgradeType.UPGRADE)
        update(rig.client(), 0)
        epoch = shown(rig.client())[1]
    for _ in range(2):
        async with running_rig(data_dir) as rig:
            assert shown(rig.client()) == ({}, epoch)


@pytest.mark.parametrize("level", (0, 1, 2))
async def test_a_new_folder_takes_its_level_from_the_property_and_keeps_it_without_the_property(
    level: int, data_dir: Path
) -> None:
    async with running_rig(data_dir, {FEATURE: str(level)}) as rig:
        first = shown(rig.client())
        assert "feature_set_by_property" not in rig.events.names()
    async with running_rig(data_dir) as rig:
        assert shown(rig.client()) == first
        assert rig.broker.transactions.transaction_version == level


async def test_a_property_that_is_given_wins_over_the_level_of_the_folder_and_is_reported(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        update(rig.client(), 1)
    async with running_rig(data_dir, {FEATURE: "2"}) as rig:
        assert shown(rig.client()) == ({FEATURE: (2, 2)}, 3)
        messages = [facts for name, facts in rig.events.kept if name == "feature_set_by_property"]
        assert messages == [{"feature": FEATURE, "from_level": 1, "to_level": 2}]
    async with running_rig(data_dir, {FEATURE: "2"}) as rig:
        assert "feature_set_by_property" not in rig.events.names()


async def test_describe_configs_shows_the_level_in_force(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        update(client, 1)
        request = DescribeConfigsRequest([DescribeConfigsResource(4, "1", [FEATURE])])
        assert [each.value for each in client.ask(request, 4).results[0].configs] == ["1"]


@pytest.mark.parametrize(
    ("level", "answer"), ((2, (0, 1)), (1, (ErrorCode.PRODUCER_FENCED, None)), (0, (ErrorCode.PRODUCER_FENCED, None)))
)
async def test_the_level_at_a_time_out_decides_whether_the_producer_may_claim_the_next_epoch(
    level: int, answer: tuple[int, int | None], data_dir: Path
) -> None:
    """At level 2 the timed-out producer may claim the next epoch (KIP-890); at lower levels it is fenced."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        pid, epoch = begin(client)
        update(client, level)
        rig.pass_time(TIMEOUT_MS + 1)
        rig.broker.transactions.sweep()
        assert rig.actor(TXN).txn.phase is Phase.COMPLETE_ABORT
        restarted = client.ask(InitProducerIdRequest(TXN, TIMEOUT_MS, pid, epoch), 4)
        assert (restarted.error_code, None if restarted.error_code else restarted.producer_epoch - epoch) == answer


async def test_the_records_of_the_transaction_log_are_those_of_the_level(data_dir: Path) -> None:
    """Level 0 writes value version 0, which older brokers can read; levels 1 and 2 write version 1."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        for level, kind in ((0, UpgradeType.SAFE_DOWNGRADE), (1, UpgradeType.UPGRADE), (2, UpgradeType.UPGRADE)):
            assert update(client, level, kind).error_code == 0
            pair = begin(client)
            assert client.ask(EndTxnRequest(TXN, *pair, True), 4).error_code == 0
        assert [version for version, phase in last_values(rig) if phase is Phase.ONGOING] == [0, 1, 1]


async def test_end_txn_version_5_bumps_the_epoch_at_every_level(data_dir: Path) -> None:
    """The version shows what the client supports. Kafka does the same at levels 1 and 2, but cannot write the record at 0."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        for level, kind in ((2, UpgradeType.UPGRADE), (1, UpgradeType.SAFE_DOWNGRADE), (0, UpgradeType.SAFE_DOWNGRADE)):
            assert update(client, level, kind).error_code == 0
            pid, epoch = begin(client)
            ended = client.ask(EndTxnRequest(TXN, pid, epoch, True), 5)
            assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, pid, epoch + 1)
            assert client.ask(EndTxnRequest(TXN, pid, epoch, True), 5).producer_epoch == epoch + 1  # A retry.


def test_an_invalid_feature_level_is_refused_when_the_broker_starts() -> None:
    with pytest.raises(ValueError, match=r"transaction\.version: 3 is not in 0\.\.2"):
        Broker(BrokerConfig({FEATURE: "3"}))
