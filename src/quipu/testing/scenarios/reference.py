"""memorywire's sixteen scenarios, each held to more than an empty answer could pass."""

import inspect
import json
from typing import Any

from quipu.errors import InvalidError
from quipu.memory.memory_store import CAPABILITIES, MemoryStore
from quipu.testing.scenarios.scenario import Scenario
from quipu.testing.scenarios.subject import DAY_MS, Check, Subject
from quipu.testing.scenarios.v0 import MACHINE, TYPES, answer_faults


def text(content: object) -> str:
    return str(content).lower()


async def basic_remember_recall(at: Subject, check: Check) -> None:
    fact = await at.kept("Paris is the capital of France.")
    await at.kept("Bread is baked in the morning.")
    hits = await at.recall("capital France", k=3)
    check(hits.results, "`capital France` finds something")
    check("paris" in text(hits[0].content), "the first hit names Paris")
    check.equal(hits[0].id, fact, "the first hit")


async def remember_recall_by_user_filter(at: Subject, check: Check) -> None:
    blue = await at.kept("The favorite color of Alice is blue.", user_id="alice")
    await at.kept("The favorite color of Bob is purple.", user_id="bob")
    hits = await at.recall("favorite color", user_id="alice", k=5)
    check.equal([hit.id for hit in hits], [blue], "what is found of Alice, and nobody else's")
    try:
        nobodys = await at.found("favorite color", user_id="")
    except InvalidError:
        nobodys = []
    check.equal(nobodys, [], "what is found of a user without a name")


async def type_filter(at: Subject, check: Check) -> None:
    await at.kept("Tax season is in April.")
    await at.kept("We had a meeting about taxes.", type="episodic")
    hits = await at.recall("meeting taxes", types=["semantic"], k=5, min_relevance="off")
    check(hits.results, "`meeting taxes` finds something among semantic memories")
    check.equal({hit.type for hit in hits}, {"semantic"}, "the types of the hits")


async def forget_by_ids(at: Subject, check: Check) -> None:
    ids = [await at.kept(f"{fact} in the valley.") for fact in ("The sky is blue", "Water is wet")]
    stays = await at.kept("Trees are green in the valley.")
    check.equal(set(await at.found("sky water trees valley")), {*ids, stays}, "what is found before")
    answer = await at.forget(*ids)
    check.equal(set(answer.forgotten_ids), set(ids), "what was forgotten")
    check.equal(answer.hard_delete, False, "hard_delete, as it was asked for")
    # Several backends may each have a copy.
    check.equal(max((row.count for row in answer.stores), default=0), len(ids), "how many, by backend")
    check.equal(await at.found("sky water trees valley"), [stays], "what is found after")


async def forget_no_scope_raises(at: Subject, check: Check) -> None:
    fact = await at.kept("This stays.")
    nothings: tuple[dict[str, Any], ...] = ({}, {"ids": []}, {"filter": {}}, {"ids": [], "filter": {}})
    for nothing in nothings:
        error = await check.refused(at.wire("forget", nothing), "validation_error", "no_scope")
        check(isinstance(error, ValueError), "it is a ValueError")
    check.equal(await at.found("This stays."), [fact], "what is left")


async def expire_empty_policy_raises(at: Subject, check: Check) -> None:
    fact = await at.kept("This stays.")
    error = await check.refused(at.wire("expire", {}), "validation_error", "empty_policy")
    check(isinstance(error, ValueError), "it is a ValueError")
    check.equal(await at.found("This stays."), [fact], "what is left")


async def expire_empty_policy_object_raises(at: Subject, check: Check) -> None:
    fact = await at.kept("This stays.")
    for policy in ({}, {"older_than_days": None, "type": None}):
        error = await check.refused(at.wire("expire", {"policy": policy}), "validation_error", "empty_policy")
        check(isinstance(error, ValueError), "it is a ValueError")
    check.equal(await at.found("This stays."), [fact], "what is left")


async def expire_by_age(at: Subject, check: Check) -> None:
    ancient = await at.kept("An ancient fact about pottery.")
    sure = await at.kept("A sure fact about pottery, an old one.", type="episodic", confidence=0.9)
    await at.travel(365 * DAY_MS)
    fresh = await at.kept("A fresh fact about pottery.", confidence=0.1)
    before = {ancient, sure, fresh}
    check.equal(set(await at.found("fact about pottery")), before, "what is found before")
    both = {"older_than_days": 180, "confidence_below": 0.5}
    check.equal((await at.expire(both)).matched_count, 0, "how many match two conditions that must both hold")
    other = {"older_than_days": 180, "type": "emotional"}
    check.equal((await at.expire(other)).matched_count, 0, "how many of another type match")
    if at.is_extended:
        theirs = await at.expire({"older_than_days": 180}, user_id="somebody else")
        check.equal(theirs.matched_count, 0, "how many of another user's match")
    answer = await at.expire({"older_than_days": 180, "type": "semantic"})
    check.equal(answer.matched_count, 1, "how many matched")
    check.equal(answer.action_taken, "forget", "action_taken")
    check(answer.stores, "stores: where it was done is named")
    check.equal(set(await at.found("fact about pottery")), {sure, fresh}, "what is found after")


