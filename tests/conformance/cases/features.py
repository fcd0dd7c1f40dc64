"""UpdateFeatures: the level of `transaction.version`, and the behaviour of transactions right after a change."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.cases.transactions import MINUTE_MS, _add, _describe, _end, _init, _put, _read
from tests.conformance.side import Side

FEATURE: Final = "transaction.version"
NEWEST: Final = 2
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
CLIENT: Final = {"client_software_name": "conformance", "client_software_version": "1.0"}
END_VERSIONS: Final = {0: (4,), 1: (4, 5), 2: (4, 5)}
"""EndTxn versions by level: at 0, Kafka cannot write the log record for version 5, and the id never replies again."""
OTHERS: Final = (
    "eligible.leader.replicas.version", "group.version", "kraft.version", "metadata.version", "share.version", "streams.version",
)  # fmt: skip


def _update(side: Side, version: int, note: str, *updates: tuple[str, int, int], validate_only: bool = False) -> Any:
    """Send updates of (feature, level, upgrade type); in version 0 any type above UPGRADE allows a downgrade."""
    created = [
        {"feature": name, "max_version_level": level, "allow_downgrade": kind > UPGRADE, "upgrade_type": kind}
        for name, level, kind in updates
    ]
    return side.ask("UpdateFeatures", version, note, feature_updates=created, validate_only=validate_only)


def _level(reply: Any) -> int:
    return next((f.max_version_level for f in reply.finalized_features if f.name == FEATURE), 0)


def _set_level(side: Side, level: int) -> int:
    """Set the feature's level without recording it, wait until the broker applies it, and return the epoch."""
    for kind in (UPGRADE, SAFE_DOWNGRADE):
        wanted = [{"feature": FEATURE, "max_version_level": level, "upgrade_type": kind}]
        side.quiet("UpdateFeatures", 2, feature_updates=wanted)
    return _epoch_at(side, level)


def _epoch_at(side: Side, level: int) -> int:
    seen = side.until(lambda reply: _level(reply) == level, "ApiVersions", 4, **CLIENT)
    epoch: int = seen.finalized_features_epoch
    return epoch


def _show(side: Side, note: str) -> None:
    """Record the feature's levels in ApiVersions, in the versions that have features."""
    for version in (3, 4):
        reply = side.quiet("ApiVersions", version, **CLIENT)
        actual = [(f.min_version_level, f.max_version_level) for f in reply.finalized_features if f.name == FEATURE]
        side.note(f"{note}, finalized, ApiVersions v{version}", actual)
        supported = [(f.min_version, f.max_version) for f in reply.supported_features if f.name == FEATURE]
        side.note(f"{note}, supported, ApiVersions v{version}", supported)


def levels_up_and_down(side: Side) -> None:
    """Every level can be reached from every other, but version 0 allows no downgrade; the epoch rises."""
    epoch = _set_level(side, NEWEST)
    for version in range(3):
        for level, kind in (
            (1, SAFE_DOWNGRADE), (2, UPGRADE), (1, UNSAFE_DOWNGRADE), (0, SAFE_DOWNGRADE), (1, UPGRADE), (0, UNSAFE_DOWNGRADE),
            (2, UPGRADE), (0, SAFE_DOWNGRADE), (2, UPGRADE),
        ):  # fmt: skip
            _update(side, version, f"to {level} by {kind}", (FEATURE, level, kind))
            after = _epoch_at(side, level) if version else _set_level(side, level)
            side.note(f"v{version} to {level} by {kind}: the epoch rises", after > epoch)
            epoch = after
            _show(side, f"v{version} at {level}")


def levels_that_are_refused(side: Side) -> None:
    for start in (2, 1, 0):
        _set_level(side, start)
        for version in range(3):
            for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, 0, 4, -1, 127)[: None if version else 2]:
                for level in (-32_768, -1, 0, 1, 2, 3, 32_767):
                    note = f"from {start} to {level} by {kind}"
                    _update(side, version, note, (FEATURE, level, kind), validate_only=version > 0)
                    if version == 0:  # Version 0 has no ValidateOnly, so the update may have been executed.
                        _set_level(side, start)
        _show(side, f"still {start}")
    _set_level(side, NEWEST)


def unknown_features(side: Side) -> None:
    _set_level(side, NEWEST)
    for version in range(3):
        _update(side, version, "of nothing")
        for name in ("bogus.version", "", "Transaction.version", "transaction.version "):
            for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, 0, 4):
                for level in (-1, 0, 1, 32_767):
                    _update(side, version, f"{name!r} to {level} by {kind}", (name, level, kind))


def several_features_at_once(side: Side) -> None:
    """Several updates in a request are applied all or not at all."""
    _set_level(side, NEWEST)
    for version in range(3):
        for note, updates in {
            "twice the same": [(FEATURE, 1, 2), (FEATURE, 1, 2)],
            "down and up": [(FEATURE, 1, 2), (FEATURE, 2, 1)],
            "up and down": [(FEATURE, 2, 1), (FEATURE, 1, 2)],
            "three times": [(FEATURE, 2, 1), (FEATURE, 1, 2), (FEATURE, 2, 1)],
            "unknown twice": [("bogus", 1, 1), ("bogus", 1, 1)],
            "unknown twice and a good one": [("bogus", 1, 1), (FEATURE, 1, 2), ("bogus", 1, 1)],
            "a good one and an unknown one": [(FEATURE, 1, 2), ("bogus", 1, 1)],
            "an unknown one and a good one": [("bogus", 1, 1), (FEATURE, 1, 2)],
            "two unknown ones": [("bogus", 1, 1), ("dubious", 2, 1)],
            "a bad one between unknown ones": [("bogus", 1, 1), (FEATURE, 3, 1), ("dubious", 2, 1)],
        }.items():
            reply = _update(side, version, note, *updates)
            if not any((reply.error_code, *(each.error_code for each in reply.results))):
                _epoch_at(side, updates[-1][1])  # The broker applies it some time after the reply.
            _show(side, f"v{version} {note}")
            _set_level(side, NEWEST)


