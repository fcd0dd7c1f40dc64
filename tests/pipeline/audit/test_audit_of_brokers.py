"""The audit gives the same results for data folders of our broker and of Apache Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from audit_workload import COPY, FENCED, GROUP, OLD, SETTINGS, SLOW, TWO_PHASE, tell

from stuntbroker.pipeline.audit import run
from stuntbroker.pipeline.audit.eos import ExactlyOnceCheck
from stuntbroker.pipeline.audit.folder import read_folder
from stuntbroker.pipeline.audit.reports import aborted_of, fencing_of, last_stable_offsets, latencies_of
from stuntbroker.pipeline.audit.result import Audit
from stuntbroker.pipeline.audit.run import audit
from tests.kit.brokers.kafka_broker import apache_kafka
from tests.kit.processes.process import serving

TOPICS = ("in", "out", "other")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "data"
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with serving("--data-dir", str(folder), *settings) as broker:
        tell(broker.address)
        assert broker.end()[0] == 0
    return folder


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "kafka"
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    with apache_kafka(folder, unstable_api_versions_enable="true", **settings) as address:
        host, _, port = address.rpartition(":")
        tell((host, int(port)))
        assert read_folder(str(folder / "logs")).in_use
    return folder / "logs"


def audited(folder: Path) -> Audit:
    actual = read_folder(str(folder))
    assert not actual.in_use
    return audit(actual)


def names_of(actual: Audit) -> dict[int, str]:
    """Return the transactional id of each producer id, as brokers allocate different producer ids."""
    pairs = zip(
        actual.txn_state["producer_id"].to_pylist(), actual.txn_state["transactional_id"].to_pylist(), strict=True
    )
    return {pid: name for pid, name in pairs if pid >= 0} | {-1: "nobody"}


def view(actual: Audit) -> dict[str, list[tuple[Any, ...]]]:
    """Return the tables without values that differ between runs: producer ids, times, and sizes that depend on varints."""
    names = names_of(actual)
    who = lambda pid: names.get(pid, "idempotent")  # noqa: E731
    return {
        "batches": [
            (
                b["topic"], b["partition"], b["base_offset"], b["last_offset"], b["size"], b["fault"], b["compression"],
                who(b["producer_id"]), b["producer_epoch"], b["base_sequence"], b["count"], b["is_transactional"],
                b["is_control"], b["marker"],
            )
            for b in actual.batches.sort_by([(n, "ascending") for n in ("topic", "partition", "base_offset")]).to_pylist()
            if b["topic"] in TOPICS
        ],
        "txn_state": sorted(
            (
                s["transactional_id"], s["log_partition"], s["log_offset"], s["state"], who(s["producer_id"]),
                s["producer_epoch"], who(s["previous_producer_id"]), who(s["next_producer_id"]), s["timeout_ms"],
                s["client_transaction_version"], sorted((p["topic"], p["partition"]) for p in s["partitions"]),
                s["start_ms"] >= 0,
            )
            for s in actual.txn_state.to_pylist()
        ),
        "offsets": [
            (
                o["log_partition"], o["group_id"], o["topic"], o["partition"], o["committed_offset"], o["metadata"],
                who(o["producer_id"]), o["producer_epoch"],
            )
            for o in actual.offsets.to_pylist()
        ],
        "transactions": [
            (
                t["topic"], t["partition"], t["transactional_id"], t["producer_epoch"], t["first_offset"],
                t["last_offset"], t["records"], t["marker"], t["marker_offset"], t["marker_epoch"],
            )
            for t in actual.transactions.to_pylist()
            if t["topic"] in TOPICS
        ],
        "fencing": [
            (f["transactional_id"], f["state"], f["producer_epoch"], f["before_producer_epoch"], f["reason"])
            for f in fencing_of(actual.txn_state, actual.bounds).to_pylist()
        ],
        "aborted": aborted_of(actual.transactions).select(
            ["topic", "partition", "transactions", "aborted_transactions", "aborted_records"]
        ).to_pylist(),
        "last stable offsets": [
            tuple(row.values()) for row in last_stable_offsets(actual.transactions, actual.bounds).to_pylist()
            if row["topic"] in TOPICS
        ],
    }  # fmt: skip


def test_what_our_broker_leaves_is_without_findings(ours: Path) -> None:
    assert audited(ours).findings().to_pylist() == []


def test_what_kafka_leaves_is_without_findings(kafkas: Path) -> None:
    assert audited(kafkas).findings().to_pylist() == []


def test_the_tables_have_the_markers_and_fencing_reasons_of_each_transactional_id(ours: Path) -> None:
    actual = audited(ours)
    ended = {
        name: pc.value_counts(
            actual.transactions.filter(pc.equal(actual.transactions["transactional_id"], name))["marker"]
        )
        for name in (COPY, OLD, SLOW, TWO_PHASE, FENCED)
    }

    assert {
        name: {each["values"]: each["counts"] for each in counts.to_pylist()} for name, counts in ended.items()
    } == {
        COPY: {"commit": 9, "abort": 9},
        OLD: {"commit": 4, "abort": 2},
        SLOW: {"abort": 1},
        TWO_PHASE: {"commit": 1},
        FENCED: {"commit": 1, "abort": 1},
    }
    reasons: dict[str, list[str]] = {}
    for row in fencing_of(actual.txn_state, actual.bounds).to_pylist():
        reasons.setdefault(row["transactional_id"], []).append(row["reason"])
    assert reasons == {
        COPY: ["first", *["end"] * 6],
        OLD: ["first"],
        SLOW: ["first", "timeout"],
        TWO_PHASE: ["first", "end"],
        FENCED: ["first", "end_or_fence", "init", "end"],
    }
    assert dict(zip(*latencies_of(actual.txn_state).select([0, 1]).to_pydict().values(), strict=True)) == {
        COPY: 6, OLD: 3, SLOW: 1, TWO_PHASE: 1, FENCED: 2,
    }  # fmt: skip


def test_kafka_and_we_leave_the_same_tables(ours: Path, kafkas: Path) -> None:
    mine, theirs = view(audited(ours)), view(audited(kafkas))

    for name, rows in theirs.items():
        assert mine[name] == rows, name


@pytest.mark.parametrize("which", ["ours", "kafkas"])
def test_the_audit_confirms_an_exactly_once_copy_and_reports_missing_output(
    which: str, request: pytest.FixtureRequest
) -> None:
    folder = read_folder(str(request.getfixturevalue(which)))
    actual = audit(folder)
    committed = actual.committed.drop_columns(["commit_ms"])

    assert committed.to_pylist() == [{"group_id": GROUP, "topic": "in", "partition": 0, "committed_offset": 9}]
    assert run.compare(folder, actual, ExactlyOnceCheck(GROUP, ("in",), ("out",))) == []
    # The check reports records that were not copied.
    kinds = [each["kind"] for each in run.compare(folder, actual, ExactlyOnceCheck(GROUP, ("in",), ("other",)))]
    assert (kinds.count("output_missing"), kinds.count("output_unexpected")) == (9, 4)


def test_the_folder_of_a_running_broker_is_reported_as_in_use(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as broker:
        tell(broker.address)

        assert read_folder(str(tmp_path)).in_use
    assert not read_folder(str(tmp_path)).in_use


def test_kill_9_leaves_nothing_that_is_a_fault(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as broker:
        tell(broker.address)
        broker.kill()

    assert audited(tmp_path).findings().to_pylist() == []
