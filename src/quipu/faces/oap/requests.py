"""Requests for access on the wire: asked and waited for by an agent, answered by the owner (contract 5.4)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import UnauthenticatedError
from quipu.faces.oap.answering import enveloped
from quipu.faces.oap.asking import body, principal, shown
from quipu.faces.oap.grants import issued
from quipu.faces.oap.once import answered, caller
from quipu.model.grants import AccessRequest
from quipu.model.principal import Principal
from quipu.rules.grants_times import rfc3339
from quipu.service.sharing import Sharing


class Requests:
    """One handler for each route."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    async def ask(self, request: Request) -> Response:
        """An agent asks; a person answers some time."""
        signature = request.headers.get("oap-signature")
        told = await self._sharing.requests.ask(await body(request), shown(request, self._sharing), signature)
        return enveloped(request, self._sharing, told, 202)

    async def task(self, request: Request) -> Response:
        """How a request stands, for who made it."""
        told = await self._sharing.requests.task(request.path_params["id"], shown(request, self._sharing))
        return enveloped(request, self._sharing, told)

    async def list(self, request: Request) -> Response:
        """What was asked of the owner."""
        found = await self._sharing.requests.list(_owner(request))
        return enveloped(request, self._sharing, {"requests": [_told(one) for one in found]})

    async def approve(self, request: Request) -> Response:
        """The owner lends it, changed by what the body says."""
        owner, given = _owner(request), await body(request, may_be_empty=True)

        async def done() -> tuple[dict[str, Any], int]:
            kept = await self._sharing.requests.approve(owner, request.path_params["id"], given)
            return issued(self._sharing, kept), 201

        return await answered(request, self._sharing, caller(owner), "memory_grant_approve", given, done)

    async def refuse(self, request: Request) -> Response:
        """The owner does not."""
        owner = _owner(request)

        async def done() -> tuple[dict[str, Any], int]:
            return _told(await self._sharing.requests.refuse(owner, request.path_params["id"])), 200

        return await answered(request, self._sharing, caller(owner), "memory_grant_refuse", {}, done)


def _owner(request: Request) -> Principal:
    owner = principal(request)
    if owner is None:
        raise UnauthenticatedError(reason="no_credential")
    return owner


def _told(one: AccessRequest) -> dict[str, Any]:
    return {
        "request_id": one.id,
        "grantee": one.grantee,
        "draft": dict(one.draft),
        "status": one.state.value,
        "asked_at": rfc3339(one.asked_at),
        "lapses_at": rfc3339(one.lapses_at),
        **({} if one.grant is None else {"grant_id": one.grant.id}),
    }
