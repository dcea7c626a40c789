"""The addresses of memory exchange (OAP contract, section 2)."""

from __future__ import annotations

from functools import partial

from starlette.routing import BaseRoute, Route

from quipu.faces.http.catalogue import Face
from quipu.faces.oap import answering
from quipu.faces.oap.admitting import admitting
from quipu.faces.oap.asking import brings_own
from quipu.faces.oap.discovery import Discovery
from quipu.faces.oap.grants import Grants
from quipu.faces.oap.headers import SENT, SHOWN, speaking
from quipu.faces.oap.invoking import Invoking
from quipu.faces.oap.memory import Memory
from quipu.faces.oap.moves import Moving
from quipu.faces.oap.requests import Requests
from quipu.service.lending_moves import Moves
from quipu.service.sharing import Sharing

PREFIX = "/oap"
_WELL_KNOWN = "/.well-known"
_REQUEST = f"{PREFIX}/memory/grant/request"
_EXPORT, _IMPORT = f"{PREFIX}/memory/export", f"{PREFIX}/memory/import"
_FILE = f"{PREFIX}/tasks/{{id}}/file/{{secret}}"
#: What a grantee may be refused, by the name that receipts give it.
_ACTIONS = {
    f"{PREFIX}/memory/query": "memory_query",
    f"{PREFIX}/memory/vec/{{id}}.bin": "memory_vector_read",
    _EXPORT: "memory_export",
}


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
        streaming=frozenset({_EXPORT, _FILE}),
        unbounded=frozenset({_IMPORT}),
        sent_headers=SENT,
        shown_headers=SHOWN,
    )


def routes(sharing: Sharing, moves: Moves) -> list[BaseRoute]:
    """Every route."""
    told, grants, memory = Discovery(sharing), Grants(sharing), Memory(sharing)
    requests = Requests(sharing)
    moving = Moving(sharing, moves, requests)
    invoking = Invoking(sharing, told, grants, memory, moving)
    made = [
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
        Route(f"{PREFIX}/tasks/{{id}}", moving.task, methods=["GET"]),
        Route(_FILE, moving.fetched, methods=["GET"]),
        Route(f"{PREFIX}/memory/grant/introspect", grants.introspect, methods=["POST"]),
        Route(f"{PREFIX}/memory/grant/{{id}}", grants.get, methods=["GET"]),
        Route(f"{PREFIX}/memory/grant/{{id}}", grants.revoke, methods=["DELETE"]),
        Route(f"{PREFIX}/memory/grant/{{id}}/token", grants.token, methods=["POST"]),
        Route(_EXPORT, moving.export, methods=["POST"]),
        Route(_IMPORT, moving.tried, methods=["POST"]),
        Route(f"{_IMPORT}/{{id}}/commit", moving.commit, methods=["POST"]),
        Route(f"{_IMPORT}/{{id}}/rollback", moving.roll_back, methods=["POST"]),
        Route(f"{PREFIX}/invoke", invoking.invoke, methods=["POST"]),
        Route(f"{PREFIX}/audit", memory.audit, methods=["GET"]),
        Route(f"{PREFIX}/data/delete", memory.delete, methods=["POST"]),
        Route(f"{PREFIX}/incident", memory.incident, methods=["POST"]),
    ]
    return [
        Route(
            one.path,
            speaking(admitting(one.endpoint, sharing, one.path), sharing, _ACTIONS.get(one.path)),
            methods=sorted(one.methods or ()),
        )
        for one in made
    ]
