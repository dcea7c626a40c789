"""OAP's addresses of grants: each reads, calls `dispatch`, and answers in an envelope."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute

from quipu.errors import Fault, NotFoundError
from quipu.jose import unb64
from quipu.model.principal import DEFAULT_TENANT, Principal
from quipu.operation import Context, dispatch, invalid
from quipu.sharing.grants import operations as ops
from quipu.sharing.grants.model import GrantView
from quipu.sharing.grants.terms import EMBEDDINGS, EXPORT, QUERY
from quipu.sharing.grants.tokens import GrantContext
from quipu.sharing.service import Sharing
from quipu.sharing.times import instant, rfc3339
from quipu.sharing.wire import Wire

#: A status is asked for anew after this long.
_STATUS = {"Cache-Control": "max-age=60", "Access-Control-Allow-Origin": "*"}
_SECRET = {"Cache-Control": "no-store"}
#: Members of a grant's draft as the operation has them.
_NAMES = {"trust_level": "level", "redaction_profile": "profile"}


@dataclass(frozen=True, slots=True)
class GrantRoutes:
    """What granters and grantees do."""

    sharing: Sharing
    wire: Wire

    @property
    def routes(self) -> list[BaseRoute]:
        route, grant = self.wire.route, "/oap/memory/grant"
        return [
            route("POST", "/oap/memory/query", self.query),
            route("POST", grant, self.create),
            route("GET", grant, self.listed),
            route("DELETE", grant, self.revoke_all),
            route("POST", f"{grant}/preview", self.preview),
            route("GET", f"{grant}/{{id}}", self.get),
            route("DELETE", f"{grant}/{{id}}", self.revoke),
            route("POST", f"{grant}/{{id}}/token", self.token),
            route("GET", "/oap/memory/item/{id:path}/log", self.log),
            route("GET", "/oap/memory/vec/{id:path}.bin", self.vector),
            route("GET", "/.well-known/oap-revocation", self.status),
        ]

    async def grantee(self, http: HttpRequest, *, is_used_later: bool = False) -> GrantContext:
        """The context of a call under a grant."""
        use = await self.sharing.admission.admit(self.wire.shown(http), is_used_later=is_used_later)
        who = Principal(tenant=use.tenant, name=use.grant.grantee, permissions=frozenset(), agents=())
        ctx = self.wire.authentication.context(who)
        return GrantContext(ctx.principal, ctx.clock, ctx.services, use=use)

    def anonymous(self, name: str) -> Context:
        """The context of somebody who has shown nothing yet."""
        who = Principal(tenant=DEFAULT_TENANT, name=name[:200], permissions=frozenset(), agents=())
        return self.wire.authentication.context(who)

    # -- under a grant ------------------------------------------------------------------------------------------------

    async def query(self, http: HttpRequest) -> HttpResponse:
        ctx = await self.grantee(http, is_used_later=True)
        answer = await dispatch(ctx, ops.QUERY_GRANT, {"body": await self.wire.body(http, may_be_empty=True)})
        return self.wire.enveloped(
            http, answer.output, receipt=answer.receipt, warnings=list(answer.warnings)
        )

    async def token(self, http: HttpRequest) -> HttpResponse:
        """A token: for a grantee who proves a key, or from the owner's hand."""
        grant_id = http.path_params["id"]
        if "authorization" in http.headers:
            made = await dispatch(await self.wire.owner(http), ops.MINT_GRANT_TOKEN, {"id": grant_id})
        else:
            shown = self.wire.shown(http)
            given = {"id": grant_id, "proof": shown.proof, "url": shown.url}
            made = await dispatch(self.anonymous(f"grant {grant_id}"), ops.EXCHANGE_GRANT, given)
        return self.wire.bare(made.to_dict(), headers=_SECRET)

    async def log(self, http: HttpRequest) -> HttpResponse:
        """The log of an item: for its owner, and for who was shown it."""
        asked = {"id": http.path_params["id"]}
        if self.wire.is_grantee(http):
            found = await dispatch(await self.grantee(http), ops.READ_SHARED_LOG, asked)
        else:
            found = await dispatch(await self.wire.owner(http), ops.READ_ITEM_LOG, asked)
        return self.wire.enveloped(http, {"log": list(found.entries)})

    async def vector(self, http: HttpRequest) -> HttpResponse:
        """The vector of an item that was shown: bare floats."""
        ctx = await self.grantee(http, is_used_later=True)
        found = await dispatch(ctx, ops.READ_SHARED_VECTOR, {"id": http.path_params["id"]})
        digest = base64.b64encode(bytes.fromhex(found.digest.removeprefix("sha256:"))).decode()
        headers = {**_SECRET, "Content-Digest": f"sha-256=:{digest}:"}
        return HttpResponse(unb64(found.vector), headers=headers, media_type="application/octet-stream")

    # -- grants -------------------------------------------------------------------------------------------------------

    async def create(self, http: HttpRequest) -> HttpResponse:
        """A grant that its owner has signed, from anybody; or the draft of one, from the owner."""
        given = await self.wire.body(http)
        if "signature" in given:
            made = await dispatch(self.anonymous("a signed grant"), ops.REGISTER_GRANT, {"grant": given})
        else:
            ctx = await self.wire.owner(http)
            made = await dispatch(ctx, ops.SHARE, self._drafted(ctx, given))
        output = {"grant": made.grant, "status": made.status, "endpoints": made.endpoints}
        return self.wire.enveloped(http, output, 201)

    async def preview(self, http: HttpRequest) -> HttpResponse:
        """What a grantee would see of each item."""
        ctx = await self.wire.owner(http)
        draft = self._drafted(ctx, await self.wire.body(http))
        tried = await dispatch(ctx, ops.SHARE, {"purpose": "preview", **draft, "dry_run": True})
        return self.wire.enveloped(http, {"items": [one.item for one in tried.items]})

    async def listed(self, http: HttpRequest) -> HttpResponse:
        ctx = await self.wire.owner(http)
        found = await dispatch(ctx, ops.LIST_GRANTS, {"limit": 1000})
        grants = [_owned(one) for one in found.grants]
        return self.wire.enveloped(http, {"owner": found.owner, "host": found.host, "grants": grants})

    async def get(self, http: HttpRequest) -> HttpResponse:
        """For its owner with what it has shown; for its grantee what it says."""
        grant_id = http.path_params["id"]
        if self.wire.is_grantee(http):
            use = await self._own_use(http, grant_id)
            view = await self.sharing.grants.view(use.tenant, use.row)
            return self.wire.enveloped(http, _told(view))
        found = await dispatch(await self.wire.owner(http), ops.GET_GRANT, {"id": grant_id})
        shown = [{"id": one.item_id, "at": rfc3339(one.at)} for one in found.shown]
        return self.wire.enveloped(http, {**_owned(found.grant), "shown": shown})

    async def revoke(self, http: HttpRequest) -> HttpResponse:
        """Taken back by its owner, or given up by its grantee."""
        grant_id = http.path_params["id"]
        if self.wire.is_grantee(http):
            use = await self._own_use(http, grant_id)
            ended = await self.sharing.grants.revoked(use.tenant, use.grant.id, use.grant.grantee)
        else:
            ended = await dispatch(await self.wire.owner(http), ops.REVOKE_GRANT, {"id": grant_id})
        output = {"grant_id": ended.grant_id, "status": ended.status, "revoked_at": rfc3339(ended.revoked_at)}
        return self.wire.enveloped(http, output)

    async def revoke_all(self, http: HttpRequest) -> HttpResponse:
        ended = await dispatch(await self.wire.owner(http), ops.REVOKE_ALL_GRANTS, {})
        return self.wire.enveloped(http, {"revoked": ended.revoked})

    async def status(self, http: HttpRequest) -> HttpResponse:
        """Whether a grant counts, for anybody who knows its id."""
        document = await self.sharing.grants.status_document(http.query_params.get("grant_id", ""))
        return self.wire.bare(document, headers=_STATUS)

    async def _own_use(self, http: HttpRequest, grant_id: str) -> Any:
        ctx = await self.grantee(http)
        if ctx.use is None or ctx.use.grant.id != grant_id:
            raise NotFoundError("There is no such grant.", reason="grant")
        return ctx.use

    def _drafted(self, ctx: Context, draft: Mapping[str, Any]) -> dict[str, Any]:
        """A draft in the words of a grant, as the operation has them. What is no member is refused there."""
        given = {_NAMES.get(name, name): value for name, value in draft.items()}
        if "granter" in given:
            owner, _, scope_id = str(given.pop("granter")).partition("#")
            if owner != self.sharing.host.owner(ctx.principal):
                raise invalid([Fault("/granter", "bad_value", "your own DID")])
            given.setdefault("scope_id", scope_id or "personal")
        if given.pop("revocable", True) is not True:
            raise invalid([Fault("/revocable", "bad_value", "true: a grant can be taken back at any time")])
        if "expires_at" in given:
            ends = instant(given["expires_at"])
            if ends is None:
                raise invalid([Fault("/expires_at", "bad_value", "a time such as 2026-01-01T00:00:00Z")])
            given["expires_at"] = ends
        if "binding" in given:
            binding = given.pop("binding")
            if binding not in ("bearer", "dpop"):
                raise invalid([Fault("/binding", "bad_value", "bearer or dpop")])
            given["bearer"] = binding == "bearer"
        if "scopes" in given:
            scopes: Any = given.pop("scopes")
            known = (QUERY, EMBEDDINGS, EXPORT)
            if not isinstance(scopes, list) or QUERY not in scopes or any(one not in known for one in scopes):  # pyright: ignore[reportUnknownVariableType]
                raise invalid([Fault("/scopes", "bad_value", f"{QUERY}, and perhaps {EMBEDDINGS}, {EXPORT}")])
            given |= {"embeddings": EMBEDDINGS in scopes, "export": EXPORT in scopes}
        return given


def _told(view: GrantView) -> dict[str, Any]:
    return {
        "grant": view.grant,
        "status": view.status,
        "items_disclosed": view.items_disclosed,
        "items_remaining": view.items_remaining,
    }


def _owned(view: GrantView) -> dict[str, Any]:
    told = {**_told(view), "uses": view.uses, "registered_at": rfc3339(view.registered_at)}
    return told if view.revoked_at is None else {**told, "revoked_at": rfc3339(view.revoked_at)}
