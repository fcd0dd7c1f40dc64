"""Read-only operations of the HTTP API: requests, transactions, fences, groups, topics, clients, and the oracle."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from stuntbroker.control.http import answers
from stuntbroker.control.http.operations import Operation, Problem, body_of, number_of
from stuntbroker.control.http.schemas import EXACTLY_ONCE_BODY
from stuntbroker.control.observation import state
from stuntbroker.control.rules.faults import texts_in

if TYPE_CHECKING:
    from stuntbroker.control.control import Control

REQUESTS_SHOWN: Final = 100


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
        is_fenced = bool(control.fences.of(id_) or control.fences.fencing_history_of(id_))
        hint = (
            "the id existed: GET /v1/fences says why it was removed" if is_fenced else "GET /v1/transactions lists them"
        )
        raise Problem(404, f"there is no transactional id {id_!r}", hint)
    timeline = [asdict(each) for each in control.requests.requests if id_ in texts_in("transactional_id", each.fields)]
    return {
        **shown,
        "fenced": control.fences.fencing_history_of(id_),
        "fences": control.fences.of(id_),
        "requests": timeline,
    }


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
                "node": each.listener.node_id,
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
        "faults": [control.injector.as_json(fault) for fault in control.injector.unfired()],
        "stops": [stop.as_json() for stop in control.stops.unfired()],
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
            400,
            "the body must have input and output, names of topics, and may have key",
            'as {"input": "a", "output": "b"}',
        )
    source, target, key = (body.get(name, "value") for name in ("input", "output", "key"))
    if not isinstance(source, str) or not isinstance(target, str):
        raise Problem(400, "input and output must be names of topics", 'as {"input": "orders", "output": "bills"}')
    if key not in ("key", "value") and not (isinstance(key, str) and key.startswith("header:")):
        raise Problem(400, f"key {key!r} is invalid", "key, value, or header:NAME")
    try:
        return {"findings": [each._asdict() for each in control.oracle.exactly_once(source, target, key)]}
    except LookupError as fault:
        raise Problem(404, str(fault.args[0]), "GET /v1/topics lists them") from fault


OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/requests",
        "List the last requests, with their fields",
        answers.REQUESTS,
        _requests,
        query=("after", "limit"),
    ),
    Operation("GET", "/v1/transactions", "List the transactional ids", answers.TRANSACTIONS, _transactions),
    Operation(
        "GET",
        "/v1/transactions/{id}",
        "Return a transactional id with its fences and last requests",
        answers.TRANSACTION_WITH_TIMELINE,
        _transaction,
    ),
    Operation("GET", "/v1/fences", "List the responses that fenced a producer, with causes", answers.FENCES, _fences),
    Operation(
        "GET", "/v1/fences/{id}", "Return a fence by its id, or the newest of a transactional id", answers.FENCE, _fence
    ),
    Operation("GET", "/v1/groups", "List consumer groups and their members", answers.GROUPS, _groups),
    Operation(
        "GET",
        "/v1/topics",
        "List topics with offsets, and what holds back each last stable offset",
        answers.TOPICS,
        _topics,
    ),
    Operation("GET", "/v1/clients", "List the connections", answers.CLIENTS, _clients),
    Operation(
        "GET",
        "/v1/left-open",
        "List open transactions, group members and producers, and faults and stops that never fired",
        answers.LEFT_OPEN,
        _left_open,
    ),
    Operation("GET", "/v1/oracle", "List violations of transactional guarantees", answers.CHECK, _check),
    Operation(
        "POST",
        "/v1/oracle/exactly-once",
        "Compare the committed records of two topics, one to one",
        answers.FINDINGS,
        _exactly_once,
        EXACTLY_ONCE_BODY,
    ),
)
