"""What recall finds, and what nobody may find: isolation, filters before the best are chosen, honest ranking."""

import re
from collections.abc import Awaitable, Mapping
from itertools import chain
from typing import Any

from quipu.testing.scenarios.scenario import Scenario
from quipu.testing.scenarios.subject import DAY_MS, Check, Subject, Unpromised
from quipu.testing.scenarios.v0 import MACHINE

_QUERY = "harbour pilot whistle"
_ANSWER = "The pilot of the old harbour, who is tired by now, owns a whistle made of brass."
#: A hit that is linked with another over so many links is raised by so much.
_HOP_GAIN = 0.1


async def agents_are_apart(at: Subject, check: Check) -> None:
    other = at.beside("other")
    mine = await at.kept("The spare key hangs in the shed.")
    theirs = await at.kept("The spare key hangs in the shed.", agent_id=other)
    check.equal(await at.found("spare key shed"), [mine], "what the agent recalls")
    for unreachable in (theirs, "mem_unknown"):
        check.equal((await at.forget(unreachable)).forgotten_ids, (), "what it forgets")
        erased = await at.forget(unreachable, hard_delete=True)
        check.equal((erased.forgotten_ids, erased.hard_delete), ((), True), "what it erases, and the echo")
        check.equal((await at.merge(mine, unreachable)).merged_count, 0, "what it merges away")
        await check.refused(at.merge(unreachable, mine), "not_found", "canonical")
        if at.has_operations:
            await check.refused(at.remember("changed", id=unreachable), "not_found", "record")
            await check.refused(at.update(unreachable, content="changed"), "not_found", "record")
    check.equal(await at.found("spare key shed", agent_id=other), [theirs], "the other agent's own")


async def restrictions_come_before_the_cut(at: Subject, check: Check) -> None:
    """One row in reach, and a crowd that is nearer to the query but out of it; once for each way to be out of it."""
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "agent": ({"agent_id": at.beside("other")}, {}),
        "user": ({"user_id": "mallory"}, {"user_id": at.user}),
        "type": ({"type": "episodic"}, {"types": ["semantic"]}),
    }
    if at.is_extended:
        attic = at.beside("attic")
        await at.create_store(attic)
        ways |= {
            "metadata": ({"metadata": {"room": "loud"}}, {"filter": {"metadata.room": "quiet"}}),
            "tag": ({"tags": ["loud"]}, {"filter": {"tags": "quiet"}}),
            "store": ({"store": attic}, {"store": "main"}),
            "session": ({"session_id": "theirs"}, {"session_id": "mine"}),
        }
    else:
        ways["metadata"] = ({"metadata": {"room": "loud"}}, {"filter": {"room": "quiet"}})
    more: dict[str, Any] = {"tags": ["quiet"], "session_id": "mine"} if at.is_extended else {}
    answer = await at.kept(_ANSWER, metadata={"room": "quiet"}, **more)
    size = at.size.crowd // len(ways)
    owners: dict[str, str] = {}
    for way, (outside, _) in ways.items():
        quiet = {} if way == "metadata" else {"metadata": {"room": "quiet"}}
        own = {**quiet, **more, **outside}
        crowd = [{"content": f"{_QUERY} {number}", **own} for number in range(size)]
        owners.update(dict.fromkeys(await at.kept_all(crowd), way))
    filters = {name: value for _, asked in ways.values() for name, value in asked.get("filter", {}).items()}
    asked = {name: value for _, given in ways.values() for name, value in given.items()}
    for _ in range(2):  # the second time from whatever is kept of the first
        hits = await at.found(_QUERY, **{**asked, "filter": filters, "k": 1})
        ways_met = [f"of another {owners[hit]}" for hit in hits if hit in owners]
        check.equal(ways_met, [], f"what is found among {size} out of reach")
        check.equal(hits, [answer], "what is found in reach")


async def stores_are_apart(at: Subject, check: Check) -> None:
    """`store` keeps recall, forget, merge and expire to one memory store."""
    at.extended()
    attic = at.beside("attic")
    await at.create_store(attic)
    above = await at.kept("The trunk is locked.", store=attic, metadata={"what": "trunk"})
    below = await at.kept("The trunk is open.", metadata={"what": "trunk"})
    asked: dict[str, Any] = {"store": attic, "filter": {"metadata.what": "trunk"}}
    check.equal(await at.found("trunk", store=attic), [above], "what is recalled from the store")
    await check.refused(at.merge(below, above), "conflict", "scope_mismatch")
    await check.refused(at.merge(above, below, store="main"), "not_found", "canonical")
    gone = await at.forget(**asked)
    check.equal(gone.forgotten_ids, (above,), "what goes from the store that was named")
    kept = await at.expire({"type": "semantic"}, **asked)
    check.equal(kept.matched_count, 0, "how many match in a store that is empty")
    check.equal(await at.found("trunk"), [below], "what is left in the other one")


