"""Agents that come in an owner's name, with an OAP Trust Token: what each route takes of it (contract 4.5)."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import ForbiddenError
from quipu.faces.oap.asking import shown, token_type
from quipu.faces.oap.headers import Handler
from quipu.rules.grants_tokens import TRUST_TYPE
from quipu.service.sharing import Sharing

_GRANT, _IMPORT = "/oap/memory/grant", "/oap/memory/import"
INVOKE = "/oap/invoke"
#: What an owner does, and what a token must be for, to do it.
NEEDED: Mapping[tuple[str, str], str] = {
    ("POST", _GRANT): "memory_grant_create",
    ("GET", _GRANT): "memory_grant_create",
    ("POST", f"{_GRANT}/preview"): "memory_grant_create",
    ("GET", f"{_GRANT}/request"): "memory_grant_create",
    ("POST", f"{_GRANT}/request/{{id}}/approve"): "memory_grant_create",
    ("DELETE", f"{_GRANT}/request/{{id}}"): "memory_grant_create",
    ("GET", f"{_GRANT}/{{id}}"): "memory_grant_create",
    ("DELETE", _GRANT): "memory_grant_revoke",
    ("DELETE", f"{_GRANT}/{{id}}"): "memory_grant_revoke",
    ("POST", "/oap/memory/export"): "memory_export",
    ("POST", _IMPORT): "memory_import",
    ("POST", f"{_IMPORT}/{{id}}/commit"): "memory_import",
    ("POST", f"{_IMPORT}/{{id}}/rollback"): "memory_import",
    ("POST", "/oap/data/delete"): "memory_delete",
}


def admitting(handler: Handler, sharing: Sharing, path: str) -> Handler:
    """The handler of a route that owners use. An owner's agent is let in as far as its token goes."""

    async def answered(request: Request) -> Response:
        if token_type(request) == TRUST_TYPE:
            owner, scope = await sharing.agents.admitted(shown(request, sharing))
            request.state.oap_scope, request.state.principal = scope, owner
            if path != INVOKE:
                check_scope(request, NEEDED.get((request.method, path), ""))
        return await handler(request)

    return answered


def check_scope(request: Request, action: str) -> None:
    """Raises for what a Trust Token is not for; whoever brings none is not asked."""
    scope: frozenset[str] | None = getattr(request.state, "oap_scope", None)
    if scope is not None and action not in scope:
        raise ForbiddenError("The token is not for this.", reason="scope_missing")
