"""Writes that wait for a person: unseen before, exact after."""

from quipu.testing.scenarios.check import Check
from quipu.testing.scenarios.scenario import Scenario
from quipu.testing.scenarios.subject import Subject


async def pending_is_unseen(at: Subject, check: Check) -> None:
    at.extended()
    at.promised("governance")
    yes = await at.remember("The gate code is new.", approval_required=True, metadata={"kind": "code"})
    no = await at.remember("The gate code is old.", approval_required=True)
    for held in (yes, no):
        check(held.pending_approval and held.approval_url and not held.stores, "a held write says so")
        await check.refused(at.memory.get(held.id), "not_found", "record")
    check.equal(await at.found("gate code"), [], "what is recalled while it waits")
    check.equal(await at.listed(), [], "what is listed while it waits")
    waiting = {review.id for review in await at.waiting()}
    check.equal(waiting, {yes.proposal_id, no.proposal_id}, "what waits")
    assert yes.proposal_id is not None
    assert no.proposal_id is not None
    await at.decide(yes.proposal_id, is_approved=True)
    await at.decide(no.proposal_id, is_approved=False)
    check.equal(await at.found("gate code"), [yes.id], "what is recalled then")
    check.equal((await at.memory.get(yes.id)).metadata, {"kind": "code"}, "what was approved")
    for decided in waiting:
        await check.refused(at.decide(decided, is_approved=True), "conflict", "already_decided")
    await check.refused(at.decide("prop_unknown", is_approved=True), "not_found", "proposal")
    check.equal(list(await at.waiting()), [], "what still waits")
    await at.sound(check)


async def removals_wait_too(at: Subject, check: Check) -> None:
    at.extended()
    at.promised("governance")
    one, two = await at.kept("Rope one is red."), await at.kept("Rope two is blue.")
    three, four = await at.kept("Rope three is green."), await at.kept("Rope four is grey.")
    forget = await at.forget(one, approval_required=True)
    merge = await at.merge(two, three, strategy="merge_content", approval_required=True, reasoning="the same")
    for held in (forget, merge):
        check(held.pending_approval and held.approval_url, "what is held says where to approve it")
    check.equal((forget.forgotten_ids, merge.merged_count), ((), 0), "what was done")
    check.equal(set(await at.found("rope")), {one, two, three, four}, "what is there before")
    assert forget.proposal_id is not None
    assert merge.proposal_id is not None
    await at.decide(forget.proposal_id, is_approved=True)
    check.equal(set(await at.found("rope")), {two, three, four}, "what is there after the forget")
    await at.decide(merge.proposal_id, is_approved=True)
    check.equal(set(await at.found("rope")), {two, four}, "what is there after the merge")
    text = (await at.memory.get(two)).content
    check.equal(text, "Rope two is blue.\nRope three is green.", "the merged text")
    expire = await at.expire({"type": "semantic"}, approval_required=True)
    check.equal((expire.pending_approval, expire.matched_count), (True, 0), "an expiry is held")
    assert expire.proposal_id is not None
    shown = await at.shown(expire.proposal_id)
    late = await at.kept("Rope five came later.")
    stale = at.decide(expire.proposal_id, is_approved=True, etag=shown.etag)
    await check.refused(stale, "conflict")
    check.equal(
        set(await at.found("rope")),
        {two, four, late},
        "what is there after a decision on what was shown before",
    )
    shown = await at.shown(expire.proposal_id)
    await at.decide(expire.proposal_id, is_approved=True, etag=shown.etag)
    check.equal(await at.found("rope"), [], "what is there when all of it was shown")
    await at.kept("Rope six is new.")
    nothing = await at.expire({"type": "emotional"}, approval_required=True)
    check.equal(
        (nothing.pending_approval, nothing.matched_count), (False, 0), "what matches nothing waits for nobody"
    )
    demote = await at.expire({"type": "semantic"}, action="demote", approval_required=True)
    assert demote.proposal_id is not None
    await at.decide(demote.proposal_id, is_approved=False)
    check(not (await at.recall("rope", min_relevance="off"))[0].demoted, "a rejected demotion does nothing")
    await at.sound(check)


REVIEWS = (
    Scenario("approvals", "what waits is unseen, approved keeps its id, rejected is gone", pending_is_unseen),
    Scenario(
        "held_removals", "nothing is removed before approval, and then what was shown", removals_wait_too
    ),
)
