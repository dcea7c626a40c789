"""Reports that something went wrong: a receipt with the hash of what is said, and no more of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.ledger.commit import Commit
from quipu.ledger.reader import Reader
from quipu.model.journal import Draft
from quipu.operation import Context
from quipu.sharing import receipts
from quipu.sharing.grants import model as m
from quipu.sharing.grants.query import GrantQueries
from quipu.sharing.grants.tokens import use_of
from quipu.sharing.host import Host, kept
from quipu.sharing.model import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Incidents:
    """Notes what owners and grantees report."""

    host: Host
    queries: GrantQueries

    async def report(self, ctx: Context, request: m.ReportIncidentRequest) -> m.ReportIncidentResponse:
        """By the owner."""
        return await self._noted(ctx.tenant, self.host.owner(ctx.principal), None, request.body)

    async def report_under_grant(
        self, ctx: Context, request: m.ReportGrantIncidentRequest
    ) -> m.ReportIncidentResponse:
        """By whoever was given a grant."""
        use = use_of(ctx)
        self.queries.check(use)
        return await self._noted(use.tenant, use.grant.grantee, use.grant.id, request.body)

    async def _noted(
        self, tenant: str, agent: str, grant_id: str | None, body: Mapping[str, Any]
    ) -> m.ReportIncidentResponse:
        now, salt = self.host.clock(), self.host.salt()

        def work(reader: Reader) -> tuple[Receipt, Sequence[Commit]]:
            receipt = self.host.receipt(
                reader,
                "incident",
                at=now,
                agent=agent,
                grant_id=grant_id,
                input_hash=receipts.salted("input", body, salt),
            )
            detail: dict[str, Any] = {"receipt_id": receipt.id}
            if grant_id is not None:
                detail["grant_id"] = grant_id
            draft = Draft(op="incident", actor=agent, at=now, detail=detail)
            return receipt, [Commit(tenant=tenant, draft=draft, changes=(kept(receipt),))]

        receipt = await self.host.ledger.locked(tenant, work)
        return m.ReportIncidentResponse(receipt_id=receipt.id, input_salt=salt)
