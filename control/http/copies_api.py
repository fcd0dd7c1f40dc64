"""Operations of the HTTP API on a broker host: snapshots, restore, reset, forks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from stuntbroker.control.host import FORKS_MAX, addresses_of
from stuntbroker.control.http import answers
from stuntbroker.control.http.operations import Operation, Problem, body_of, guarded
from stuntbroker.control.http.schemas import FORK_BODY, FORKS_AT_ONCE_MAX, RESTORE_BODY, SNAPSHOT_BODY
from stuntbroker.control.nodes import nodes
from stuntbroker.control.rules.faults import TEXT_MAX
from stuntbroker.control.snapshot import Snapshot

if TYPE_CHECKING:
    from stuntbroker.control.host import BrokerHost

OfHost = Callable[["BrokerHost", Request], Awaitable[Any]]


def _text_of(body: dict[str, Any], name: str) -> str:
    text = body.get(name, "")
    if not isinstance(text, str) or len(text) > TEXT_MAX:
        raise Problem(400, f"{name} must be a text of at most {TEXT_MAX} characters", 'as "before-the-commit"')
    return text


def _known_snapshot(host: BrokerHost, name: str) -> Snapshot:
    snapshot = host.find(name)
    if snapshot is None:
        raise Problem(404, f"there is no snapshot {name!r}", "GET /v1/snapshots lists them")
    return snapshot


async def _snapshots(host: BrokerHost, request: Request) -> Any:
    return {"snapshots": [each.as_json() for each in host.snapshots.values()]}


async def _take_snapshot(host: BrokerHost, request: Request) -> Any:
    body = await body_of(request, may_be_empty=True)
    if unknown := body.keys() - {"name"}:
        raise Problem(400, f"there is no {', '.join(sorted(unknown))}", "give a name, or nothing")
    return (await host.snapshot(_text_of(body, "name"))).as_json()


async def _delete_snapshot(host: BrokerHost, request: Request) -> Any:
    snapshot = _known_snapshot(host, request.path_params["id"])
    return host.snapshots.pop(snapshot.id).as_json()


async def _restore(host: BrokerHost, request: Request) -> Any:
    body = await body_of(request)
    if body.keys() != {"snapshot"}:
        raise Problem(400, "the body must be an object with snapshot, an id or a name", 'as {"snapshot": "snapshot-1"}')
    snapshot = _known_snapshot(host, _text_of(body, "snapshot"))
    await host.restore(snapshot)
    return snapshot.as_json()


async def _reset(host: BrokerHost, request: Request) -> Any:
    await host.reset()
    clock = host.control.clock.clock
    return {"now_ms": clock.now_ms()}


def _fork_as_json(id_: str, fork: BrokerHost) -> Any:
    listeners = addresses_of(fork.broker.listeners)
    return {
        "id": id_,
        "kafka": next(iter(listeners.values())),
        "nodes": [next(iter(each["listeners"].values())) for each in nodes(fork.control)],
        "listeners": listeners,
        "control": fork.control_address,
    }


async def _forks(host: BrokerHost, request: Request) -> Any:
    return {"forks": [_fork_as_json(id_, fork) for id_, fork in host.forks.items()]}


async def _make_forks(host: BrokerHost, request: Request) -> Any:
    body = await body_of(request, may_be_empty=True)
    count = body.get("count", 1)
    if body.keys() - {"snapshot", "count"} or isinstance(count, bool) or not isinstance(count, int):
        raise Problem(400, "the body may have snapshot and count only", 'as {"snapshot": "snapshot-1", "count": 10}')
    if not 1 <= count <= FORKS_AT_ONCE_MAX:
        raise Problem(400, f"count must be from 1 to {FORKS_AT_ONCE_MAX}", "call it again for more")
    if len(host.forks) + count > FORKS_MAX:
        raise Problem(
            409, f"there are {len(host.forks)} forks, and there may be {FORKS_MAX}", "delete those not needed any more"
        )
    name = _text_of(body, "snapshot")
    snapshot = _known_snapshot(host, name) if name else await host.current_state()
    copies: list[tuple[str, BrokerHost]] = []
    try:
        for _ in range(count):
            copies.append(await host.fork(snapshot))
    except BaseException:
        for id_, _ in copies:
            await host.remove_fork(id_)
        raise
    return {"forks": [_fork_as_json(*each) for each in copies]}


async def _delete_forks(host: BrokerHost, request: Request) -> Any:
    removed = [_fork_as_json(id_, fork) for id_, fork in host.forks.items()]
    await host.remove_forks()
    return {"forks": removed}


async def _delete_fork(host: BrokerHost, request: Request) -> Any:
    id_ = request.path_params["id"]
    if id_ not in host.forks:
        raise Problem(404, f"there is no fork {id_!r}", "GET /v1/forks lists them")
    removed = _fork_as_json(id_, host.forks[id_])
    await host.remove_fork(id_)
    return removed


def _operation(
    method: str,
    path: str,
    summary: str,
    returns: dict[str, Any],
    answer: OfHost,
    body: dict[str, Any] | None = None,
    *,
    needs_body: bool = False,
) -> Operation:
    return Operation(
        method, path, summary, returns, None, body, host_handler=guarded(answer, 409), needs_body=needs_body
    )


OPERATIONS: Final = (
    _operation("GET", "/v1/snapshots", "List the snapshots", answers.SNAPSHOTS, _snapshots),
    _operation("POST", "/v1/snapshot", "Save the state of the broker", answers.SNAPSHOT, _take_snapshot, SNAPSHOT_BODY),
    _operation("DELETE", "/v1/snapshots/{id}", "Delete a snapshot", answers.SNAPSHOT, _delete_snapshot),
    _operation(
        "POST",
        "/v1/restore",
        "Restore a snapshot",
        answers.SNAPSHOT,
        _restore,
        RESTORE_BODY,
        needs_body=True,
    ),
    _operation("POST", "/v1/reset", "Put the broker into its initial state", answers.RESET, _reset),
    _operation("GET", "/v1/forks", "List the copies that run beside the broker", answers.FORKS, _forks),
    _operation("POST", "/v1/fork", "Start copies on ports of their own", answers.FORKS, _make_forks, FORK_BODY),
    _operation("DELETE", "/v1/forks", "Stop all copies", answers.FORKS, _delete_forks),
    _operation("DELETE", "/v1/forks/{id}", "Stop a copy", answers.FORK, _delete_fork),
)
