"""What writing does: what was given comes back, changes, keys, facts that are outdated, many at once."""

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from quipu.memory import model as m
from quipu.testing.scenarios.scenario import Scenario
from quipu.testing.scenarios.subject import DAY_MS, Check, Subject
from quipu.testing.scenarios.v0 import EXAMPLES, MACHINE, TYPES, answer_faults

T = TypeVar("T")
#: `max_tokens` counts one token for so many characters.
_TOKEN = 4
#: Each of several writers makes so many writes.
_IN_A_ROW = 3


async def everything_comes_back(at: Subject, check: Check) -> None:
    at.extended()
    at.promised(*TYPES)
    people = {"event_time": 1_600_000_000_000, "location": "Lima", "participants": ["Ana", "Bo"]}
    words = "Lunch with Ana — 🥘, naïve café, 東京, \u202etfel\u202c."
    data = {"deep": {"list": [1, 2.5, None, True, "ü"]}, "large": 2**62, "": "empty key"}
    episode = await at.kept(words, type="episodic", metadata=data, importance=0.3, **people)
    mood = {"sentiment": "negative", "valence": -0.5, "arousal": 1, "emotion": "anger", "target": "delays"}
    feeling = await at.kept("Mara dislikes delays.", type="emotional", **mood)
    machines = [await at.kept(one, type="procedural") for one in (MACHINE, json.loads(MACHINE))]
    hits = {
        hit.id: hit
        for query in ("lunch Ana", "Mara delays", "return parcel")
        for hit in await at.recall(query, min_relevance="off", k=20)
    }
    check(hits.keys() >= {episode, feeling, *machines}, "all of them are found")
    hit = hits[episode]
    check.equal(hit.content, words, "the text")
    check.equal(json.dumps(hit.metadata), json.dumps(data), "the metadata")
    check.equal(json.loads(json.dumps(hit.details)), people, "the details of an episode")
    check.equal(hit.importance, 0.3, "its importance")
    check.equal(json.loads(json.dumps(hits[feeling].details)), mood, "the details of a feeling")
    for machine in machines:
        check.equal(hits[machine].content, json.loads(MACHINE), "a procedure is an object")
    long = "€" + "x" * ((1 << 20) - 3)
    large = await at.kept(long)
    check.equal((await at.memory.get(large)).content, long, "one mebibyte of text")
    await check.refused(at.remember(long + "x"), "validation_error", "too_large")
    await at.sound(check)


async def labels_come_back(at: Subject, check: Check) -> None:
    """Whose a memory is, where it came from and what it is called, on record and hit alike."""
    at.extended()
    given: dict[str, Any] = {
        "source": "tool_result",
        "session_id": "s-1",
        "confidence": 0.5,
        "expires_at": at.now() + DAY_MS,
    }
    fact = await at.kept("The kiln is fired on Fridays.", tags=["craft", "weekly"], **given)
    named = await at.kept("The kiln is swept on Mondays.", metadata={"tags": ["craft"], "n": 1})
    hits = {hit.id: hit for hit in await at.recall("kiln", min_relevance="off")}
    for place, kept in (("hit", hits[fact]), ("record", await at.memory.get(fact))):
        for name, value in given.items():
            check.equal(getattr(kept, name), value, f"{name} of the {place}")
        check.equal(set(kept.tags), {"craft", "weekly"}, f"tags of the {place}")
        whose = (kept.agent_id, kept.user_id, kept.version, kept.store)
        check.equal(whose, (at.agent, at.user, 1, "main"), f"whose the {place} is, its version and its store")
    check.equal(hits[named].tags, ("craft",), "the tags of a hit whose metadata lists them")
    marks = [hits[fact].demoted, hits[fact].foreign, hits[fact].redacted, hits[fact].truncated]
    check(not any(marks), "a hit is not marked as what it is not (demoted, foreign, redacted, truncated)")
    check.equal(await at.found("kiln", filter={"tags": ["weekly"]}), [fact], "what one of its tags finds")
    check.equal(await at.found("kiln", filter={"source": "tool_result"}), [fact], "what its source finds")
    unknown = at.recall("kiln", filter={"colour": "red"})
    await check.refused(unknown, "validation_error", "unknown_field")


