"""memorywire's sixteen conformance scenarios, each held to more than an empty answer could pass."""

from __future__ import annotations

import inspect
import json
from typing import Any

from quipu.model.operations import ExpireAction, ExpirePolicy, Fusion, MergeStrategy
from quipu.model.record import Link, MemoryType
from quipu.ports.memory_store import MemoryStore
from quipu.testing.scenarios_subject import DAY_MS, Check, Scenario, Subject
from quipu.testing.scenarios_v0 import MACHINE, response_faults

CAPABILITIES = frozenset(
    [
        "semantic",
        "episodic",
        "procedural",
        "emotional",
        "fts",
        "vector",
        "graph",
        "governance",
        "recall_tracking",
    ]
)


#: A router's stores are equals.
ROLES = ("ledger", "mirror", "peer")


def text(content: object) -> str:
    return str(content).lower()


async def basic_remember_recall(at: Subject, check: Check) -> None:
    fact = await at.kept("Paris is the capital of France.")

    hits = await at.recall("capital France", k=3)

    check(hits, "`capital France` finds something")
    check("paris" in text(hits[0].content), "the first hit names Paris")
    check.equal(hits[0].id, fact, "the first hit")


async def remember_recall_by_user_filter(at: Subject, check: Check) -> None:
    blue = await at.kept("The favorite color of Alice is blue.", user_id="alice")
    await at.remember("The favorite color of Bob is purple.", user_id="bob")

    hits = await at.recall("favorite color", user_id="alice", k=5)

    check(any("blue" in text(hit.content) for hit in hits), "blue is found")
    check(not any("purple" in text(hit.content) for hit in hits), "purple is not")
    check.equal([hit.id for hit in hits], [blue], "Alice's memories, and nobody else's")
    check.equal(
        await at.found("favorite color", user_id=""), [], "what is found of a user without a name (2.1)"
    )


async def type_filter(at: Subject, check: Check) -> None:
    await at.remember("Tax season is in April.")
    await at.remember("We had a meeting about taxes.", type=MemoryType.EPISODIC)

    hits = await at.recall("meeting taxes", types=(MemoryType.SEMANTIC,), k=5, min_relevance=0.0)

    check(hits, "`meeting taxes` finds something among semantic memories, without a floor (min_relevance 0)")
    check.equal({hit.type for hit in hits}, {MemoryType.SEMANTIC}, "the types of the hits")


async def forget_by_ids(at: Subject, check: Check) -> None:
    facts = ["The sky is blue.", "Water is wet.", "Trees are green."]
    ids = [await at.kept(fact) for fact in facts]
    check.equal(set(await at.found("sky water tree")), set(ids), "what is found before")

    answer = await at.forget(*ids)

    check.equal(set(answer.forgotten_ids), set(ids), "what was forgotten")
    check.equal(answer.hard_delete, False, "hard_delete, as it was asked for (2.5)")
    check.equal(await at.found("sky water tree", k=5), [], "what is found after")


async def forget_no_scope_raises(at: Subject, check: Check) -> None:
    fact = await at.kept("This stays.")

    nothings: tuple[dict[str, Any], ...] = ({}, {"ids": ()}, {"filter": {}}, {"ids": (), "filter": {}})
    for nothing in nothings:
        error = await check.refused(at.forget(**nothing), "validation_error", "no_scope")
        check(isinstance(error, ValueError), "it is a ValueError")

    check.equal(await at.found("This stays."), [fact], "what is left")


async def expire_empty_policy_raises(at: Subject, check: Check) -> None:
    fact = await at.kept("This stays.")

    error = await check.refused(at.expire(None), "validation_error", "empty_policy")

    check(isinstance(error, ValueError), "it is a ValueError")
    check.equal(await at.found("This stays."), [fact], "what is left")


async def expire_empty_policy_object_raises(at: Subject, check: Check) -> None:
    fact = await at.kept("This stays.")

    error = await check.refused(at.expire(ExpirePolicy()), "validation_error", "empty_policy")

    check(isinstance(error, ValueError), "it is a ValueError")
    check.equal(await at.found("This stays."), [fact], "what is left")


