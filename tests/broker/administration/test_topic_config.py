"""Validation of topic configuration, with the bounds of Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from stuntbroker.broker.configuration.properties import ConfigError, check_topic_config
from tests.kit.rig import running_rig, turn
from tests.kit.valid_requests import TOPIC

LAG = "min.compaction.lag.ms"
LAG_MAX = "max.compaction.lag.ms"
DIRTY = "min.cleanable.dirty.ratio"
TAKEN: list[dict[str, str | None]] = [
    {"retention.bytes": "-5"}, {"retention.bytes": str(-(2**63))}, {"retention.ms": "-1"},
    {LAG: "0"}, {LAG: "9", LAG_MAX: "9"}, {LAG_MAX: "1"}, {LAG: str(2**63 - 1)},
    {"retention.ms": "+7"}, {DIRTY: "0.5f"}, {DIRTY: ".5d"}, {DIRTY: "5e-1"},
]  # fmt: skip
REFUSED: list[dict[str, str | None]] = [
    {"retention.bytes": str(-(2**63) - 1)}, {"retention.ms": "-2"}, {LAG: "-1"}, {LAG: "10", LAG_MAX: "9"},
    {"local.retention.bytes": "-5"}, {"retention.ms": "1_000"}, {"retention.ms": ""},
    {"retention.ms": "9" * 5_000}, {DIRTY: "0_5"}, {DIRTY: "1.5"},
]  # fmt: skip


@pytest.mark.parametrize("configs", TAKEN, ids=str)
def test_a_topic_config_that_kafka_accepts_is_accepted(configs: dict[str, str | None]) -> None:
    assert check_topic_config(configs) == configs


@pytest.mark.parametrize("configs", REFUSED, ids=str)
def test_a_topic_config_that_kafka_refuses_is_refused(configs: dict[str, str | None]) -> None:
    with pytest.raises(ConfigError):
        check_topic_config(configs)


async def test_a_topic_is_compacted_only_after_min_compaction_lag_ms(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, cleanup_policy="compact", min_compaction_lag_ms="60000")
        log = rig.log(TOPIC, 0)
        for n in range(40):
            log.append_record(b"%d" % (n % 2), b"x" * 100, rig.clock.ms)
        for _ in range(100):
            rig.pass_time(590)
        assert sum(1 for _ in log.batches()) == 40
        for _ in range(10):
            rig.pass_time(590)
        assert sum(1 for _ in log.batches()) == 2


async def test_a_small_log_is_compacted_while_it_is_written_when_its_segments_are_short(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
        log = rig.log(TOPIC, 0)
        for n in range(60):
            log.append_record(b"%d" % (n % 2), b"x" * 100, rig.clock.ms)
            await turn()
            rig.pass_time(150)
        assert sum(1 for _ in log.batches()) < 20
