"""What taking away does: forgetting, merging, expiry, erasure, and coming back; and what waits for a person."""

from typing import Any

from quipu.testing.scenarios.scenario import Scenario
from quipu.testing.scenarios.subject import DAY_MS, Check, Subject
from quipu.testing.scenarios.v0 import MACHINE


async def forget_keeps_to_its_user(at: Subject, check: Check) -> None:
    alice = await at.kept("Alice's draft.", metadata={"kind": "draft"}, user_id="alice")
    bob = await at.kept("Bob's draft.", metadata={"kind": "draft"}, user_id="bob")
    named = await at.kept("Alice's letter.", user_id="alice")
    check.equal((await at.forget(alice, bob, user_id="carol")).forgotten_ids, (), "what carol loses")
    kind = {"metadata.kind": "draft"} if at.is_extended else {"kind": "draft"}
    gone = await at.forget(named, filter=kind, user_id="alice")
    check.equal(set(gone.forgotten_ids), {alice, named}, "the union of ids and filter, of one user")
    check.equal(gone.stores[0].count, 2, "the count of the backend's row")
    check.equal(await at.found("draft letter"), [bob], "what is left")
    check.equal((await at.forget(named, alice)).forgotten_ids, (), "what the same call forgets again")


async def a_demotion_quarters_the_score_once(at: Subject, check: Check) -> None:
    at.extended()
    one = await at.kept("The tram stops here.", metadata={"old": True})
    other = await at.kept("The tram stops here.")
    before = {hit.id: hit for hit in await at.recall("tram", min_relevance="off", fusion="max")}
    asked: dict[str, Any] = {"action": "demote", "filter": {"metadata.old": True}}
    first, second = [await at.expire({"type": "semantic"}, **asked) for _ in range(2)]
    check.equal((first.matched_count, second.matched_count), (1, 0), "how many were demoted, twice")
    check.equal(second.action_taken, "demote", "action_taken")
    hits = await at.recall("tram", min_relevance="off", fusion="max")
    check.equal([hit.id for hit in hits], [other, one], "the order of the hits")
    check(hits[1].demoted and not hits[0].demoted, "the demoted one says so")
    check(abs(hits[1].score - before[one].score * 0.25) < 1e-9, "its score is a quarter")
    check.equal(hits[1].relevance, before[one].relevance, "its relevance")
    check.equal((await at.memory.get(one)).version, 1, "its version")
    await at.memory.restore(one)
    restored = {hit.id: hit for hit in await at.recall("tram", min_relevance="off")}
    check(not restored[one].demoted, "restoring lifts it")


async def what_is_archived_comes_back(at: Subject, check: Check) -> None:
    at.extended()
    fact = await at.kept("The mill stands by the river.")
    done = await at.expire({"type": "semantic"}, action="archive")
    check.equal(done.matched_count, 1, "how many were archived")
    check.equal(await at.found("mill river"), [], "what is recalled")
    check.equal((await at.memory.get(fact)).content, "The mill stands by the river.", "what can be read")
    check.equal(await at.listed(states=["archived"]), [fact], "what is listed as archived")
    await at.memory.restore(fact)
    check.equal(await at.found("mill river"), [fact], "what is recalled when it is restored")
    await at.forget(fact, reason="the mill burnt down")
    reasons = [version.reason for version in (await at.memory.history(fact)).versions]
    check.equal(reasons[-1], "the mill burnt down", "why it was forgotten")
    await at.memory.restore(fact)
    check.equal(await at.found("mill river"), [fact], "what is recalled when it is restored again")
    await at.expire({"type": "semantic"}, reason="nobody mills any more")
    reasons = [version.reason for version in (await at.memory.history(fact)).versions]
    check.equal(reasons[-1], "nobody mills any more", "why it expired")


async def only_what_was_returned_counts_as_recalled(at: Subject, check: Check) -> None:
    at.extended()
    at.promised("recall_tracking")
    recalled = await at.kept("The anvil is in the smithy by the forge.")
    overlooked = await at.kept("The anvil was sold.")
    uncounted = await at.kept("A kite is in the loft.")
    await at.travel(100 * DAY_MS)
    check.equal(await at.found("anvil smithy forge", k=1), [recalled], "what was recalled yesterday")
    await at.found("kite loft", k=1, count_recall=False)
    await at.travel(DAY_MS)
    fresh = await at.kept("The barrel is new.")
    done = await at.expire({"no_recall_in_days": 30}, action="archive")
    check.equal(set(done.ids), {overlooked, uncounted}, "what matches")
    check.equal(set(await at.found("anvil kite barrel")), {recalled, fresh}, "what is left")


