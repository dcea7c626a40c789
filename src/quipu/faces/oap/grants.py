"""Grants on the wire: register, look, take back, and tokens for them (contract 5.4)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import ForbiddenError, InvalidError, NotFoundError, UnauthenticatedError
from quipu.faces.oap.answering import bare, enveloped
from quipu.faces.oap.asking import body, brings_own, lent, principal, shown
from quipu.model.grants import KeptGrant
from quipu.rules.grants_times import rfc3339
from quipu.service.sharing import Sharing


class Grants:
    """What granters and grantees do with them."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    async def create(self, request: Request) -> Response:
        """A signed grant of anybody's; an unsigned draft of an owner who is logged in."""
        given = await body(request)
        owner = principal(request)
        if "signature" not in given and owner is not None:
            kept = await self._sharing.grants.issue(owner, given)
        else:
            kept = await self._sharing.grants.register(given)
        root = f"{self._sharing.public_url}/oap/memory/grant/{kept.id}"
        told = {
            "grant": kept.body,
            "status": kept.status.value,
            "endpoints": {
                "token": f"{root}/token",
                "revoke": root,
                "status": f"{self._sharing.public_url}/.well-known/oap-revocation?grant_id={kept.id}",
            },
        }
        return enveloped(request, self._sharing, told, 201)

    async def list(self, request: Request) -> Response:
        """The owner's grants."""
        owner = principal(request)
        if owner is None:
            raise UnauthenticatedError(reason="no_credential")
        if request.query_params.get("role", "granter") != "granter":
            raise InvalidError.at(
                "/role", "bad_value", "Grants are listed for who gave them.", accepted=["granter"]
            )
        found = await self._sharing.grants.list(owner)
        return enveloped(request, self._sharing, {"grants": [_told(kept) for kept in found]})

    async def get(self, request: Request) -> Response:
        """One grant, for its granter or its grantee."""
        grant_id, owner = request.path_params["id"], principal(request)
        if owner is not None:
            kept = await self._sharing.grants.get(owner, grant_id)
        else:
            who = await lent(request, self._sharing)
            if who.grant.id != grant_id:
                raise NotFoundError("There is no such grant.", reason="grant")
            kept = who.kept
        return enveloped(request, self._sharing, _told(kept))

    async def revoke(self, request: Request) -> Response:
        """The granter takes it back, or the grantee gives it up."""
        grant_id, owner = request.path_params["id"], principal(request)
        if owner is not None:
            kept = await self._sharing.grants.revoke(owner, grant_id)
        else:
            who = await lent(request, self._sharing)
            if who.grant.id != grant_id:
                raise NotFoundError("There is no such grant.", reason="grant")
            kept = await self._sharing.grants.revoked(who.tenant, grant_id)
        told = {
            "grant_id": kept.id,
            "status": kept.status.value,
            "revoked_at": rfc3339(kept.revoked_at or 0),
        }
        return enveloped(request, self._sharing, told)

    async def token(self, request: Request) -> Response:
        """A short-lived token, for a grantee that proves its key."""
        grant_id = request.path_params["id"]
        return bare(await self._sharing.doors.mint(grant_id, shown(request, self._sharing)))

    async def introspect(self, request: Request) -> Response:
        """Whether a token counts (RFC 7662), for an owner of this host."""
        owner = principal(request)
        if owner is None or brings_own(request):
            raise UnauthenticatedError(reason="no_credential")
        form = await request.form()
        token = form.get("token")
        if not isinstance(token, str):
            raise InvalidError.at("/token", "required", "Show a token.")
        found = await self._sharing.doors.inspect(token)
        if found["active"]:
            try:
                await self._sharing.grants.get(owner, found["grant_id"])
            except (NotFoundError, ForbiddenError):
                found = {"active": False}
        return bare(found)


def _told(kept: KeptGrant) -> dict[str, Any]:
    most = kept.body.get("max_items")
    left = most - kept.disclosed if isinstance(most, int) else 0
    return {
        "grant": kept.body,
        "status": kept.status.value,
        "items_disclosed": kept.disclosed,
        "items_remaining": max(0, left),
    }