async def the_dead_and_the_unapproved_crowd_nobody_out(at: Subject, check: Check) -> None:
    size = min(at.size.crowd, 200)
    answer = await at.kept(_ANSWER)
    crowd = [{"content": f"{_QUERY} {number}", "metadata": {"old": True}} for number in range(size)]
    forgotten = await at.kept_all(crowd)
    await at.forget(*forgotten)
    check.equal(await at.found(_QUERY, k=1), [answer], f"what is found beside {size} forgotten ones")
    if not at.is_extended:
        return
    await at.kept_all(crowd)
    done = await at.expire({"type": "semantic"}, action="archive", filter={"metadata.old": True})
    check.equal(done.matched_count, size, "how many were archived")
    check.equal(await at.found(_QUERY, k=1), [answer], f"what is found beside {size} archived ones")
    if "governance" in at.capabilities:
        for number in range(10):
            await at.remember(f"{_QUERY} {number}", approval_required=True)
        check.equal(await at.found(_QUERY, k=1), [answer], "what is found beside ones that wait")


async def each_person_is_answered_as_if_alone(at: Subject, check: Check) -> None:
    users = [f"user-{number}" for number in range(at.size.users)]
    topics = ["tea", "boats", "chess", "rain", "maps", "bread", "violins", "moss", "trains", "clocks"]

    def rows(owner: int, **given: Any) -> list[dict[str, Any]]:
        return [
            {
                "content": f"{users[owner]} note {number} on {topics[(number * 7 + owner) % 10]} "
                f"and {topics[(number * 3 + owner) % 9]}",
                "user_id": users[owner],
                **given,
            }
            for number in range(at.size.each)
        ]

    written = list(chain.from_iterable(map(rows, range(len(users)))))
    owners = dict(zip(await at.kept_all(written), (row["user_id"] for row in written), strict=True))
    for user in users:
        hits = await at.found("a note on tea", user_id=user, k=5)
        check.equal([owners.get(hit) for hit in hits], [user] * 5, f"whose the hits of {user} are")
    for owner, user in enumerate(users[:2]):
        hermit = at.beside(f"alone-{user}")
        await at.kept_all(rows(owner, agent_id=hermit))
        asked: dict[str, Any] = {"k": 5, "min_relevance": "off"}
        together = await at.recall("a note on tea", user_id=user, **asked)
        alone = await at.recall("a note on tea", agent_id=hermit, **asked)
        check.equal(
            [round(hit.relevance, 9) for hit in together],
            [round(hit.relevance, 9) for hit in alone],
            "the relevance of hits, beside others and alone",
        )


async def k_up_to_a_thousand(at: Subject, check: Check) -> None:
    await at.kept_all([{"content": f"pebble number {number}"} for number in range(at.size.rows)])
    for k in (257, 1_000):
        hits, there = await at.found("pebble", k=k), min(k, at.size.rows)
        check.equal((len(hits), len(set(hits))), (there, there), f"distinct hits for k {k}")
    for k in (0, 1_001):
        await check.refused(at.wire("recall", {"query": "pebble", "k": k}), "validation_error", "bad_value")


async def expired_is_gone_at_its_millisecond(at: Subject, check: Check) -> None:
    past = await at.kept("The offer of last year ends.", expires_at=at.now() - DAY_MS)
    soon = await at.kept("The offer of today ends.", expires_at=at.now() + at.brief_ms)
    check.equal(await at.found("offer ends"), [soon], "what is found before it expires")
    await at.outlast(at.brief_ms)
    check.equal(await at.found("offer ends"), [], "what is found after")
    for gone in (past, soon):
        await check.refused(at.merge(gone, "mem_unknown"), "not_found", "canonical")
        if at.has_operations:
            await check.refused(at.memory.get(gone), "not_found", "record")
            await check.refused(at.remember("late", id=gone), "not_found", "record")
    if at.has_operations:
        check.equal(await at.listed(), [], "what is listed after")


