"""OAP's address for requests to delete: from the owner for what is here, from others for what they lent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute

from quipu.errors import Fault, NotFoundError
from quipu.model.principal import DEFAULT_TENANT, Principal
from quipu.operation import dispatch, invalid
from quipu.sharing import operations as ops
from quipu.sharing.erasure.cascade import SIGNATURE
from quipu.sharing.service import Sharing
from quipu.sharing.wire import Wire

_MEMBERS = ("principal_did", "scope_id", "item_ids", "filter", "grant_id", "reason", "cascade")
_SELECTORS = ("item_ids", "filter", "grant_id", "scope_id")


@dataclass(frozen=True, slots=True)
class ErasureRoutes:
    """Asks for erasures in OAP's words."""

    sharing: Sharing
    wire: Wire

    @property
    def routes(self) -> list[BaseRoute]:
        return [self.wire.route("POST", "/oap/data/delete", self.delete)]

    async def delete(self, http: HttpRequest) -> HttpResponse:
        """From the owner: 200 once everybody has answered who was shown something, 202 until then."""
        if SIGNATURE.lower() in http.headers and "authorization" not in http.headers:
            return await self._returned(http)
        ctx = await self.wire.owner(http)
        wanted = _asked(await self.wire.body(http), self.sharing.host.owner(ctx.principal))
        erasure = (await dispatch(ctx, ops.ERASE, wanted)).erasure
        assert erasure is not None  # it is not tried only
        output = {"receipt": erasure.receipt, "report": erasure.report}
        return self.wire.enveloped(http, output, 200 if erasure.step == "done" else 202)

    async def _returned(self, http: HttpRequest) -> HttpResponse:
        """From whoever lent something, who proves it by a signature."""
        given = {"body": await self.wire.body(http), "signature": http.headers[SIGNATURE]}
        who = Principal(tenant=DEFAULT_TENANT, name="a lender", permissions=frozenset(), agents=())
        ctx = self.wire.authentication.context(who)
        done = await dispatch(ctx, ops.RETURN_BORROWED, given)
        return self.wire.enveloped(http, done.receipt)


def _asked(body: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The request as the operation has it. Nothing chosen means everything."""
    given = dict(body)
    if unknown := sorted(given.keys() - set(_MEMBERS)):
        raise invalid([Fault(f"/{unknown[0][:64]}", "unknown_field", ", ".join(_MEMBERS))])
    if not isinstance(given.get("principal_did"), str):
        raise invalid([Fault("/principal_did", "missing_field", "the DID of whose memory it is")])
    if given.pop("principal_did") != owner:
        raise NotFoundError("There is no such owner here.", reason="owner")
    if "item_ids" in given:
        given["ids"] = given.pop("item_ids")
    if all(given.get(name) is None for name in ("ids", *_SELECTORS)):
        # A selector that is there and says nothing chooses nothing.
        if any(name in body for name in _SELECTORS):
            raise invalid([Fault("", "bad_value", "no selector, for everything; or one that says what")])
        given["all"] = True
    return given
