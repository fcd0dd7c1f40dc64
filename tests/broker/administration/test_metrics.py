"""A Prometheus scrape can be parsed and has the right values, and no HTTP client can harm the broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stuntbroker.broker.observation.metrics import SLICE, Metrics
from stuntbroker.broker.observation.metrics_server import CLIENTS_MAX, HEAD_MAX, MetricsServer
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.processes.process import run, serving
from tests.kit.rig import Client, Rig, running_rig
from tests.kit.valid_requests import TOPIC, batch

ROOT = Path(__file__).parents[3]
COORDINATOR = "kafka_server_transaction_coordinator_metrics"
OPEN_TIME = f"{COORDINATOR}_active_transaction_open_time_max"
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
MORE_THAN_SOCKETS_HOLD = 64 << 20
SHORT_S = 0.05
ENOUGH_S = 20.0
Samples = dict[str, Any]


def parsed(text: bytes) -> Samples:
    """Every sample: `name` or `name{label=value,...}` -> value."""
    actual = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in actual, f"{key} is there twice"
            actual[key] = sample.value
    return actual


async def scrape(metrics: Metrics) -> Samples:
    return parsed(await metrics.text())


def begin(client: Client, name: str, timeout_ms: int = 60_000) -> tuple[int, int]:
    created = client.ask(InitProducerIdRequest(name, timeout_ms), 4)
    assert created.error_code == 0
    pair = (created.producer_id, created.producer_epoch)
    client.ask(AddPartitionsToTxnRequest([], name, *pair, [AddPartitionsToTxnTopic(TOPIC, [0])]), 3)
    return pair


def write(client: Client, name: str, pair: tuple[int, int]) -> None:
    data = batch(producer_id=pair[0], epoch=pair[1], sequence=0)
    request = ProduceRequest(name, -1, 1_000, [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, data)])])
    assert client.ask(request, 9).responses[0].partition_responses[0].error_code == 0


async def test_open_time_max_is_the_age_of_the_oldest_open_transaction(data_dir: Path) -> None:
    """KIP-939: this metric reveals a prepared transaction that no client ends; it is 0 while no transaction is open."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        metrics, client = Metrics(rig.broker), rig.client()
        assert (await scrape(metrics))[OPEN_TIME] == 0
        first = begin(client, "first")
        rig.pass_time(7_000)
        second = begin(client, "second")
        rig.pass_time(500)
        assert (await scrape(metrics))[OPEN_TIME] == 7_500
        client.ask(EndTxnRequest("first", *first, True), 4)
        assert (await scrape(metrics))[OPEN_TIME] == 500
        client.ask(EndTxnRequest("second", *second, True), 4)
        rig.pass_time(500)
        assert (await scrape(metrics))[OPEN_TIME] == 0


async def test_transactional_ids_are_counted_by_state(data_dir: Path) -> None:
    async with running_rig(data_dir, {"transactional.id.expiration.ms": "100000"}) as rig:
        rig.topic(TOPIC)
        metrics, client = Metrics(rig.broker), rig.client()
        for name in ("a", "b", "c"):
            begin(client, name, 1_000)
        pair = begin(client, "d", 60_000)
        client.ask(EndTxnRequest("d", *pair, True), 4)
        client.ask(InitProducerIdRequest("e", 1_000), 4)
        before = await scrape(metrics)
        rig.pass_time(1_001)
        rig.broker.transactions.sweep()
        after = await scrape(metrics)
        rig.pass_time(100_000)
        rig.broker.transactions.expire()
        at_last = await scrape(metrics)

    def ids(samples: Samples) -> dict[str, float]:
        actual = {state: samples[f"stuntbroker_transactional_ids{{state={state}}}"] for state in STATES}
        return {state: count for state, count in actual.items() if count}

    assert ids(before) == {"Ongoing": 3, "CompleteCommit": 1, "Empty": 1}
    assert ids(after) == {"CompleteAbort": 3, "CompleteCommit": 1, "Empty": 1}
    assert ids(at_last) == {}
    names = ("stuntbroker_transactional_id_count", "stuntbroker_open_transactions",
             "stuntbroker_transactions_timed_out_total", "stuntbroker_transactional_ids_expired_total")  # fmt: skip
    assert [[samples[name] for name in names] for samples in (before, after, at_last)] == [
        [5, 3, 0, 0], [5, 0, 3, 0], [0, 0, 3, 5],
    ]  # fmt: skip


