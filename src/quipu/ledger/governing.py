"""Held writes, rules and notices, read alike by every ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quipu.ledger import admission, rows
from quipu.model.change import Proposal
from quipu.model.notices import KeptWebhook, Webhook
from quipu.model.value import JsonObject
from quipu.ports.ledger import EVERY, Proposals
from quipu.rules.texts import is_keepable

#: Later than any time.
_END = 1 << 62
#: Whether they stand in one way, and whether the newest come first → how they are asked for.
_STATEMENTS = {
    (True, False): "proposals",
    (True, True): "proposals_back",
    (False, False): "every_proposal",
    (False, True): "every_proposal_back",
}


class Governing:
    """Over the named statements of a ledger."""

    async def _select(self, statement: str, /, **values: Any) -> list[rows.Row]:
        raise NotImplementedError

    async def _altered(self, statement: str, /, **values: Any) -> list[rows.Row]:
        """Rows that a statement has changed, outside any commit."""
        raise NotImplementedError

    async def _flush_erased(self) -> None:
        """Rid the files of what is no longer in any row."""
        raise NotImplementedError

    async def proposals(
        self, tenant: str, status: str | None = None, wanted: Proposals = EVERY
    ) -> Sequence[Proposal]:
        if not all(text is None or is_keepable(text) for text in (wanted.writer, wanted.rule)):
            return []
        is_back = wanted.is_newest_first
        created_at, place = wanted.after or ((_END, "") if is_back else (-_END, ""))
        values: dict[str, Any] = {} if status is None else {"status": status}
        found = await self._select(
            _STATEMENTS[status is not None, is_back],
            tenant=tenant,
            operation=wanted.operation,
            agent_id=wanted.agent_id,
            writer=wanted.writer,
            in_held=None if wanted.rule is None else rows.encoded(wanted.rule),
            of_imports=1 if wanted.is_of_imports else None,
            created_at=created_at,
            id=place,
            limit=-1 if wanted.limit is None else wanted.limit,
            **values,
        )
        return [rows.proposal_of(row) for row in found]

    async def proposal(self, tenant: str, proposal_id: str) -> Proposal | None:
        found = await self._select("proposal", tenant=tenant, id=proposal_id)
        return rows.proposal_of(found[0]) if found else None

    async def let_go(self, tenant: str, before: int, *, keeps_rejected: bool) -> int:
        return len(await self._emptied("let_go", tenant=tenant, before=before, keeps=keeps_rejected))

    async def let_go_of(self, tenant: str, proposal_id: str) -> bool:
        return bool(await self._emptied("let_go_of", tenant=tenant, id=proposal_id))

    async def _emptied(self, statement: str, /, **values: Any) -> list[rows.Row]:
        """The same of rows that lose their text: it is not to be found in the files either."""
        emptied = await self._altered(statement, **values)
        if emptied:
            await self._flush_erased()
        return emptied

    async def webhooks(self, tenant: str) -> Sequence[KeptWebhook]:
        return [admission.webhook_of(row) for row in await self._select("webhooks", tenant=tenant)]

    async def move_webhook(self, was: Webhook, now: Webhook) -> bool:
        return bool(await self._altered("move_webhook", **admission.moved_webhook_values(was, now)))

    async def dismissals(self, tenant: str) -> frozenset[str]:
        return frozenset(row[0] for row in await self._select("dismissals", tenant=tenant))

    async def rules(self, tenant: str) -> Sequence[JsonObject]:
        return rows.rules_of(await self._select("rules", tenant=tenant))
