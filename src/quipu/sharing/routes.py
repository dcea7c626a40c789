"""OAP's addresses: each reads, calls `dispatch`, and answers in an envelope."""

import base64
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic import model_validator
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from quipu.errors import Fault, NotFoundError
from quipu.fields import Name, ShortText, fault
from quipu.http.authentication import Authentication
from quipu.jose import unb64
from quipu.operation import Context, Request, dispatch, invalid
from quipu.sharing import operations as ops
from quipu.sharing import receipts
from quipu.sharing.about import ACTION
from quipu.sharing.cascade import SIGNATURE
from quipu.sharing.grants import operations as grant_ops
from quipu.sharing.grants.filters import ItemFilter
from quipu.sharing.grants.messages import GrantView
from quipu.sharing.grants.terms import EMBEDDINGS, EXPORT, QUERY, Did
from quipu.sharing.grants.tokens import GrantUse, use_of
from quipu.sharing.messages import ItemIds
from quipu.sharing.model import Receipt
from quipu.sharing.service import Sharing
from quipu.sharing.times import instant, rfc3339
from quipu.sharing.wire import Handler, OapRoute, Wire, described

#: A key that is compromised, or a grant that has ended, must not live on in a cache for long.
_ANYBODY = {"Cache-Control": "max-age=60", "Access-Control-Allow-Origin": "*"}
_SECRET = {"Cache-Control": "no-store"}
#: Members of a grant's draft as the operation has them.
_NAMES = {"trust_level": "level", "redaction_profile": "profile"}
#: So many calls of anybody's are kept in mind, in no owner's chain.
_MOST_CALLS = 1000


_AUDIT = "Receipts: yours, those that name you, or of calls that anybody made."
_SELECTORS = ("item_ids", "grant_id", "scope_id", "filter")


class _Deletion(Request):
    """OAP's request to delete, from the owner. Without a selector it is everything."""

    principal_did: Did
    scope_id: Name | None = None
    item_ids: ItemIds | None = None
    filter: ItemFilter | None = None
    grant_id: Name | None = None
    reason: ShortText = "gdpr-art-17"
    cascade: bool = True

    @model_validator(mode="after")
    def _chooses_in_one_way(self) -> Self:
        given = [name for name in _SELECTORS if name in self.model_fields_set]
        if len(given) > 1 and given != ["scope_id", "filter"]:
            raise fault("bad_value", f"/{given[1]}", "nothing: one selector, or scope_id with filter")
        return self

    def as_operation(self) -> dict[str, Any]:
        given = self.model_dump(mode="json", exclude_unset=True, exclude={"principal_did"})
        if "item_ids" in given:
            given["ids"] = given.pop("item_ids")
        return given if self.model_fields_set.intersection(_SELECTORS) else {**given, "all": True}