async def what_cannot_be_meant_changes_nothing(at: Subject, check: Check) -> None:
    """An unknown condition, a vector of another model, and what is only tried."""
    at.extended()
    fact, other = await at.kept("The well is deep."), await at.kept("The well is dry.")
    policy = {"older_than_days": 1, "older_then_days": 900}
    await check.refused(at.wire("expire", {"policy": policy}), "validation_error", "unknown_policy_key")
    if "vector" in at.capabilities:
        stray = {"model": "another-model", "vector": [1.0, 2.0, 3.0]}
        foreign = at.remember("A stray.", embedding=stray)
        await check.refused(foreign, "validation_error", "embedding_mismatch")
        await check.refused(at.recall("A stray.", embedding=stray), "validation_error", "embedding_mismatch")
    forget = await at.forget(fact, dry_run=True)
    check.equal(forget.forgotten_ids, (fact,), "what would be forgotten")
    check.equal({row.count for row in forget.stores}, {0}, "how many are forgotten when it is only tried")
    merge = await at.merge(fact, other, dry_run=True)
    check.equal((merge.merged_ids, merge.merged_count), ((other,), 0), "what would be merged away")
    expire = await at.expire({"type": "semantic"}, dry_run=True)
    check.equal((set(expire.ids), expire.matched_count), ({fact, other}, 0), "what would expire")
    check.equal(set(await at.found("well stray")), {fact, other}, "what is there after it was only tried")
    await at.sound(check)


async def a_merge_into_nothing_changes_nothing(at: Subject, check: Check) -> None:
    one, two = await at.kept("Goats climb."), await at.kept("Goats do climb.")
    forgotten = await at.kept("Goats climbed.")
    await at.forget(forgotten)
    theirs = await at.kept("Goats climb.", agent_id=at.beside("other"))
    nobodys = ["mem_unknown", forgotten, theirs, "mem0:foreign"]
    if "governance" in at.capabilities:
        nobodys.append((await at.remember("Goats may climb.", approval_required=True)).id)
    for canonical in nobodys:
        await check.refused(at.merge(canonical, one, two), "not_found", "canonical")
    check.equal(set(await at.found("goats climb")), {one, two}, "what is still recalled")


async def each_merge_keeps_what_it_promises(at: Subject, check: Check) -> None:
    at.extended()
    one = await at.kept("Ana likes tea.", metadata={"a": 1, "who": "first"}, tags=["x"], confidence=0.4)
    await at.outlast(1)
    two = await at.kept("She bought a samovar.", metadata={"who": "second"}, tags=["y"], confidence=0.8)
    points = await at.kept("A note on the samovar.", type="episodic", links=[{"to": two, "rel": "about"}])
    joined = await at.merge(one, two, two, one, strategy="merge_content")
    check.equal(joined.merged_count, 1, "how many collapsed; itself and repetitions do not count")
    check.equal(joined.strategy_used, "merge_content", "strategy_used")
    record = await at.memory.get(one)
    check.equal(record.content, "Ana likes tea.\nShe bought a samovar.", "the text")
    check.equal(record.metadata, {"a": 1, "who": "second"}, "the metadata")
    check.equal(
        (record.tags, record.confidence, record.version), (("x", "y"), 0.8, 2), "tags, confidence, version"
    )
    check((await at.found("samovar", types=["semantic"]))[:1] == [one], "a word of the duplicate finds it")
    around = await at.memory.related(points)
    check.equal({node.id for node in around.nodes}, {points, one}, "where a link to the duplicate leads")
    again = await at.merge(one, two, strategy="merge_content")
    check.equal(again.merged_count, 0, "how many collapse again")
    older = await at.kept("The bell rings at six.", confidence=0.7)
    await at.outlast(1)
    younger = await at.kept("The bell rings at seven.", confidence=0.7)
    keyed: dict[str, Any] = {
        "strategy": "keep_highest_confidence",
        "idempotency_key": f"merge-1-{at.agent}",
    }
    counts = [(await at.merge(younger, older, **keyed)).merged_count for _ in range(2)]
    check.equal(counts, [1, 1], "how many of a tie collapse, and the same answer again")
    record = await at.memory.get(younger)
    check.equal(record.content, "The bell rings at six.", "the older text wins, under the canonical's id")
    bobs = await at.kept("The bell rings.", user_id="bob")
    await check.refused(at.merge(younger, bobs), "conflict", "scope_mismatch")
    check(bobs in await at.found("bell"), "the other user's record is untouched")


