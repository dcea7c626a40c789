"""The addresses of memory exchange (OAP contract, section 2)."""

from __future__ import annotations

from functools import partial

from starlette.routing import BaseRoute, Route

from quipu.faces.http.catalogue import Face
from quipu.faces.oap import answering
from quipu.faces.oap.asking import brings_own
from quipu.faces.oap.discovery import Discovery
from quipu.faces.oap.grants import Grants
from quipu.faces.oap.memory import Memory
from quipu.faces.oap.moves import Moving
from quipu.faces.oap.requests import Requests
from quipu.service.lending_moves import Moves
from quipu.service.sharing import Sharing

PREFIX = "/oap"
_WELL_KNOWN = "/.well-known"
_REQUEST = f"{PREFIX}/memory/grant/request"
_EXPORT, _IMPORT = f"{PREFIX}/memory/export", f"{PREFIX}/memory/import"


def face(sharing: Sharing, moves: Moves) -> Face:
    """What the plumbing needs to know of this face. Who may come in is decided by grants, so all of it is open."""
    made = routes(sharing, moves)
    return Face(
        name="oap",
        routes=made,
        prefix=PREFIX,
        public=frozenset(route.path for route in made if isinstance(route, Route)),
        brings_own=brings_own,
        show_error=partial(answering.error, sharing=sharing),
        operations={f"{PREFIX}/memory/query": "query"},
        streaming=frozenset({_EXPORT}),
        unbounded=frozenset({_IMPORT}),
    )


def routes(sharing: Sharing, moves: Moves) -> list[BaseRoute]:
    """Every route."""
    told, grants, memory = Discovery(sharing), Grants(sharing), Memory(sharing)
    moving, requests = Moving(sharing, moves), Requests(sharing)
    return [
        Route(f"{_WELL_KNOWN}/did.json", told.host, methods=["GET"]),
        Route(f"{_WELL_KNOWN}/oap-tool.json", told.tool, methods=["GET"]),
        Route(f"{_WELL_KNOWN}/oap-memory.json", told.memory, methods=["GET"]),
        Route(f"{_WELL_KNOWN}/oap-scopes.json", told.scopes, methods=["GET"]),
        Route(f"{_WELL_KNOWN}/oap-revocation", told.status, methods=["GET"]),
        Route("/owners/{id}/did.json", told.owner, methods=["GET"]),
        Route("/owners/{id}/oap-memory.json", told.owner_memory, methods=["GET"]),
        Route(f"{PREFIX}/memory/query", memory.query, methods=["POST"]),
        Route(f"{PREFIX}/memory/item/{{id}}/log", memory.log, methods=["GET"]),
        Route(f"{PREFIX}/memory/vec/{{id}}.bin", memory.vector, methods=["GET"]),
        Route(f"{PREFIX}/memory/grant", grants.create, methods=["POST"]),
        Route(f"{PREFIX}/memory/grant", grants.list, methods=["GET"]),
        Route(f"{PREFIX}/memory/grant", grants.revoke_all, methods=["DELETE"]),
        Route(f"{PREFIX}/memory/grant/preview", grants.preview, methods=["POST"]),
        Route(_REQUEST, requests.ask, methods=["POST"]),
        Route(_REQUEST, requests.list, methods=["GET"]),
        Route(f"{_REQUEST}/{{id}}/approve", requests.approve, methods=["POST"]),
        Route(f"{_REQUEST}/{{id}}", requests.refuse, methods=["DELETE"]),
        Route(f"{PREFIX}/tasks/{{id}}", requests.task, methods=["GET"]),
        Route(f"{PREFIX}/memory/grant/introspect", grants.introspect, methods=["POST"]),
        Route(f"{PREFIX}/memory/grant/{{id}}", grants.get, methods=["GET"]),
        Route(f"{PREFIX}/memory/grant/{{id}}", grants.revoke, methods=["DELETE"]),
        Route(f"{PREFIX}/memory/grant/{{id}}/token", grants.token, methods=["POST"]),
        Route(_EXPORT, moving.export, methods=["POST"]),
        Route(_IMPORT, moving.tried, methods=["POST"]),
        Route(f"{_IMPORT}/{{id}}/commit", moving.commit, methods=["POST"]),
        Route(f"{_IMPORT}/{{id}}/rollback", moving.roll_back, methods=["POST"]),
        Route(f"{PREFIX}/invoke", told.invoke, methods=["POST"]),
        Route(f"{PREFIX}/audit", memory.audit, methods=["GET"]),
        Route(f"{PREFIX}/data/delete", memory.delete, methods=["POST"]),
        Route(f"{PREFIX}/incident", memory.incident, methods=["POST"]),
    ]
