"""The route of a request: how it is decoded and handled, and how its response is encoded; and what the router offers.

Handlers and the rest of the broker import these types. The router, which loads the handlers, is in `router`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Protocol

from stuntbroker.protocol.headers import has_flexible_request_header, has_flexible_response_header
from stuntbroker.protocol.versions import RELEASE

if TYPE_CHECKING:
    from collections.abc import Mapping

Handler = Callable[[Any, Any, int], Any]
"""Called with the `request.Request` (its client, its listener, its answer), the decoded body, and the version.

Returns the response; None if `request.reply` is called later; or NO_RESPONSE.
"""
Interceptor = Callable[[Handler, Any, Any, int], Any]
"""Called like a handler, with the next interceptor or the handler as an additional first argument; returns the same."""


class Route:
    """Decoder, handler and response encoding of one version of an API."""

    __slots__ = ("decode", "flexible_request", "flexible_response", "handle", "in_parts", "key", "reads", "version")

    def __init__(
        self,
        key: int,
        version: int,
        decode: Callable[..., Any],
        handle: Handler,
        *,
        in_parts: bool,
        reads: bool,
    ) -> None:
        self.key = key
        self.version = version
        self.decode = decode
        """Decoder of the request: the generated one, or the handler's own."""
        self.handle = handle
        """The handler, wrapped in the interceptors."""
        self.flexible_request = has_flexible_request_header(key, version)
        """Whether the request header ends with tagged fields."""
        self.flexible_response = has_flexible_response_header(key, version)
        self.in_parts = in_parts
        """Whether the response has records, which are sent as separate parts and not copied."""
        self.reads = reads
        """Whether the handler may read files, so that buffered appends must be written before."""


class RoutesOfListener(Protocol):
    """The routes of the listeners with one personality."""

    @property
    def routes(self) -> Mapping[int, Route]:
        """`key << 16 | version` -> route, of all versions used so far."""


class Routes(Protocol):
    """The routes of a broker, and what is called before their handlers; as in `router.Router`."""

    def of(self, personality: str) -> RoutesOfListener:
        """Return the routes of listeners with this personality."""

    def resolve(self, key: int, version: int, personality: str = RELEASE) -> Route | None:
        """Return the route of an API's version; None for what is not served."""

    def add_check(self, check: Interceptor, keys: Container[int]) -> None:
        """Add a check for all requests of these APIs, after all interceptors."""

    def add_interceptor(self, interceptor: Interceptor, key: int | None = None) -> None:
        """Add an interceptor for the requests of one API, or of all (None)."""

    def remove_interceptor(self, interceptor: Interceptor, key: int | None = None) -> None:
        """Remove an interceptor that was added with the same arguments. Raises ValueError if there is none."""