@dataclass(frozen=True, slots=True)
class OapRoutes:
    """Everything that another host, or an owner in OAP's words, can ask for."""

    sharing: Sharing
    wire: Wire
    _calls: deque[Receipt] = field(default_factory=lambda: deque(maxlen=_MOST_CALLS), init=False)

    @classmethod
    def of(cls, sharing: Sharing, authentication: Authentication) -> "OapRoutes":
        return cls(sharing, Wire(sharing.host, sharing.admission, authentication))

    @property
    def routes(self) -> list[OapRoute]:
        route, grant, about = self.wire.route, "/oap/memory/grant", self.sharing.about
        memory = about.memory_manifest

        async def document(path: str | None) -> Any:
            return about.document(path)

        async def tool(_: str | None) -> Any:
            return about.tool_manifest()

        async def receipt(_: str | None) -> Any:
            return about.conformance_receipt()

        documents: tuple[tuple[str, Callable[[str | None], Awaitable[Any]], str], ...] = (
            ("/.well-known/did.json", document, "The keys of this host."),
            ("/owners/{path}/did.json", document, "The keys of an owner."),
            ("/.well-known/oap-memory.json", memory, "What this host shares, and how to ask for it."),
            ("/owners/{path}/oap-memory.json", memory, "What an owner shares, and how to ask for it."),
            ("/.well-known/oap-tool.json", tool, "Memory as a tool of OAP."),
            ("/oap-conformance-receipt.json", receipt, "What OAP's own tests said of this host."),
        )
        for_anybody = (
            (
                "GET",
                "/.well-known/oap-revocation",
                self.status,
                "Whether a grant counts: `grant_id` says which.",
            ),
            ("GET", "/oap/audit", self.audit, _AUDIT),
            ("POST", "/oap/invoke", self.invoke, "Public facts about this host: `describe_service`."),
        )
        others = (
            ("POST", "/oap/memory/query", self.query, "Ask for memory under a grant."),
            ("POST", grant, self.create, "Draft a grant, or bring one that its owner has signed."),
            ("GET", grant, self.listed, "List the grants that you have given."),
            ("DELETE", grant, self.revoke_all, "Take back every grant."),
            ("POST", f"{grant}/preview", self.preview, "What a grantee would see of each item."),
            ("GET", f"{grant}/{{id}}", self.get, "Show a grant, and what it has shown."),
            ("DELETE", f"{grant}/{{id}}", self.revoke, "Take a grant back, or give it up."),
            ("POST", f"{grant}/{{id}}/token", self.token, "A token for a grant."),
            ("GET", "/oap/memory/item/{id:path}/log", self.log, "The log of an item that was shown: hashes."),
            ("GET", "/oap/memory/vec/{id:path}.bin", self.vector, "The vector of an item that was shown."),
            (
                "POST",
                "/oap/data/delete",
                self.delete,
                "Delete what is here, and what others were shown of it.",
            ),
            ("POST", "/oap/incident", self.incident, "Report that something went wrong."),
        )
        return [
            *(route("GET", path, self._read(read), said, is_public=True) for path, read, said in documents),
            *(route(*one, is_public=True) for one in for_anybody),
            *(route(*one) for one in others),
        ]

    @property
    def described(self) -> dict[str, Any]:
        """The addresses for the OpenAPI document."""
        return described(self.routes)

    def _read(self, read: Callable[[str | None], Awaitable[Any]]) -> Handler:
        """Bare JSON for anybody. The address of an owner holds a random name, so nobody can ask who is here."""

        async def answered(http: HttpRequest) -> HttpResponse:
            return self.wire.bare(await read(http.path_params.get("path")), headers=_ANYBODY)

        return answered

    # -- under a grant ------------------------------------------------------------------------------------------------

    async def query(self, http: HttpRequest) -> HttpResponse:
        ctx = await self.wire.grantee(http, is_used_later=True)
        body = await self.wire.body(http, may_be_empty=True)
        answer = await dispatch(ctx, grant_ops.QUERY_GRANT, {"body": body})
        return self.wire.enveloped(
            http, answer.output, receipt=answer.receipt, warnings=list(answer.warnings)
        )

    async def token(self, http: HttpRequest) -> HttpResponse:
        """A token: for a grantee who proves a key, or from the owner's hand."""
        grant_id = http.path_params["id"]
        if "authorization" in http.headers:
            made = await dispatch(await self.wire.owner(http), grant_ops.MINT_GRANT_TOKEN, {"id": grant_id})
        else:
            shown = self.wire.shown(http)
            given = {"id": grant_id, "proof": shown.proof, "url": shown.url}
            made = await dispatch(self.wire.anonymous(f"grant {grant_id}"), grant_ops.EXCHANGE_GRANT, given)
        return self.wire.bare(made.to_dict(), headers=_SECRET)

    async def log(self, http: HttpRequest) -> HttpResponse:
        """The log of an item: for its owner, and for who was shown it."""
        asked = {"id": http.path_params["id"]}
        if self.wire.is_grantee(http):
            found = await dispatch(await self.wire.grantee(http), grant_ops.READ_SHARED_LOG, asked)
        else:
            found = await dispatch(await self.wire.owner(http), grant_ops.READ_ITEM_LOG, asked)
        return self.wire.enveloped(http, {"log": list(found.entries)})

    async def vector(self, http: HttpRequest) -> HttpResponse:
        """The vector of an item that was shown: bare floats."""
        ctx = await self.wire.grantee(http, is_used_later=True)
        found = await dispatch(ctx, grant_ops.READ_SHARED_VECTOR, {"id": http.path_params["id"]})
        digest = base64.b64encode(bytes.fromhex(found.digest.removeprefix("sha256:"))).decode()
        headers = {**_SECRET, "Content-Digest": f"sha-256=:{digest}:"}
        return HttpResponse(unb64(found.vector), headers=headers, media_type="application/octet-stream")

    # -- grants -------------------------------------------------------------------------------------------------------

    async def create(self, http: HttpRequest) -> HttpResponse:
        """A grant that its owner has signed, from anybody; or the draft of one, from the owner."""
        given = await self.wire.body(http)
        if "signature" in given:
            ctx = self.wire.anonymous("a signed grant")
            made = await dispatch(ctx, grant_ops.REGISTER_GRANT, {"grant": given})
        else:
            ctx = await self.wire.owner(http)
            made = await dispatch(ctx, grant_ops.SHARE, self._drafted(ctx, given))
        output = {"grant": made.grant, "status": made.status, "endpoints": made.endpoints}
        return self.wire.enveloped(http, output, 201)

    async def preview(self, http: HttpRequest) -> HttpResponse:
        """What a grantee would see of each item."""
        ctx = await self.wire.owner(http)
        draft = self._drafted(ctx, await self.wire.body(http))
        tried = await dispatch(ctx, grant_ops.SHARE, {"purpose": "preview", **draft, "dry_run": True})
        return self.wire.enveloped(http, {"items": [one.item for one in tried.items]})

    async def listed(self, http: HttpRequest) -> HttpResponse:
        ctx = await self.wire.owner(http)
        found = await dispatch(ctx, grant_ops.LIST_GRANTS, {"limit": 1000})
        grants = [_owned(one) for one in found.grants]
        return self.wire.enveloped(http, {"owner": found.owner, "host": found.host, "grants": grants})

    async def get(self, http: HttpRequest) -> HttpResponse:
        """For its owner with what it has shown; for its grantee what it says."""
        grant_id = http.path_params["id"]
        if self.wire.is_grantee(http):
            use = await self._own_use(http, grant_id)
            view = await self.sharing.grants.view(use.tenant, use.row)
            return self.wire.enveloped(http, _told(view))
        found = await dispatch(await self.wire.owner(http), grant_ops.GET_GRANT, {"id": grant_id})
        shown = [{"id": one.item_id, "at": rfc3339(one.at)} for one in found.shown]
        return self.wire.enveloped(http, {**_owned(found.grant), "shown": shown})

    async def revoke(self, http: HttpRequest) -> HttpResponse:
        """Taken back by its owner, or given up by its grantee."""
        grant_id = http.path_params["id"]
        if self.wire.is_grantee(http):
            use = await self._own_use(http, grant_id)
            ended = await self.sharing.grants.revoked(use.tenant, use.grant.id, use.grant.grantee)
        else:
            ended = await dispatch(await self.wire.owner(http), grant_ops.REVOKE_GRANT, {"id": grant_id})
        output = {"grant_id": ended.grant_id, "status": ended.status, "revoked_at": rfc3339(ended.revoked_at)}
        return self.wire.enveloped(http, output)

    async def revoke_all(self, http: HttpRequest) -> HttpResponse:
        ended = await dispatch(await self.wire.owner(http), grant_ops.REVOKE_ALL_GRANTS, {})
        return self.wire.enveloped(http, {"revoked": ended.revoked})

    async def status(self, http: HttpRequest) -> HttpResponse:
        """Whether a grant counts, for anybody who knows its id."""
        document = await self.sharing.grants.status_document(http.query_params.get("grant_id", ""))
        return self.wire.bare(document, headers=_ANYBODY)

    async def _own_use(self, http: HttpRequest, grant_id: str) -> GrantUse:
        use = use_of(await self.wire.grantee(http))
        if use.grant.id != grant_id:
            raise NotFoundError("There is no such grant.", reason="grant")
        return use

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
            if not isinstance(scopes, list) or QUERY not in scopes or any(one not in known for one in scopes):  # pyright: ignore[reportUnknownVariableType]  what anybody sent
                raise invalid([Fault("/scopes", "bad_value", f"{QUERY}, and perhaps {EMBEDDINGS}, {EXPORT}")])
            given |= {"embeddings": EMBEDDINGS in scopes, "export": EXPORT in scopes}
        return given

    # -- erasure ------------------------------------------------------------------------------------------------------

    async def delete(self, http: HttpRequest) -> HttpResponse:
        """From the owner: 200 once everybody has answered who was shown something, 202 until then.

        From whoever lent something, who proves it by a signature: what is held here of theirs.
        """
        if SIGNATURE.lower() in http.headers and "authorization" not in http.headers:
            given = {"body": await self.wire.body(http), "signature": http.headers[SIGNATURE]}
            returned = await dispatch(self.wire.anonymous("a lender"), ops.RETURN_BORROWED, given)
            return self.wire.enveloped(http, returned.receipt)
        ctx = await self.wire.owner(http)
        body = await self.wire.body(http)
        if unclear := [name for name in _SELECTORS if name in body and body[name] is None]:
            raise invalid([Fault(f"/{unclear[0]}", "bad_value", "something; or no selector, for everything")])
        asked = _Deletion.parse(body)
        if asked.principal_did != self.sharing.host.owner(ctx.principal):
            raise NotFoundError(
                "There is no such owner here.",
                reason="owner",
                faults=[Fault("/principal_did", "owner", "your own DID")],
            )
        erasure = (await dispatch(ctx, ops.ERASE, asked.as_operation())).erasure
        assert erasure is not None  # it is not tried only
        output = {"receipt": erasure.receipt, "report": erasure.report}
        return self.wire.enveloped(http, output, 200 if erasure.step == "done" else 202)

    # -- what happened ------------------------------------------------------------------------------------------------

    async def audit(self, http: HttpRequest) -> HttpResponse:
        """The owner's chain; a grantee's own receipts; of anybody else the calls that anybody made."""
        after = http.query_params.get("after")
        if self.wire.is_grantee(http):
            ctx = await self.wire.grantee(http)
            found = await dispatch(ctx, grant_ops.LIST_SHARED_RECEIPTS, {"after": after} if after else {})
            return self.wire.bare({"receipts": list(found.receipts), "next": found.next})
        if "authorization" not in http.headers:
            return self.wire.bare({"receipts": [one.body for one in self._calls], "next": None})
        ctx = await self.wire.owner(http)
        listed = await dispatch(ctx, grant_ops.LIST_RECEIPTS, {"after": _number(after)} if after else {})
        return self.wire.bare({"receipts": [one.body for one in listed.receipts], "next": listed.next})

    async def incident(self, http: HttpRequest) -> HttpResponse:
        """Something went wrong, somebody says."""
        given = {"body": await self.wire.body(http)}
        if self.wire.is_grantee(http):
            ctx = await self.wire.grantee(http)
            noted = await dispatch(ctx, grant_ops.REPORT_GRANT_INCIDENT, given)
        else:
            noted = await dispatch(await self.wire.owner(http), grant_ops.REPORT_INCIDENT, given)
        return self.wire.enveloped(http, noted.to_dict(), 202)

    async def invoke(self, http: HttpRequest) -> HttpResponse:
        """Public facts about this host, for anybody, on a receipt in no owner's chain. No memory passes through here."""
        body, host = await self.wire.body(http), self.sharing.host
        action = body.get("action")
        if not isinstance(action, str):
            raise invalid([Fault("/action", "missing_field", ACTION)])
        if action != ACTION:
            raise NotFoundError("There is no such action here.", reason="action")
        output = (await dispatch(self.wire.anonymous("anybody"), ops.DESCRIBE_SERVICE, {})).to_dict()
        receipt = receipts.receipt(
            self._calls[-1] if self._calls else None,
            id=host.ulid(),
            type="invocation",
            at=host.clock(),
            principal=host.did,
            agent="did:web:anonymous.invalid",
            by=host.keyring.signatory(None),
            action_id=ACTION,
            action_version=receipts.ACTION_VERSION,
            input_hash=receipts.salted("input", body.get("input", {}), host.salt()),
            output_hash=receipts.hashed(output),
            policy_decisions=[host.decision("allow", "service.public")],
        )
        self._calls.append(receipt)
        return self.wire.enveloped(
            http, output, receipt={"id": receipt.id, "anchored_in": []}, receipt_id=receipt.id
        )


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


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise invalid([Fault("/after", "bad_value", "next of the page before")])
    return int(text)
