"""What writes do: updates, forgetting, merging, expiry, erasure, idempotency, concurrency."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar, cast

from quipu.model.operations import Embedding, ExpireAction, ExpirePolicy, MergeStrategy
from quipu.model.record import MemoryType
from quipu.testing.scenarios_finding import OTHER_AGENT
from quipu.testing.scenarios_returning import RETURNING
from quipu.testing.scenarios_subject import DAY_MS, Check, Scenario, Subject
from quipu.testing.scenarios_v0 import EXAMPLES, MACHINE, TYPES, response_faults

T = TypeVar("T")
#: As many writes does each of several writers make.
_IN_A_ROW = 5


async def at_once(calls: Sequence[Awaitable[T]], width: int) -> list[T]:
    """All of them, so many at a time."""
    gate = asyncio.Semaphore(width)

    async def one(call: Awaitable[T]) -> T:
        async with gate:
            return await call

    return list(await asyncio.gather(*map(one, calls)))


async def forget_by_user_and_union(at: Subject, check: Check) -> None:
    alice = await at.kept("Alice's draft.", metadata={"kind": "draft"}, user_id="alice")
    bob = await at.kept("Bob's draft.", metadata={"kind": "draft"}, user_id="bob")
    named = await at.kept("Alice's letter.", user_id="alice")

    check.equal((await at.forget(alice, bob, user_id="carol")).forgotten_ids, (), "what carol loses")
    check.equal((await at.forget(alice, user_id="")).forgotten_ids, (), "what an empty name widens to")
    gone = await at.forget(named, filter={"kind": "draft"}, user_id="alice")

    check.equal(set(gone.forgotten_ids), {alice, named}, "the union, of one user")
    check.equal(gone.stores[0].count, 2, "the count of the ledger's row")
    check.equal(await at.found("draft letter"), [bob], "what is left")
    check.equal((await at.forget(named, alice)).forgotten_ids, (), "what the same call forgets again")


async def misspelt_field(at: Subject, check: Check) -> None:
    at.extended()
    body = {"type": "semantic", "content": "The tide turns.", "approval_requird": True}

    error = await check.refused(at.submit("remember", body), "validation_error", "unknown_field")
    check.equal(error.faults[0].pointer, "/approval_requird", "where the fault is")
    check.equal(await at.found("tide turns"), [], "what was written")

    lenient = await at.submit("remember", {**body, "extensions": True}, strict=False)
    check.equal(await at.found("tide turns"), [lenient["id"]], "what was written leniently")
    told = json.dumps(lenient["extensions"])
    check("approval_requird" in told, "the ignored field is named")


async def v0_superset(at: Subject, check: Check) -> None:
    at.promised(*TYPES)
    for opt_in in ({}, {"extensions": True}) if at.is_extended else ({},):
        ids: list[str] = []
        for operation, example in EXAMPLES:
            body = _with_ids(example, ids)
            answer = await at.submit(operation, {**body, **opt_in})
            check.equal("extensions" in answer, bool(opt_in), f"extensions of {operation}")
            answer.pop("extensions", None)
            check.equal(list(response_faults(operation, answer)), [], f"what is wrong with {operation}")
            if operation == "remember":
                ids.append(answer["id"])


def _with_ids(example: dict[str, Any], ids: Sequence[str]) -> dict[str, Any]:
    """The example with the ids that earlier ones were answered with."""
    known = {f"${number}": record_id for number, record_id in enumerate(ids, start=1)}

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(item) for item in cast("list[Any]", value)]
        return known.get(value, value) if isinstance(value, str) else value

    return {key: named(value) for key, value in example.items()}


async def demote_twice(at: Subject, check: Check) -> None:
    one = await at.kept("The tram stops here.", metadata={"old": True})
    other = await at.kept("The tram stops here.")
    before = {hit.id: hit for hit in await at.recall("tram", min_relevance=0.0)}
    policy = ExpirePolicy(type=MemoryType.SEMANTIC)

    first = await at.expire(policy, action=ExpireAction.DEMOTE, filter={"old": True})
    second = await at.expire(policy, action=ExpireAction.DEMOTE, filter={"old": True})

    check.equal((first.matched_count, second.matched_count), (1, 0), "how many were demoted, twice")
    hits = await at.recall("tram", min_relevance=0.0)
    check.equal([hit.id for hit in hits], [other, one], "the order of the hits")
    check(hits[1].demoted and not hits[0].demoted, "the demoted one says so")
    check(abs(hits[1].score - before[one].score * 0.25) < 1e-9, "its score is a quarter")
    check.equal(hits[1].relevance, before[one].relevance, "its relevance")
    check.equal((await at.get(one)).version, 1, "its version")
    check.equal(second.action_taken, ExpireAction.DEMOTE, "action_taken (2.7)")
    again: dict[str, Any] = {"action": ExpireAction.DEMOTE, "idempotency_key": f"demote-1-{at.agent}"}
    counts = [(await at.expire(policy, **again)).matched_count for _ in range(2)]
    check.equal(counts, [1, 1], "how many one key demotes, and the same answer again (3.3)")
    await at.restore(one)
    restored = {hit.id: hit for hit in await at.recall("tram", min_relevance=0.0)}
    check(not restored[one].demoted, "restoring lifts it")


async def archive_and_restore(at: Subject, check: Check) -> None:
    fact = await at.kept("The mill stands by the river.")

    done = await at.expire(ExpirePolicy(type=MemoryType.SEMANTIC), action=ExpireAction.ARCHIVE)

    check.equal(done.matched_count, 1, "how many were archived")
    check.equal(await at.found("mill river"), [], "what is recalled")
    check.equal((await at.get(fact)).content, "The mill stands by the river.", "what can be read")
    check.equal([line["id"] for line in await at.exported()], [fact], "what is exported")
    await at.restore(fact)
    check.equal(await at.found("mill river"), [fact], "what is recalled when restored")

    await at.forget(fact, reason="the mill burnt down")
    told = [version.reason for version in await at.history(fact)]
    check.equal(told[-1], "the mill burnt down", "why it was forgotten (reason, 2.5)")
    await at.restore(fact)
    reason = "nobody mills any more"
    await at.expire(ExpirePolicy(type=MemoryType.SEMANTIC), reason=reason)
    told = [version.reason for version in await at.history(fact)]
    check.equal(told[-1], reason, "why it expired (reason, 2.7)")


async def no_recall_in_days(at: Subject, check: Check) -> None:
    at.promised("recall_tracking")
    old = at.now() - 100 * DAY_MS
    recalled = await at.kept_since(old, "The anvil is in the smithy by the forge.")
    overlooked = await at.kept_since(old + 1, "The anvil was sold.")
    unused = await at.kept_since(old + 2, "A kite is in the loft.")
    check.equal(await at.found("anvil smithy forge", k=1), [recalled], "what was recalled yesterday")
    await at.later(DAY_MS)
    fresh = await at.kept("The barrel is new.")

    done = await at.expire(ExpirePolicy(no_recall_in_days=30), action=ExpireAction.ARCHIVE)

    check.equal(set(done.extensions["ids"]), {overlooked, unused}, "what matches")
    check.equal(set(await at.found("anvil kite barrel")), {recalled, fresh}, "what is left")


async def unknown_policy_key_and_foreign_vector(at: Subject, check: Check) -> None:
    at.extended()
    fact = await at.kept_since(at.now() - 10 * DAY_MS, "The well is deep.")

    body = {"policy": {"older_than_days": 1, "older_then_days": 900}}
    await check.refused(at.submit("expire", body), "validation_error", "unknown_policy_key")
    if "vector" in at.store.capabilities:  # without vectors of its own, a store takes those it is given
        stray = Embedding("another-model", [1.0, 2.0, 3.0])
        await check.refused(
            at.remember("A stray.", embedding=stray), "validation_error", "embedding_mismatch"
        )
        await check.refused(at.recall("A stray.", embedding=stray), "validation_error", "embedding_mismatch")

    check.equal(await at.found("well stray"), [fact], "what is there")
    await _only_tried(at, check, fact)
    check(await at.stays_sound(), "index and records agree")


async def _only_tried(at: Subject, check: Check, fact: str) -> None:
    """memorywire 2.5 to 2.7, `dry_run`: nothing is counted, nothing changes."""
    other = await at.kept("The well is dry.")
    forget = await at.forget(fact, dry_run=True)
    check.equal(forget.forgotten_ids, (), "what is forgotten when it is only tried (dry_run, 2.5)")
    check.equal({row.count for row in forget.stores}, {0}, "what its rows count (dry_run, 2.5)")
    check.equal(forget.extensions["ids"], [fact], "what would be forgotten (extensions, 2.2)")
    merge = await at.merge(fact, other, dry_run=True)
    check.equal(merge.merged_count, 0, "how many collapse when it is only tried (dry_run, 2.6)")
    expire = await at.expire(ExpirePolicy(type=MemoryType.SEMANTIC), dry_run=True)
    check.equal(expire.matched_count, 0, "how many expire when it is only tried (dry_run, 2.7)")
    would = set(cast("list[str]", expire.extensions["ids"]))
    check.equal(would, {fact, other}, "what would expire (extensions, 2.2)")
    check.equal(set(await at.found("well")), {fact, other}, "what is there after it was only tried")


async def merge_into_nothing(at: Subject, check: Check) -> None:
    one, two = await at.kept("Goats climb."), await at.kept("Goats do climb.")
    forgotten = await at.kept("Goats climbed.")
    await at.forget(forgotten)
    theirs = await at.kept("Goats climb.", agent_id=at.beside(OTHER_AGENT))
    nobodys = ["mem_unknown", forgotten, theirs, "mem0:foreign"]
    if at.promises("governance"):
        nobodys.append((await at.remember("Goats may climb.", approval_required=True)).id)

    for canonical in nobodys:
        await check.refused(at.merge(canonical, one, two), "not_found", "canonical")

    check.equal(set(await at.found("goats climb")), {one, two}, "what is still recalled")


async def merge_strategies(at: Subject, check: Check) -> None:
    one = await at.kept("Ana likes tea.", metadata={"a": 1, "who": "first"}, tags=("x",), confidence=0.4)
    await at.outlast(1)
    two = await at.kept("She bought a samovar.", metadata={"who": "second"}, tags=("y",), confidence=0.8)

    joined = await at.merge(one, two, two, one, strategy=MergeStrategy.MERGE_CONTENT)

    check.equal(joined.merged_count, 1, "how many collapsed; itself and repetitions do not count")
    record = await at.get(one)
    check.equal(record.content, "Ana likes tea.\nShe bought a samovar.", "the text")
    check.equal(dict(record.metadata), {"a": 1, "who": "second"}, "the metadata")
    check.equal((record.tags, record.confidence), (("x", "y"), 0.8), "tags and confidence")
    check.equal((await at.found("samovar"))[:1], [one], "what a word of the duplicate finds")
    check.equal(joined.strategy_used, MergeStrategy.MERGE_CONTENT, "strategy_used (2.6)")
    check.equal(record.version, 2, "its version (4.1)")
    again = await at.merge(one, two, strategy=MergeStrategy.MERGE_CONTENT)
    check.equal(again.merged_count, 0, "how many collapse again")

    older = await at.kept("The bell rings at six.", confidence=0.7)
    await at.outlast(1)
    younger = await at.kept("The bell rings at seven.", confidence=0.7)
    best = MergeStrategy.KEEP_HIGHEST_CONFIDENCE
    keyed: dict[str, Any] = {"strategy": best, "idempotency_key": f"merge-1-{at.agent}"}
    counts = [(await at.merge(younger, older, **keyed)).merged_count for _ in range(2)]
    check.equal(counts, [1, 1], "how many of a tie collapse, and the same answer again (3.3)")
    record = await at.get(younger)
    check.equal(record.content, "The bell rings at six.", "the older text wins, under the canonical's id")

    bobs = await at.kept("The bell rings.", user_id="bob")
    await check.refused(at.merge(younger, bobs), "conflict", "scope_mismatch")
    check(bobs in await at.found("bell"), "the other user's record is untouched")


MARKER = "xyzzyplugh"


async def hard_delete_erases(at: Subject, check: Check) -> None:
    at.promised("governance")
    fact = await at.kept(
        f"The {MARKER} is here.",
        metadata={f"{MARKER}-key": [f"{MARKER} in a list"]},
        tags=(f"tag-{MARKER}",),
        source=f"from {MARKER}",
        idempotency_key=f"once-{at.agent}",
    )
    await at.remember(f"The {MARKER} was here.", id=fact, metadata={"entity_name": MARKER})
    await at.recall(f"{MARKER}")
    await at.forget(fact, reason=f"because of {MARKER}")
    held = await at.remember(f"A staged {MARKER}.", approval_required=True, reasoning=f"{MARKER}!")
    other = await at.kept("Something else is here.")

    answer = await at.forget(fact, held.id, hard_delete=True, reason=f"away with {MARKER}")

    check.equal(set(answer.forgotten_ids), {fact, held.id}, "what was erased")
    check(answer.extensions["receipt"], "there is a receipt")
    await at.flush()
    kept = await at.file_bytes()
    check(kept, "there are files to look at")
    check(MARKER.encode() not in kept, "no byte of it is in files, log or journal")
    check.equal(await at.found(MARKER), [other], "what the dead word finds")
    check.equal((await at.found(MARKER, as_of="1")), [], "what it finds in the past")
    check.equal(list(await at.pending()), [], "what still waits")
    await check.refused(at.restore(fact), "not_found", "record")
    check(await at.stays_sound(), "the chain still verifies")


async def hard_delete_reaches_everything(at: Subject, check: Check) -> None:
    at.promised("governance", "procedural")
    await at.file_bytes()  # a store that shows no files says so before anything is waited for
    forgotten = await at.kept(f"Forgotten {MARKER}.")
    await at.forget(forgotten)
    archived = await at.kept(f"Archived {MARKER}.")
    await at.expire(ExpirePolicy(type=MemoryType.SEMANTIC), action=ExpireAction.ARCHIVE)
    expired = await at.kept(f"Expired {MARKER}.", expires_at=at.now() + at.brief_ms)
    await at.outlast(at.brief_ms)
    pending = (await at.remember(f"Pending {MARKER}.", approval_required=True)).id
    machine = await at.kept(MACHINE.replace("return-parcel", MARKER), type=MemoryType.PROCEDURAL)
    ids = (forgotten, archived, expired, pending, machine)

    answer = await at.forget(*ids, hard_delete=True)

    check.equal(set(answer.forgotten_ids), set(ids), "what was erased")
    check(MARKER.encode() not in await at.file_bytes(), "nothing of them is left in any file")
    for gone in ids:
        await check.refused(at.get(gone), "not_found", "record")
    check(await at.stays_sound(), "the chain still verifies")
    check.equal((await at.forget(*ids, hard_delete=True)).forgotten_ids, (), "what a second call erases")


async def concurrent_writers(at: Subject, check: Check) -> None:
    written_in_all = 0
    before = len(await at.journal())
    for width in (2, 8, 40):
        total = min(at.size.writes, _IN_A_ROW * width)
        written_in_all += total
        texts = [f"entry {number} of width {width} says w{width}n{number}" for number in range(total)]
        ids = [answer.id for answer in await at_once([at.remember(text) for text in texts], width)]
        check.equal(len(set(ids)), total, f"records written {width} at a time")
        found = await at_once([at.found(text, k=1) for text in texts], width)
        check.equal(found, [[record_id] for record_id in ids], f"what each text finds, {width} at a time")
    await at.flush()
    entries = await at.journal()
    check.equal([entry.seq for entry in entries], list(range(1, len(entries) + 1)), "the journal is dense")
    written = [entry for entry in entries[before:] if entry.op == "remember"]
    check.equal(len(written), written_in_all, "entries of writes")
    check(await at.stays_sound(), "everything verifies")


async def idempotency(at: Subject, check: Check) -> None:
    async def write(text: str) -> Any:
        return await at.remember(text, idempotency_key=f"order-7-{at.agent}", metadata={"n": 2**60})

    answers = await asyncio.gather(*(write("The crate holds oranges.") for _ in range(10)))
    ids = {answer.id for answer in answers}
    check.equal(len(ids), 1, "records that ten equal requests made")
    check.equal(len({answer.stored_at for answer in answers}), 1, "answers they were given")
    check.equal(await at.found("crate oranges"), list(ids), "what is found")
    await check.refused(write("The crate holds lemons."), "conflict", "idempotency_key_mismatch")

    erased = await at.forget(*ids, hard_delete=True)
    check.equal(erased.hard_delete, True, "hard_delete, as it was asked for (2.5)")
    fresh = await write("The crate holds oranges.")
    check(fresh.id not in ids, "an erased answer is not given again")

    gone = [await at.forget(fresh.id, idempotency_key=f"gone-1-{at.agent}") for _ in range(2)]
    check.equal(gone[0].forgotten_ids, (fresh.id,), "what was forgotten")
    check.equal(gone[1].forgotten_ids, gone[0].forgotten_ids, "the first answer, again")


async def first_calls_at_once(at: Subject, check: Check) -> None:
    answers = await asyncio.gather(*(at.remember(f"First word {number}.") for number in range(20)))

    check.equal(len({answer.id for answer in answers}), 20, "records of twenty first calls")
    check.equal(len(await at.found("first word", k=20)), 20, "what is found of them")
    if at.is_extended:
        check(await at.stays_sound(), "everything verifies")


CHANGING = (
    Scenario(
        "Q6_forget_scope", "forget keeps to its user; ids and filter are a union", forget_by_user_and_union
    ),
    Scenario("Q8_misspelt_field", "a misspelt field is refused, or named when lenient", misspelt_field),
    Scenario("Q9_v0_superset", "v0 requests get v0 answers", v0_superset),
    Scenario("Q12_demote", "demotion quarters the score, once", demote_twice),
    Scenario("Q13_archive", "archived is unseen, readable, restorable", archive_and_restore),
    Scenario("Q14_no_recall_in_days", "only what was returned counts as recalled", no_recall_in_days),
    Scenario(
        "Q15_unknown_policy_key",
        "an unknown policy key and a foreign vector change nothing",
        unknown_policy_key_and_foreign_vector,
    ),
    Scenario("Q16_merge_into_nothing", "a merge into nothing changes nothing", merge_into_nothing),
    Scenario("Q17_merge_strategies", "each strategy keeps what it promises", merge_strategies),
    Scenario("Q18_erasure", "a hard delete leaves no byte", hard_delete_erases),
    Scenario("Q19_erasure_everywhere", "also of what is not live", hard_delete_reaches_everything),
    Scenario("Q34_concurrent_writers", "no write is lost or mixed up", concurrent_writers, "words"),
    Scenario("Q36_idempotency", "a key makes a write happen once", idempotency),
    Scenario("Q37_first_calls", "twenty first calls at once succeed", first_calls_at_once),
    *RETURNING,
)
