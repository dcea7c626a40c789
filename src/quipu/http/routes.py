"""Operations as routes: find the address, read, dispatch, answer."""

import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote, unquote

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute, Match, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from quipu.http.authentication import Authentication
from quipu.http.exchange import exchange_of
from quipu.http.limits import allowance_of, lift_limits
from quipu.http.problems import wrong_method
from quipu.http.read import (
    NDJSON,
    Preferences,
    header_text,
    joined,
    media_type,
    preferences,
    request_fields,
    uploaded,
    uploaded_lines,
)
from quipu.operation import AnyOperation, Context, Response, authorised, dispatch, dispatch_stream

#: Turns an answer into the bytes that are sent.
Dump: TypeAlias = Callable[[Response], bytes]
#: Smaller answers are sent as they are: packing them costs more than it saves.
_SMALLEST_PACKED = 4096
_COMPRESSION = 5


class DecisionWait(Protocol):
    """Waits for the person who decides about a held write."""

    async def decided(self, ctx: Context, held: Response, seconds: float) -> Response:
        """The answer as it is once somebody has decided; or as it was, when nobody has after so long."""
        ...


#: A dialect: the request as the operation takes it, and how its answer is written.
Dialect: TypeAlias = Callable[[HttpRequest, dict[str, Any]], tuple[dict[str, Any], Dump]]


