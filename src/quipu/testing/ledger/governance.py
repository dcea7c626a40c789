"""Rules that are kept, and people who agree: what every ledger does with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import ConflictError, NotFoundError
from quipu.model.change import (
    AddWebhook,
    Approval,
    Approve,
    Dismiss,
    DropWebhook,
    KeepRules,
    Proposal,
    Settle,
    Stage,
)
from quipu.model.journal import Op
from quipu.model.notices import Event, Webhook
from quipu.model.value import Json
from quipu.ports.ledger import Proposals
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


def a_webhook(tenant: str) -> Webhook:
    return Webhook(
        tenant=tenant,
        id="whk_1",
        url="https://example.org/held",
        events=(Event.HELD, Event.DECIDED),
        agents=("a*",),
        with_content=False,
        created_at=3,
        created_by="carla",
        position=2,
    )


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
        await scribe.commit(Approve(proposal_id="prp_1", given=(one,)), op=Op.APPROVE)
        await scribe.commit(Approve(proposal_id="prp_1", given=(one, two), former=(one,)), op=Op.APPROVE)
        held = await only(scribe)
        assert (held.status, held.given) == ("pending", (one, two))

    async def test_of_two_who_approve_at_once_one_must_look_again(self, scribe: Scribe) -> None:
        await scribe.commit(a_stage(), op=Op.HOLD)
        one = Approval(reviewer="carla", at=5, etag="e1")
        await scribe.commit(Approve(proposal_id="prp_1", given=(one,)), op=Op.APPROVE)
        late = Approve(proposal_id="prp_1", given=(replace(one, reviewer="dario"),))
        before = await scribe.ledger.head(scribe.tenant)
        with pytest.raises(ConflictError) as refused:
            await scribe.commit(late, op=Op.APPROVE)
        assert refused.value.reason == "decided_meanwhile"
        assert await scribe.ledger.head(scribe.tenant) == before
        assert (await only(scribe)).given == (one,)

    async def test_of_two_who_approve_at_once_after_a_stale_one_one_must_look_again(
        self, scribe: Scribe
    ) -> None:
        """Each leaves out the one that no longer counts, so that there are as many as before."""
        await scribe.commit(a_stage(approvals=3), op=Op.HOLD)
        stale = Approval(reviewer="carla", at=5, etag="e1")
        one, late = [Approval(reviewer=name, at=6, etag="e2") for name in ("dario", "elsa")]
        await scribe.commit(Approve(proposal_id="prp_1", given=(stale,)), op=Op.APPROVE)
        await scribe.commit(Approve(proposal_id="prp_1", given=(one,), former=(stale,)), op=Op.APPROVE)
        with pytest.raises(ConflictError) as refused:
            await scribe.commit(Approve(proposal_id="prp_1", given=(late,), former=(stale,)), op=Op.APPROVE)
        assert refused.value.reason == "decided_meanwhile"
        assert (await only(scribe)).given == (one,)

    async def test_what_was_decided_or_never_was_is_not_approved(self, scribe: Scribe) -> None:
        one = Approval(reviewer="carla", at=5, etag="e1")
        with pytest.raises(ConflictError):
            await scribe.commit(Approve(proposal_id="prp_1", given=(one,)), op=Op.APPROVE)
        await scribe.commit(a_stage(), op=Op.HOLD)
        await scribe.commit(Settle(proposal_id="prp_1", approved=False, reviewer="x"), op=Op.DECIDE)
        with pytest.raises(ConflictError):
            await scribe.commit(Approve(proposal_id="prp_1", given=(one,)), op=Op.APPROVE)

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

    # -- pages, what is kept, what is learnt from ---------------------------------------------------------------

    async def test_proposals_come_by_page_in_both_directions(self, scribe: Scribe) -> None:
        for number in range(5):
            agent = "ana" if number % 2 == 0 else "bo"
            await scribe.commit(a_stage(proposal_id=f"prp_{number}", agent_id=agent), op=Op.HOLD)
        ledger, tenant = scribe.ledger, scribe.tenant

        async def named(wanted: Proposals) -> list[str]:
            return [one.id for one in await ledger.proposals(tenant, "pending", wanted)]

        assert await named(Proposals(limit=2)) == ["prp_0", "prp_1"]
        second = await ledger.proposal(tenant, "prp_1")
        assert second is not None
        place = (second.created_at, second.id)
        assert await named(Proposals(limit=2, after=place)) == ["prp_2", "prp_3"]
        assert await named(Proposals(after=place, is_newest_first=True)) == ["prp_0"]
        assert await named(Proposals(is_newest_first=True, limit=1)) == ["prp_4"]
        assert await named(Proposals(agent_id="bo")) == ["prp_1", "prp_3"]
        assert await named(Proposals(operation="merge")) == []
        assert await ledger.proposal(tenant, "prp_9") is None
        assert await ledger.proposals(tenant, "approved") == []

    async def test_proposals_are_found_by_what_is_said_of_them(self, scribe: Scribe) -> None:
        plain: dict[str, Json] = {"content": "tea"}
        brought: dict[str, Json] = {"content": "tea", "import_id": "imp_1"}
        given = [
            (("caller",), plain),
            (('a "rule" é', "imports"), plain),
            (("imports",), brought),
            (("the imports",), plain),
        ]
        for number, (rules, body) in enumerate(given):
            stage = a_stage(proposal_id=f"prp_{number}", held_by=rules, request=body)
            await scribe.commit(stage, op=Op.HOLD)
        ledger, tenant = scribe.ledger, scribe.tenant
        everybody = {one.writer for one in await ledger.proposals(tenant)}

        async def named(status: str | None = "pending", **wanted: Any) -> list[str]:
            return [one.id for one in await ledger.proposals(tenant, status, Proposals(**wanted))]

        assert await named(rule="imports") == ["prp_1", "prp_2"]
        assert await named(rule="imports", is_newest_first=True, limit=1) == ["prp_2"]
        assert await named(rule='a "rule" é') == ["prp_1"]
        assert await named(status=None, rule="caller") == ["prp_0"]
        assert await named(status="approved", rule="caller") == []
        assert await named(is_of_imports=True) == ["prp_2"]
        for writer in everybody:
            assert len(await named(writer=writer)) == 4
        for name in ("writer", "rule"):
            assert await named(**{name: "nobody"}) == await named(**{name: "no\0body"}) == []
        every = [f"prp_{number}" for number in range(4)]
        assert await named(status=None) == every
        assert await named(status=None, is_newest_first=True) == every[::-1]

    async def test_a_proposal_is_the_tenants_own(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.commit(a_stage(), op=Op.HOLD)
        assert await scribe.ledger.proposal(other.tenant, "prp_1") is None

    async def test_what_a_held_write_is_like_stays_until_it_is_erased(self, scribe: Scribe) -> None:
        like = {"store": "main", "type": "semantic", "source": "web_page"}
        await scribe.commit(a_stage(traits=like, record_id="mem_1"), op=Op.HOLD)
        await scribe.commit(Settle(proposal_id="prp_1", approved=True, reviewer="x"), op=Op.DECIDE)
        settled = await only(scribe)
        assert (settled.traits, settled.request) == (like, {})
        await scribe.erase("mem_1")
        erased = await only(scribe)
        assert (erased.traits, erased.status) == ({}, "approved")

    async def test_what_was_rejected_is_kept_where_that_is_wanted_and_goes_with_an_erasure(
        self, scribe: Scribe
    ) -> None:
        await scribe.commit(a_stage(record_id="mem_1"), op=Op.HOLD)
        no = Settle(proposal_id="prp_1", approved=False, reviewer="x", keeps=True)
        await scribe.commit(no, op=Op.DECIDE)
        kept = await only(scribe)
        assert (kept.status, kept.request, kept.salt) == ("rejected", {"content": "tea"}, b"")
        await scribe.erase("mem_1")
        assert (await only(scribe)).request == {}

    async def test_what_was_decided_is_kept_for_a_while_and_then_let_go(self, scribe: Scribe) -> None:
        for number in (1, 2, 3):
            await scribe.commit(a_stage(proposal_id=f"prp_{number}"), op=Op.HOLD)
        for number, said in ((1, True), (2, False)):
            settle = Settle(proposal_id=f"prp_{number}", approved=said, reviewer="x", undoable=True)
            await scribe.commit(settle, op=Op.DECIDE)
        ledger, tenant = scribe.ledger, scribe.tenant
        other = await Scribe.at(ledger, scribe.clock, tenant="other")

        async def kept() -> list[tuple[bool, bool]]:
            found = [await ledger.proposal(tenant, f"prp_{number}") for number in (1, 2, 3)]
            return [(bool(one.request), bool(one.salt)) for one in found if one is not None]

        now = scribe.clock()
        assert await ledger.let_go(tenant, 0, keeps_rejected=False) == 0
        assert await ledger.let_go(other.tenant, now + 10_000, keeps_rejected=False) == 0
        assert await kept() == [(True, True)] * 3
        assert await ledger.let_go_of(tenant, "prp_1")
        assert not await ledger.let_go_of(tenant, "prp_1"), "once"
        assert not await ledger.let_go_of(tenant, "prp_3"), "what waits is not let go"
        assert await ledger.let_go(tenant, now + 10_000, keeps_rejected=True) == 1
        assert await kept() == [(False, False), (True, False), (True, True)], (
            "kept for good where that is wanted"
        )

    async def test_dismissed_suggestions_are_kept_once(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        for _ in range(2):
            await scribe.commit(Dismiss(suggestion_id="sug_1"), op=Op.DISMISS_RULE)
        assert await scribe.ledger.dismissals(scribe.tenant) == {"sug_1"}
        assert await scribe.ledger.dismissals(other.tenant) == frozenset()

    # -- notices ------------------------------------------------------------------------------------------------

    async def test_a_webhook_is_kept_moved_and_dropped(self, scribe: Scribe) -> None:
        webhook = a_webhook(scribe.tenant)
        await scribe.commit(AddWebhook(webhook=webhook, sealed=b"\x07\x08"), op=Op.ADD_WEBHOOK)
        (kept,) = await scribe.ledger.webhooks(scribe.tenant)
        assert (kept.webhook, kept.sealed) == (webhook, b"\x07\x08")
        moved = replace(webhook, position=9, attempts=2, next_at=7, error="refused", dropped=1)
        assert await scribe.ledger.move_webhook(webhook, moved)
        assert not await scribe.ledger.move_webhook(webhook, replace(moved, position=10)), (
            "somebody was faster"
        )
        (kept,) = await scribe.ledger.webhooks(scribe.tenant)
        assert kept.webhook == moved
        await scribe.commit(DropWebhook(webhook_id=webhook.id), op=Op.DROP_WEBHOOK)
        assert list(await scribe.ledger.webhooks(scribe.tenant)) == []
        assert not await scribe.ledger.move_webhook(moved, replace(moved, position=11))

    async def test_webhooks_are_the_tenants_own(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.commit(AddWebhook(webhook=a_webhook(scribe.tenant), sealed=b"\x07"), op=Op.ADD_WEBHOOK)
        assert list(await scribe.ledger.webhooks(other.tenant)) == []
