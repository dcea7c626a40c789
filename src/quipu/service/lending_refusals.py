"""What was refused to a grantee is noted on a receipt, so that the owner can see it (4.8)."""

from __future__ import annotations

from collections import OrderedDict

from quipu.model.disclosure import Question, Standing, Writes
from quipu.model.grants import Grant
from quipu.ports.parts import Parts
from quipu.rules import grants_decisions as decisions
from quipu.rules import rates, receipts
from quipu.rules.rates import Bucket
from quipu.service.lending import lending_parts

_KEPT = 10_000


class Refusals:
    """Notes no more of them than a grant allows queries: whoever is refused cannot fill the owner's chain."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    async def note(self, tenant: str, grant: Grant, reason: str, action: str | None = None) -> None:
        """A receipt of the refusal, with the rule that refused."""
        own, now = lending_parts(self._parts), self._parts.clock()
        key = (tenant, grant.id)
        bucket, wait = rates.taken(self._buckets.pop(key, None), own.queries_per_minute, now)
        self._buckets[key] = bucket
        if len(self._buckets) > _KEPT:
            self._buckets.popitem(last=False)
        if wait is not None:
            return
        named = {} if action is None else {"action_id": action, "action_version": "1.0.0"}

        def decide(standing: Standing) -> Writes:
            id, rules = self._parts.mint_id("pol"), [f"{decisions.REFUSED}{reason}"]
            told = {"scope_id": grant.scope_id, "grant_id": grant.id}
            made = receipts.receipt(
                standing.end,
                id=self._parts.mint_id("rcp").partition("_")[2],
                type="invocation",
                at=now,
                principal=grant.granter,
                agent=grant.grantee,
                hand=own.keyring.hand(None),
                canonical=self._parts.canonical,
                grant_id=grant.id,
                policy_decisions=[decisions.policy(id, decisions.BLOCK, rules, **told)],
                **named,
            )
            return Writes(receipts=[made])

        await self._parts.ledger.lending.decide(tenant, Question(now=now), decide)