async def expire_by_age(at: Subject, check: Check) -> None:
    ancient = await at.kept_since(at.now() - 365 * DAY_MS, "An ancient fact about pottery.")
    fresh = await at.kept("A fresh fact about pottery.")
    check.equal(set(await at.found("ancient fresh fact")), {ancient, fresh}, "what is found before")

    answer = await at.expire(ExpirePolicy(older_than_days=180))

    check.equal(answer.matched_count, 1, "how many matched")
    check.equal(answer.action_taken, ExpireAction.FORGET, "action_taken (2.7)")
    check(answer.stores, "where it was done is told (stores, 2.7)")
    check.equal(await at.found("ancient fresh fact", k=5), [fresh], "what is found after")

    sure = await at.kept_since(at.now() - 365 * DAY_MS, "A sure fact about pottery.", confidence=0.9)
    doubted = await at.kept("A doubted fact about pottery.", confidence=0.1)
    both = ExpirePolicy(older_than_days=180, confidence_below=0.5)
    check.equal((await at.expire(both)).matched_count, 0, "how many two keys match that must both hold (4.2)")
    other = ExpirePolicy(older_than_days=180, type=MemoryType.EPISODIC)
    check.equal((await at.expire(other)).matched_count, 0, "how many of another type match (4.2)")
    if at.is_extended:
        theirs = await at.expire(ExpirePolicy(older_than_days=180), user_id="somebody else")
        check.equal(theirs.matched_count, 0, "how many of another user's match (user_id, 2.7)")
    left = {fresh, sure, doubted}
    check.equal(set(await at.found("fresh sure doubted fact")), left, "what is left")


async def merge_keep_canonical(at: Subject, check: Check) -> None:
    first = await at.kept("Paris is the capital of France.")
    second = await at.kept("The capital of France is Paris.")
    third = await at.kept("France's capital city is Paris.")

    answer = await at.merge(first, second, third)

    check.equal(answer.merged_count, 2, "how many collapsed")
    check.equal(answer.canonical, first, "canonical, as it was sent (2.6)")
    check.equal(answer.strategy_used, MergeStrategy.KEEP_CANONICAL, "strategy_used (2.6)")
    check(answer.stores, "where it was done is told (stores, 2.6)")
    check.equal(await at.found("capital of France", k=10), [first], "what is found")


async def approval_required_pending(at: Subject, check: Check) -> None:
    at.promised("governance")
    await at.remember("The library opens at nine.")

    held = await at.remember("The vault code is kept under the mat.", approval_required=True)

    check(held.pending_approval, "it is pending")
    check.equal(held.stores, (), "where it is kept")
    check(held.approval_url, "it says where to approve")
    check(held.id not in await at.found("vault code mat"), "it is not recalled")
    (proposal,) = await at.pending()
    await at.decide(proposal.id, approved=True)
    hits = await at.recall("vault code mat", k=3)
    check(hits, "it is recalled when approved")
    check.equal(hits[0].id, held.id, "the first hit, under the same id")


async def capabilities_declared(at: Subject, check: Check) -> None:
    declared = at.store.capabilities
    check(declared, "something is declared")
    check(declared <= CAPABILITIES, "nothing beyond the nine")

    contents = {
        MemoryType.SEMANTIC: "Quartz is a hard mineral.",
        MemoryType.EPISODIC: "On Monday the quartz was weighed.",
        MemoryType.EMOTIONAL: "Ana loves quartz.",
        MemoryType.PROCEDURAL: MACHINE,
    }
    kept = {kind: await at.kept(contents[kind], type=kind) for kind in MemoryType if kind.value in declared}
    for kind, record_id in kept.items():
        query = "return parcel" if kind is MemoryType.PROCEDURAL else "quartz"
        hits = await at.recall(query, types=(kind,), min_relevance=0.0)
        check.equal([(hit.id, hit.type) for hit in hits], [(record_id, kind)], f"what {kind} finds")
    if "fts" in declared:
        rare = await at.kept("Ticket zx81qq was closed.")
        check.equal((await at.found("zx81qq"))[:1], [rare], "the record with a rare word")
    if "vector" in declared:
        meant = await at.kept("The physician prescribed medicine.")
        check.equal((await at.found("a doctor gave drugs to a patient"))[:1], [meant], "the paraphrase")
    if "graph" in declared:
        end = await at.kept("Granite is a rock.")
        start = await at.kept("Granite holds feldspar.", links=(Link(end, "about"),))
        hits = {hit.id: hit for hit in await at.recall("granite", hops=1, min_relevance=0.0)}
        check.equal(hits[start].supporting, (end,), "what supports a linked hit")
    if "governance" in declared:
        held = await at.remember("Hold this.", approval_required=True)
        check(held.pending_approval, "a write can be held")
    if "recall_tracking" in declared:
        answer = await at.expire(ExpirePolicy(no_recall_in_days=1), dry_run=True)
        check.equal(answer.matched_count, 0, "what was not recalled for a day")