async def a_hard_delete_leaves_no_byte(at: Subject, check: Check) -> None:
    at.extended()
    await at.file_bytes()  # who shows no files says so before anything is written
    marker = "xyzzyplugh"
    fact = await at.kept(
        f"The {marker} is here.",
        metadata={f"{marker}-key": [f"{marker} in a list"]},
        tags=[f"tag-{marker}"],
        source=f"from {marker}",
        key=f"fact-{marker}",
        idempotency_key=f"once-{at.agent}",
    )
    await at.update(fact, content=f"The {marker} was here.", metadata={"entity_name": marker})
    await at.recall(marker)
    await at.forget(fact, reason=f"because of {marker}")
    forgotten = await at.kept(f"Forgotten {marker}.")
    await at.forget(forgotten)
    expired = await at.kept(f"Expired {marker}.", expires_at=at.now() + at.brief_ms)
    await at.outlast(at.brief_ms)
    archived = await at.kept(f"Archived {marker}.", type="episodic")
    await at.expire({"type": "episodic"}, action="archive")
    machine = await at.kept(MACHINE.replace("return-parcel", marker), type="procedural")
    ids = [fact, forgotten, expired, archived, machine]
    if "governance" in at.capabilities:
        held = await at.remember(f"A staged {marker}.", approval_required=True, reasoning=f"{marker}!")
        ids.append(held.id)
    other = await at.kept("Something else is here.")
    check(marker.encode() in await at.file_bytes(), "it is in the files before")
    answer = await at.forget(*ids, hard_delete=True, reason=f"away with {marker}")
    check.equal(set(answer.forgotten_ids), set(ids), "what was erased")
    check(answer.receipt, "there is a receipt")
    check(marker.encode() not in await at.file_bytes(), "no byte of it is in files, log or journal")
    check.equal(await at.found(marker), [other], "what the dead word finds")
    check.equal(await at.found(marker, as_of="1"), [], "what it finds in the past")
    for gone in ids:
        await check.refused(at.memory.get(gone), "not_found", "record")
    await check.refused(at.memory.restore(fact), "not_found", "record")
    check.equal((await at.forget(*ids, hard_delete=True)).forgotten_ids, (), "what a second call erases")
    if "governance" in at.capabilities:
        check.equal(list(await at.waiting()), [], "what still waits")
    await at.sound(check)


async def every_change_is_in_the_journal(at: Subject, check: Check) -> None:
    at.extended()
    one, two = await at.kept("The tower is tall."), await at.kept("The tower is high.")
    await at.update(one, content="The tower is very tall.")
    await at.merge(one, two)
    await at.forget(one)
    await at.memory.restore(one)
    await at.forget(one, hard_delete=True)
    entries = [entry for entry in await at.entries() if entry.op not in ("recall", "read", "create_store")]
    wanted = ["remember", "remember", "update", "merge", "forget", "restore", "erase"]
    check.equal([entry.op for entry in entries], wanted, "what the journal says, in order")
    check(all(entry.records for entry in entries), "each names the memories it is about")
    said = str([(entry.detail, entry.agent, entry.actor) for entry in entries])
    check("tower" not in said, "and none holds their words")


async def first_calls_at_once(at: Subject, check: Check) -> None:
    from quipu.testing.scenarios.writes import at_once

    answers = await at_once([at.remember(f"First word {number}.") for number in range(20)], 20)
    check.equal(len({answer.id for answer in answers}), 20, "records of twenty first calls")
    check.equal(len(await at.found("first word", k=20)), 20, "what is found of them")


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


REMOVALS = (
    Scenario(
        "forget_scope", "forget keeps to its user; ids and filter are a union", forget_keeps_to_its_user
    ),
    Scenario("demote", "a demotion quarters the score, once", a_demotion_quarters_the_score_once),
    Scenario("archive", "archived is unseen, readable, restorable", what_is_archived_comes_back),
    Scenario(
        "no_recall_in_days",
        "only what was returned counts as recalled",
        only_what_was_returned_counts_as_recalled,
    ),
    Scenario(
        "only_tried",
        "what cannot be meant, or is only tried, changes nothing",
        what_cannot_be_meant_changes_nothing,
    ),
    Scenario(
        "merge_into_nothing", "a merge into nothing changes nothing", a_merge_into_nothing_changes_nothing
    ),
    Scenario("merge_strategies", "each strategy keeps what it promises", each_merge_keeps_what_it_promises),
    Scenario("erasure", "a hard delete leaves no byte", a_hard_delete_leaves_no_byte),
    Scenario("journal", "every change is in the journal, without its words", every_change_is_in_the_journal),
    Scenario("first_calls", "twenty first calls at once succeed", first_calls_at_once),
)
REVIEWS = (
    Scenario("approvals", "what waits is unseen, approved keeps its id, rejected is gone", pending_is_unseen),
    Scenario(
        "held_removals", "nothing is removed before approval, and then what was shown", removals_wait_too
    ),
)
