"""Writes that wait for a person: unseen before, exact after."""

from __future__ import annotations

from collections.abc import Awaitable

from quipu.model.operations import ExpireAction, ExpirePolicy, MergeStrategy
from quipu.model.outcomes import RecallResponse
from quipu.model.record import MemoryType
from quipu.testing.scenarios_changing import MARKER
from quipu.testing.scenarios_subject import Check, Scenario, Subject


async def approval_staging(at: Subject, check: Check) -> None:
    at.promised("governance")
    yes = await at.remember("The gate code is new.", approval_required=True, metadata={"kind": "code"})
    no = await at.remember(f"The gate {MARKER} is old.", approval_required=True)

    for held in (yes, no):
        check(held.pending_approval and held.approval_url and not held.stores, "a held write says so")
        await check.refused(at.get(held.id), "not_found", "record")
    check.equal(await at.found("gate code"), [], "what is recalled while pending")
    check.equal(await at.exported(), [], "what is exported while pending")
    by_record = {proposal.record_id: proposal for proposal in await at.pending()}
    check.equal(by_record.keys(), {yes.id, no.id}, "what waits")

    await at.decide(by_record[yes.id].id, approved=True)
    await at.decide(by_record[no.id].id, approved=False)

    check.equal(await at.found("gate code"), [yes.id], "what is recalled then")
    check.equal(dict((await at.get(yes.id)).metadata), {"kind": "code"}, "what was approved")
    check(MARKER.encode() not in await at.file_bytes(), "what was rejected is gone")
    for decided in by_record.values():
        await check.refused(at.decide(decided.id, approved=True), "conflict", "already_decided")
    await check.refused(at.decide("prp_unknown", approved=True), "not_found", "proposal")
    check.equal(list(await at.pending()), [], "what still waits")
    check(await at.stays_sound(), "everything verifies")


async def held_removals(at: Subject, check: Check) -> None:
    at.promised("governance")
    one, two = await at.kept("Rope one is red."), await at.kept("Rope two is blue.")
    three, four = await at.kept("Rope three is green."), await at.kept("Rope four is grey.")

    forget = await at.forget(one, approval_required=True)
    merge = await at.merge(
        two, three, strategy=MergeStrategy.MERGE_CONTENT, approval_required=True, reasoning="the same rope"
    )
    expire = await at.expire(ExpirePolicy(type=MemoryType.SEMANTIC), approval_required=True)
    for held in (forget, merge, expire):
        check(held.pending_approval, "all are held")
        check(held.approval_url, "what is held says where to approve it (approval_url, 2.5 to 2.7)")
    check.equal((forget.forgotten_ids, merge.merged_count, expire.matched_count), ((), 0, 0), "what was done")
    check.equal(set(await at.found("rope")), {one, two, three, four}, "what is there before")
    waiting = {proposal.operation: proposal for proposal in (await at.pending())[:2]}
    why = waiting["merge"].request.get("reasoning")
    check.equal(why, "the same rope", "what the reviewer is told (reasoning, 2.6)")

    await at.decide(waiting["forget"].id, approved=True)
    check.equal(set(await at.found("rope")), {two, three, four}, "what is there after the forget")
    await at.decide(waiting["merge"].id, approved=True)
    check.equal(set(await at.found("rope")), {two, four}, "what is there after the merge")
    check.equal((await at.get(two)).content, "Rope two is blue.\nRope three is green.", "the merged text")

    late = await at.kept("Rope five came later.")
    (last,) = await at.pending()
    await at.decide(last.id, approved=True)
    check.equal(await at.found("rope"), [late], "an approved expiry takes what it showed, and no more")

    demote = await at.expire(
        ExpirePolicy(type=MemoryType.SEMANTIC), action=ExpireAction.DEMOTE, approval_required=True
    )
    check(demote.pending_approval, "a demotion can be held")
    (last,) = await at.pending()
    await at.decide(last.id, approved=False)
    check(not (await at.recall("rope", min_relevance=0.0))[0].demoted, "a rejected demotion does nothing")
    await _held_read(at, check)
    check(await at.stays_sound(), "everything verifies")


async def _held_read(at: Subject, check: Check) -> None:
    """memorywire 6.1: a read that is held answers nothing; approved, the same request passes once."""

    def read() -> Awaitable[RecallResponse]:
        return at.recall("rope", approval_required=True, min_relevance=0.0)

    await check.refused(read(), "forbidden", "approval_pending")
    (waits,) = await at.pending()
    check.equal(waits.operation, "recall", "what waits")
    await at.decide(waits.id, approved=True)
    check(await read(), "an approved read is answered (6.1)")
    await check.refused(read(), "forbidden", "approval_pending")


REVIEW = (
    Scenario(
        "Q28_approval_staging", "pending is unseen, approved keeps its id, rejected is gone", approval_staging
    ),
    Scenario(
        "Q29_held_removals", "nothing is removed before approval, and then what was shown", held_removals
    ),
)
