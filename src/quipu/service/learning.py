"""Rules that decisions suggest: shown with their evidence, accepted or dismissed by a person."""

from __future__ import annotations

from dataclasses import replace

from quipu.errors import ConflictError, ForbiddenError, NotFoundError
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
        found = await self._found(principal)
        effects = await self._policies.decided_by_each(principal, [one.rule for one in found], _TRIED)
        return tuple(replace(one, effect=effect) for one, effect in zip(found, effects, strict=True))

    async def _found(self, principal: Principal) -> list[Suggestion]:
        self._access.authorise(principal, Permission.REVIEW)
        if principal.user_id is not None:
            # A decided proposal no longer says whose memory it was about.
            raise ForbiddenError("This credential is bound to one user.", reason="user_not_allowed")
        now = self._parts.clock()
        known = {rule.id for rule in await self._policies.list(principal) if not is_over(rule, now)}
        unwanted = await self._parts.ledger.dismissals(principal.tenant)
        found = learning.suggestions(await self._decided(principal), now, unwanted)
        return [one for one in found if one.rule.id not in known]

    async def accept(self, principal: Principal, suggestion_id: str) -> tuple[Rule, ...]:
        """Make it a rule of its own, before those that had held its evidence. It ends by itself, and can be taken away before.

        One that ended is taken away by the one that takes its place.
        """
        self._access.authorise(principal, Permission.ADMIN)
        chosen = await self._chosen(principal, suggestion_id)
        held_by = await self._held_by(principal, chosen)
        while True:
            position = (await self._parts.ledger.guard(principal.tenant)).position
            rules = learning.placed(chosen.rule, await self._policies.own(principal), held_by)
            document = {"rules": [rule_body(rule) for rule in rules]}
            try:
                return await self._policies.set(principal, document, guard=position)
            except ConflictError as conflict:
                # Somebody else has changed the rules, and what they wrote stays.
                if conflict.reason != "secrets_changed":
                    raise

    async def _held_by(self, principal: Principal, chosen: Suggestion) -> frozenset[str]:
        """The rules whose decisions people took, and that it takes over."""
        found = [await self._parts.ledger.proposal(principal.tenant, name) for name in chosen.evidence]
        return frozenset(rule for one in found if one is not None for rule in one.held_by)

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
        for one in await self._found(principal):
            if one.id == suggestion_id:
                return one
        raise NotFoundError("There is no such suggestion.", reason="suggestion")

    async def _decided(self, principal: Principal) -> list[Proposal]:
        """Decisions of the last while on agents in reach.

        Of one kind there may be more than are looked at. Then the others are not looked at further back either: where
        only the yeses of a time are known, it looks as if nobody had said no.
        """
        since = self._parts.clock() - learning.WINDOW_MS - self._parts.proposal_life_ms
        found: list[Proposal] = []
        for status in ("approved", "rejected"):
            decided, reached = await self._decided_as(principal.tenant, status, since)
            found, since = [*found, *decided], max(since, reached)
        return [one for one in found if one.created_at >= since and await self._sight.sees(principal, one)]

    async def _decided_as(self, tenant: str, status: str, since: int) -> tuple[list[Proposal], int]:
        """The newest of them, and back to when they are all there."""
        found: list[Proposal] = []
        while len(found) < _MOST:
            place = (found[-1].created_at, found[-1].id) if found else None
            wanted = Proposals(after=place, limit=_PAGE, is_newest_first=True)
            page = await self._parts.ledger.proposals(tenant, status, wanted)
            found += page
            if len(page) < _PAGE or page[-1].created_at < since:
                return found, since
        return found, found[-1].created_at + 1  # others may have come at the same moment