async def health_returns_status(at: Subject, check: Check) -> None:
    health = await at.store.health()

    check(isinstance(health, dict), "it is a dict")
    check.equal(health["status"], "ok", "status")
    check(isinstance(health["backend"], str), "it names the backend")
    rows = health["stores"]
    check(isinstance(rows, list) and rows, "it tells of each store")
    for row in rows if isinstance(rows, list) else ():
        check(isinstance(row, dict) and row["role"] in ROLES, "a store has its role")
        check(isinstance(row, dict) and row["status"] in ("ok", "degraded", "error"), "and its status")

    await at.stop()
    await check.refused(_told(at), "backend_unavailable")


async def _told(at: Subject) -> None:
    """A stopped backend is told or raised; either way it is no longer ok."""
    from quipu.errors import BackendUnavailableError

    if (await at.store.health())["status"] == "error":
        raise BackendUnavailableError


async def isinstance_protocol(at: Subject, check: Check) -> None:
    check(isinstance(at.held, MemoryStore), "it is a MemoryStore")

    for name in ("remember", "recall", "forget", "merge", "expire"):
        parameters = list(inspect.signature(getattr(at.held, name)).parameters.values())
        check(parameters[0].kind in (0, 1), f"{name} takes its request by position")
        others = [other for other in parameters[1:] if other.kind not in (2, 4)]
        check(all(other.default is not inspect.Parameter.empty for other in others), f"{name} needs no more")


async def recall_returns_score_metadata(at: Subject, check: Check) -> None:
    await at.remember("The sun shines bright over the field.", metadata={"season": "summer"})

    hits = await at.recall("sun bright shines", k=3)
    check(hits, "`sun bright shines` finds something")
    hit = hits[0]

    check(isinstance(hit.score, float), "the score is a number")
    check(0 <= hit.relevance <= 1, f"relevance is from 0 to 1 (2.4): {hit.relevance}")
    check.equal(hit.type, MemoryType.SEMANTIC, "the type")
    check(isinstance(hit.content, str) and hit.content, "the text")
    check(hit.source_store, "where it comes from")
    check.equal(dict(hit.metadata), {"season": "summer"}, "the metadata")
    body = await at.submit("recall", {"query": "sun bright shines", "k": 3})
    check.equal(list(response_faults("recall", body)), [], "what keeps the answer from being v0")
    await _as_given(at, check)
    await _each_fusion(at, check)


async def _as_given(at: Subject, check: Check) -> None:
    """memorywire 2.3: text and metadata come back as they were given, to the character and to the type."""
    words = "  The cafe\u0301 \ufb01rst opens at nine,\r\nnaïve 東京 🥘  at ten.  "
    details: dict[str, Any] = {
        "whole": 1,
        "is_open": True,
        "is_full": False,
        "share": 0.5,
        "as text": "1",
        "empty": "",
        "nothing": None,
        "list": [],
        "deep": {"object": {}, "": [2**53 + 1, None, True]},
    }
    fact = await at.kept(words, metadata=details)
    hits = {hit.id: hit for hit in await at.recall("cafe opens at nine", min_relevance=0.0, k=10)}
    check(fact in hits, "`cafe opens at nine` finds the text it is taken from")
    check.equal(hits[fact].content, words, "the text, as it was given (2.3)")
    told = json.dumps(hits[fact].metadata, sort_keys=True)
    check.equal(told, json.dumps(details, sort_keys=True), "the metadata, without loss (2.3)")


