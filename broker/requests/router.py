"""The router: finds the decoder, the interceptors and the handler of a request by API key and version.

Each broker has one router. A handler and its codecs are loaded at the first request of their kind. An interceptor is called
in place of the handler, with the handler as its first argument. It may answer the request itself, or call the handler and
change the response, now or later. Without interceptors, a request is passed directly to its handler.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from importlib import import_module

from stuntbroker.broker.requests.apis import ONLY_APPEND, SERVED
from stuntbroker.broker.requests.routes import Handler, Interceptor, Route
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.versions import RELEASE


class Router:
    """The routes of one broker. Interceptors may be added and removed while it runs."""

    __slots__ = ("_checks", "_interceptors", "_older", "routes")

    def __init__(self) -> None:
        self.routes: dict[int, Route] = {}
        """`key << 16 | version` -> route, of all versions used so far. Connections look routes up here first."""
        self._interceptors: list[tuple[int | None, Interceptor]] = []
        self._checks: list[tuple[Interceptor, Container[int]]] = []
        self._older: dict[str, OlderRouter] = {}
        """Personality -> its router."""

    @property
    def interceptors(self) -> tuple[tuple[int | None, Interceptor], ...]:
        """(API key or None for all, interceptor), in the order in which they were added; the first is the outermost."""
        return tuple(self._interceptors)

    def resolve(self, key: int, version: int, personality: str = RELEASE) -> Route | None:
        """Return the route of an API's version, and keep it in `routes`; None for what is not served."""
        if personality != RELEASE:
            return self.of(personality).resolve(key, version)
        served = SERVED.get(key)
        if served is None or not served.oldest <= version <= served.newest:
            return None
        api = APIS[key]
        request = getattr(import_module(f"stuntbroker.protocol.messages.{api.module}_request"), f"{api.name}Request")
        response = getattr(import_module(f"stuntbroker.protocol.messages.{api.module}_response"), f"{api.name}Response")
        handler = import_module(f"stuntbroker.broker.handlers.{served.handler}")
        route = Route(
            key,
            version,
            getattr(handler, "decode", request.decode),
            self._intercepted(key, handler.handle),
            in_parts=hasattr(response, "encode_parts"),
            reads=key not in ONLY_APPEND,
        )
        self.routes[key << 16 | version] = route
        return route

    def _intercepted(self, key: int, handle: Handler) -> Handler:
        for check, keys in reversed(self._checks):
            if key in keys:
                handle = partial(check, handle)
        for wanted, interceptor in reversed(self._interceptors):
            if wanted is None or wanted == key:
                handle = partial(interceptor, handle)
        return handle

    def add_check(self, check: Interceptor, keys: Container[int]) -> None:
        """Add a check for all requests of these APIs, after all interceptors and earlier checks, and before the handler."""
        self._checks.append((check, keys))
        self._forget_routes()

    def add_interceptor(self, interceptor: Interceptor, key: int | None = None) -> None:
        """Add an interceptor for the requests of one API, or of all (None), after those added before."""
        self._interceptors.append((key, interceptor))
        self._forget_routes()

    def remove_interceptor(self, interceptor: Interceptor, key: int | None = None) -> None:
        """Remove an interceptor that was added with the same arguments. Raises ValueError if there is none."""
        self._interceptors.remove((key, interceptor))
        self._forget_routes()

    def _forget_routes(self) -> None:
        self.routes.clear()
        for older in self._older.values():
            older.routes.clear()

    def of(self, personality: str) -> Router | OlderRouter:
        """Return the router of listeners with this personality."""
        if personality == RELEASE:
            return self
        if personality not in self._older:
            from stuntbroker.broker.requests.personality import versions_of

            self._older[personality] = OlderRouter(self, versions_of(personality))
        return self._older[personality]


class OlderRouter:
    """The routes of listeners that imitate an older release: those of the broker's router, limited to older versions."""

    __slots__ = ("_router", "_versions", "routes")

    def __init__(self, router: Router, versions: Mapping[int, tuple[int, int]]) -> None:
        self.routes: dict[int, Route] = {}
        """As `Router.routes`."""
        self._router = router
        self._versions = versions

    def resolve(self, key: int, version: int) -> Route | None:
        """Return the route of an API's version, and keep it in `routes`; None for what is not served."""
        low, high = self._versions.get(key, (0, -1))
        if not low <= version <= high:
            return None
        route = self._router.resolve(key, version)
        if route is not None:
            self.routes[key << 16 | version] = route
        return route