def validated_only(side: Side) -> None:
    _set_level(side, NEWEST)
    for version in (1, 2):
        _update(side, version, "down", (FEATURE, 1, SAFE_DOWNGRADE), validate_only=True)
        _update(side, version, "same", (FEATURE, 2, UPGRADE), validate_only=True)
        _update(side, version, "bad", (FEATURE, 1, UPGRADE), validate_only=True)
        _update(side, version, "unknown", ("bogus", 1, UPGRADE), validate_only=True)
        _show(side, f"after v{version}")


def features_that_we_have_not(side: Side) -> None:
    for version in (1, 2):
        for name in OTHERS:
            _update(side, version, f"{name} to 1", (name, 1, UPGRADE), validate_only=True)
            _update(side, version, f"{name} to 0", (name, 0, SAFE_DOWNGRADE), validate_only=True)
            _update(side, version, f"{name} to 32767", (name, 32_767, UPGRADE), validate_only=True)


def time_outs(side: Side) -> None:
    _set_level(side, NEWEST)
    for timeout_ms in (-1, 0, 1, 2**31 - 1):
        wanted = [{"feature": FEATURE, "max_version_level": NEWEST, "upgrade_type": UPGRADE}]
        side.ask("UpdateFeatures", 2, f"time-out {timeout_ms}", timeout_ms=timeout_ms, feature_updates=wanted)


def transactions_after_a_change(side: Side) -> None:
    """The cluster's level determines fencing by InitProducerId and time-outs; the request version determines the rest."""
    topic = side.topic()
    for number, level in enumerate((2, 1, 0, 2, 0, 1, 2)):
        _set_level(side, level)
        for end_version in END_VERSIONS[level]:
            name = side.name(f"{number}-{end_version}")
            produce = 12 if end_version == 5 else 11
            note = f"{number} at level {level}, EndTxn v{end_version}"
            first = _init(side, name, 5, f"{note}: init")
            pid, epoch = first.producer_id, first.producer_epoch
            for round_ in range(2):
                if produce == 11:
                    _add(side, name, pid, epoch, 3, f"{note}: add", (topic, [0]))
                sequence = 0 if end_version == 5 else round_
                _put(side, name, topic, pid, epoch, sequence, produce, f"{note}: produce")
                answer = _end(side, name, pid, epoch, end_version, f"{note}: end {round_}")
                if end_version == 5:
                    pid, epoch = answer.producer_id, answer.producer_epoch
                _describe(side, f"{note}: ended {round_}", name)
            _end(side, name, pid, epoch, end_version, f"{note}: end of nothing", commit=False)
            _describe(side, f"{note}: after the end of nothing", name)
            _init(side, name, 5, f"{note}: init again", producer_id=pid, producer_epoch=epoch)
            restarted = _init(side, name, 5, f"{note}: and again")
            _add(
                side, name, restarted.producer_id, restarted.producer_epoch, 3, f"{note}: a zombie begins", (topic, [0])
            )
            _init(side, name, 5, f"{note}: it is fenced", timeout=MINUTE_MS)
            _describe(side, f"{note}: fenced", name)
            _end(side, name, restarted.producer_id, restarted.producer_epoch, end_version, f"{note}: zombie")
            _init(
                side,
                name,
                5,
                f"{note}: zombie",
                producer_id=restarted.producer_id,
                producer_epoch=restarted.producer_epoch,
            )
    _read(side, topic, "all")


def changes_within_a_transaction(side: Side) -> None:
    """A transaction begins under one level and ends under another."""
    topic = side.topic()
    for before, after in ((2, 1), (1, 2), (2, 0), (0, 2), (0, 1), (1, 0)):
        for end_version in END_VERSIONS[after]:
            note = f"{before} to {after}, EndTxn v{end_version}"
            name = side.name(f"{before}-{after}-{end_version}")
            _set_level(side, before)
            first = _init(side, name, 5, f"{note}: init")
            pid, epoch = first.producer_id, first.producer_epoch
            _add(side, name, pid, epoch, 3, f"{note}: add", (topic, [0]))
            _put(side, name, topic, pid, epoch, 0, 11, f"{note}: produce")
            _set_level(side, after)
            answer = _end(side, name, pid, epoch, end_version, f"{note}: end")
            _describe(side, f"{note}: ended", name)
            if end_version == 5:
                pid, epoch = answer.producer_id, answer.producer_epoch
            _end(side, name, first.producer_id, first.producer_epoch, end_version, f"{note}: the end, once more")
            _init(side, name, 5, f"{note}: init again", producer_id=pid, producer_epoch=epoch)
            _describe(side, f"{note}: at the end", name)
    _set_level(side, NEWEST)
    _read(side, topic, "all")