async def test_a_transaction_without_a_time_out_is_counted_as_two_phase(data_dir: Path) -> None:
    async with running_rig(data_dir, {"transaction.max.timeout.ms": str(2**31 - 1)}) as rig:
        rig.topic(TOPIC)
        metrics, client = Metrics(rig.broker), rig.client()
        begin(client, "ordinary")
        pair = begin(client, "two-phase", 2**31 - 1)
        assert (await scrape(metrics))["stuntbroker_two_phase_transactions"] == 1
        client.ask(EndTxnRequest("two-phase", *pair, True), 4)
        assert (await scrape(metrics))["stuntbroker_two_phase_transactions"] == 0


async def test_the_lag_of_the_last_stable_offset_is_what_an_open_transaction_holds_back(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, 2)
        metrics, client = Metrics(rig.broker), rig.client()
        pair = begin(client, "a")
        write(client, "a", pair)
        held = await scrape(metrics)
        count = rig.log(TOPIC, 0).next_offset
        client.ask(EndTxnRequest("a", *pair, False), 4)
        ended = await scrape(metrics)
        size = rig.log(TOPIC, 0).size

    where, other = f"{{partition=0,topic={TOPIC}}}", f"{{partition=1,topic={TOPIC}}}"
    assert count > 0
    assert held[f"kafka_cluster_partition_last_stable_offset_lag{where}"] == count
    assert held["stuntbroker_last_stable_offset_lag_max"] == count
    assert held[f"kafka_cluster_partition_last_stable_offset_lag{other}"] == 0
    assert held[f"stuntbroker_partition_producer_id_count{where}"] == 1
    assert held["kafka_server_replicamanager_producer_id_count"] == 1
    assert ended[f"kafka_cluster_partition_last_stable_offset_lag{where}"] == 0
    assert ended["stuntbroker_last_stable_offset_lag_max"] == 0
    assert ended[f"kafka_log_log_log_end_offset{where}"] == count + 1
    assert ended[f"kafka_log_log_log_start_offset{where}"] == 0
    assert ended[f"kafka_log_log_size{where}"] == size > 0


