"""The HTTP API of a broker that runs as a process."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import ClientError
from stuntbroker.control.http.api import OPERATIONS
from stuntbroker.control.http.openapi import openapi
from stuntbroker.control.rules import faults
from stuntbroker.control.server import is_loopback
from stuntbroker.fixture import control
from stuntbroker.fixture.control import ControlClient, ControlError
from stuntbroker.protocol.addresses import parse_address
from tests.kit.processes.process import DEADLINE_S, Process, run, serving


class Api:
    """The HTTP API of one broker."""

    def __init__(self, url: str) -> None:
        self.address = url.removeprefix("http://")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, Any]:
        """Send a request; return (status, content type, decoded JSON)."""
        connection = http.client.HTTPConnection(self.address, timeout=10)
        try:
            content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            if content is not None:
                connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            answer = connection.getresponse()
            return answer.status, answer.headers["Content-Type"], json.loads(answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, kind, value = self.ask("GET", path)
        assert (status, kind) == (200, "application/json")
        return value


def control_of(broker: Process) -> dict[str, str]:
    return dict(word.split("=", 1) for word in broker.line.split()[1:])


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with serving("--control") as broker:
        yield Api(control_of(broker)["control"])


def test_the_clock_is_advanced_paused_and_resumed(api: Api) -> None:
    before = api.get("/v1/clock")
    assert before["paused"] is False
    clock = api.ask("POST", "/v1/clock/advance", {"ms": 900_000})[2]
    assert clock["now_ms"] >= before["now_ms"] + 900_000
    stopped = api.ask("POST", "/v1/clock/pause")[2]
    assert (stopped["paused"], api.get("/v1/clock")["now_ms"]) == (True, stopped["now_ms"])
    assert api.ask("POST", "/v1/clock/resume")[2]["paused"] is False


def test_a_fault_is_added_listed_and_removed(api: Api) -> None:
    status, _, shown = api.ask("POST", "/v1/faults", {"match": {"api": "EndTxn"}, "do": {"hold": True}})
    assert (status, shown["fired"], shown["held"], shown["match"]) == (200, 0, 0, {"api": ["EndTxn"]})
    assert api.get("/v1/faults")["faults"] == [shown]
    assert api.get("/v1/left-open")["faults"] == [shown]
    assert api.ask("POST", f"/v1/faults/{shown['id']}/release")[2] == {"released": 0}
    assert api.ask("DELETE", f"/v1/faults/{shown['id']}")[2] == shown
    api.ask("POST", "/v1/faults", {"do": {"close": True}})
    assert len(api.ask("DELETE", "/v1/faults")[2]["faults"]) == 1
    assert api.get("/v1/faults") == {"faults": []}


def test_a_stop_is_added_listed_and_removed_by_its_id_or_its_point(api: Api) -> None:
    rule = {"action": "park", "match": {"transactional_id": "pay"}, "nth": 2}
    status, _, shown = api.ask("POST", "/v1/stops/txn.reply", rule)
    assert (status, shown["point"], shown["fired"], shown["times"], shown["parked"]) == (200, "txn.reply", 0, 1, [])
    assert api.get("/v1/stops")["stops"] == api.get("/v1/left-open")["stops"] == [shown]
    for name in (shown["id"], "txn.reply"):
        assert api.ask("POST", f"/v1/stops/{name}/release")[2] == {"released": 0}
    assert api.ask("DELETE", "/v1/stops/txn.reply")[2] == {"stops": [shown]}
    api.ask("POST", "/v1/stops/journal.write.after", {"action": "kill"})
    assert len(api.ask("DELETE", "/v1/stops")[2]["stops"]) == 1
    assert api.get("/v1/stops")["stops"] == []


def test_a_plan_is_applied_shown_and_replaced(api: Api) -> None:
    plan = {"clock": {"paused": True}, "faults": [], "stops": [], "nodes": []}
    assert api.ask("PUT", "/v1/plan", plan)[2] == plan == api.get("/v1/plan")
    assert api.ask("PUT", "/v1/plan", {"clock": {"paused": False}})[2]["clock"] == {"paused": False}
    assert "commit-response-lost" in api.get("/v1/plans")["plans"]


def test_a_plan_may_be_yaml_or_the_name_of_a_built_in_plan(api: Api) -> None:
    yaml = b"stops:\n  - {point: txn.reply, action: park, nth: 2}\nclock: {paused: false}\n"
    shown = api.ask("PUT", "/v1/plan", yaml, **{"Content-Type": "application/yaml; charset=utf-8"})[2]
    assert [(each["point"], each["nth"]) for each in shown["stops"]] == [("txn.reply", 2)]
    shown = api.ask("PUT", "/v1/plan", {"plan": "commit-response-lost"})[2]
    assert ([each["do"] for each in shown["faults"]], shown["stops"]) == ([{"lose_response": True}], [])

    status, _, problem = api.ask("PUT", "/v1/plan", b"stops: [", **{"Content-Type": "text/yaml"})
    assert (status, problem["title"]) == (400, "Bad Request")
    assert problem["detail"].startswith("the body is not YAML: while parsing")
    assert api.ask("PUT", "/v1/plan", b"about: " + b"x" * 70_000, **{"Content-Type": "application/yaml"})[0] == 413
    assert api.ask("PUT", "/v1/plan", b"1: 2", **{"Content-Type": "application/yaml"})[0] == 400
    assert api.ask("PUT", "/v1/plan", {"plan": "commit-lost"})[0] == 404
    api.ask("PUT", "/v1/plan", {})


def test_a_seed_that_cannot_be_written_gets_status_503(api: Api) -> None:
    api.ask("POST", "/v1/stops/journal.write.before", {"action": "fail", "times": 0})
    status, _, problem = api.ask("POST", "/v1/seed", {"next_producer_id": 1 << 40})
    assert (status, problem["detail"].startswith("the state cannot be written: stop-")) == (503, True)
    api.ask("DELETE", "/v1/stops")
    assert api.ask("POST", "/v1/seed", {"next_producer_id": 1 << 40})[0] == 200


WRONG: dict[str, tuple[str, str, Any, int]] = {
    "another path": ("GET", "/v2", None, 404),
    "a path with a slash behind it": ("GET", "/v1/clock/", None, 404),
    "nothing to move": ("POST", "/v1/move", {"transactional_id": "", "node": 1}, 400),
    "another query": ("GET", "/v1/requests?last=5", None, 400),
    "a query where there is none": ("DELETE", "/v1/faults?id=fault-1", None, 400),
    "another method": ("PUT", "/v1/clock", None, 405),
    "no JSON": ("POST", "/v1/clock/advance", b"{", 400),
    "no UTF-8": ("POST", "/v1/clock/advance", b'{"ms": "\xff"}', 400),
    "no object": ("POST", "/v1/clock/advance", [1], 400),
    "no body": ("POST", "/v1/clock/advance", b"", 400),
    "half a character": ("POST", "/v1/faults", b'{"match": {"topic": "\\ud800"}, "do": {"close": true}}', 400),
    "half a character in a name": ("POST", "/v1/faults", b'{"\\ud800": 1}', 400),
    "too deep": ("POST", "/v1/faults", b'{"do": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    "another field": ("POST", "/v1/clock/advance", {"ms": 1, "s": 1}, 400),
    "backwards": ("POST", "/v1/clock/advance", {"ms": -1}, 400),
    "too far": ("POST", "/v1/clock/advance", {"ms": 10**15}, 400),
    "no number": ("POST", "/v1/clock/advance", {"ms": True}, 400),
    "a rule that cannot be": ("POST", "/v1/faults", {"do": {"explode": True}}, 400),
    "an unknown fault": ("DELETE", "/v1/faults/fault-77", None, 404),
    "release of an unknown fault": ("POST", "/v1/faults/fault-77/release", None, 404),
    "a stop at no point": ("POST", "/v1/stops/nowhere", {}, 400),
    "a stop that cannot be": ("POST", "/v1/stops/txn.reply", {"action": "explode"}, 400),
    "release of an unknown stop": ("POST", "/v1/stops/stop-77/release", None, 404),
    "waiting for an unknown stop": ("POST", "/v1/stops/stop-77/wait", {}, 404),
    "an unknown stop": ("DELETE", "/v1/stops/stop-77", None, 404),
    "waiting for nothing": ("POST", "/v1/wait", {"until": {}}, 400),
    "waiting for what cannot be": ("POST", "/v1/wait", {"until": {"colour": "red"}}, 400),
    "waiting without end": ("POST", "/v1/wait", {"until": {"topic": "t", "end_offset": 1}, "timeout_ms": 10**9}, 400),
    "waiting for more": ("POST", "/v1/wait", {"until": {"topic": "t", "end_offset": 1}, "for": 1}, 400),
    "waiting in vain": ("POST", "/v1/wait", {"until": {"topic": "t", "end_offset": 1}, "timeout_ms": 1}, 408),
    "a seed of nothing": ("POST", "/v1/seed", {}, 400),
    "late for nobody": ("POST", "/v1/late", {"api": "EndTxn", "transactional_id": "x"}, 400),
    "a plan that is wrong": ("PUT", "/v1/plan", {"faults": [{}]}, 400),
    "an unknown id": ("GET", "/v1/transactions/no/body", None, 404),
    "an id that nobody has": ("GET", "/v1/transactions/nobody", None, 404),
    "an unknown fence": ("GET", "/v1/fences/fence-77", None, 404),
    "a limit in words": ("GET", "/v1/requests?limit=ten", None, 400),
    "a body without end": ("POST", "/v1/faults", b"[" + b" " * (1 << 20) + b"]", 413),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_request_gets_a_problem_with_its_status(name: str, api: Api) -> None:
    method, path, body, status = WRONG[name]
    answered, kind, problem = api.ask(method, path, body)
    assert (answered, kind) == (status, "application/problem+json")
    assert problem["status"] == status
    assert problem["detail"]


def test_requests_with_a_foreign_host_or_origin_are_refused(api: Api) -> None:
    assert api.ask("GET", "/v1/clock", Host="localhost:80")[0] == 200
    assert api.ask("GET", "/v1/clock", Host="attacker.example")[0] == 421
    own = f"http://{api.address}"
    assert api.ask("GET", "/v1/clock", Origin=own)[0] == 200
    assert api.ask("GET", "/v1/clock", Origin="http://attacker.example")[0] == 403
    assert api.ask("GET", "/v1/clock", Origin="null")[0] == 403


def test_the_openapi_document_has_every_operation(api: Api) -> None:
    described = api.get("/v1/openapi.json")
    assert described == json.loads(json.dumps(openapi(OPERATIONS)))
    assert {(each.method.lower(), each.path) for each in OPERATIONS} == {
        (method, path) for path, methods in described["paths"].items() for method in methods
    }
    for each in OPERATIONS:
        if each.method == "GET" and "{" not in each.path:
            assert api.ask("GET", each.path)[0] == 200


def test_the_client_of_tests_knows_every_field_of_a_fault_and_the_limit_of_the_clock() -> None:
    """The fixture does not import code of the broker, so it has its own. It passes the API as an argument of `add`."""
    assert {"api", *control.MATCH} == faults.MATCH.keys()
    assert set(control.WHEN) == faults.WHEN.keys()
    assert control.ADVANCE_MS_MAX == faults.ADVANCE_MS_MAX


def test_an_address_that_others_can_reach_needs_a_token() -> None:
    with serving("--control", "0.0.0.0:0") as broker:
        ready = control_of(broker)
        api = Api(ready["control"])
        token = ready["control-token"]
        assert len(token) == 32
        assert api.ask("GET", "/v1/clock")[0] == 401
        assert api.ask("GET", "/v1/clock", Authorization="Bearer wrong")[0] == 401
        assert api.ask("GET", "/v1/clock", Authorization=f"Bearer {token}")[0] == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("::10", False),
        ("127.example", False),
        ("localhost.example", False),
        ("0.0.0.0", False),
        ("192.0.2.1", False),
        ("", False),
    ],
)
def test_only_addresses_of_this_machine_need_no_token(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_control_client_reconnects_when_its_connection_was_closed() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + b'{"ok": %d} '
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for number in range(3):
                connected, _ = listening.accept()
                with connected:
                    if number < 2:  # The last one gets no response.
                        connected.recv(10_000)
                        connected.sendall(answer % number)

        server = threading.Thread(target=serve)
        server.start()
        client = ControlClient(f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert client.get("/v1/clock") == {"ok": 0}
        assert client.get("/v1/clock") == {"ok": 1}
        with pytest.raises(ControlError, match="does not answer") as silence:
            client.get("/v1/clock")
        server.join()
    assert silence.value.status == 0


def test_what_is_no_http_is_an_event_in_the_log_of_the_broker_and_no_line_of_a_library() -> None:
    with serving("--control", "--log-format", "json") as broker:
        address = parse_address(control_of(broker)["control"].removeprefix("http://"))
        with socket.create_connection(address) as client:
            client.sendall(b"\x00\x00\x00\x10no HTTP at all\r\n\r\n")
            client.settimeout(DEADLINE_S)
            assert client.recv(100).startswith(b"HTTP/1.1 400")
        with pytest.raises(ClientError, match="in HTTP: is this the address of a control API"):
            Cluster([address], timeout_s=1.0).broker_ids()
        _, _, log = broker.end()
    events = [json.loads(line) for line in log.splitlines()]
    assert "control_request_failed" in [event["event"] for event in events]


def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_event_in_the_log() -> None:
    with serving("--control", "--log-format", "json") as broker:
        control = control_of(broker)["control"]
        address = parse_address(control.removeprefix("http://"))
        for path in ("/v1/faults", "/page/do/clock"):
            with socket.create_connection(address) as client:
                head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n"
                client.sendall(head.encode() + b"{")
        Api(control).get("/v1/clock")
        _, _, log = broker.end()
    assert "control_request" not in log


def test_a_partition_of_thousands_of_digits_is_not_found(api: Api) -> None:
    connection = http.client.HTTPConnection(api.address, timeout=10)
    connection.request("GET", f"/page/partitions/t/{'9' * 5_000}")
    assert connection.getresponse().status == 404
    connection.close()


def test_a_given_token_is_required_even_on_loopback_and_not_printed() -> None:
    with serving("--control", "--control-token", "secret") as broker:
        ready = control_of(broker)
        api = Api(ready["control"])
        assert "control-token" not in ready
        assert api.ask("GET", "/v1/clock")[0] == 401
        assert api.ask("GET", "/v1/clock", Authorization="Bearer secret")[0] == 200


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--control", "here"], "--control: 'here' is not HOST:PORT"),
        (["--control-token", "x"], "--control-token has no effect without --control"),
        (["--control", "192.0.2.1:9"], "cannot listen on 192.0.2.1:9"),
        (["--plan", "slow-broker"], "--plan has no effect without --control"),
        (
            ["--control", "--plan", "nowhere"],
            "--plan 'nowhere': No such file or directory; give a JSON or YAML file, or one of commit-",
        ),
        (["--control", "--plan", "/dev/null"], "--plan '/dev/null' cannot be read: Expecting value"),
        (
            ["--control", "--plan", "hanging-transaction"],
            "the plan cannot be applied: there is no topic '*'; create a topic first",
        ),
        (["--control", "--plan", "PLAN"], "PLAN': faults[0]: do must have one verb; one of error, "),
    ],
)
def test_invalid_control_options_of_serve_are_refused(arguments: list[str], reason: str, tmp_path: Path) -> None:
    (tmp_path / "PLAN").write_text('{"faults": [{}]}')
    done = run("serve", "--port", "0", *(str(tmp_path / "PLAN") if word == "PLAN" else word for word in arguments))
    assert done.returncode in (1, 2)
    assert reason in done.stderr


def test_the_plan_of_serve_is_applied_at_the_start(tmp_path: Path) -> None:
    plan = {"faults": [{"match": {"api": ["EndTxn"]}, "when": {}, "do": {"close": True}}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    for name in ("slow-broker", str(tmp_path / "plan.json")):
        with serving("--control", "--plan", name) as broker:
            assert len(Api(control_of(broker)["control"]).get("/v1/faults")["faults"]) == 1