async def merge_keep_canonical(at: Subject, check: Check) -> None:
    facts = ("Paris is the capital of France.", "The capital of France is Paris.", "France's capital: Paris.")
    first, second, third = [await at.kept(fact) for fact in facts]
    answer = await at.merge(first, second, third)
    check.equal(answer.merged_count, 2, "how many collapsed")
    check.equal(answer.canonical, first, "canonical, as it was sent")
    check.equal(answer.strategy_used, "keep_canonical", "strategy_used")
    check(answer.stores, "stores: where it was done is named")
    check.equal(await at.found("capital of France"), [first], "what is found")


async def approval_required_pending(at: Subject, check: Check) -> None:
    at.promised("governance")
    await at.kept("The library opens at nine.")
    held = await at.remember("The cellar door sticks in winter.", approval_required=True)
    check(held.pending_approval, "it is pending")
    check.equal(held.stores, (), "where it is kept")
    check(held.approval_url, "approval_url: it says where to approve")
    check(held.id not in await at.found("cellar door winter"), "it is not recalled")
    (review,) = await at.waiting()
    await at.decide(review.id, is_approved=True)
    hits = await at.found("cellar door winter", k=3)
    check.equal(hits[:1], [held.id], "the first hit when it is approved, under the same id")


async def capabilities_declared(at: Subject, check: Check) -> None:
    declared = at.capabilities
    check(declared, "something is declared")
    check(declared <= CAPABILITIES, "nothing beyond the nine")
    contents = {
        "semantic": "Quartz is a hard mineral.",
        "episodic": "On Monday the quartz was weighed.",
        "emotional": "Ana loves quartz.",
        "procedural": MACHINE,
    }
    for kind in TYPES:
        if kind in declared:
            kept = await at.kept(contents[kind], type=kind)
            query = "return parcel" if kind == "procedural" else "quartz"
            hits = await at.recall(query, types=[kind], min_relevance="off")
            check.equal([(hit.id, hit.type) for hit in hits], [(kept, kind)], f"what {kind} finds")
    if "fts" in declared:
        rare = await at.kept("Ticket zx81qq was closed.")
        check.equal((await at.found("zx81qq"))[:1], [rare], "the record with a rare word")
    if "vector" in declared:
        meant = await at.kept("The physician prescribed medicine.")
        check.equal((await at.found("a doctor gave drugs to a patient"))[:1], [meant], "the paraphrase")
    if "graph" in declared and at.is_extended:
        end = await at.kept("Granite is a rock.")
        start = await at.kept("Granite holds feldspar.", links=[{"to": end, "rel": "about"}])
        hits = {hit.id: hit for hit in await at.recall("granite", hops=1, min_relevance="off")}
        check.equal(hits[start].supporting, (end,), "what supports a linked hit")
    if "governance" in declared:
        held = await at.remember("Hold this.", approval_required=True)
        check(held.pending_approval, "a write can be held")
    if "recall_tracking" in declared and at.is_extended:
        answer = await at.expire({"no_recall_in_days": 1}, dry_run=True)
        check.equal(answer.ids, (), "what was not recalled for a day")


async def health_returns_status(at: Subject, check: Check) -> None:
    health = await at.health()
    check.equal(health["status"], "ok", "status")
    check(not any("://" in str(value) for value in health.values()), "it names no address")


async def isinstance_protocol(at: Subject, check: Check) -> None:
    held = at.held
    check(isinstance(held, MemoryStore), "it is a MemoryStore")
    for name in ("remember", "recall", "forget", "merge", "expire"):
        parameters = list(inspect.signature(getattr(held, name)).parameters.values())
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        check(parameters[0].kind in by_place, f"{name} takes its request by position")
        further = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        others = [other.default for other in parameters[1:] if other.kind not in further]
        check(inspect.Parameter.empty not in others, f"{name} needs no more")