async def _each_fusion(at: Subject, check: Check) -> None:
    """memorywire 5.4: ranks alone make small scores, and a text that is the query itself scores far above them."""
    text = "The moon rises over the quiet harbour."
    written = await at.remember(text)
    check(written.stores, "where it is kept is told (stores, 2.3)")
    for fusion in Fusion:
        answer = await at.recall(text, fusion=fusion, min_relevance=0.0)
        check.equal(answer.fusion_used, fusion, "fusion_used (2.4)")
        check.equal([hit.rank for hit in answer], list(range(1, len(answer) + 1)), "the ranks of hits (2.4)")
        hit = answer[0]
        check.equal(hit.id, written.id, f"the first hit with fusion {fusion} (5.4)")
        check(hit.source_store in answer.stores_queried, "who ranked it best was asked (stores_queried, 2.4)")
        check(hit.source_store in hit.stores, "who ranked it best is among its stores (2.4)")
        made = abs(hit.created_at - written.stored_at)
        check(made < DAY_MS, f"it was made when it was stored (created_at, 2.4), and is {made} ms apart")
        most = len(answer.stores_queried) / 60
        if fusion is Fusion.RRF:
            is_by_rank = 1 / 60 - 1e-9 <= hit.score <= most + 1e-9
            check(is_by_rank, f"rrf scores by rank, from {1 / 60:.4f} to {most:.4f} (5.4): {hit.score}")
        else:
            check(hit.score > 2 * most, f"{fusion} scores by likeness, not by rank (5.4): {hit.score}")
        if fusion is Fusion.MAX:
            check(hit.score <= 1 + 1e-9, f"max takes one score from 0 to 1 (5.4): {hit.score}")


async def fresher_than_days_filter(at: Subject, check: Check) -> None:
    long_ago = at.now() - 365 * DAY_MS
    old = await at.kept_since(long_ago, "News: the bridge is closed.")
    today = await at.kept("News: the bridge is open.")
    check.equal(set(await at.found("news bridge")), {old, today}, "what is found without it")

    check.equal(await at.found("news bridge", fresher_than_days=30), [today], "what is found with it")
    made = {hit.id: hit.created_at for hit in await at.recall("news bridge", min_relevance=0.0)}
    check.equal(made[old], long_ago, "when the old one was made (created_at, 2.4)")
    check(abs(at.now() - made[today]) < DAY_MS, "today's was made today (created_at, 2.4)")


async def multi_remember_then_recall(at: Subject, check: Check) -> None:
    cities = ["Lima", "Oslo", "Cairo", "Quito", "Dakar", "Hanoi", "Sofia", "Turin", "Perth", "Minsk"]
    ids = [await at.kept(f"City fact {number}: {city} is a city.") for number, city in enumerate(cities)]

    check(await at.recall("city fact", k=10), "`city fact` finds something")
    found = await at.found("city fact", k=10)
    check.equal(set(found), set(ids), "all ten, without a floor")
    check.equal(await at.found("city fact", k=10), found, "the same order when it is asked again (5.4)")
    check.equal(await at.found("city fact", k=3), found[:3], "the best three, and no more (k, 2.4)")
    check.equal((await at.found("Dakar is a city"))[:1], [ids[4]], "the one that is named comes first")


SIXTEEN = (
    Scenario("basic_remember_recall", "a fact is found first by its words", basic_remember_recall),
    Scenario(
        "remember_recall_by_user_filter",
        "only the named person's memories are found",
        remember_recall_by_user_filter,
    ),
    Scenario("type_filter", "only the wanted type is found", type_filter),
    Scenario("forget_by_ids", "what was forgotten by id is not found", forget_by_ids),
    Scenario(
        "forget_no_scope_raises",
        "forgetting without a scope is refused, nothing changes",
        forget_no_scope_raises,
    ),
    Scenario("expire_empty_policy_raises", "expiry without a policy is refused", expire_empty_policy_raises),
    Scenario(
        "expire_empty_policy_object_raises",
        "expiry with an empty policy is refused",
        expire_empty_policy_object_raises,
    ),
    Scenario("expire_by_age", "old memories go, fresh ones stay", expire_by_age),
    Scenario("merge_keep_canonical", "duplicates collapse into the first", merge_keep_canonical),
    Scenario(
        "approval_required_pending",
        "a held memory is unseen until it is approved, then found under its id",
        approval_required_pending,
    ),
    Scenario("capabilities_declared", "what is declared is kept", capabilities_declared),
    Scenario("health_returns_status", "health tells the truth", health_returns_status),
    Scenario("isinstance_protocol", "the object is a MemoryStore, signatures included", isinstance_protocol),
    Scenario(
        "recall_returns_score_metadata",
        "a hit carries score, type, text and origin",
        recall_returns_score_metadata,
    ),
    Scenario("fresher_than_days_filter", "old news stays out", fresher_than_days_filter),
    Scenario("multi_remember_then_recall", "ten of ten are found", multi_remember_then_recall),
)