def own_dialect(http: HttpRequest, given: dict[str, Any]) -> tuple[dict[str, Any], Dump]:
    """Everything as the models have it."""
    return given, lambda response: response.model_dump_json().encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One operation behind one address."""

    operation: AnyOperation
    authentication: Authentication
    waiting: DecisionWait | None = None
    dialect: Dialect = own_dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive)
        answer = await self._answered(http)
        await answer(scope, receive, send)

    async def _answered(self, http: HttpRequest) -> HttpResponse:
        operation, route = self.operation, self.operation.http
        assert route is not None
        ctx = await self.authentication(http, is_public=route.is_public)
        if route.lines is not None and media_type(http) == NDJSON:
            from quipu.http import streams  # only streams pass through it

            beside, dump = self.dialect(http, joined(operation, http, {}))
            return await streams.batch(ctx, operation, http, beside, dump)
        if route.body != "json":
            ctx = _with_upload(ctx, http, is_lines=route.body == "lines")
        given = await request_fields(operation, http)
        preferred = preferences(http)
        given, dump = self.dialect(http, given)
        ignored = _left_out(operation, given) if preferred.is_lenient else []
        if operation.is_stream:
            return await self._streamed(ctx, http, given, dump)
        response = await dispatch(ctx, operation, given)
        headers: dict[str, str] = {}
        if ignored:
            headers["Quipu-Ignored-Fields"] = header_text(", ".join(ignored))[:1024]
        if response.is_held and preferred.wait_s is not None and self.waiting is not None:
            response = await self._decided(ctx, http, response, preferred)
            headers["Preference-Applied"] = f"wait={preferred.wait_s}"
        return answered(http, ctx, response, dump, headers)

    async def _decided(
        self, ctx: Context, http: HttpRequest, held: Response, preferred: Preferences
    ) -> Response:
        assert self.waiting is not None
        seconds = float(preferred.wait_s or 0)
        allowance = allowance_of(http.scope)
        if allowance is not None:
            allowance.prolong(seconds)
        return await self.waiting.decided(ctx, held, seconds)

    async def _streamed(
        self, ctx: Context, http: HttpRequest, given: Mapping[str, Any], dump: Dump
    ) -> HttpResponse:
        """Piece by piece. What is refused is refused before the answer begins."""
        from quipu.http import streams  # only streams pass through it

        operation, route = self.operation, self.operation.http
        assert route is not None
        request = authorised(ctx.principal, operation, operation.request.parse(given))
        items = dispatch_stream(ctx, operation, request)
        if route.answers == "file":
            allowance = allowance_of(http.scope)
            if allowance is not None:  # it is made whole before its first byte is sent
                allowance.stall(None)
            return await streams.download(items)
        if route.answers == "lines":
            return await streams.lines(http.scope, items, dump, is_reading=route.body != "json")

        async def still_allowed() -> None:
            renewed = await self.authentication(http)
            authorised(renewed.principal, operation, request)

        return await streams.events(http.scope, items, still_allowed)


def _with_upload(ctx: Context, http: HttpRequest, *, is_lines: bool) -> Context:
    """The body goes to the handler as it comes, and has no end that we know of."""
    lift_limits(http.scope)
    return replace(ctx, upload=uploaded_lines(http) if is_lines else uploaded(http))


def _left_out(operation: AnyOperation, given: dict[str, Any]) -> list[str]:
    """Takes out what is no field, and says what that was."""
    ignored = [name for name in given if name not in operation.request.model_fields]
    for name in ignored:
        del given[name]
    return ignored


def answered(
    http: HttpRequest, ctx: Context, response: Response, dump: Dump, headers: dict[str, str]
) -> HttpResponse:
    """200, or 202 when a person decides; the version as an entity tag."""
    if ctx.facts.seq is not None:
        headers["Quipu-Seq"] = str(ctx.facts.seq)
    if getattr(response, "replayed", False):
        headers["Idempotency-Replayed"] = "true"
    version = getattr(response, "version", None)
    if isinstance(version, int):
        headers["ETag"] = f'"{version}"'
    body = packed(http, dump(response), headers)
    return HttpResponse(body, 202 if response.is_held else 200, headers, media_type="application/json")


def packed(http: HttpRequest, body: bytes, headers: dict[str, str]) -> bytes:
    """A large answer with gzip, for who takes that. Never a page: its form's token beside text of others would show
    by its length."""
    if len(body) < _SMALLEST_PACKED:
        return body
    headers["Vary"] = "Accept-Encoding"
    if "gzip" not in http.headers.get("accept-encoding", ""):
        return body
    headers["Content-Encoding"] = "gzip"
    return gzip.compress(body, _COMPRESSION, mtime=0)


# -- addresses --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """One part of an address, and what may follow it."""

    fixed: dict[str, "_Node"] = field(default_factory=dict[str, "_Node"])
    #: After a part that may be anything.
    named: "_Node | None" = None
    #: Whether it may stand for all parts that follow.
    is_rest: bool = False
    #: Method → what answers here.
    methods: "dict[str, _Place]" = field(default_factory=dict[str, "_Place"])


@dataclass(frozen=True, slots=True)
class _Place:
    #: The address as it was declared, and the names in it.
    route: str
    names: tuple[str, ...]
    app: ASGIApp


class Addresses:
    """Finds what answers at an address. Parts are split as they were sent: `%2F` in an id is no slash."""

    def __init__(
        self, endpoints: Sequence[tuple[str, str, ASGIApp]], others: Sequence[BaseRoute] = ()
    ) -> None:
        """Method, path and application of each endpoint; `others` are Starlette's, and come after."""
        self._root = _Node()
        self._others = Router(routes=others, redirect_slashes=False)
        for method, path, app in endpoints:
            self._add(method, path, app)

    def _add(self, method: str, path: str, app: ASGIApp) -> None:
        node, names = self._root, list[str]()
        for part in path.strip("/").split("/"):
            if part.startswith("{"):
                name, _, kind = part.strip("{}").partition(":")
                names.append(name)
                node.named = node.named or _Node()
                node = node.named
                node.is_rest = node.is_rest or kind == "path"
            else:
                node = node.fixed.setdefault(part, _Node())
        if method in node.methods:
            raise ValueError(f"two operations at {method} {path}")
        node.methods[method] = _Place(path, tuple(names), app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        allowed: set[str] = set()
        found = _found(self._root, _parts(scope), 0, method, allowed)
        if found is not None:
            place, texts = found
            exchange_of(scope).route = place.route
            scope["path_params"] = dict(zip(place.names, reversed(texts), strict=True))
            await place.app(scope, receive, send)
        elif allowed and not any(route.matches(scope)[0] is Match.FULL for route in self._others.routes):
            names = allowed | {"HEAD"} if "GET" in allowed else allowed
            raise wrong_method(", ".join(sorted(names)))
        else:
            await self._other(scope, receive, send)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Starlette's routes then raise what they refuse, and do not answer in words of their own.
        scope["app"] = self
        try:
            await self._others(scope, receive, send)
        finally:
            exchange_of(scope).route = getattr(scope.get("route"), "path", None)


def _parts(scope: Scope) -> list[str]:
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.decode("latin-1").removeprefix("/").split("/")


def _found(
    node: _Node, parts: list[str], at: int, method: str, allowed: set[str]
) -> tuple[_Place, list[str]] | None:
    """What answers, and the parts that may be anything, last first. Fixed words come before what stands for any; where
    those do not take the method, the others may."""
    if at == len(parts):
        allowed.update(node.methods)
        return (node.methods[method], []) if method in node.methods else None
    fixed = node.fixed.get(parts[at])
    found = None if fixed is None else _found(fixed, parts, at + 1, method, allowed)
    if found is None and node.named is not None and parts[at]:
        text = parts[at]
        found = _found(node.named, parts, at + 1, method, allowed)
        if found is None and node.named.is_rest:
            found, text = _found(node.named, parts, len(parts), method, allowed), "/".join(parts[at:])
        if found is not None:
            found[1].append(unquote(text))
    return found


def operation_endpoints(
    operations: Iterable[AnyOperation],
    authentication: Authentication,
    waiting: DecisionWait | None = None,
    dialect: Dialect = own_dialect,
) -> list[tuple[str, str, ASGIApp]]:
    """Method, path and application of each operation that is reached over HTTP."""
    return [
        (
            one.http.method,
            one.http.path,
            Endpoint(operation=one, authentication=authentication, waiting=waiting, dialect=dialect),
        )
        for one in operations
        if one.http is not None
    ]