async def a_change_keeps_what_is_left_out(at: Subject, check: Check) -> None:
    at.extended()
    first = await at.remember(
        "The oboe is tuned.", metadata={"a": 1, "b": 1}, tags=["reed"], source="user", confidence=0.5
    )
    fact = first.id
    made_at = (await at.memory.get(fact)).created_at
    await at.outlast(1)
    added = await at.remember("It is lent.", id=fact, update_strategy="append", metadata={"b": 2})
    check.equal(added.id, fact, "the id of a change")
    record = await at.memory.get(fact)
    check.equal(record.content, "The oboe is tuned.\nIt is lent.", "the text after an append")
    check.equal(record.metadata, {"a": 1, "b": 2}, "the metadata after an append")
    kept = (record.tags, record.source, record.confidence, record.version, record.created_at)
    check.equal(kept, (("reed",), "user", 0.5, 2, made_at), "what an append leaves, and the version it makes")
    stale = at.update(fact, content="The oboe is sold.", if_version=1)
    await check.refused(stale, "conflict", "version_mismatch")
    await at.update(fact, content="The oboe is back.", if_version=2)
    hits = {hit.id: hit for hit in await at.recall("oboe back", min_relevance="off")}
    hit = hits[fact]
    check.equal((hit.content, hit.tags, hit.version), ("The oboe is back.", ("reed",), 3), "after an update")
    check(hit.created_at == made_at < hit.updated_at, "it was changed after it was made (updated_at)")
    await at.remember("The oboe is new.", id=fact, replace=True)
    record = await at.memory.get(fact)
    check(
        not (record.tags or record.metadata or record.source), "replacing leaves nothing of tags and metadata"
    )
    other = at.remember("The oboe is here.", id=fact, type="episodic")
    await check.refused(other, "conflict", "type_mismatch")
    versions = (await at.memory.history(fact)).versions
    check.equal([version.version for version in versions], [1, 2, 3, 4], "its history")


async def a_key_names_a_fact(at: Subject, check: Check) -> None:
    at.extended()
    old = await at.kept("Ana lives in Lisbon.", key="home of ana")
    since = at.now()
    new = await at.remember("Ana lives in Porto.", key="home of ana", valid_from=since)
    check.equal(new.superseded, (old,), "what is outdated by a fact of the same key")
    check.equal(await at.found("where does Ana live"), [new.id], "what is recalled")
    both = await at.found("where does Ana live", include_superseded=True)
    check.equal(set(both), {old, new.id}, "what is recalled with outdated facts")
    check.equal((await at.memory.get(old)).valid_until, since, "until when the old one was true")
    theirs = await at.kept("Bob lives in Faro.", key="home of ana", user_id="bob")
    check.equal(await at.found("lives", user_id="bob"), [theirs], "another person's fact of the same key")
    third = await at.remember("Ana has moved to Braga.", supersedes=[new.id])
    check.equal(third.superseded, (new.id,), "what is outdated by hand")
    await at.sound(check)


async def a_key_makes_a_write_happen_once(at: Subject, check: Check) -> None:
    at.extended()

    async def write(text: str) -> m.RememberResponse:
        return await at.remember(text, idempotency_key=f"order-7-{at.agent}", metadata={"n": 2**60})

    answers = await asyncio.gather(*(write("The crate holds oranges.") for _ in range(10)))
    ids = {answer.id for answer in answers}
    check.equal(len(ids), 1, "records that ten equal requests made")
    check.equal(len({answer.stored_at for answer in answers}), 1, "answers they were given")
    check.equal(await at.found("crate oranges"), list(ids), "what is found")
    await check.refused(write("The crate holds lemons."), "conflict", "idempotency_key_mismatch")
    await at.forget(*ids, hard_delete=True)
    fresh = await write("The crate holds oranges.")
    check(fresh.id not in ids, "an erased answer is not given again")
    gone = [await at.forget(fresh.id, idempotency_key=f"gone-1-{at.agent}") for _ in range(2)]
    check.equal(gone[0].forgotten_ids, (fresh.id,), "what was forgotten")
    check.equal(gone[1].forgotten_ids, gone[0].forgotten_ids, "the first answer, again")
    again: dict[str, Any] = {"action": "demote", "idempotency_key": f"demote-1-{at.agent}"}
    await at.kept("The crate is empty.")
    counts = [(await at.expire({"type": "semantic"}, **again)).matched_count for _ in range(2)]
    check.equal(counts, [1, 1], "how many one key demotes, and the same answer again")


