"""Rules that are kept, and people who agree: what every ledger does with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import ConflictError, NotFoundError
from quipu.model.change import Approval, Approve, KeepRules, Proposal, Settle, Stage
from quipu.model.journal import Op
from quipu.testing.builders import Scribe, adding
from quipu.testing.ledger.case import LedgerCase


def a_stage(**given: Any) -> Stage:
    known: dict[str, Any] = {
        "proposal_id": "prp_1",
        "operation": "remember",
        "agent_id": "ana",
        "request": {"content": "tea"},
        "held_by": ("imports",),
        "lapses_at": 9,
        "approvals": 2,
        "because": "It is an import.",
        "salt": b"\x01\x02",
    }
    return Stage(**{**known, **given})


async def only(scribe: Scribe) -> Proposal:
    (proposal,) = await scribe.ledger.proposals(scribe.tenant)
    return proposal


class GovernanceContract(LedgerCase):
    """Rules and approvals."""

    async def test_a_held_write_keeps_why_and_by_how_many_it_is_decided(self, scribe: Scribe) -> None:
        await scribe.commit(a_stage(), op=Op.HOLD)
        held = await only(scribe)
        assert (held.approvals, held.given) == (2, ())
        assert (held.because, held.salt) == ("It is an import.", b"\x01\x02")

    async def test_a_plain_held_write_needs_one(self, scribe: Scribe) -> None:
        await scribe.commit(a_stage(approvals=1, because=None, salt=b""), op=Op.HOLD)
        held = await only(scribe)
        assert (held.approvals, held.given, held.because, held.salt) == (1, (), None, b"")

    async def test_approvals_are_kept_and_it_goes_on_waiting(self, scribe: Scribe) -> None:
        await scribe.commit(a_stage(approvals=3), op=Op.HOLD)
        one = Approval(reviewer="carla", at=5, etag="e1")
        two = Approval(reviewer="dario", at=6, etag="e1")
        await scribe.commit(Approve(proposal_id="prp_1", given=(one,), expects=0), op=Op.APPROVE)
        await scribe.commit(Approve(proposal_id="prp_1", given=(one, two), expects=1), op=Op.APPROVE)
        held = await only(scribe)
        assert (held.status, held.given) == ("pending", (one, two))

    async def test_of_two_who_approve_at_once_one_must_look_again(self, scribe: Scribe) -> None:
        await scribe.commit(a_stage(), op=Op.HOLD)
        one = Approval(reviewer="carla", at=5, etag="e1")
        await scribe.commit(Approve(proposal_id="prp_1", given=(one,), expects=0), op=Op.APPROVE)
        late = Approve(proposal_id="prp_1", given=(replace(one, reviewer="dario"),), expects=0)
        before = await scribe.ledger.head(scribe.tenant)
        with pytest.raises(ConflictError) as refused:
            await scribe.commit(late, op=Op.APPROVE)
        assert refused.value.reason == "decided_meanwhile"
        assert await scribe.ledger.head(scribe.tenant) == before
        assert (await only(scribe)).given == (one,)

    async def test_what_was_decided_or_never_was_is_not_approved(self, scribe: Scribe) -> None:
        one = Approval(reviewer="carla", at=5, etag="e1")
        with pytest.raises(ConflictError):
            await scribe.commit(Approve(proposal_id="prp_1", given=(one,), expects=0), op=Op.APPROVE)
        await scribe.commit(a_stage(), op=Op.HOLD)
        await scribe.commit(Settle(proposal_id="prp_1", approved=False, reviewer="x"), op=Op.DECIDE)
        with pytest.raises(ConflictError):
            await scribe.commit(Approve(proposal_id="prp_1", given=(one,), expects=0), op=Op.APPROVE)

    async def test_the_salt_goes_with_the_decision_and_with_an_erasure(self, scribe: Scribe) -> None:
        await scribe.commit(a_stage(), op=Op.HOLD)
        await scribe.commit(Settle(proposal_id="prp_1", approved=True, reviewer="x"), op=Op.DECIDE)
        settled = await only(scribe)
        assert (settled.salt, settled.request) == (b"", {})
        await scribe.commit(a_stage(proposal_id="prp_2", record_id="mem_1"), op=Op.HOLD)
        await scribe.erase("mem_1")
        erased = next(p for p in await scribe.ledger.proposals(scribe.tenant) if p.id == "prp_2")
        assert (erased.salt, erased.status) == (b"", "rejected")

    async def test_rules_are_kept_in_their_order_and_replaced_as_a_whole(self, scribe: Scribe) -> None:
        assert list(await scribe.ledger.rules(scribe.tenant)) == []
        rules = ({"id": "b", "when": {"types": ["semantic"]}}, {"id": "a", "reason": "é"})
        await scribe.commit(KeepRules(rules=rules), op=Op.CHANGE_RULES)
        assert list(await scribe.ledger.rules(scribe.tenant)) == list(rules)
        await scribe.commit(KeepRules(rules=()), op=Op.CHANGE_RULES)
        assert list(await scribe.ledger.rules(scribe.tenant)) == []

    async def test_rules_are_the_tenants_own(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.commit(KeepRules(rules=({"id": "a"},)), op=Op.CHANGE_RULES)
        assert list(await scribe.ledger.rules(other.tenant)) == []
        with pytest.raises(NotFoundError):
            await scribe.ledger.rules("nobody")

    async def test_a_write_that_was_judged_by_older_rules_is_refused(self, scribe: Scribe) -> None:
        old = (await scribe.ledger.guard(scribe.tenant)).position
        done = await scribe.commit(KeepRules(rules=({"id": "a"},)), op=Op.CHANGE_RULES)
        with pytest.raises(ConflictError) as refused:
            await scribe.ledger.commit(scribe.committing(adding(scribe.drafted())), guard=old)
        assert refused.value.reason == "secrets_changed"
        now = (await scribe.ledger.guard(scribe.tenant)).position
        assert now == done.seq
        await scribe.ledger.commit(scribe.committing(adding(scribe.drafted())), guard=now)
