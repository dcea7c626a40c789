"""What recall finds, and what nobody may find: isolation, filters before top-k, honest ranking, no writes by reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

from quipu.model.operations import ExpireAction, ExpirePolicy
from quipu.model.record import Link, MemoryType
from quipu.testing.scenarios_subject import DAY_MS, Check, Scenario, Subject

OTHER_AGENT = "agent-b"
QUERY = "where does the harbour pilot keep his whistle"
ANSWER = "The harbour pilot keeps a brass whistle."


async def cross_agent_isolation(at: Subject, check: Check) -> None:
    other = at.beside(OTHER_AGENT)
    mine = await at.kept("The spare key hangs in the shed.")
    theirs = await at.kept("The spare key hangs in the shed.", agent_id=other)

    check.equal(await at.found("spare key shed"), [mine], "what the agent recalls")
    for unreachable in (theirs, "mem_unknown"):
        check.equal((await at.forget(unreachable)).forgotten_ids, (), "what it forgets")
        erased = await at.forget(unreachable, hard_delete=True)
        check.equal(
            (erased.forgotten_ids, erased.hard_delete), ((), True), "what it erases, and the echo (2.5)"
        )
        check.equal((await at.merge(mine, unreachable)).merged_count, 0, "what it merges away")
        await check.refused(at.merge(unreachable, mine), "not_found", "canonical")
        if not at.is_extended:
            continue
        await check.refused(at.remember("changed", id=unreachable), "not_found", "record")
        await check.refused(at.get(unreachable), "not_found", "record")
        await check.refused(at.history(unreachable), "not_found", "record")
        await check.refused(at.restore(unreachable), "not_found", "record")
    check.equal(await at.found("spare key shed", agent_id=other), [theirs], "the other agent's own")


async def filter_before_top_k(at: Subject, check: Check) -> None:
    """One row in reach, and a crowd that is nearer to the query but out of it; once for each way to be out of it."""
    attic = at.beside("attic")
    if at.is_extended:
        await at.create_store(attic)
    old = at.now() - 40 * DAY_MS
    ways: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "agent": ({"agent_id": at.beside(OTHER_AGENT)}, {}),
        "user": ({"user_id": "mallory"}, {"user_id": at.user}),
        "type": ({"type": MemoryType.EPISODIC}, {"types": (MemoryType.SEMANTIC,)}),
        "metadata": ({"metadata": {"room": "loud"}}, {"filter": {"room": "quiet"}}),
        "store": ({"store": attic}, {"store": "main"}),
    }
    if not at.is_extended:
        ways = {way: asked for way, asked in ways.items() if way != "store"}
    answer = await at.kept(ANSWER, metadata={"room": "quiet"})
    for way, (outside, asked) in ways.items():
        crowd = [at.request(f"{QUERY} {number}?", **outside) for number in range(at.size.crowd)]
        ids = await at.remember_all(crowd)
        hits = await at.found(QUERY, k=1, **asked)
        check.equal(hits, [answer], f"what is found among {len(crowd)} of another {way}")
        agent = outside.get("agent_id", at.agent)
        for start in range(0, len(ids), 1_000):
            await at.forget(*ids[start : start + 1_000], agent_id=agent)
    for number in range(20):
        await at.kept_since(old - number, f"{QUERY} {number}?")
    check.equal(await at.found(QUERY, k=1, fresher_than_days=30), [answer], "what is found among older ones")
    if not at.is_extended:
        return
    await _sessions_apart(at, check)
    await _stores_apart(at, check, attic)


async def _sessions_apart(at: Subject, check: Check) -> None:
    """memorywire 2.4: `session_id` narrows before the best are chosen."""
    mine = await at.kept("A ladder leans somewhere.", session_id="s-mine")
    await at.remember_all(
        [at.request(f"which ladder leans where {number}?", session_id="s-other") for number in range(20)]
    )
    found = await at.found("which ladder leans where", k=1, session_id="s-mine")
    check.equal(found, [mine], "what is found among 20 of another session (session_id, 2.4)")
    check.equal(await at.found("ladder", session_id="s-none"), [], "what an unknown session finds (2.4)")


async def _stores_apart(at: Subject, check: Check, attic: str) -> None:
    """memorywire 2.5 to 2.7: `store` keeps forget, merge and expire to one memory store."""
    above = await at.kept("The trunk is locked.", store=attic, metadata={"what": "trunk"})
    below = await at.kept("The trunk is open.", metadata={"what": "trunk"})
    await check.refused(at.merge(below, above), "conflict", "scope_mismatch")
    await check.refused(at.merge(above, below, store="main"), "not_found", "canonical")
    gone = await at.forget(filter={"what": "trunk"}, store=attic)
    check.equal(gone.forgotten_ids, (above,), "what goes from the store that was named (store, 2.5)")
    asked: dict[str, Any] = {"store": attic, "filter": {"what": "trunk"}}
    kept = await at.expire(ExpirePolicy(type=MemoryType.SEMANTIC), **asked)
    check.equal(kept.matched_count, 0, "how many match in a store that is empty (store, 2.7)")
    check.equal(
        await at.found("trunk", k=1, filter={"what": "trunk"}), [below], "what is left in the other one"
    )


async def the_dead_and_the_unapproved_crowd_nobody_out(at: Subject, check: Check) -> None:
    size = min(at.size.crowd, 500)
    answer = await at.kept(ANSWER)

    forgotten = await at.remember_all([at.request(f"{QUERY} {number}?") for number in range(size)])
    await at.forget(*forgotten)
    check.equal(await at.found(QUERY, k=1), [answer], f"what is found beside {size} forgotten ones")

    if not at.is_extended:
        return
    archived = [at.request(f"{QUERY} {number}?", metadata={"old": True}) for number in range(size)]
    await at.remember_all(archived)
    policy = ExpirePolicy(type=MemoryType.SEMANTIC)
    done = await at.expire(policy, action=ExpireAction.ARCHIVE, filter={"old": True})
    check.equal(done.matched_count, size, "how many were archived")
    check.equal(await at.found(QUERY, k=1), [answer], f"what is found beside {size} archived ones")

    if at.promises("governance"):
        for number in range(size):
            await at.remember(f"{QUERY} {number}?", approval_required=True)
        check.equal(await at.found(QUERY, k=1), [answer], f"what is found beside {size} pending ones")


async def many_users_in_one_store(at: Subject, check: Check) -> None:
    """What a person is answered is what they would be answered alone."""
    users = [f"user-{number}" for number in range(at.size.users)]
    topics = ["tea", "boats", "chess", "rain", "maps", "bread", "violins", "moss", "trains", "clocks"]

    def rows(user: str, **fields: Any) -> list[Any]:
        owner = int(user.removeprefix("user-"))
        return [
            at.request(
                f"{user} note {number} on {topics[(number * 7 + owner) % 10]} "
                f"and {topics[(number * 3 + owner) % 9]}",
                user_id=user,
                **fields,
            )
            for number in range(at.size.each)
        ]

    written = list(chain.from_iterable(map(rows, users)))
    owners = dict(zip(await at.remember_all(written), (one.user_id for one in written), strict=True))
    for user in users:
        hits = await at.recall("a note on tea", user_id=user, k=5, min_relevance=0.0)
        check.equal([owners.get(hit.id) for hit in hits], [user] * 5, f"whose the hits of {user} are")
    for user in users[:3]:
        hermit = at.beside(f"alone-{user}")
        await at.remember_all(rows(user, agent_id=hermit))
        together = await at.recall("a note on tea", user_id=user, k=5, min_relevance=0.0)
        alone = await at.recall("a note on tea", agent_id=hermit, k=5, min_relevance=0.0)
        check.equal(
            sorted(hit.score for hit in together), sorted(hit.score for hit in alone), "the scores, alone"
        )
        check.equal(
            [hit.relevance for hit in together], [hit.relevance for hit in alone], "and the relevance"
        )


async def k_up_to_a_thousand(at: Subject, check: Check) -> None:
    await at.remember_all([at.request(f"pebble number {number}") for number in range(at.size.rows)])

    for k in (257, 1_000):
        hits, there = await at.found("pebble", k=k), min(k, at.size.rows)
        check.equal((len(hits), len(set(hits))), (there, there), f"distinct hits for k {k}")
    await check.refused(at.recall("pebble", k=1_001), "validation_error", "bad_value")
    await check.refused(at.recall("pebble", k=0), "validation_error", "bad_value")


async def expired_is_gone_at_its_millisecond(at: Subject, check: Check) -> None:
    past = await at.kept("The offer of last year ends.", expires_at=at.now() - DAY_MS)
    soon = await at.kept("The offer of today ends.", expires_at=at.now() + at.brief_ms)
    check.equal(await at.found("offer ends"), [soon], "what is found before it expires")
    if at.is_extended:
        check.equal((await at.get(soon)).id, soon, "what is read before it expires")

    await at.outlast(at.brief_ms)

    check.equal(await at.found("offer ends"), [], "what is found after")
    for gone in (past, soon):
        await check.refused(at.merge(gone, "mem_unknown"), "not_found", "canonical")
        if at.is_extended:
            await check.refused(at.get(gone), "not_found", "record")
            await check.refused(at.remember("late", id=gone), "not_found", "record")
    if at.is_extended:
        check.equal([line["id"] for line in await at.exported()], [], "what is exported after")


async def confidence_ranks(at: Subject, check: Check) -> None:
    doubtful = await at.kept("The ferry leaves at noon.", confidence=0.2)
    sure = await at.kept("The ferry leaves at noon.", confidence=0.9)

    hits = await at.recall("when does the ferry leave", min_relevance=0.0)

    check.equal([hit.id for hit in hits], [sure, doubtful], "the order of the hits")
    if at.is_extended:
        check.equal([hit.confidence for hit in hits], [0.9, 0.2], "their confidence")


async def hops_boost_what_is_linked(at: Subject, check: Check) -> None:
    """Pairs of hits one, two and three links apart; the records between them are of another type."""
    at.promised("graph", "episodic")
    pairs: dict[int, tuple[str, str]] = {}
    for distance in (1, 2, 3):
        end = await at.kept(f"Lantern {distance} stands in the hall.")
        target = end
        for step in range(1, distance):
            link = (Link(target, "next"),)
            target = await at.kept(f"Errand {step} of {distance}.", type=MemoryType.EPISODIC, links=link)
        pairs[distance] = (await at.kept(f"Lantern {distance} is lit.", links=(Link(target, "next"),)), end)
    asked: dict[str, Any] = {"types": (MemoryType.SEMANTIC,), "min_relevance": 0.0, "k": 20}

    plain = {hit.id: hit for hit in await at.recall("lantern", **asked)}
    check.equal(len(plain), 6, "how many are found")
    for hops in (1, 2, 3):
        hits = {hit.id: hit for hit in await at.recall("lantern", hops=hops, **asked)}
        check.equal(hits.keys(), plain.keys(), "nothing new is introduced")
        for distance, (one, other) in pairs.items():
            is_near = distance <= hops
            expected = plain[one].score * (1 + 0.1 / (1 + distance) if is_near else 1)
            check(abs(hits[one].score - expected) < 1e-9, f"the boost at {distance} of {hops} hops")
            check.equal(hits[one].supporting, (other,) if is_near else (), "what supports it")


async def nothing_matches(at: Subject, check: Check) -> None:
    at.extended()
    facts = (
        "Mara is vegetarian.",
        "Jonas plays the cello on Sundays.",
        "The blue bicycle belongs to Ines.",
        "Mara's sister lives in Lisbon.",
        "The meeting room is on the third floor.",
        "Jonas is allergic to peanuts.",
        "The printer needs new toner.",
        "Ines starts her new job in March.",
    )
    for fact in facts:
        await at.remember(fact)

    for query in ("boiling point of tungsten", "who won the chess championship in 1972"):
        hits = await at.recall(query)
        check.equal([hit.content for hit in hits], [], f"what answers {query!r}")
        weak = await at.recall(query, min_relevance=0.0, k=1)
        strong = await at.recall("who is allergic to peanuts", k=1)
        check(strong, "what is known is found")
        if "vector" in at.store.capabilities:
            check(weak, "without a floor the nearest is answered all the same")
        check(all(strong[0].relevance > hit.relevance for hit in weak), "relevance separates")


async def recall_does_not_write(at: Subject, check: Check) -> None:
    at.promised("recall_tracking")
    old = at.now() - 100 * DAY_MS
    facts = [await at.kept_since(old + number, f"Lighthouse {number} blinks.") for number in range(5)]
    overlooked = await at.kept_since(old, "A lighthouse was sold.", type=MemoryType.EPISODIC.value)
    asked: dict[str, Any] = {"types": (MemoryType.SEMANTIC,), "min_relevance": 0.0}
    before = len(await at.journal())

    await at.recall("lighthouse", **asked)
    if at.is_alone:
        check.equal(len(await at.journal()), before, "the journal when the first recall returns")
    for number in range(1, at.size.recalls):
        await at.recall(f"lighthouse {number % 5}", **asked)
    await at.flush()

    entries = (await at.journal())[before:]
    noted = [entry for entry in entries if entry.op == "recall" and entry.agent == at.agent]
    check.equal(len(noted), at.size.recalls, "noted recalls after a flush")
    check.equal({mention.id for mention in noted[0].records}, set(facts), "what the first one returned")
    unused = await at.expire(ExpirePolicy(no_recall_in_days=3), dry_run=True)
    check.equal(unused.extensions["ids"], [overlooked], "what was not marked as recalled, and only that")


async def answers_give_nothing_away(at: Subject, check: Check) -> None:
    words = "hunter2 sleeps at noon"
    fact = await at.kept(words)
    answers: list[object] = [
        (await at.remember("another")).stores,
        [(hit.source_store, hit.stores) for hit in await at.recall("another", min_relevance=0.0)],
        (await at.recall("another")).stores_queried,
        [row.store for row in (await at.forget("mem_unknown")).stores],
        await at.store.health(),
    ]
    failing = {
        "a confidence above 1 (2.3)": at.remember(words, confidence=7.0),
        "an unknown id to change (2.3)": at.remember(words, id="mem_unknown"),
        "a procedure that is no machine (7.2)": at.remember(words, type=MemoryType.PROCEDURAL),
        "a number that JSON does not have (2.1)": at.remember(words, metadata={"x": float("nan")}),
        "k of 0 (2.4)": at.recall(words, k=0),
        "an unknown operator (2.11)": at.recall(words, filter={"x": {"$hunter2": words}}),
        "a merge into nothing (4.1)": at.merge(words, fact),
        "an empty condition (2.11)": at.forget(fact, filter={"$or": [{}]}),
    }
    taken: list[str] = []
    for what, call in failing.items():
        try:
            await call
        except Exception as error:  # noqa: BLE001  whatever is raised, it must not give anything away
            answers.append((str(error), getattr(error, "hint", None)))
        else:
            taken.append(what)
    check.equal(taken, [], "what is not refused")
    for answer in answers:
        told = str(answer)
        check(not re.search(r"0x[0-9a-f]{6,}", told), "no object's address is told")
        check(not re.search(r"\w://\S*@|sqlite3?\.|apsw", told), "no URL with credentials, no driver's words")
        check("hunter2" not in told and "noon" not in told, "no memory text is told")


FINDING = (
    Scenario("Q1_cross_agent_isolation", "another agent's record is as unknown", cross_agent_isolation),
    Scenario("Q2_filter_before_top_k", "a crowd out of reach hides nothing", filter_before_top_k, "words"),
    Scenario(
        "Q3_dead_and_unapproved",
        "the dead and the unapproved crowd nobody out",
        the_dead_and_the_unapproved_crowd_nobody_out,
        "words",
    ),
    Scenario("Q4_many_users", "each person is answered as if alone", many_users_in_one_store, "words"),
    Scenario("Q7_k", "k is honoured up to 1000", k_up_to_a_thousand, "words"),
    Scenario("Q10_expires_at", "an expired record is gone on every path", expired_is_gone_at_its_millisecond),
    Scenario("Q11_confidence", "of equal texts the surer one comes first", confidence_ranks),
    Scenario("Q27_hops", "linked hits are boosted by their distance", hops_boost_what_is_linked),
    Scenario("Q38_no_match", "nothing is answered when nothing matches", nothing_matches),
    Scenario("Q43_recall_does_not_write", "reads are noted in batches", recall_does_not_write, "words"),
    Scenario(
        "Q44_nothing_given_away", "answers and errors tell nothing they should not", answers_give_nothing_away
    ),
)
