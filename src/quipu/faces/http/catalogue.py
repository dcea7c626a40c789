"""Faces, and where in them a request belongs. Known before the router runs, so that every layer can ask."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import Scope

from quipu.errors import QuipuError
from quipu.model.principal import Principal

#: Shows an error in a face's own way, such as a page; None leaves it to problem+json.
ErrorPage: TypeAlias = Callable[[Request, QuipuError], Awaitable[Response | None]]

_NONE: frozenset[str] = frozenset()


class Authenticator(Protocol):
    """Who is asking? None: this way of saying so was not used. A credential that is not good raises."""

    async def __call__(self, request: Request, /) -> Principal | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """One public contract: its routes, and what holds for some of them. Paths are written as in the routes."""

    name: str
    routes: Sequence[BaseRoute]
    #: An unknown address below it is answered in this face's manner.
    prefix: str = "/"
    #: Open to everybody. Everywhere else a request without a good credential gets 401 before any handler runs.
    public: frozenset[str] = _NONE
    #: Nobody is asked here who they are, whatever they send: to find out may need what is asked about.
    unasked: frozenset[str] = _NONE
    #: Answers for as long as it takes: no deadline for the whole request. Event streams end when the server drains.
    streaming: frozenset[str] = _NONE
    #: Takes a body without a total limit; the handler reads it piece by piece (`bodies.lines`).
    unbounded: frozenset[str] = _NONE
    #: Also answered while the server starts, is crowded, or drains.
    always: frozenset[str] = _NONE
    #: Path → operation, for the latency of operations in the metrics.
    operations: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Another way than `Authorization` to say who is asking; asked for this face's own routes only.
    authenticator: Authenticator | None = None
    #: Whether a request brings a credential of the face's own kind, which the face alone judges: others are not asked.
    brings_own: Callable[[Request], bool] | None = None
    #: Addresses that people are told when the server starts: name → path.
    told: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Headers that web pages of other origins may send to it, and those that they may read, beside the usual ones.
    sent_headers: frozenset[str] = _NONE
    shown_headers: frozenset[str] = _NONE
    show_error: ErrorPage | None = None
    #: What runs for as long as the server does.
    lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None

    @property
    def special(self) -> frozenset[str]:
        """Every path that something is said about."""
        return (
            self.public
            | self.unasked
            | self.streaming
            | self.unbounded
            | self.always
            | self.operations.keys()
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request belongs. `path` is the route's template, never what was sent; "" where there is no route."""

    face: Face
    path: str = ""

    @property
    def is_public(self) -> bool:
        """An address that does not exist is no secret."""
        return not self.path or self.path in self.face.public

    @property
    def is_unasked(self) -> bool:
        return self.path in self.face.unasked

    @property
    def is_streaming(self) -> bool:
        return self.path in self.face.streaming

    @property
    def is_unbounded(self) -> bool:
        return self.path in self.face.unbounded

    @property
    def is_always_open(self) -> bool:
        return self.path in self.face.always

    @property
    def methods(self) -> tuple[str, ...]:
        """What the address takes, by all routes that it has."""
        taken = [methods for path, methods in _paths(self.face.routes, "") if path == self.path]
        return tuple(sorted(frozenset[str]().union(*taken)))

    @property
    def operation(self) -> str | None:
        return self.face.operations.get(self.path)


class Catalogue:
    """All faces of an application."""

    def __init__(self, faces: Sequence[Face]) -> None:
        self.faces = tuple(faces)
        self._by_prefix = sorted(self.faces, key=lambda face: len(face.prefix), reverse=True)
        self._elsewhere = Place(Face(name="none", routes=()))
        #: Of addresses without anything that varies, by method and address: no more than there are routes.
        self._known: dict[tuple[str, str], Place] = {}
        for face in faces:
            _reach_over_lines(face.routes)
            known = {path for path, _ in _paths(face.routes, "")}
            if unknown := sorted(face.special - known):
                raise ValueError(f"The face {face.name} has no route {unknown[0]}.")

    @property
    def routes(self) -> list[BaseRoute]:
        """Those of the operations first: they are looked through one after the other, and most requests are for these."""
        routes = [(face, route) for face in self.faces for route in face.routes]
        return [route for _, route in sorted(routes, key=lambda one: not _is_operation(*one))]

    def place(self, scope: Scope) -> Place:
        """The place of a request; of several routes the one that takes its method."""
        address = scope["method"], scope["path"]
        if (known := self._known.get(address)) is not None:
            return known
        found = self._looked_for(scope)
        if found.path == scope["path"] and scope["method"] in found.methods:
            self._known[address] = found
        return found

    def _looked_for(self, scope: Scope) -> Place:
        partial: Place | None = None
        for face in self.faces:
            match, path = _matched(face.routes, scope, "")
            if match is Match.FULL:
                return Place(face, path)
            if match is Match.PARTIAL and partial is None:
                partial = Place(face, path)
        return partial or self._nearest(scope["path"])

    def _nearest(self, path: str) -> Place:
        for face in self._by_prefix:
            stem = face.prefix.rstrip("/")
            if path == stem or path.startswith(stem + "/"):
                return Place(face)
        return self._elsewhere


def _reach_over_lines(routes: Sequence[BaseRoute]) -> None:
    """A name in an address may hold a line break as well as a slash; the router's own pattern ends there."""
    for route in routes:
        if isinstance(route, Route):
            route.path_regex = re.compile(route.path_regex.pattern, re.DOTALL)


def _is_operation(face: Face, route: BaseRoute) -> bool:
    """Whether it is one, at an address that nothing else could be meant by."""
    return isinstance(route, Route) and route.path in face.operations and not route.param_convertors


def _paths(routes: Sequence[BaseRoute], above: str) -> Iterator[tuple[str, set[str]]]:
    """Templates, and the methods that each takes."""
    for route in routes:
        if isinstance(route, Mount):
            yield above + route.path, set()
            yield from _paths(route.routes or [], above + route.path)
        elif isinstance(route, Route):
            yield above + route.path, set(route.methods or ())


def _matched(routes: Sequence[BaseRoute], scope: Scope, above: str) -> tuple[Match, str]:
    partial = ""
    for route in routes:
        match, child = route.matches(scope)
        if match is Match.NONE:
            continue
        path = above + str(getattr(route, "path", ""))
        if isinstance(route, Mount) and route.routes:
            match, path = _matched(route.routes, {**scope, **child}, path)
        if match is Match.FULL:
            return match, path
        if match is Match.PARTIAL:
            partial = partial or path
    return (Match.PARTIAL, partial) if partial else (Match.NONE, "")