async def of_equal_texts_the_surer_comes_first(at: Subject, check: Check) -> None:
    doubtful = await at.kept("The ferry leaves at noon.", confidence=0.2)
    sure = await at.kept("The ferry leaves at noon.", confidence=0.9)
    hits = await at.recall("when does the ferry leave", min_relevance="off")
    check.equal([hit.id for hit in hits], [sure, doubtful], "the order of the hits")
    if at.is_extended:
        check.equal([hit.confidence for hit in hits], [0.9, 0.2], "their confidence")


async def linked_hits_are_raised_by_their_distance(at: Subject, check: Check) -> None:
    """Pairs of hits one, two and three links apart; the records between them are of another type."""
    at.extended()
    at.promised("graph", "episodic")
    pairs: dict[int, tuple[str, str]] = {}
    for distance in (1, 2, 3):
        end = await at.kept(f"Lantern {distance} stands in the hall.")
        target = end
        for step in range(1, distance):
            link = [{"to": target, "rel": "next"}]
            target = await at.kept(f"Errand {step} of {distance}.", type="episodic", links=link)
        start = await at.kept(f"Lantern {distance} is lit.", links=[{"to": target, "rel": "next"}])
        pairs[distance] = (start, end)
    asked: dict[str, Any] = {"types": ["semantic"], "min_relevance": "off", "k": 20}
    plain = {hit.id: hit for hit in await at.recall("lantern", **asked)}
    check.equal(len(plain), 6, "how many are found")
    for hops in (1, 2, 3):
        hits = {hit.id: hit for hit in await at.recall("lantern", hops=hops, **asked)}
        check.equal(hits.keys(), plain.keys(), "nothing new is introduced")
        for distance, (one, other) in pairs.items():
            supporting = (other,) if distance <= hops else ()
            check.equal(
                hits[one].supporting, supporting, f"what supports a hit {distance} of {hops} links away"
            )
        near = {distance for distance in pairs if distance <= hops}
        check(_gains(hits, plain, pairs, near), f"linked hits gain their share over {hops} links")


def _gains(
    hits: Mapping[str, Any], plain: Mapping[str, Any], pairs: Mapping[int, tuple[str, str]], near: set[int]
) -> bool:
    """Under rrf a hit's score is its place's; a raise by distance stands on top of that."""
    base = sorted((hit.score for hit in plain.values()), reverse=True)
    made = {one: hits[one].score for pair in pairs.values() for one in pair}
    factors = {
        one: 1 + _HOP_GAIN / (1 + distance) if distance in near else 1.0
        for distance, pair in pairs.items()
        for one in pair
    }
    return sorted(round(score / factors[one], 9) for one, score in made.items()) == sorted(
        round(score, 9) for score in base
    )


async def nothing_is_answered_when_nothing_matches(at: Subject, check: Check) -> None:
    at.extended()
    at.promised("vector")
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
        await at.kept(fact)
    strong = await at.recall("who is allergic to peanuts", k=1)
    check(strong.results, "what is known is found")
    for query in ("boiling point of tungsten", "who won the chess championship in 1972"):
        hits = await at.recall(query)
        check.equal([hit.content for hit in hits], [], f"what answers {query!r}")
        weak = await at.recall(query, min_relevance="off", k=1)
        check(weak.results, "without a floor the nearest is answered all the same")
        check(all(strong[0].relevance > hit.relevance for hit in weak), "relevance separates")


async def reads_are_noted_in_batches(at: Subject, check: Check) -> None:
    at.promised("recall_tracking")
    facts = [await at.kept(f"Lighthouse {number} blinks.") for number in range(5)]
    overlooked = await at.kept("A lighthouse was sold.", type="episodic")
    await at.travel(100 * DAY_MS)
    asked: dict[str, Any] = {"types": ["semantic"], "min_relevance": "off"}
    for number in range(at.size.recalls):
        await at.recall(f"lighthouse {number % 5}", **asked)
    noted = await at.entries("recall")
    check.equal(len(noted), at.size.recalls, "recalls in the journal")
    check.equal({mention.id for mention in noted[0].records}, set(facts), "what the first one returned")
    unused = await at.expire({"no_recall_in_days": 3}, dry_run=True)
    check.equal(unused.ids, (overlooked,), "what was not marked as recalled, and only that")


