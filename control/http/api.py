"""The HTTP API: one table of operations, from which the routes and the OpenAPI description come.

Answers are JSON. Errors are problem+json (RFC 9457) with a `hint` that says what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stuntbroker.control.http import copies_api, nodes_api
from stuntbroker.control.http.operations import (
    PROBLEM,
    Operation,
    Problem,
    body_of,
    guarded,
    number_of,
    problem_response,
)
from stuntbroker.control.http.schemas import (
    ADVANCE_BODY,
    ADVANCE_MS_MAX,
    EXACTLY_ONCE_BODY,
    FAULT_BODY,
    LATE_BODY,
    NUMBER,
    PLAN_BODY,
    SEED_BODY,
    STOP_BODY,
    UNTIL_BODY,
    WAIT_BODY,
    WAIT_MS,
    WAIT_MS_MAX,
)
from stuntbroker.control.late import deliver, read_late
from stuntbroker.control.observation import state
from stuntbroker.control.own_requests import NotAnswered
from stuntbroker.control.plan import PLANS, apply_plan, plan_of, read_plan
from stuntbroker.control.rules.conditions import POLL_S, read_condition, wait_until
from stuntbroker.control.rules.faults import FaultError, texts_in
from stuntbroker.control.rules.points import POINTS, START
from stuntbroker.control.seed import seed, wait_until_durable
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.control.control import Control
    from stuntbroker.control.host import BrokerHost
    from stuntbroker.control.rules.stops import Stop

REQUESTS_SHOWN: Final = 100


# --- the clock


async def _clock(control: Control, request: Request) -> Any:
    clock = control.clock.clock
    return {"now_ms": clock.now_ms(), "moved_ms": clock.moved_ms, "paused": clock.is_paused}


async def _advance(control: Control, request: Request) -> Any:
    body = await body_of(request)
    ms = body.get("ms")
    if body.keys() != {"ms"} or isinstance(ms, bool) or not isinstance(ms, int) or not 0 <= ms <= ADVANCE_MS_MAX:
        raise Problem(400, f"the body must be an object with ms, from 0 to {ADVANCE_MS_MAX}", 'as {"ms": 900000}')
    await control.clock.advance(ms)
    return await _clock(control, request)


async def _pause(control: Control, request: Request) -> Any:
    await control.clock.pause()
    return await _clock(control, request)


async def _resume(control: Control, request: Request) -> Any:
    await control.clock.resume()
    return await _clock(control, request)


# --- faults


async def _faults(control: Control, request: Request) -> Any:
    return {"faults": [_fault(control, fault) for fault in control.injector.faults.values()]}


def _fault(control: Control, fault: Any) -> Any:
    return {**fault.as_json(), "held": control.injector.held(fault.id)}


async def _add_fault(control: Control, request: Request) -> Any:
    try:
        return _fault(control, control.injector.add(await body_of(request)))
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault


async def _remove_faults(control: Control, request: Request) -> Any:
    removed = [control.injector.remove(id_) for id_ in list(control.injector.faults)]
    return {"faults": [_fault(control, fault) for fault in removed]}


def _known_fault(control: Control, request: Request) -> str:
    id_: str = request.path_params["id"]
    if id_ not in control.injector.faults:
        raise Problem(404, f"there is no fault {id_!r}", "GET /v1/faults lists them")
    return id_


async def _remove_fault(control: Control, request: Request) -> Any:
    return _fault(control, control.injector.remove(_known_fault(control, request)))


async def _release(control: Control, request: Request) -> Any:
    return {"released": control.injector.release(_known_fault(control, request))}


# --- stops


async def _stops(control: Control, request: Request) -> Any:
    points = {
        name: {"text": point.text, "actions": point.actions, "match": sorted(point.match)}
        for name, point in POINTS.items()
    }
    return {"points": points, "stops": [stop.as_json() for stop in control.stops.stops.values()]}


async def _add_stop(control: Control, request: Request) -> Any:
    if request.path_params["id"] in START:
        raise Problem(400, "the broker has started, and does not come by there any more", "give it by serve --plan")
    try:
        return control.stops.add(request.path_params["id"], await body_of(request, may_be_empty=True)).as_json()
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault


def _known_stops(control: Control, request: Request) -> list[Stop]:
    name = request.path_params["id"]
    stops = control.stops.named(name)
    if not stops:
        raise Problem(404, f"there is no stop {name!r}, nor one at a point of that name", "GET /v1/stops lists them")
    return stops


async def _release_stop(control: Control, request: Request) -> Any:
    return {"released": sum(control.stops.release(stop) for stop in _known_stops(control, request))}


async def _wait_for_stop(host: BrokerHost, request: Request) -> Any:
    """Wait until stops have fired, also those of the broker that takes the place of this one meanwhile."""
    _known_stops(host.control, request)
    body = await body_of(request, may_be_empty=True)
    if unknown := body.keys() - {"count", "timeout_ms"}:
        raise Problem(400, f"there is no {', '.join(sorted(unknown))}", "give count and timeout_ms")
    count, timeout_ms = _wanted(body, "count", 1, 1), _wanted(body, "timeout_ms", WAIT_MS, 0)
    deadline_ms = host.broker.clock.client_ms() + timeout_ms
    while True:
        stops = host.control.stops.named(request.path_params["id"])
        if not stops:
            raise Problem(409, "it was removed meanwhile, or is not in the snapshot that was restored")
        if sum(stop.fired for stop in stops) >= count:
            return {"stops": [stop.as_json() for stop in stops]}
        if host.broker.clock.client_ms() >= deadline_ms:
            what = ", ".join(f"{stop.id} at {stop.point}: {stop.fired} of {stop.matched} that match" for stop in stops)
            raise Problem(408, f"not within {timeout_ms} ms: {what}", "see GET /v1/requests for what came")
        await asyncio.sleep(POLL_S)


def _wanted(body: dict[str, Any], name: str, default: int, lowest: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= WAIT_MS_MAX:
        raise Problem(400, f"{name} must be a whole number from {lowest} to {WAIT_MS_MAX}")
    return value


async def _remove_stop(control: Control, request: Request) -> Any:
    stops = _known_stops(control, request)
    for stop in stops:
        control.stops.remove(stop.id)
    return {"stops": [stop.as_json() for stop in stops]}


async def _remove_stops(control: Control, request: Request) -> Any:
    stops = list(control.stops.stops.values())
    for stop in stops:
        control.stops.remove(stop.id)
    return {"stops": [stop.as_json() for stop in stops]}


async def _wait(host: BrokerHost, request: Request) -> Any:
    body = await body_of(request)
    if unknown := body.keys() - {"until", "timeout_ms"}:
        raise Problem(400, f"there is no {', '.join(sorted(unknown))}", "give until and timeout_ms")
    timeout_ms = _wanted(body, "timeout_ms", WAIT_MS, 0)
    try:
        terms = read_condition(body.get("until"))
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault
    missing = await wait_until(lambda: host.broker, terms, timeout_ms / 1_000)
    if missing:
        raise Problem(408, f"not within {timeout_ms} ms: {'; '.join(missing)}", "see GET /v1/requests for what came")
    return {"until": body["until"]}


async def _seed(control: Control, request: Request) -> Any:
    try:
        state = seed(control.broker, await body_of(request))
        await wait_until_durable(control.broker)
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault
    except StorageError as fault:
        raise Problem(503, f"the disk refuses it: {fault}", "is a stop at work that has it fail?") from fault
    return state


async def _deliver_late(control: Control, request: Request) -> Any:
    try:
        described = read_late(control.broker, control.requests, await body_of(request))
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault
    try:
        return await deliver(control.broker, described)
    except NotAnswered as fault:
        raise Problem(502, str(fault), "is the id parked at a stop, a fault at work, or the node stopped?") from fault


# --- plans


async def _plan(control: Control, request: Request) -> Any:
    return plan_of(control)


async def _put_plan(control: Control, request: Request) -> Any:
    await apply_plan(control, read_plan(await body_of(request)))
    return plan_of(control)


async def _plans(control: Control, request: Request) -> Any:
    return {"plans": PLANS}


# --- what is there


async def _requests(control: Control, request: Request) -> Any:
    after, limit = number_of(request, "after", 0), number_of(request, "limit", REQUESTS_SHOWN)
    shown = [each for each in control.requests.requests if each.number > after]
    return {"requests": [asdict(each) for each in shown[len(shown) - min(limit, len(shown)) :]]}


async def _transactions(control: Control, request: Request) -> Any:
    return {"transactions": state.transactions(control.broker)}


async def _transaction(control: Control, request: Request) -> Any:
    id_ = request.path_params["id"]
    shown = state.transaction(control.broker, id_)
    if shown is None:
        raise Problem(404, f"there is no transactional id {id_!r}", "GET /v1/transactions lists them")
    timeline = [asdict(each) for each in control.requests.requests if id_ in texts_in("transactional_id", each.fields)]
    return {**shown, "fences": control.fences.of(id_), "requests": timeline}


async def _fences(control: Control, request: Request) -> Any:
    return {"fences": list(control.fences.fences)}


async def _fence(control: Control, request: Request) -> Any:
    id_ = request.path_params["id"]
    for fence in reversed(control.fences.fences):
        if id_ in (fence["id"], fence["transactional_id"]):
            return fence
    raise Problem(404, f"there is no fence {id_!r}", "GET /v1/fences lists them")


async def _groups(control: Control, request: Request) -> Any:
    return {"groups": state.groups(control.broker)}


async def _topics(control: Control, request: Request) -> Any:
    return {"topics": state.topics(control.broker)}


async def _clients(control: Control, request: Request) -> Any:
    producers = dict(control.requests.producers())
    return {
        "clients": [
            {
                "client_id": each.client_id,
                "client": each.peer,
                "listener": each.listener.name,
                "is_producer": each in producers,
                "transactional_id": producers.get(each) or None,
            }
            for each in control.broker.connections
        ]
    }


async def _left_open(control: Control, request: Request) -> Any:
    return {
        "transactions": [each for each in state.transactions(control.broker) if each["is_open"]],
        "groups": [each for each in state.groups(control.broker) if each["members"]],
        "producers": [
            {"client_id": connection.client_id, "client": connection.peer, "transactional_id": id_ or None}
            for connection, id_ in control.requests.producers()
        ],
        "faults": [_fault(control, fault) for fault in control.injector.faults.values() if not fault.fired],
        "stops": [stop.as_json() for stop in control.stops.stops.values() if not stop.fired],
    }


async def _check(control: Control, request: Request) -> Any:
    oracle = control.oracle
    findings = [each._asdict() for each in oracle.check()]
    return {
        "findings": findings,
        "transactions": oracle.transactions,
        "checks": oracle.checks,
        "skipped": oracle.skipped,
    }


async def _exactly_once(control: Control, request: Request) -> Any:
    body = await body_of(request)
    if not {"input", "output"} <= body.keys() <= {"input", "output", "key"}:
        raise Problem(
            400, "the body has input and output, which are topics, and key", 'as {"input": "a", "output": "b"}'
        )
    source, target, key = (body.get(name, "value") for name in ("input", "output", "key"))
    if not isinstance(source, str) or not isinstance(target, str):
        raise Problem(400, "input and output must be names of topics")
    if key not in ("key", "value") and not (isinstance(key, str) and key.startswith("header:")):
        raise Problem(400, f"key {key!r} is none", "key, value, or header:NAME")
    try:
        return {"findings": [each._asdict() for each in control.oracle.exactly_once(source, target, key)]}
    except LookupError as fault:
        raise Problem(404, str(fault.args[0]), "GET /v1/topics lists them") from fault


async def _openapi(control: Control, request: Request) -> Any:
    return openapi()


OPERATIONS: Final = (
    Operation("GET", "/v1/clock", "The broker's time", _clock),
    Operation("POST", "/v1/clock/advance", "Let time pass at once", _advance, ADVANCE_BODY),
    Operation("POST", "/v1/clock/pause", "Stop the broker's time", _pause),
    Operation("POST", "/v1/clock/resume", "Let the broker's time go on", _resume),
    Operation("GET", "/v1/faults", "All faults, with how often each has fired", _faults),
    Operation("POST", "/v1/faults", "Make a fault", _add_fault, FAULT_BODY),
    Operation("DELETE", "/v1/faults", "Remove all faults; what they hold is carried out", _remove_faults),
    Operation("DELETE", "/v1/faults/{id}", "Remove a fault; what it holds is carried out", _remove_fault),
    Operation("POST", "/v1/faults/{id}/release", "Carry out the requests that a fault holds", _release),
    Operation("GET", "/v1/stops", "All points at which may be stopped, and all stops", _stops),
    Operation(
        "POST", "/v1/stops/{id}/release", "Resume everything that is parked at a stop, or at a point", _release_stop
    ),
    Operation(
        "POST",
        "/v1/stops/{id}/wait",
        "Wait until a stop has fired",
        None,
        WAIT_BODY,
        of_host=_wait_for_stop,
        needs_body=False,
    ),
    Operation("POST", "/v1/stops/{id}", "Stop at a point: park, fail or kill", _add_stop, STOP_BODY, needs_body=False),
    Operation("DELETE", "/v1/stops", "Remove all stops; what waits there goes on", _remove_stops),
    Operation("DELETE", "/v1/stops/{id}", "Remove a stop, or those at a point; what waits there goes on", _remove_stop),
    Operation("GET", "/v1/plan", "All faults and stops and the clock, as a plan", _plan),
    Operation(
        "PUT", "/v1/plan", "Carry out a plan instead of all faults and stops", guarded(_put_plan, 400), PLAN_BODY
    ),
    Operation("GET", "/v1/plans", "Plans that come with the broker", _plans),
    Operation("POST", "/v1/wait", "Wait until something is true", None, UNTIL_BODY, of_host=_wait),
    Operation("POST", "/v1/seed", "Bring about a state that would take long to come to", _seed, SEED_BODY),
    Operation("POST", "/v1/late", "Have a request of a producer arrive late", _deliver_late, LATE_BODY),
    *nodes_api.OPERATIONS,
    *copies_api.OPERATIONS,
    Operation("GET", "/v1/requests", "The last requests, with their fields", _requests, query=("after", "limit")),
    Operation("GET", "/v1/transactions", "All transactional ids", _transactions),
    Operation("GET", "/v1/transactions/{id}", "One, with its fences and last requests", _transaction),
    Operation("GET", "/v1/fences", "The answers that told a producer that it is fenced, with reasons", _fences),
    Operation("GET", "/v1/fences/{id}", "One fence, by its id or the transactional id", _fence),
    Operation("GET", "/v1/groups", "Consumer groups and their members", _groups),
    Operation("GET", "/v1/topics", "Topics, offsets, and what holds back each last stable offset", _topics),
    Operation("GET", "/v1/clients", "Connections", _clients),
    Operation(
        "GET",
        "/v1/left-open",
        "Transactions, group members and producers that nobody has ended, and faults and stops that never fired",
        _left_open,
    ),
    Operation("GET", "/v1/oracle", "Whether every promise of transactions was kept so far", _check),
    Operation(
        "POST",
        "/v1/oracle/exactly-once",
        "Whether each committed record of a topic has one in another",
        _exactly_once,
        EXACTLY_ONCE_BODY,
    ),
    Operation("GET", "/v1/openapi.json", "This description", _openapi),
)


def openapi() -> dict[str, Any]:
    """The description of the API (OpenAPI 3.1)."""
    paths: dict[str, Any] = {}
    problem = {"description": "What is wrong, with a hint", "content": {PROBLEM: {"schema": {"type": "object"}}}}
    for each in OPERATIONS:
        parameters: list[dict[str, Any]] = []
        if "{id}" in each.path:
            parameters.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
        parameters += [{"name": name, "in": "query", "schema": NUMBER} for name in each.query]
        described: dict[str, Any] = {
            "summary": each.summary,
            "parameters": parameters,
            "responses": {
                "200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}},
                "default": problem,
            },
        }
        if each.body is not None:
            described["requestBody"] = {
                "required": each.needs_body,
                "content": {"application/json": {"schema": each.body}},
            }
        paths.setdefault(each.path, {})[each.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stuntbroker control", "version": "1"},
        "paths": paths,
    }


def make_app(host: BrokerHost, more_routes: Iterable[Route]) -> Starlette:
    """The application of one broker, and of those that take its place: the API, and `more_routes` behind it."""
    routes = []
    for each in OPERATIONS:

        async def endpoint(request: Request, each: Operation = each) -> Response:
            try:
                if each.answer is not None:
                    return JSONResponse(await each.answer(host.control, request))
                assert each.of_host is not None
                return JSONResponse(await each.of_host(host, request))
            except (Problem, ClientDisconnect):
                raise
            except Exception as fault:  # The shell's edge: our own mistake ends neither the broker nor the connection.
                host.broker.events.error("control_request_crashed", path=each.path, exc_info=fault)
                return problem_response(500, f"{type(fault).__name__}: {fault}", "this is a mistake of the broker's")

        # An id is the last part of a path, but for that of a fault, and may itself have slashes in it.
        path = each.path.replace("{id}", "{id:text}") if each.path.endswith("/{id}") else each.path
        routes.append(Route(path, endpoint, methods=[each.method]))
    return Starlette(
        routes=[*routes, *more_routes], exception_handlers={Problem: _problem, HTTPException: _http_problem}
    )


async def _problem(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, Problem)
    return problem_response(fault.status, fault.detail, fault.hint)


async def _http_problem(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    hint = "GET /v1/openapi.json lists what there is"
    return problem_response(fault.status_code, f"{request.method} {request.url.path}: {fault.detail}", hint)