async def batches_each_for_itself_or_all_or_none(at: Subject, check: Check) -> None:
    at.extended()
    items = [
        m.RememberRequest(agent_id=at.agent, content="The first bell."),
        m.RememberRequest(agent_id=at.agent, content="The second bell.", id="mem_unknown"),
        m.RememberRequest(agent_id=at.agent, content="The third bell."),
    ]
    await check.refused(at.memory.remember_many(items, atomic=True), "not_found", "record")
    check.equal(await at.found("bell"), [], "what is there of a batch that was refused as a whole")
    answer = await at.memory.remember_many(items)
    codes = [None if one.error is None else one.error.code for one in answer.results]
    check.equal(codes, [None, "not_found", None], "which of a batch are refused, each for itself")
    there = [one.response.id for one in answer.results if one.response is not None]
    check.equal(set(await at.found("bell")), set(there), "what is there then")


async def a_misspelt_field_is_refused(at: Subject, check: Check) -> None:
    at.extended()
    body = {"agent_id": at.agent, "type": "semantic", "content": "The tide turns.", "approval_requird": True}
    error = await check.refused(at.memory.remember(body), "validation_error", "unknown_field")
    check.equal(error.faults[0].pointer, "/approval_requird", "where the fault is")
    check.equal(await at.found("tide turns"), [], "what was written")
    given = {**body, "user_id": at.user}
    lenient = await at.memory.call("remember", strict=False, **given)
    check.equal(await at.found("tide turns"), [lenient.id], "what was written leniently")
    check("approval_requird" in str(lenient.warnings), "the field that was left out is named")


async def v0_requests_get_v0_answers(at: Subject, check: Check) -> None:
    at.promised(*TYPES, "recall_tracking")
    for opt_in in ({}, {"extensions": True}) if at.is_extended else ({},):
        ids: list[str] = []
        for operation, example in EXAMPLES:
            answer = dict(await at.wire(operation, {**_with_ids(example, ids), **opt_in}))
            check.equal("extensions" in answer, bool(opt_in), f"extensions of {operation}")
            answer.pop("extensions", None)
            check.equal(answer_faults(operation, answer), [], f"what is wrong with {operation}")
            if operation == "remember":
                ids.append(answer["id"])


def _with_ids(example: Mapping[str, Any], ids: Sequence[str]) -> dict[str, Any]:
    """The example with the ids that earlier ones were answered with."""
    known = {f"${number}": record_id for number, record_id in enumerate(ids, start=1)}

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  free JSON
        return known.get(value, value) if isinstance(value, str) else value

    return {key: named(value) for key, value in example.items()}