async def answers_give_nothing_away(at: Subject, check: Check) -> None:
    words = "hunter2 sleeps at noon"
    fact = await at.kept(words)
    recalled = await at.recall("hunter2", min_relevance="off")
    answers: list[object] = [
        (await at.remember("another")).stores,
        [(hit.source_store, hit.found_by) for hit in recalled],
        recalled.stores_queried,
        [row.store for row in (await at.forget("mem_unknown")).stores],
        await at.health(),
    ]
    failing: dict[str, Awaitable[object]] = {
        "a confidence above 1": at.remember(words, confidence=7.0),
        "a procedure that is no machine": at.remember(words, type="procedural"),
        "k of 0": at.recall(words, k=0),
        "an unknown operator": at.recall(words, filter={"x": {"$hunter2": words}}),
        "a merge into nothing": at.merge(words, fact),
        "an empty condition": at.forget(fact, filter={"$or": [{}]}),
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
        text = str(answer)
        check(not re.search(r"0x[0-9a-f]{6,}", text), "no object's address is shown")
        check(
            not re.search(r"\w://\S*@|sqlite3?\.|apsw|psycopg", text),
            "no URL with credentials, no driver's words",
        )
        check("hunter2" not in text and "noon" not in text, "no memory text is shown")


async def the_past_is_readable(at: Subject, check: Check) -> None:
    at.extended()
    first = await at.remember("The oboe is tuned.")
    if first.seq is None:
        raise Unpromised("it has no journal of its own")
    await at.outlast(1)
    await at.remember("The oboe is back.", id=first.id)
    hits = {hit.id: hit for hit in await at.recall("oboe", as_of=str(first.seq), min_relevance="off")}
    check(first.id in hits, "it is found in the past")
    then = (hits[first.id].content, hits[first.id].version)
    check.equal(then, ("The oboe is tuned.", 1), "what it was in the past")
    check.equal(await at.found("oboe", as_of=str(first.seq - 1)), [], "what is found before it was made")
    old = await at.memory.get(first.id, as_of=str(first.seq))
    check.equal(old.content, "The oboe is tuned.", "what is shown of the past")
    await check.refused(at.recall("oboe", as_of=str(2**40)), "validation_error", "bad_value")
    await at.forget(first.id, hard_delete=True)
    check.equal(await at.found("oboe", as_of=str(first.seq)), [], "what an erasure leaves of the past")


async def procedures_are_machines(at: Subject, check: Check) -> None:
    """On every way of writing: what is no valid machine, or could call something, is refused and leaves nothing."""
    at.promised("procedural")
    bad = (
        "not a machine",
        MACHINE.replace('"asked", "labelled", "shipped"', '"asked"'),
        MACHINE.replace('"dest": "shipped"', '"dest": "shipped", "before": "os.system"'),
        MACHINE.replace('"dest": "shipped"', '"dest": "shipped", "conditions": ["os.path.exists"]'),
    )
    for content in bad:
        await check.refused(at.remember(content, type="procedural"), "validation_error", "invalid_procedure")
    kept = await at.kept(MACHINE, type="procedural")
    hits = await at.recall("return parcel", types=["procedural"], min_relevance="off")
    check.equal([hit.id for hit in hits], [kept], "what was kept")
    check(isinstance(hits[0].content, dict), "a procedure is an object")


RECALLS = (
    Scenario("agents_are_apart", "another agent's record is as unknown", agents_are_apart),
    Scenario(
        "restrictions_come_before_the_cut",
        "a crowd out of reach hides nothing",
        restrictions_come_before_the_cut,
        is_large=True,
    ),
    Scenario("stores_are_apart", "a store that is named is the only one touched", stores_are_apart),
    Scenario(
        "dead_and_unapproved",
        "the dead and the unapproved crowd nobody out",
        the_dead_and_the_unapproved_crowd_nobody_out,
        is_large=True,
    ),
    Scenario(
        "many_users",
        "each person is answered as if alone",
        each_person_is_answered_as_if_alone,
        is_large=True,
    ),
    Scenario("k_up_to_1000", "k is honoured up to 1000", k_up_to_a_thousand, is_large=True),
    Scenario("expires_at", "an expired record is gone on every path", expired_is_gone_at_its_millisecond),
    Scenario("confidence", "of equal texts the surer one comes first", of_equal_texts_the_surer_comes_first),
    Scenario("hops", "linked hits are raised by their distance", linked_hits_are_raised_by_their_distance),
    Scenario(
        "no_match",
        "nothing is answered when nothing matches",
        nothing_is_answered_when_nothing_matches,
        needs_meaning=True,
    ),
    Scenario("reads_are_noted", "reads are noted in batches", reads_are_noted_in_batches, is_large=True),
    Scenario(
        "nothing_given_away", "answers and errors tell nothing they should not", answers_give_nothing_away
    ),
    Scenario("as_of", "the past is readable, but for what was erased", the_past_is_readable),
    Scenario("procedures", "a procedure is a valid machine or nothing", procedures_are_machines),
)
