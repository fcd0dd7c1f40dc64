"""Routes of the web page: the broker's state, live, and forms to change faults, stops, clock and nodes. No external resources.

Without JavaScript, the page shows the state at the time of loading. With JavaScript, `/page/events` sends the live part of the
page whenever it changes; when that connection is lost, the page says so and since when.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from stuntbroker.broker.connections.listener import CannotListen
from stuntbroker.control.documents import parse_json
from stuntbroker.control.http.operations import BODY_MAX
from stuntbroker.control.nodes import change_node
from stuntbroker.control.page import views
from stuntbroker.control.rules.faults import ADVANCE_MS_MAX, FaultError
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from jinja2 import Environment

    from stuntbroker.control.host import BrokerHost

LOOK_S: Final = 0.5
"""Seconds between two checks for changes."""
HEARTBEAT_S: Final = 2.0
"""Longest silence of the event stream in seconds; after more, the page reports a lost connection."""
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ASSETS: Final = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
Form = dict[str, str]


class Page:
    """The web page of one broker host."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host
        self._environment: Environment | None = None
        self._rendered = ""
        self._rendered_at_ms = -1_000_000

    def routes(self) -> list[Route]:
        """Return the routes of the page, for the application of the control API."""
        return [
            Route("/", self._index),
            Route("/page/events", self._events),
            Route("/page/transactions/{id:text}", self._transaction),
            Route("/page/partitions/{topic}/{index}", self._partition),
            Route("/page/{asset}", self._asset),
            Route("/page/do/{what}", self._do, methods=["POST"]),
        ]

    @property
    def _templates(self) -> Environment:
        """The templates, loaded on the first view of the page."""
        if self._environment is None:
            import jinja2

            self._environment = jinja2.Environment(
                loader=jinja2.PackageLoader("stuntbroker.control.page"),
                autoescape=True,
                undefined=jinja2.StrictUndefined,
                trim_blocks=True,
                lstrip_blocks=True,
            )
            self._environment.filters |= {"path": lambda text: quote(str(text), safe=""), "json": json.dumps}
        return self._environment

    def _html(self, template: str, status: int = 200, **values: Any) -> Response:
        text = self._templates.get_template(template).render(**values)
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(text, status, headers)

    def _live(self) -> str:
        """Return the live part of the page; all open pages share one rendering."""
        now_ms = self._host.broker.clock.client_ms()
        if now_ms - self._rendered_at_ms >= LOOK_S * 900:
            self._rendered = self._templates.get_template("live.html").render(**views.overview(self._host))
            self._rendered_at_ms = now_ms
        return self._rendered

    async def _index(self, request: Request) -> Response:
        return self._html("index.html", **views.overview(self._host), refusal="")

    async def _transaction(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        shown = views.transaction(self._host, id_)
        if shown is None:
            return self._html("missing.html", 404, what=f"There is no transactional id {id_!r} in this broker.")
        return self._html("transaction.html", **shown)

    async def _partition(self, request: Request) -> Response:
        topic, number = request.path_params["topic"], request.path_params["index"]
        index = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else -1
        text = request.query_params.get("offset", "")
        offset = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
        shown = views.partition(self._host, topic, index, offset)
        if shown is None:
            return self._html("missing.html", 404, what=f"There is no partition {topic}-{number} in this broker.")
        return self._html("partition.html", **shown)

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["asset"]
        if name not in ASSETS:
            return self._html("missing.html", 404, what=f"There is no {name!r} here.")
        content = (files("stuntbroker.control.page") / "templates" / name).read_bytes()
        return Response(content, media_type=ASSETS[name], headers={"Cache-Control": "max-age=60"})

    # --- event stream

    async def _events(self, request: Request) -> Response:
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return StreamingResponse(self._changes(request), media_type="text/event-stream", headers=headers)

    async def _changes(self, request: Request) -> AsyncIterator[str]:
        before, silent_s = "", 0.0
        while not await request.is_disconnected():
            live = self._live()
            if live != before:
                lines = "".join(f"data: {line}\n" for line in live.splitlines())
                yield f"event: live\n{lines}\n"
                before, silent_s = live, 0.0
            elif silent_s >= HEARTBEAT_S:
                yield "event: heartbeat\ndata:\n\n"
                silent_s = 0.0
            await asyncio.sleep(LOOK_S)
            silent_s += LOOK_S

    # --- forms

    async def _do(self, request: Request) -> Response:
        action = ACTIONS.get(request.path_params["what"])
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > BODY_MAX:
                return self._html("missing.html", 413, what=f"The form has more than {BODY_MAX} bytes.")
        form = {name: values[0] for name, values in parse_qs(content.decode("utf-8", "replace")).items()}
        try:
            if action is None:
                raise FaultError("there is no such action", "go back, and load the page again")
            await action(self._host, form)
        except FaultError as fault:
            refusal = f"{fault}: {fault.hint}"
            return self._html("index.html", 400, **views.overview(self._host), refusal=refusal)
        return RedirectResponse("/", 303)


async def _clock(host: BrokerHost, form: Form) -> None:
    clock = host.control.clock
    match form.get("action"):
        case "pause":
            await clock.pause()
        case "resume":
            await clock.resume()
        case _:
            text = form.get("seconds", "")
            if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) * 1_000 <= ADVANCE_MS_MAX):
                raise FaultError(f"{text!r} is not a whole number of seconds", f"at most {ADVANCE_MS_MAX // 1_000}")
            await clock.advance(int(text) * 1_000)


async def _add_fault(host: BrokerHost, form: Form) -> None:
    try:
        rule = parse_json(form.get("rule", ""))
    except ValueError as fault:
        raise FaultError(
            f"the rule is not JSON: {fault!s:.200}", 'as {"match": {"api": "EndTxn"}, "do": {"close": true}}'
        ) from fault
    host.control.injector.add(rule)


async def _change_fault(host: BrokerHost, form: Form) -> None:
    injector, id_ = host.control.injector, form.get("id", "")
    if id_ not in injector.faults:
        raise FaultError(f"there is no fault {id_!r} any more", "the page shows those that are left")
    if form.get("action") == "release":
        injector.release(id_)
    else:
        injector.remove(id_)


async def _add_stop(host: BrokerHost, form: Form) -> None:
    match = {"transactional_id": form["transactional_id"]} if form.get("transactional_id") else {}
    host.control.stops.add(form.get("point", ""), {"action": form.get("action", ""), "match": match})


async def _change_stop(host: BrokerHost, form: Form) -> None:
    stops, id_ = host.control.stops, form.get("id", "")
    if id_ not in stops.stops:
        raise FaultError(f"there is no stop {id_!r} any more", "the page shows those that are left")
    if form.get("action") == "release":
        stops.release(stops.stops[id_])
    else:
        stops.remove(id_)


async def _change_node(host: BrokerHost, form: Form) -> None:
    text = form.get("id", "")
    known = host.broker.nodes.by_id
    node = next((node for node_id, node in known.items() if str(node_id) == text), None)
    if node is None:
        raise FaultError(f"there is no node {text!r}", "the page shows those that there are")
    try:
        await change_node(host.control, node, {"state": form.get("state")})
    except (CannotListen, StorageError) as fault:
        raise FaultError(str(fault), "does another process use the port, or is the disk full?") from fault


ACTIONS: Final[dict[str, Callable[[BrokerHost, Form], Awaitable[None]]]] = {
    "clock": _clock,
    "add-fault": _add_fault,
    "change-fault": _change_fault,
    "add-stop": _add_stop,
    "change-stop": _change_stop,
    "change-node": _change_node,
}
