"""Grants on the wire: register, look, take back, and tokens for them (contract 5.4)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import ForbiddenError, InvalidError, NotFoundError, UnauthenticatedError
from quipu.faces.oap.answering import bare, enveloped
from quipu.faces.oap.asking import body, lent, principal, shown
from quipu.faces.oap.once import answered, caller
from quipu.model.grants import KeptGrant
from quipu.model.principal import Principal
from quipu.rules.grants_times import rfc3339
from quipu.service.sharing import Sharing

_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Grants:
    """What granters and grantees do with them."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    async def create(self, request: Request) -> Response:
        """A signed grant of anybody's; an unsigned draft of an owner who is logged in."""
        given, owner = await body(request), principal(request)
        drafts = owner if "signature" not in given else None

        async def made() -> tuple[dict[str, Any], int]:
            if drafts is not None:
                kept = await self._sharing.grants.issue(drafts, given)
            else:
                kept = await self._sharing.grants.register(given)
            return issued(self._sharing, kept), 201

        # A stranger takes no key in anybody's name before the signature was looked at.
        who = (
            caller(drafts)
            if drafts is not None
            else await self._sharing.grants.granter(given, is_believed=owner is not None)
        )
        return await answered(request, self._sharing, who, "memory_grant_create", given, made)

    async def list(self, request: Request) -> Response:
        """The owner's grants."""
        owner = _owner(request)
        if request.query_params.get("role", "granter") != "granter":
            raise InvalidError.at(
                "/role", "bad_value", "Grants are listed for who gave them.", accepted=["granter"]
            )
        found, now = await self._sharing.grants.list(owner), self._sharing.now()
        told = {**self._sharing.identity(owner), "grants": [_owned(kept, now) for kept in found]}
        return enveloped(request, self._sharing, told)

    async def get(self, request: Request) -> Response:
        """One grant, for its granter or its grantee."""
        grant_id, owner = request.path_params["id"], principal(request)
        if owner is not None:
            kept = await self._sharing.grants.get(owner, grant_id)
            shown = await self._sharing.grants.shown(owner, grant_id)
            seen = [{"id": name, "at": rfc3339(at)} for name, at in shown]
            told = {**_owned(kept, self._sharing.now()), "shown": seen}
            return enveloped(request, self._sharing, told)
        who = await lent(request, self._sharing)
        if who.grant.id != grant_id:
            raise NotFoundError("There is no such grant.", reason="grant")
        return enveloped(request, self._sharing, _told(who.kept, self._sharing.now()))

    async def preview(self, request: Request) -> Response:
        """What a grantee would see, for the owner; nothing is signed."""
        owner = _owner(request)
        items = await self._sharing.disclosing.preview(owner, await body(request))
        return enveloped(request, self._sharing, {"items": items})

    async def revoke_all(self, request: Request) -> Response:
        """The owner takes everything back."""
        owner = _owner(request)

        async def done() -> tuple[dict[str, Any], int]:
            return {"revoked": await self._sharing.grants.kill(owner)}, 200

        return await answered(request, self._sharing, caller(owner), "memory_grant_revoke_all", {}, done)

    async def revoke(self, request: Request) -> Response:
        """The granter takes it back, or the grantee gives it up."""
        grant_id, owner = request.path_params["id"], principal(request)
        # A grantee that repeats itself shows a token of a grant that ended: it is told so, which is the same.
        who = owner or await lent(request, self._sharing)

        async def done() -> tuple[dict[str, Any], int]:
            if isinstance(who, Principal):
                kept = await self._sharing.grants.revoke(who, grant_id)
            elif who.grant.id != grant_id:
                raise NotFoundError("There is no such grant.", reason="grant")
            else:
                kept = await self._sharing.grants.revoked(who.tenant, grant_id)
            told = {"grant_id": kept.id, "status": kept.status.value}
            return {**told, "revoked_at": rfc3339(kept.revoked_at or 0)}, 200

        return await answered(request, self._sharing, caller(who), "memory_grant_revoke", {}, done)

    async def token(self, request: Request) -> Response:
        """A short-lived token, for a grantee that proves its key."""
        told = shown(request, self._sharing, await assertion(request))
        return bare(await self._sharing.doors.mint(request.path_params["id"], told))

    async def introspect(self, request: Request) -> Response:
        """Whether a token counts (RFC 7662), for an owner of this host."""
        owner = _owner(request)
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


def _owner(request: Request) -> Principal:
    owner = principal(request)
    if owner is None:
        raise UnauthenticatedError(reason="no_credential")
    return owner


def issued(sharing: Sharing, kept: KeptGrant) -> dict[str, Any]:
    """A grant that has just come to be."""
    endpoints = sharing.grants.endpoints(kept.id)
    return {"grant": kept.body, "status": kept.status.value, "endpoints": endpoints}


async def assertion(request: Request) -> str | None:
    """What a client says of itself in a form (RFC 7523), where it shows no proof."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return None
    form = await request.form()
    given = form.get("client_assertion")
    if form.get("client_assertion_type") != _ASSERTION or not isinstance(given, str):
        raise InvalidError.at(
            "/client_assertion_type", "bad_value", "Prove who you are.", accepted=[_ASSERTION]
        )
    return given


def _owned(kept: KeptGrant, now: int) -> dict[str, Any]:
    """A grant as its owner sees it."""
    told = {**_told(kept, now), "uses": kept.uses, "registered_at": rfc3339(kept.registered_at)}
    return told if kept.revoked_at is None else {**told, "revoked_at": rfc3339(kept.revoked_at)}


def _told(kept: KeptGrant, now: int) -> dict[str, Any]:
    most = kept.body.get("max_items")
    left = most - kept.disclosed if isinstance(most, int) else 0
    return {
        "grant": kept.body,
        "status": kept.standing(now).value,
        "items_disclosed": kept.disclosed,
        "items_remaining": max(0, left),
    }
