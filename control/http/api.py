"""The HTTP API: one table of operations, from which the routes and the OpenAPI description are generated.

Responses are JSON. Errors are problem+json (RFC 9457) with a `hint` that says what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stuntbroker.control.delayed_requests import deliver, read_delayed_request
from stuntbroker.control.documents import parse_yaml
from stuntbroker.control.http import answers, copies_api, nodes_api, state_api
from stuntbroker.control.http.openapi import openapi
from stuntbroker.control.http.operations import (
    JSON,
    YAML,
    Operation,
    Problem,
    body_of,
    check_query,
    content_of,
    guarded,
    problem_response,
)
from stuntbroker.control.http.schemas import (
    ADVANCE_BODY,
    FAULT_BODY,
    LATE_BODY,
    NUMBER_MAX,
    PLAN_OR_NAME_BODY,
    SEED_BODY,
    STOP_BODY,
    UNTIL_BODY,
    WAIT_BODY,
    WAIT_MS,
    WAIT_MS_MAX,
)
from stuntbroker.control.own_requests import NoResponseError
from stuntbroker.control.plan import PLANS, apply_plan, plan_of, read_plan
from stuntbroker.control.rules.conditions import POLL_S, read_condition, wait_until
from stuntbroker.control.rules.faults import ADVANCE_MS_MAX, FaultError, check_number, part_of
from stuntbroker.control.rules.points import POINTS
from stuntbroker.control.seed import seed, wait_until_durable
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.control.control import Control
    from stuntbroker.control.host import BrokerHost
    from stuntbroker.control.rules.faults import Fault
    from stuntbroker.control.rules.stops import Stop


YAML_BYTES_MAX: Final = 1 << 16
"""Maximum size of a YAML body: parsing YAML is slow, and blocks all clients."""


# --- the clock


async def _clock(control: Control, request: Request) -> Any:
    clock = control.clock.clock
    return {"now_ms": clock.now_ms(), "ahead_ms": clock.ahead_ms, "paused": control.clock.is_paused}


async def _advance(control: Control, request: Request) -> Any:
    body = await body_of(request)
    given = part_of({"advance": body}, "advance", {"ms"})
    check_number(given, "advance", "ms", 0, ADVANCE_MS_MAX)
    if "ms" not in given:
        raise FaultError("advance.ms, the time in ms, is missing", 'as {"ms": 900000}')
    await control.clock.advance(given["ms"])
    return await _clock(control, request)


async def _pause(control: Control, request: Request) -> Any:
    await control.clock.pause()
    return await _clock(control, request)


async def _resume(control: Control, request: Request) -> Any:
    await control.clock.resume()
    return await _clock(control, request)


# --- faults


async def _faults(control: Control, request: Request) -> Any:
    return {"faults": [control.injector.as_json(fault) for fault in control.injector.faults.values()]}


async def _add_fault(control: Control, request: Request) -> Any:
    try:
        return control.injector.as_json(control.injector.add(await body_of(request)))
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault


async def _remove_faults(control: Control, request: Request) -> Any:
    removed = list(control.injector.faults.values())
    for fault in removed:
        control.injector.remove(fault.id)
    return {"faults": [control.injector.as_json(fault) for fault in removed]}


def _known_fault(control: Control, request: Request) -> Fault:
    id_: str = request.path_params["id"]
    fault = control.injector.faults.get(id_)
    if fault is None:
        raise Problem(404, f"there is no fault {id_!r}", "GET /v1/faults lists them")
    return fault


async def _remove_fault(control: Control, request: Request) -> Any:
    fault = _known_fault(control, request)
    control.injector.remove(fault.id)
    return control.injector.as_json(fault)


async def _release(control: Control, request: Request) -> Any:
    return {"released": control.injector.release(_known_fault(control, request).id)}


# --- stops


async def _stops(control: Control, request: Request) -> Any:
    points = {
        name: {"text": point.text, "actions": point.actions, "match": sorted(point.match)}
        for name, point in POINTS.items()
    }
    return {"points": points, "stops": [stop.as_json() for stop in control.stops.stops.values()]}


async def _add_stop(control: Control, request: Request) -> Any:
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
    """Wait until stops have fired; includes stops of a broker that replaces this one meanwhile."""
    _known_stops(host.control, request)
    body = await body_of(request, may_be_empty=True)
    if unknown := body.keys() - {"count", "timeout_ms"}:
        raise Problem(400, f"there is no {', '.join(sorted(unknown))}", "give count and timeout_ms")
    count = _wanted(body, "count", 1, 1, NUMBER_MAX)
    timeout_ms = _wanted(body, "timeout_ms", WAIT_MS, 0, WAIT_MS_MAX)
    deadline_ms = host.broker.clock.client_ms() + timeout_ms
    while True:
        stops = host.control.stops.named(request.path_params["id"])
        if not stops:
            raise Problem(
                409,
                "the stop was removed meanwhile, or is not in the snapshot that was restored",
                "GET /v1/stops lists those that are left",
            )
        if sum(stop.fired for stop in stops) >= count:
            return {"stops": [stop.as_json() for stop in stops]}
        if host.broker.clock.client_ms() >= deadline_ms:
            what = ", ".join(map(_progress, stops))
            raise Problem(408, f"not within {timeout_ms} ms: {what}", "GET /v1/requests lists the last requests")
        await asyncio.sleep(POLL_S)


def _progress(stop: Stop) -> str:
    """Return a text about how often a stop has matched and fired."""
    progress = f"fired for {stop.fired} of {stop.matched} matches" if stop.matched else "nothing has matched"
    return f"{stop.id} at {stop.point}: {progress}"


def _wanted(body: dict[str, Any], name: str, default: int, lowest: int, highest: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise Problem(400, f"{name} must be a whole number from {lowest} to {highest}", f"it is {value!r:.50}")
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
    timeout_ms = _wanted(body, "timeout_ms", WAIT_MS, 0, WAIT_MS_MAX)
    try:
        terms = read_condition(body.get("until"))
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault
    missing = await wait_until(lambda: host.broker, terms, timeout_ms / 1_000)
    if missing:
        raise Problem(
            408, f"not within {timeout_ms} ms: {'; '.join(missing)}", "GET /v1/requests lists the last requests"
        )
    return {"until": body["until"]}


async def _seed(control: Control, request: Request) -> Any:
    try:
        state = seed(control.broker, await body_of(request))
        await wait_until_durable(control.broker)
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault
    except StorageError as fault:
        hint = "is the disk full, or does a stop make the write fail?"
        raise Problem(503, f"the state cannot be written: {fault}", hint) from fault
    return state


async def _deliver_late(control: Control, request: Request) -> Any:
    try:
        described = read_delayed_request(control.broker, control.requests, await body_of(request))
    except FaultError as fault:
        raise Problem(400, str(fault), fault.hint) from fault
    try:
        return await deliver(control.broker, described)
    except NoResponseError as fault:
        hint = "is the id parked at a stop, does a fault match the request, or is the node stopped?"
        raise Problem(502, str(fault), hint) from fault


# --- plans


async def _plan(control: Control, request: Request) -> Any:
    return plan_of(control)


async def _put_plan(control: Control, request: Request) -> Any:
    if "yaml" in request.headers.get("content-type", "").lower():
        content = await content_of(request)
        if len(content) > YAML_BYTES_MAX:
            raise Problem(413, f"the body has more than {YAML_BYTES_MAX} bytes of YAML", "send it as JSON")
        try:
            document = parse_yaml(content)
        except ValueError as fault:
            raise Problem(400, f"the body is not YAML: {fault!s:.200}", "send a plan as YAML or JSON") from fault
    else:
        document = await body_of(request)
    if isinstance(document, dict) and document.keys() == {"plan"}:
        name = document["plan"]
        if not isinstance(name, str) or name not in PLANS:
            raise Problem(404, f"there is no plan {name!r:.100}", f"there are {', '.join(PLANS)}")
        document = PLANS[name]
    await apply_plan(control, read_plan(document))
    return plan_of(control)


async def _plans(control: Control, request: Request) -> Any:
    return {"plans": PLANS}


async def _openapi(control: Control, request: Request) -> Any:
    return openapi(OPERATIONS)


OPERATIONS: Final = (
    Operation("GET", "/v1/clock", "Return the broker's clock", answers.CLOCK, _clock),
    Operation(
        "POST", "/v1/clock/advance", "Advance the broker's clock", answers.CLOCK, guarded(_advance, 400), ADVANCE_BODY
    ),
    Operation("POST", "/v1/clock/pause", "Pause the broker's clock", answers.CLOCK, _pause),
    Operation("POST", "/v1/clock/resume", "Resume the broker's clock", answers.CLOCK, _resume),
    Operation(
        "GET", "/v1/faults", "List the faults, with the number of times that each has fired", answers.FAULTS, _faults
    ),
    Operation("POST", "/v1/faults", "Add a fault", answers.FAULT, _add_fault, FAULT_BODY),
    Operation(
        "DELETE",
        "/v1/faults",
        "Remove all faults, and handle the requests that they hold",
        answers.FAULTS,
        _remove_faults,
    ),
    Operation(
        "DELETE",
        "/v1/faults/{id}",
        "Remove a fault, and handle the requests that it holds",
        answers.FAULT,
        _remove_fault,
    ),
    Operation("POST", "/v1/faults/{id}/release", "Handle the requests that a fault holds", answers.RELEASED, _release),
    Operation(
        "GET",
        "/v1/stops",
        "List the points at which the broker can stop, and the stops",
        answers.POINTS_AND_STOPS,
        _stops,
    ),
    Operation(
        "POST",
        "/v1/stops/{id}/release",
        "Resume what is parked at a stop, or at a point",
        answers.RELEASED,
        _release_stop,
    ),
    Operation(
        "POST",
        "/v1/stops/{id}/wait",
        "Wait until a stop has fired",
        answers.STOPS,
        None,
        WAIT_BODY,
        host_handler=_wait_for_stop,
        needs_body=False,
    ),
    Operation(
        "POST",
        "/v1/stops/{id}",
        "Add a stop at a point: park, fail or kill",
        answers.STOP,
        _add_stop,
        STOP_BODY,
        needs_body=False,
    ),
    Operation("DELETE", "/v1/stops", "Remove all stops, and resume what is parked there", answers.STOPS, _remove_stops),
    Operation(
        "DELETE",
        "/v1/stops/{id}",
        "Remove a stop, or all stops at a point, and resume what is parked there",
        answers.STOPS,
        _remove_stop,
    ),
    Operation("GET", "/v1/plan", "Return the faults, stops, nodes and clock as a plan", answers.PLAN, _plan),
    Operation(
        "PUT",
        "/v1/plan",
        "Apply a plan, which replaces all faults and stops; also as YAML",
        answers.PLAN,
        guarded(_put_plan, 400),
        PLAN_OR_NAME_BODY,
        (JSON, YAML),
    ),
    Operation("GET", "/v1/plans", "List the built-in plans", answers.PLANS, _plans),
    Operation(
        "POST", "/v1/wait", "Wait until a condition is true", answers.UNTIL, None, UNTIL_BODY, host_handler=_wait
    ),
    Operation("POST", "/v1/seed", "Create a state that would take long to reach", answers.SEED, _seed, SEED_BODY),
    Operation(
        "POST", "/v1/late", "Deliver a delayed request of a producer", answers.LATE_REQUEST, _deliver_late, LATE_BODY
    ),
    *nodes_api.OPERATIONS,
    *copies_api.OPERATIONS,
    *state_api.OPERATIONS,
    Operation("GET", "/v1/openapi.json", "Return this description", answers.ANY_OBJECT, _openapi),
)


def make_app(host: BrokerHost, more_routes: Iterable[Route]) -> Starlette:
    """Return the application for the broker of a host: the API, then `more_routes`."""
    routes = []
    for each in OPERATIONS:

        async def endpoint(request: Request, each: Operation = each) -> Response:
            try:
                check_query(request, each.query)
                if each.answer is not None:
                    return JSONResponse(await each.answer(host.control, request))
                assert each.host_handler is not None
                return JSONResponse(await each.host_handler(host, request))
            except (Problem, ClientDisconnect):
                raise
            except Exception as fault:  # A bug must end neither the broker nor the connection.
                host.broker.events.error("control_request_crashed", path=each.path, exc_info=fault)
                return problem_response(
                    500, f"{type(fault).__name__}: {fault}", "this is a bug in Stuntbroker: please report it"
                )

        # An id at the end of a path may contain slashes.
        path = each.path.replace("{id}", "{id:text}") if each.path.endswith("/{id}") else each.path
        routes.append(Route(path, endpoint, methods=[each.method]))
    handlers: Any = {Problem: _problem, HTTPException: _http_problem}
    app = Starlette(routes=[*routes, *more_routes], exception_handlers=handlers)
    app.router.redirect_slashes = False  # An unknown path gets 404, not a redirect.
    return app


async def _problem(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, Problem)
    return problem_response(fault.status, fault.detail, fault.hint)


async def _http_problem(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    hint = "GET /v1/openapi.json lists the operations"
    return problem_response(fault.status_code, f"{request.method} {request.url.path}: {fault.detail}", hint)