async def recall_returns_score_metadata(at: Subject, check: Check) -> None:
    await at.kept("The sun shines bright over the field.", metadata={"season": "summer"})
    hits = await at.recall("sun bright shines", k=3)
    check(hits.results, "`sun bright shines` finds something")
    hit = hits[0]
    check(isinstance(hit.score, float), "score is a number")
    check(0 <= hit.relevance <= 1, "relevance is from 0 to 1")
    check.equal(hit.type, "semantic", "the type")
    check.equal(hit.content, "The sun shines bright over the field.", "the text")
    check(hit.source_store, "source_store: where it comes from")
    check.equal(hit.metadata, {"season": "summer"}, "the metadata")
    body = await at.wire("recall", {"query": "sun bright shines", "k": 3})
    check.equal(answer_faults("recall", body), [], "what keeps the answer from being v0's")
    await _as_given(at, check)
    await _each_fusion(at, check)


async def _as_given(at: Subject, check: Check) -> None:
    """Text and metadata come back as they were given, to the character and to the type."""
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
    hits = {hit.id: hit for hit in await at.recall("cafe opens at nine", min_relevance="off", k=10)}
    check(fact in hits, "`cafe opens at nine` finds the text it is taken from")
    check.equal(hits[fact].content, words, "the text, as it was given")
    kept = json.dumps(hits[fact].metadata, sort_keys=True)
    check.equal(kept, json.dumps(details, sort_keys=True), "the metadata, without loss")


async def _each_fusion(at: Subject, check: Check) -> None:
    """Ranks alone make small scores, and a text that is the query itself scores far above them."""
    words = "The moon rises over the quiet harbour."
    written = await at.remember(words)
    check(written.stores, "stores: where it is kept is named")
    for fusion in ("rrf", "max", "weighted"):
        answer = await at.recall(words, fusion=fusion, min_relevance="off")
        check.equal(answer.fusion_used, fusion, "fusion_used")
        check.equal([hit.rank for hit in answer], list(range(len(answer))), "the ranks of hits")
        hit = answer[0]
        check.equal(hit.id, written.id, f"the first hit with fusion {fusion}")
        check(hit.source_store in answer.stores_queried, "source_store is one of stores_queried")
        check(abs(hit.created_at - written.stored_at) < DAY_MS, "created_at is when it was stored")
        most = len(answer.stores_queried) / 60
        if fusion == "rrf":
            is_by_rank = 1 / 60 - 1e-9 <= hit.score <= most + 1e-9
            check(is_by_rank, f"rrf scores by rank, from {1 / 60:.4f} to {most:.4f}: {hit.score}")
        else:
            check(hit.score > 2 * most, f"{fusion} scores by likeness, not by rank: {hit.score}")
        if fusion == "max":
            check(hit.score <= 1 + 1e-9, f"max takes one score from 0 to 1: {hit.score}")


async def fresher_than_days_filter(at: Subject, check: Check) -> None:
    old = await at.kept("News: the bridge is closed.")
    made_at = at.now()
    await at.travel(365 * DAY_MS)
    today = await at.kept("News: the bridge is open.")
    check.equal(set(await at.found("news bridge")), {old, today}, "what is found without it")
    check.equal(await at.found("news bridge", fresher_than_days=30), [today], "what is found with it")
    made = {hit.id: hit.created_at for hit in await at.recall("news bridge", min_relevance="off")}
    check(abs(made[old] - made_at) < DAY_MS, "created_at of the old one is when it was made")
    check(abs(at.now() - made[today]) < DAY_MS, "created_at of today's is today")


async def multi_remember_then_recall(at: Subject, check: Check) -> None:
    cities = ["Lima", "Oslo", "Cairo", "Quito", "Dakar", "Hanoi", "Sofia", "Turin", "Perth", "Minsk"]
    ids = [await at.kept(f"City fact {number}: {city} is a city.") for number, city in enumerate(cities)]
    found = await at.found("city fact", k=10)
    check.equal(set(found), set(ids), "all ten")
    check.equal(await at.found("city fact", k=10), found, "the same order when it is asked again")
    check.equal(await at.found("city fact", k=3), found[:3], "k: the best three, and no more")
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
    Scenario("forget_no_scope_raises", "forgetting without a scope is refused", forget_no_scope_raises),
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
    Scenario("capabilities_declared", "what is declared is kept", capabilities_declared, needs_meaning=True),
    Scenario("health_returns_status", "health says the truth", health_returns_status),
    Scenario("isinstance_protocol", "it is a MemoryStore, signatures included", isinstance_protocol),
    Scenario(
        "recall_returns_score_metadata",
        "a hit carries score, type, text and origin",
        recall_returns_score_metadata,
    ),
    Scenario("fresher_than_days_filter", "old news stays out", fresher_than_days_filter),
    Scenario("multi_remember_then_recall", "ten of ten are found", multi_remember_then_recall),
)
