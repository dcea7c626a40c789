"""Rules that decisions suggest: shown with their evidence, accepted or dismissed by a person."""

from __future__ import annotations

from dataclasses import replace

from quipu.errors import ForbiddenError, NotFoundError
from quipu.model.change import Commit, Dismiss, Proposal
from quipu.model.governance import Rule
from quipu.model.journal import Draft, Op
from quipu.model.learning import Suggestion
from quipu.model.principal import Permission, Principal
from quipu.ports.ledger import Proposals
from quipu.ports.parts import Parts
from quipu.rules import learning
from quipu.rules.policy import is_over
from quipu.rules.policy_parsing import rule_body
from quipu.service.access import Access
from quipu.service.policies import Policies
from quipu.service.sight import Sight

_PAGE = 500
#: So many decisions are looked back at, at most, and so many writes a suggestion is tried on.
_MOST, _TRIED = 5_000, 500


class Learning:
    """Over the proposals that were decided."""

    def __init__(self, parts: Parts, access: Access, policies: Policies) -> None:
        self._parts, self._access, self._policies = parts, access, policies
        self._sight = Sight(parts, access)

    async def suggested(self, principal: Principal) -> tuple[Suggestion, ...]:
        """What decisions on the reviewer's agents suggest, each tried on the last writes."""
        self._access.authorise(principal, Permission.REVIEW)
        if principal.user_id is not None:
            # A decided proposal no longer says whose memory it was about.
            raise ForbiddenError("This credential is bound to one user.", reason="user_not_allowed")
        now = self._parts.clock()
        known = {rule.id for rule in await self._policies.list(principal) if not is_over(rule, now)}
        unwanted = await self._parts.ledger.dismissals(principal.tenant)
        found = learning.suggestions(await self._decided(principal), now, unwanted)
        return tuple([await self._simulated(principal, one) for one in found if one.rule.id not in known])

    async def accept(self, principal: Principal, suggestion_id: str) -> tuple[Rule, ...]:
        """Make it a rule of its own, first among the tenant's. It ends by itself, and can be taken away before."""
        self._access.authorise(principal, Permission.ADMIN)
        chosen = await self._chosen(principal, suggestion_id)
        # One that ended is taken away by the one that takes its place.
        own = [rule for rule in await self._policies.own(principal) if rule.id != chosen.rule.id]
        return await self._policies.set(
            principal, {"rules": [rule_body(rule) for rule in (chosen.rule, *own)]}
        )

    async def dismiss(self, principal: Principal, suggestion_id: str) -> None:
        """Do not suggest it again."""
        self._access.authorise(principal, Permission.ADMIN)
        chosen = await self._chosen(principal, suggestion_id)
        draft = Draft(
            op=Op.DISMISS_RULE,
            actor=principal.name,
            at=self._parts.clock(),
            detail={"suggestion": chosen.id, "rule": chosen.rule.id},
        )
        change = Dismiss(suggestion_id=chosen.id)
        await self._parts.ledger.commit(Commit(tenant=principal.tenant, draft=draft, changes=(change,)))

    async def _chosen(self, principal: Principal, suggestion_id: str) -> Suggestion:
        for one in await self.suggested(principal):
            if one.id == suggestion_id:
                return one
        raise NotFoundError("There is no such suggestion.", reason="suggestion")

    async def _decided(self, principal: Principal) -> list[Proposal]:
        """Decisions of the last while on agents in reach, newest first."""
        since = self._parts.clock() - learning.WINDOW_MS - self._parts.proposal_life_ms
        found: list[Proposal] = []
        for status in ("approved", "rejected"):
            place: tuple[int, str] | None = None
            while len(found) < _MOST:
                wanted = Proposals(after=place, limit=_PAGE, is_newest_first=True)
                page = await self._parts.ledger.proposals(principal.tenant, status, wanted)
                found += [one for one in page if await self._sight.sees(principal, one)]
                if len(page) < _PAGE or page[-1].created_at < since:
                    break
                place = (page[-1].created_at, page[-1].id)
        return found

    async def _simulated(self, principal: Principal, one: Suggestion) -> Suggestion:
        document = {"rules": [rule_body(one.rule)]}
        tried = await self._policies.tried(principal, document, _TRIED)
        return replace(one, effect=sum(each.verdict.rule == one.rule.id for each in tried))
