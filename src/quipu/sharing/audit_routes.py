"""OAP's addresses that speak of what happened: receipts, incidents, and the one action that anybody may call."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute

from quipu.errors import Fault, NotFoundError
from quipu.operation import dispatch, invalid
from quipu.sharing import operations as ops
from quipu.sharing import receipts
from quipu.sharing.grant_routes import GrantRoutes
from quipu.sharing.grants import operations as grant_ops
from quipu.sharing.manifests import ACTION, ACTION_VERSION
from quipu.sharing.model import Receipt
from quipu.sharing.service import Sharing
from quipu.sharing.wire import Wire

#: So many calls of anybody's are kept in mind, in no owner's chain.
_MOST_CALLS = 1000
_ANYBODY = "did:web:anonymous.invalid"


@dataclass(slots=True)
class AuditRoutes:
    """Who may see which receipts."""

    sharing: Sharing
    wire: Wire
    grants: GrantRoutes
    _calls: deque[Receipt] = field(default_factory=lambda: deque(maxlen=_MOST_CALLS), init=False)

    @property
    def routes(self) -> list[BaseRoute]:
        route = self.wire.route
        return [
            route("GET", "/oap/audit", self.audit),
            route("POST", "/oap/incident", self.incident),
            route("POST", "/oap/invoke", self.invoke),
        ]

    async def audit(self, http: HttpRequest) -> HttpResponse:
        """The owner's chain; a grantee's own receipts; of anybody else the calls that anybody made."""
        after = http.query_params.get("after")
        if self.wire.is_grantee(http):
            ctx = await self.grants.grantee(http)
            found = await dispatch(ctx, grant_ops.LIST_SHARED_RECEIPTS, {"after": after} if after else {})
            return self.wire.bare({"receipts": list(found.receipts), "next": found.next})
        if "authorization" not in http.headers:
            return self.wire.bare({"receipts": [one.body for one in self._calls], "next": None})
        ctx = await self.wire.owner(http)
        listed = await dispatch(ctx, grant_ops.LIST_RECEIPTS, {"after": _number(after)} if after else {})
        return self.wire.bare({"receipts": [one.body for one in listed.receipts], "next": listed.next})

    async def incident(self, http: HttpRequest) -> HttpResponse:
        """Something went wrong, somebody says."""
        body = await self.wire.body(http)
        if self.wire.is_grantee(http):
            noted = await dispatch(
                await self.grants.grantee(http), grant_ops.REPORT_GRANT_INCIDENT, {"body": body}
            )
        else:
            noted = await dispatch(await self.wire.owner(http), grant_ops.REPORT_INCIDENT, {"body": body})
        return self.wire.enveloped(http, noted.to_dict(), 202)

    async def invoke(self, http: HttpRequest) -> HttpResponse:
        """Public facts about this host, for anybody. No memory passes through here."""
        body = await self.wire.body(http)
        action = body.get("action")
        if not isinstance(action, str):
            raise invalid([Fault("/action", "missing_field", ACTION)])
        if action != ACTION:
            raise NotFoundError("There is no such action here.", reason="action")
        said = await dispatch(self.grants.anonymous("anybody"), ops.DESCRIBE_SERVICE, {})
        output = said.to_dict()
        receipt = self._noted(body.get("input", {}), output)
        return self.wire.enveloped(
            http, output, receipt={"id": receipt.id, "anchored_in": []}, receipt_id=receipt.id
        )

    def _noted(self, given: Any, output: Any) -> Receipt:
        """The receipt of a call, in the chain of such calls: no owner's."""
        host = self.sharing.host
        receipt = receipts.receipt(
            self._calls[-1] if self._calls else None,
            id=host.ulid(),
            type="invocation",
            at=host.clock(),
            principal=host.did,
            agent=_ANYBODY,
            by=host.keyring.signatory(None),
            action_id=ACTION,
            action_version=ACTION_VERSION,
            input_hash=receipts.salted("input", given, host.salt()),
            output_hash=receipts.hashed(output),
            policy_decisions=[host.decision("allow", "service.public")],
        )
        self._calls.append(receipt)
        return receipt


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise invalid([Fault("/after", "bad_value", "next of the page before")])
    return int(text)
