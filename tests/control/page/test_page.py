"""The web page: contents, live updates, forms and access control. test_page_in_browser.py opens it in a browser."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import confluent_kafka
import pytest

import stuntbroker
from stuntbroker.control.page.views import TABLE_ROWS_MAX, time_text
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.offset_commit_response import OffsetCommitResponse
from tests.kit.page_browser import Browser
from tests.kit.processes.process import serving

PAGE_BYTES_MAX = 100_000
HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with stuntbroker.broker(topics={"payments": 1}) as running:
        yield running


@pytest.fixture
def browser(broker: Broker) -> Browser:
    return Browser(broker.control_url)


def producer_of(broker: Broker, transactional_id: str = "pay-1", client_id: str = "payer") -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "client.id": client_id,
            "log_level": 0,
        }
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    return producer


def write(producer: confluent_kafka.Producer, value: str) -> None:
    producer.produce("payments", value, partition=0)
    producer.flush(10)


def test_the_first_page_shows_open_transactions_and_held_back_partitions(broker: Broker, browser: Browser) -> None:
    assert "No producer has used a transactional id yet." in browser.get("/")
    producer = producer_of(broker)
    write(producer, "42 EUR")

    text = browser.get("/")
    (described,) = broker.transactions()
    for shown in ("pay-1", "Ongoing", "payer at 127.0.0.1:", f"producer {described.producer_id} from 0"):
        assert shown in text
    assert "1 open of 1 transactional ids" in text.replace("<b>", "").replace("</b>", "")
    producer.commit_transaction(10)
    assert "CompleteCommit" in browser.get("/")


def test_a_fence_is_shown_with_its_cause_and_in_the_timeline_of_its_id(broker: Broker, browser: Browser) -> None:
    first = producer_of(broker, client_id="first")
    write(first, "42 EUR")
    producer_of(broker, client_id="second")
    with pytest.raises(confluent_kafka.KafkaException):
        first.commit_transaction(10)

    assert "newer_instance (second at 127.0.0.1:" in browser.get("/")
    timeline = browser.get("/page/transactions/pay-1")
    assert "first at 127.0.0.1:" in timeline and "cause newer_instance by second" in timeline
    assert timeline.index("InitProducerId v") < timeline.index("fence-1")


def test_a_fence_that_no_client_caused_is_shown(broker: Broker, browser: Browser) -> None:
    producer = producer_of(broker)
    write(producer, "42 EUR")
    broker.clock.advance(minutes=15)
    assert "is fenced from now on: timeout" in browser.get("/page/transactions/pay-1")  # Before the client returns.
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(10)

    assert "<td>timeout</td>" in browser.get("/")
    assert "cause timeout. " in browser.get("/page/transactions/pay-1")


def test_records_and_control_records_are_shown_in_log_order(broker: Broker, browser: Browser) -> None:
    producer = producer_of(broker)
    write(producer, "one")
    producer.commit_transaction(10)
    producer.begin_transaction()
    write(producer, "two")
    producer.abort_transaction(10)
    producer.begin_transaction()
    write(producer, "three")

    text = browser.get("/page/partitions/payments/0")
    places = [
        text.index(each)
        for each in (
            ">one<",
            "control record: commit",
            ">two<",
            "control record: abort",
            "last stable offset: read_committed consumers stop here",
            ">three<",
        )
    ]
    assert places == sorted(places)
    assert [text.count(f'<tr class="{state}">') for state in ("committed", "aborted", "open")] == [1, 1, 1]
    later = browser.get("/page/partitions/payments/0?offset=3")
    assert ">two<" not in later and "control record: abort" in later


def test_a_requested_offset_is_shown_however_long_the_log_is(broker: Broker, browser: Browser) -> None:
    for _ in range(4):
        broker.produce("payments", *(f"{number}" for number in range(150)))
    assert '<th scope="row" class="number">0</th>' in browser.get("/page/partitions/payments/0?offset=0")
    last = browser.get("/page/partitions/payments/0")
    assert ">599</th>" in last and ">399</th>" not in last and ">400</th>" in last


def test_a_time_that_is_no_date_is_shown_as_a_number() -> None:
    assert time_text(0) == "1970-01-01 00:00:00.000"
    assert time_text(1 << 62) == f"{1 << 62} ms"


def test_the_lag_counts_what_a_read_committed_reader_will_get(broker: Broker, browser: Browser) -> None:
    broker.produce("payments", "a", "b", "c")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("payments", 0, 1)], asynchronous=False)
    consumer.close()
    producer = producer_of(broker)
    write(producer, "aborted")
    producer.abort_transaction(10)
    broker.produce("payments", "d")
    producer.begin_transaction()
    write(producer, "open")
    broker.produce("payments", "behind what is open")

    shown = browser.get("/").partition('id="groups"')[2].partition("</section>")[0]
    assert "payments-0: 1, 3<" in shown, shown  # b, c and d.


def test_what_clients_send_is_never_markup(broker: Broker, browser: Browser) -> None:
    producer = producer_of(broker, transactional_id=HOSTILE, client_id=HOSTILE)
    write(producer, HOSTILE)
    connection = http.client.HTTPConnection(urlsplit(broker.control_url).netloc, timeout=10)
    for path in ("/", "/page/partitions/payments/0", "/page/transactions/%3Cscript%3Ealert('x')%3C%2Fscript%3E"):
        connection.request("GET", path)
        raw = connection.getresponse().read().decode()
        assert "&lt;script&gt;alert" in raw and "<script>alert" not in raw
    connection.close()
    policy = browser.ask("GET", "/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_the_page_loads_nothing_from_other_hosts_and_is_small(browser: Browser) -> None:
    index = browser.get("/")
    assert "http://" not in index.replace(browser.get("/").split("</h1>")[0], "") and "https://" not in index
    sizes = [len(browser.get(path).encode()) for path in ("/", "/page/page.css", "/page/page.js")]
    assert sum(sizes) < PAGE_BYTES_MAX


def test_the_page_limits_its_tables_and_shows_how_many_rows_are_left_out(broker: Broker, browser: Browser) -> None:
    broker.create_topic("wide", 300)
    wide = producer_of(broker, "wide-transaction")
    for partition in range(300):
        wide.produce("wide", "x", partition=partition)
    wide.flush(10)
    for number in range(70):
        id_ = f"transactional-id-of-a-service-{number}"
        broker.control.post("/v1/seed", {"ids": {"transactional_id": id_}})
        broker.control.post("/v1/late", {"api": "EndTxn", "transactional_id": id_, "version": 4, "producer_epoch": 99})
        broker.faults.add("Fetch", topic=f"a-topic-that-is-not-there-{number}" * 16, error="NOT_LEADER_OR_FOLLOWER")
        broker.stops.park("txn.reply", transactional_id=f"nobody-{number}" * 50)
    topic = OffsetCommitRequestTopic("payments", partitions=[OffsetCommitRequestPartition(0, 0)])
    for number in range(70):
        request = OffsetCommitRequest(f"group-of-a-service-{number}", topics=[topic])
        broker.cluster.ask(1, 8, request, OffsetCommitResponse, 8, 8)

    text = browser.get("/")
    assert len(text.encode()) < PAGE_BYTES_MAX
    rows = TABLE_ROWS_MAX
    for left_out in (
        " and 290 more",
        f"The first {rows} of 71.",
        f"No more than {rows} fences",
        f"No more than {rows} partitions",
        f"No more than {rows} groups",
        f"{2 * rows} of 140: GET",
    ):
        assert left_out in text
    page = browser.get("/page/transactions/wide-transaction")
    assert " and 100 more</p>" in page and len(page.encode()) < PAGE_BYTES_MAX


def test_the_live_part_of_the_page_is_sent_when_the_state_changes(broker: Broker) -> None:
    connection = http.client.HTTPConnection(urlsplit(broker.control_url).netloc, timeout=10)
    connection.request("GET", "/page/events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type", "").startswith("text/event-stream")

    def next_event() -> str:
        lines = []
        while line := answer.readline().decode().rstrip("\n"):
            lines.append(line)
        return "\n".join(lines)

    assert next_event().startswith("event: live\ndata: ")
    broker.control.post("/v1/stops/txn.reply", {"action": "park"})
    while "park at txn.reply" not in (event := next_event()):
        assert event.startswith(("event: live\n", "event: heartbeat\n"))
    connection.close()


def test_forms_change_the_clock_faults_and_stops(broker: Broker, browser: Browser) -> None:
    before_ms = broker.clock.now_ms
    assert browser.send("clock", action="pause").status == 303
    assert browser.send("clock", action="advance", seconds="3600").status == 303
    assert broker.clock.is_paused and broker.clock.now_ms - before_ms >= 3_600_000
    assert browser.send("clock", action="resume").status == 303
    assert not broker.clock.is_paused

    rule = {"match": {"api": "EndTxn"}, "do": {"hold": True}}
    assert browser.send("add-fault", rule=json.dumps(rule)).status == 303
    (fault,) = broker.faults.all()
    assert browser.send("change-fault", id=fault["id"], action="release").status == 303
    assert browser.send("change-fault", id=fault["id"], action="remove").status == 303
    assert broker.faults.all() == []

    sent = browser.send("add-stop", point="txn.reply", action="park", transactional_id="pay-*")
    assert sent.status == 303
    (stop,) = broker.stops.all()
    assert (stop["point"], stop["match"]) == ("txn.reply", {"transactional_id": "pay-*"})
    assert browser.send("change-stop", id=stop["id"], action="remove").status == 303
    assert broker.stops.all() == []


@pytest.mark.parametrize(
    ("what", "fields", "reason"),
    [
        ("clock", {"action": "advance", "seconds": "-1"}, "whole number of seconds"),
        ("add-fault", {"rule": "{"}, "the rule is not JSON"),
        ("add-fault", {"rule": "[" * 100_000}, "the rule is not JSON"),
        ("add-fault", {"rule": '{"match": {"client_id": "\\ud800"}, "do": {"close": true}}'}, "the rule is not JSON"),
        ("add-fault", {"rule": "{}"}, "do must have one verb"),
        ("change-fault", {"id": "fault-9"}, "there is no fault 'fault-9' any more"),
        ("add-stop", {"point": "nowhere", "action": "park"}, "there is no point 'nowhere'"),
        ("change-stop", {"id": "stop-9"}, "there is no stop 'stop-9' any more"),
        ("explode", {}, "there is no such action"),
    ],
)
def test_an_invalid_form_is_refused_with_the_reason(
    what: str, fields: dict[str, str], reason: str, browser: Browser
) -> None:
    sent = browser.send(what, **fields)
    assert sent.status == 400 and 'role="alert"' in sent.text and reason in sent.text


def test_an_unknown_path_gets_a_not_found_page(browser: Browser) -> None:
    for path in ("/page/transactions/nobody", "/page/partitions/payments/7", "/page/partitions/nope/0", "/page/x.js"):
        answer = browser.ask("GET", path)
        assert answer.status == 404 and "<h1>Not here</h1>" in answer.text


def test_forms_from_another_origin_are_refused(broker: Broker, browser: Browser) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://attacker.example"}
    assert browser.ask("POST", "/page/do/clock", "action=pause", **form).status == 403
    assert not broker.clock.is_paused


def test_the_page_keeps_the_token_in_a_cookie() -> None:
    with serving("--control", "127.0.0.1:0", "--control-token", "secret") as broker:
        url = broker.line.split("control=")[1].split()[0]
        browser = Browser(url)
        assert browser.ask("GET", "/").status == 401
        assert browser.ask("GET", "/?token=wrong").status == 401
        entered = browser.ask("GET", "/?token=secret")
        cookie = entered.headers["set-cookie"]
        assert (entered.status, entered.headers["location"]) == (303, "/")
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert Browser(url, Cookie=cookie.partition(";")[0]).ask("GET", "/").status == 200
        name = cookie.partition("=")[0]
        assert name == f"stuntbroker-token-{urlsplit(url).port}"
        assert Browser(url, Cookie=f"{name}=wrong").ask("GET", "/").status == 401


def test_the_page_shows_nodes_with_leader_counts_and_stops_and_starts_them() -> None:
    with stuntbroker.broker(topics={"payments": 3}, nodes=3) as broker:
        browser = Browser(broker.control_url)
        assert '<h2 id="nodes">Nodes</h2>' in browser.get("/")
        assert "node 2, 0" in browser.get("/")

        browser.send("change-node", id="2", state="stopped")
        stopped = browser.get("/")
        assert "Start<span" in stopped and "node 2, 0" not in stopped and "node 3, 1" in stopped
        browser.send("change-node", id="2", state="running")
        assert "Start<span" not in browser.get("/")
        assert "there is no node" in browser.send("change-node", id="9", state="stopped").text


def test_a_broker_of_one_node_has_no_nodes_on_its_page(browser: Browser) -> None:
    assert "Nodes" not in browser.get("/")