async def answers_fit_a_budget(at: Subject, check: Check) -> None:
    """Whole hits in their order while they fit; the first one always, cut if it must be."""
    at.extended()
    for number in range(3):
        await at.kept(f"The weaver's bobbin number {number} is full.")
    free = await at.recall("bobbin", min_relevance="off")
    check.equal([hit.rank for hit in free], [0, 1, 2], "the ranks of the hits")
    texts = [str(hit.content) for hit in free]
    each = -(-len(texts[0]) // _TOKEN)
    some = await at.recall("bobbin", max_tokens=2 * each, min_relevance="off")
    check.equal([hit.content for hit in some], texts[:2], "what a budget for two texts has room for")
    check(some.truncated and not any(hit.truncated for hit in some), "that something was left out is said")
    (first,) = await at.recall("bobbin", max_tokens=2, min_relevance="off")
    check.equal(first.content, texts[0][: 2 * _TOKEN], "the first text, cut")
    check(first.truncated, "a text that was cut says so")


async def privacy_is_kept(at: Subject, check: Check) -> None:
    """What a writer wants done with a memory is done."""
    at.extended()
    hidden = await at.kept(
        "The attic safe opens in the dark.",
        metadata={"hint": "dusk"},
        privacy_intent={"sensitivity": "secret"},
    )
    for hit in await at.recall("attic safe", min_relevance="off"):
        check.equal((hit.id, hit.content), (hidden, "[redacted]"), "what is shown of a secret")
        check(hit.redacted and not hit.metadata, "a masked hit says so, and has no metadata")
    guessed = await at.found("attic safe", filter={"metadata.hint": "dusk"})
    check.equal(guessed, [], "what a filter finds that guesses at a secret")
    check.equal(await at.found("attic safe", redact="omit"), [], "what is found where secrets are left out")
    brief = await at.memory.get(await at.kept("The lift is out of order.", privacy_intent={"retain": "P30D"}))
    lasts = (brief.expires_at or 0) - brief.created_at
    check(0 < lasts <= 30 * DAY_MS, f"a memory is kept as long as was asked (retain): {lasts} ms")
    board = at.beside("board")
    await at.create_store(board, scope="team")
    reader = at.beside("reader")
    shared = await at.kept("The gate is open to all.", store=board)
    await at.kept("The gate is open to me.", store=board, privacy_intent={"share_with": ["nobody"]})
    theirs = await at.found("gate", store=board, agent_id=reader)
    check.equal(theirs, [shared], "what another agent finds in a shared store")


async def no_write_is_lost_or_mixed_up(at: Subject, check: Check) -> None:
    for width in (2, 8, 40):
        total = _IN_A_ROW * min(width, 8)
        texts = [f"entry {number} of width {width} says w{width}n{number}" for number in range(total)]
        ids = [answer.id for answer in await at_once([at.remember(text) for text in texts], width)]
        check.equal(len(set(ids)), total, f"records written {width} at a time")
        found = await at_once([at.found(text, k=1) for text in texts], width)
        check.equal(found, [[one] for one in ids], f"what each text finds, {width} at a time")
    if at.has_operations:
        lines = await at.kept("start")
        adding = [at.update(lines, content=f"line {number}", update_strategy="append") for number in range(8)]
        await at_once(adding, 8)
        text = str((await at.memory.get(lines)).content)
        check.equal(
            sorted(text.splitlines()),
            sorted(["start", *(f"line {number}" for number in range(8))]),
            "what eight writers added to one memory at once",
        )
    await at.sound(check)


async def at_once(calls: Sequence[Awaitable[T]], width: int) -> list[T]:
    """All of them, so many at a time."""
    gate = asyncio.Semaphore(width)

    async def one(call: Awaitable[T]) -> T:
        async with gate:
            return await call

    return list(await asyncio.gather(*map(one, calls)))


WRITES = (
    Scenario("everything_comes_back", "what was given is returned unchanged", everything_comes_back),
    Scenario("labels_come_back", "so are its labels, on record and hit alike", labels_come_back),
    Scenario("changes", "a change keeps what is left out", a_change_keeps_what_is_left_out),
    Scenario("keyed_facts", "a new fact of a key outdates the old one", a_key_names_a_fact),
    Scenario("idempotency", "a key makes a write happen once", a_key_makes_a_write_happen_once),
    Scenario("batches", "many go each for itself, or all or none", batches_each_for_itself_or_all_or_none),
    Scenario(
        "misspelt_field", "a misspelt field is refused, or named when lenient", a_misspelt_field_is_refused
    ),
    Scenario("v0_superset", "v0 requests get v0 answers", v0_requests_get_v0_answers),
    Scenario("max_tokens", "answers fit the room that there is", answers_fit_a_budget),
    Scenario("privacy", "what a writer wants done with a memory is done", privacy_is_kept),
    Scenario("concurrent_writers", "no write is lost or mixed up", no_write_is_lost_or_mixed_up),
)
