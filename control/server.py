"""HTTP/1.1 server of the control API and the web page. The libraries are loaded on the first connection."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from stuntbroker.broker.connections.binding import bind
from stuntbroker.broker.observation.http_hosts import is_private_host
from stuntbroker.control.host import BrokerHost
from stuntbroker.protocol.addresses import Address

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

KEEP_ALIVE_S: Final = 7 * 24 * 3_600
"""Keep-alive time-out: a client may keep an idle connection for as long as a test runs."""
TOKEN_BYTES: Final = 16
COOKIE: Final = "stuntbroker-token"


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class ControlServer:
    """The server of one broker host. Call `start` and `stop` in the event loop's thread."""

    def __init__(self, host: BrokerHost, token: str = "") -> None:
        """Without a `token`, every client that can connect has full access."""
        self._host = host
        self._token = token
        self._servers: list[asyncio.Server] = []
        self._protocols: Any = None

    async def start(self, host: str, port: int) -> Address:
        """Start listening; return the first address. Raises OSError."""
        loop = asyncio.get_running_loop()
        addresses = []
        for bound in bind(host, port):
            name = bound.getsockname()
            addresses.append(Address(name[0], name[1]))
            self._servers.append(await loop.create_server(self._protocol, sock=bound))

        async def open_control(fork: BrokerHost) -> Callable[[], None]:
            server = ControlServer(fork, self._token)
            await server.start(host, 0)
            return server.close

        self._host.control_address = f"http://{addresses[0].reachable()}"
        self._host.open_control = open_control
        return addresses[0]

    def stop(self) -> None:
        """Close the server, and log warnings for faults and stops that never fired, as their tests were ineffective."""
        control, events = self._host.control, self._host.broker.events
        for fault in control.injector.unfired():
            rule = fault.as_json()
            events.warning("fault_never_fired", id=fault.id, match=rule["match"], do=rule["do"], matched=fault.matched)
        for stop in control.stops.unfired():
            match = stop.as_json()["match"]
            events.warning("stop_never_fired", id=stop.id, point=stop.point, match=match, matched=stop.matched)
        self.close()

    def close(self) -> None:
        """Stop listening, close all connections, and resume parked and held requests, so that the broker stops in order."""
        for server in self._servers:
            server.close()
        control = self._host.control
        control.remove_rules()
        if self._protocols is not None:
            for connection in list(self._protocols.state.connections):
                connection.transport.abort()

    def _protocol(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        if self._protocols is None:
            self._protocols = _Protocols(self._host, self._token)
        protocol: asyncio.Protocol = self._protocols.make()
        return protocol


class _EventsHandler(logging.Handler):
    """Passes what uvicorn logs on to the log of the broker, so that it has its format, level and limit."""

    def __init__(self, host: BrokerHost) -> None:
        super().__init__(logging.WARNING)
        self._host = host

    def emit(self, record: logging.LogRecord) -> None:
        events = self._host.broker.events
        log = events.error if record.levelno >= logging.ERROR else events.warning
        more = {"exc_info": record.exc_info} if record.exc_info else {}
        log("control_request_failed", reason=record.getMessage().strip(), **more)


class _Protocols:
    """Factory of uvicorn protocols for the application."""

    def __init__(self, host: BrokerHost, token: str) -> None:
        from uvicorn.config import Config
        from uvicorn.protocols.http.h11_impl import H11Protocol
        from uvicorn.server import ServerState

        from stuntbroker.control.http.api import make_app
        from stuntbroker.control.page.routes import Page

        app = Guard(make_app(host, Page(host).routes()), token)
        self._logger = logging.Logger("control")  # One of its own: other servers in this process have other brokers.
        self._logger.addHandler(_EventsHandler(host))
        self._config = Config(
            app,
            log_config=None,
            lifespan="off",
            http="h11",
            ws="none",
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._config.load()
        self._class = H11Protocol
        self.state = ServerState()

    def make(self) -> asyncio.Protocol:
        protocol = self._class(config=self._config, server_state=self.state, app_state={})
        protocol.logger = self._logger
        return protocol


def preload() -> None:
    """Load what the first connection needs, for brokers that are forked from this process."""
    unused: Any = None
    _Protocols(unused, "")  # Also compiles and caches the path patterns.


class Guard:
    """ASGI middleware that checks token, Host and Origin, against pages of other sites (DNS rebinding)."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or refuse it."""
        from starlette.requests import ClientDisconnect
        from starlette.responses import RedirectResponse, Response

        from stuntbroker.control.http.operations import problem_response

        headers = dict(scope["headers"])
        refusal: Response | None = None
        host = headers.get(b"host", b"")
        origin = headers.get(b"origin")
        if not is_private_host(host):
            hint = "use the control address of the ready line"
            refusal = problem_response(421, "the Host header is neither an address nor a private name", hint)
        elif origin is not None and origin != b"http://" + host:
            refusal = problem_response(403, "pages of other sites must not call this API", "send no Origin header")
        elif self._token and self._is_right(_token_in_query(scope).encode()):
            # A browser with the token in the page's address gets it as a cookie, and is redirected to an address without it.
            cookie = f"{_cookie_name(host)}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            refusal = RedirectResponse("/", 303, {"Set-Cookie": cookie})
        elif self._token and not self._is_right(_token_of(headers, host)):
            hint = "send the header Authorization: Bearer TOKEN, with the token of --control-token or of the ready line"
            refusal = problem_response(401, "the token is missing or wrong", hint)
        with suppress(ClientDisconnect):  # A client that leaves is no fault.
            await (self._app if refusal is None else refusal)(scope, receive, send)

    def _is_right(self, token: bytes) -> bool:
        return hmac.compare_digest(token, self._token.encode())


def _cookie_name(host: bytes) -> str:
    """Return the cookie name for a Host header; it has the port, as browsers share cookies among a machine's ports."""
    port = host.rpartition(b":")[2]
    return f"{COOKIE}-{port.decode() if port.isdigit() else 80}"


def _token_of(headers: dict[bytes, bytes], host: bytes) -> bytes:
    """Return the token of a request, from the Authorization header or from a browser's cookie."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return token.strip()
    cookies = dict(each.strip().partition(b"=")[::2] for each in headers.get(b"cookie", b"").split(b";"))
    return cookies.get(_cookie_name(host).encode(), b"")


def _token_in_query(scope: Scope) -> str:
    """Return the token in the query of the page's address; empty if there is none."""
    if scope["path"] != "/" or scope["method"] != "GET":
        return ""
    query = scope["query_string"].decode("latin-1")
    return "".join(parse_qs(query).get("token", [])[:1])