async def test_requests_are_counted_by_api_and_version_once_metrics_are_enabled(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.ask(ApiVersionsRequest("test", "1"), 3)
        metrics = Metrics(rig.broker)
        for version in (3, 3, 4):
            client.ask(ApiVersionsRequest("test", "1"), version)
        samples = await scrape(metrics)
    counts = {name: value for name, value in samples.items() if name.startswith("kafka_network")}
    name = "kafka_network_requestmetrics_requests_total"
    assert counts == {f"{name}{{request=ApiVersions,version=3}}": 2, f"{name}{{request=ApiVersions,version=4}}": 1}
    assert samples["kafka_server_socket_server_metrics_connection_count"] == 1


async def test_the_load_times_of_the_transaction_log_are_reported(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_rig(data_dir, {"transaction.state.log.num.partitions": "2"}) as rig:
        rig.topic(TOPIC)
        begin(rig.client(), "a")
    times = iter((0, 30, 100, 110))
    async with running_rig(data_dir) as rig:
        metrics, transactions = Metrics(rig.broker), rig.broker.transactions
        transactions.load_times_ms.clear()
        with monkeypatch.context() as patched:
            patched.setattr(type(rig.clock), "monotonic_ms", lambda self: next(times))
            transactions.replay()
        samples = await scrape(metrics)
    assert samples[f"{COORDINATOR}_partition_load_time_max"] == 30
    assert samples[f"{COORDINATOR}_partition_load_time_avg"] == 20


async def test_all_partitions_are_reported_when_a_scrape_takes_several_slices(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic("wide", SLICE + 1)
        samples = await scrape(Metrics(rig.broker))
    assert sum(name.startswith("kafka_log_log_size{") for name in samples) == SLICE + 1
    assert samples["kafka_server_replicamanager_partition_count"] == SLICE + 1


async def test_the_documented_metrics_are_exactly_the_exported_metrics(data_dir: Path) -> None:
    documented: set[str] = set()
    for line in (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            documented.update(re.findall(r"`(\w+)`", line.split("|")[1]))
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        metrics, client = Metrics(rig.broker), rig.client()
        client.ask(ApiVersionsRequest("test", "1"), 3)
        actual = {name.partition("{")[0] for name in await scrape(metrics)}
    assert actual == documented


# --- HTTP


@contextlib.asynccontextmanager
async def server(rig: Rig, wait_s: float = ENOUGH_S) -> AsyncIterator[tuple[str, int]]:
    each = MetricsServer(rig.broker, wait_s)
    address = await each.start("127.0.0.1", 0)
    try:
        yield address
    finally:
        each.stop()


async def described(address: tuple[str, int], request: bytes) -> tuple[int, bytes]:
    """Return (status, body); the status is 0 if the connection was closed without a response."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), ENOUGH_S)
    except ConnectionError:
        answer = b""
    finally:
        writer.transport.abort()
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split(b" ")[1]) if head else 0), body


async def test_two_concurrent_scrapes_both_get_complete_responses(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig, server(rig) as address:
        rig.topic(TOPIC)
        answers = await asyncio.gather(*(described(address, GET) for _ in range(2)))
        for status, body in answers:
            assert status == 200
            assert parsed(body)["kafka_server_replicamanager_partition_count"] == 1


@pytest.mark.parametrize(
    ("request_", "status"),
    (
        (b"GET /metrics?name[]=x HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\r\n\r\n", 400),
        (b"\0\0\0\x0e\0\x12\0\x03\0\0\0\x01\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * HEAD_MAX + b"\r\n\r\n", 431),
    ),
    ids=("query", "another path", "POST", "TLS", "Kafka", "nothing", "HTTP/2", "a long head"),
)
async def test_a_request_to_the_metrics_port_gets_its_http_status_and_the_next_scrape_succeeds(
    request_: bytes, status: int, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig, server(rig) as address:
        assert (await described(address, request_))[0] == status
        assert (await described(address, GET))[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    (
        (b"localhost:9100", 200), (b"127.0.0.1:9100", 200), (b"[::1]:9100", 200), (b"broker:9100", 200), (b"10.0.0.7", 200),
        (b"kafka.default.svc.cluster.local:9100", 200), (b"evil.example.com", 421), (b"127.0.0.1.nip.io:9100", 421),
        (b"localhost.evil.com", 421), (b"EVIL.COM.", 421), (b"[evil.com", 421),
    ),
)  # fmt: skip
async def test_a_scrape_under_a_public_name_is_refused(host: bytes, status: int, data_dir: Path) -> None:
    """A page of another site could otherwise read the metrics through DNS rebinding."""
    async with running_rig(data_dir) as rig, server(rig) as address:
        assert (await described(address, b"GET /metrics HTTP/1.1\r\nHOST:" + host + b"\r\n\r\n"))[0] == status


async def test_a_client_that_never_finishes_its_request_is_dropped(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig, server(rig, SHORT_S) as address:
        assert await described(address, b"GET /metrics HTTP/1.1\r\n") == (0, b"")
        assert ("metrics_client_dropped", {"why": "TimeoutError"}) in rig.events.kept


async def test_a_client_that_does_not_read_is_dropped(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def long_text(self: Metrics) -> bytes:
        return bytes(MORE_THAN_SOCKETS_HOLD)

    monkeypatch.setattr(Metrics, "text", long_text)
    async with running_rig(data_dir) as rig, server(rig, SHORT_S) as address:
        _, writer = await asyncio.open_connection(*address)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(GET)
        async with asyncio.timeout(ENOUGH_S):
            while "metrics_client_dropped" not in rig.events.names():
                await asyncio.sleep(SHORT_S)
        writer.transport.abort()


async def test_metrics_clients_above_the_limit_are_refused_and_kafka_clients_are_unaffected(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig, server(rig) as address:
        silent = [await asyncio.open_connection(*address) for _ in range(CLIENTS_MAX)]
        for _, writer in silent:
            writer.write(b"G")
        await asyncio.sleep(0)
        assert await described(address, GET) == (0, b"")
        assert rig.client().ask(ApiVersionsRequest("test", "1"), 3).error_code == 0
        for _, writer in silent:
            writer.transport.abort()
        status = 0
        while not status:
            status, _ = await described(address, GET)
        assert status == 200


def test_the_port_is_reported_on_standard_output_and_in_the_ready_file(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    with serving("--metrics-port", "0", "--ready-file", str(ready)) as process:
        facts = json.loads(ready.read_text())
        assert process.line == f"ready kafka={facts['kafka']} metrics={facts['metrics']}\n"
        with urlopen(f"http://{facts['metrics']}/metrics", timeout=ENOUGH_S) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert parsed(answer.read())["process_resident_memory_bytes"] > 0
        assert process.end()[0] == 0


def test_a_metrics_port_in_use_exits_1_and_names_the_option() -> None:
    with serving("--metrics-port", "0") as process:
        port = process.line.strip().rpartition(":")[2]
        done = run("serve", "--port", "0", "--metrics-port", port)
    assert (done.returncode, done.stdout) == (1, "")
    assert "give another --metrics-port" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_metrics_port_no_metrics_address_is_reported(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    with serving("--ready-file", str(ready)) as process:
        assert re.fullmatch(r"ready kafka=\S+\n", process.line)
        assert sorted(json.loads(ready.read_text())) == ["kafka", "pid"]
