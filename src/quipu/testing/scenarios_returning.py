"""What was given comes back: texts, details and labels, also after a change, and within the budget that was named."""

from __future__ import annotations

import json
from typing import Any

from quipu.model.operations import Redact, UpdateStrategy
from quipu.model.outcomes import Hit
from quipu.model.record import MemoryType, PrivacyIntent, Sensitivity
from quipu.testing.scenarios_subject import DAY_MS, Check, Scenario, Subject
from quipu.testing.scenarios_v0 import MACHINE, TYPES

#: `max_tokens` counts one token for so many characters.
_TOKEN = 4
#: More stores than anybody asks at once.
_MOST_STORES = 16


async def everything_comes_back(at: Subject, check: Check) -> None:
    at.promised(*TYPES)
    await _texts_and_details(at, check)
    await _labels(at, check)
    await _changes(at, check)
    await _within_a_budget(at, check)
    await _secrets_masked(at, check)
    asked = at.recall("lunch", quorum_k=_MOST_STORES)
    await check.refused(asked, "validation_error", "quorum_unreachable")
    check(await at.stays_sound(), "everything verifies")


async def _texts_and_details(at: Subject, check: Check) -> None:
    episode = await at.kept(
        "Lunch with Ana — 🥘, naïve café, 東京, \u202etfel\u202c.",
        type=MemoryType.EPISODIC,
        metadata={"deep": {"list": [1, 2.5, None, True, "ü"]}, "large": 2**62, "": "empty key"},
        details={"event_time": 1_600_000_000_000, "location": "Lima", "participants": ["Ana", "Bo"]},
        importance=0.3,
    )
    feeling = await at.kept(
        "Mara dislikes delays.",
        type=MemoryType.EMOTIONAL,
        details={
            "sentiment": "negative",
            "valence": -0.5,
            "arousal": 1,
            "emotion": "anger",
            "target": "delays",
        },
    )
    as_text = await at.kept(MACHINE, type=MemoryType.PROCEDURAL)
    as_object = await at.kept(json.loads(MACHINE), type=MemoryType.PROCEDURAL)
    long = "€" + "x" * ((1 << 20) - 3)
    large = await at.kept(long, metadata={"size": "large"})

    hits = {
        hit.id: hit
        for query in ("lunch Ana", "Mara delays", "return parcel")
        for hit in await at.recall(query, min_relevance=0.0, k=20)
    }
    hit = hits[episode]
    check.equal(hit.content, "Lunch with Ana — 🥘, naïve café, 東京, \u202etfel\u202c.", "the text")
    expected = {"deep": {"list": [1, 2.5, None, True, "ü"]}, "large": 2**62, "": "empty key"}
    check.equal(json.dumps(hit.metadata), json.dumps(expected), "the metadata")
    people = {"event_time": 1_600_000_000_000, "location": "Lima", "participants": ["Ana", "Bo"]}
    check.equal(json.loads(json.dumps(hit.details)), people, "the details of an episode")
    check.equal(hit.importance, 0.3, "its importance")
    check.equal(hits[feeling].details["valence"], -0.5, "a detail of a feeling")
    for machine in (as_text, as_object):
        check.equal(hits[machine].content, json.loads(MACHINE), "a procedure is an object")
    check.equal((await at.get(large)).content, long, "one mebibyte of text")
    await check.refused(at.remember(long + "x"), "validation_error", "too_large")


async def _hit(at: Subject, check: Check, query: str, record_id: str) -> Hit:
    """The hit that is this record."""
    hits = {hit.id: hit for hit in await at.recall(query, min_relevance=0.0, k=20)}
    check(record_id in hits, f"a memory is found by its words: {query}")
    return hits[record_id]


async def _labels(at: Subject, check: Check) -> None:
    """memorywire 2.3 and 2.4: whose a memory is, where it came from and what it is called, on record and hit alike."""
    ends = at.now() + DAY_MS
    given: dict[str, Any] = {
        "source": "tool_result",
        "session_id": "s-1",
        "confidence": 0.5,
        "expires_at": ends,
    }
    fact = await at.kept("The kiln is fired on Fridays.", tags=("craft", "weekly"), **given)
    named = await at.kept("The kiln is swept on Mondays.", metadata={"tags": ["craft"], "n": 1})

    hit = await _hit(at, check, "kiln fired Fridays", fact)
    for place, kept in (("hit", hit), ("record", await at.get(fact))):
        for name, value in given.items():
            check.equal(getattr(kept, name), value, f"{name} of the {place} (2.3, 2.4)")
        check.equal(set(kept.tags), {"craft", "weekly"}, f"tags of the {place} (2.3, 2.4)")
        whose = (kept.agent_id, kept.user_id, kept.version)
        check.equal(whose, (at.agent, at.user, 1), f"whose the {place} is, and its version (2.4)")
    listed = await _hit(at, check, "kiln swept Mondays", named)
    check.equal(listed.tags, ("craft",), "the tags of a hit whose metadata lists them (2.3)")
    check.equal(hit.store, "main", "the memory store of the hit (2.4)")
    marks = [hit.demoted, hit.foreign, hit.redacted, hit.truncated]
    check(
        not any(marks), "a hit is not marked as what it is not (demoted, foreign, redacted, truncated, 2.4)"
    )
    check.equal(
        (await at.found("kiln", filter={"tags": ["weekly"]})), [fact], "what one of its tags finds (2.11)"
    )
    check.equal(
        await at.found("kiln", filter={"source": "tool_result"}), [fact], "what its source finds (2.11)"
    )


async def _changes(at: Subject, check: Check) -> None:
    """memorywire 2.3: overwrite replaces what it was and append adds to it, each as a version of its own."""
    first = await at.remember("The oboe is tuned.", metadata={"a": 1, "b": 1}, tags=("reed",), source="user")
    fact = first.id
    made_at = (await at.get(fact)).created_at
    await at.outlast(1)

    added = {"id": fact, "update_strategy": UpdateStrategy.APPEND, "metadata": {"b": 2}}
    check.equal((await at.remember("It is lent.", **added)).id, fact, "the id of a change (2.3)")
    record = await at.get(fact)
    check.equal(record.content, "The oboe is tuned.\nIt is lent.", "the text after an append (2.3)")
    check.equal(dict(record.metadata), {"a": 1, "b": 2}, "the metadata after an append (2.3)")
    kept = (record.tags, record.source, record.version, record.created_at)
    check.equal(
        kept, (("reed",), "user", 2, made_at), "what an append leaves, and the version it makes (2.3)"
    )

    stale = at.remember("The oboe is sold.", id=fact, if_version=1)
    await check.refused(stale, "conflict", "version_mismatch")
    await at.remember("The oboe is back.", id=fact, if_version=2)
    hit = await _hit(at, check, "oboe back", fact)
    check.equal(hit.content, "The oboe is back.", "the text after an overwrite (2.3)")
    check.equal(
        (hit.tags, hit.source), ((), None), "tags and source after an overwrite that names none (2.3)"
    )
    check.equal(
        (hit.version, hit.created_at), (3, made_at), "the version of the hit, and when it was made (2.4)"
    )
    check(hit.updated_at > made_at, "it was changed after it was made (updated_at, 2.4)")
    seq = first.extensions.get("seq")
    if isinstance(seq, int):  # a position: several memories that answer as one have none
        past = {hit.id: hit for hit in await at.recall("oboe", as_of=str(seq), min_relevance=0.0, k=20)}
        check(fact in past, "it is found in the past (as_of, 2.4)")
        then = (past[fact].content, past[fact].version)
        check.equal(then, ("The oboe is tuned.", 1), "what it was in the past (as_of, 2.4)")
        before = await at.found("oboe", as_of=str(seq - 1), k=20)
        check(fact not in before, "it is not found before it was made (as_of, 2.4)")
    other = at.remember("The oboe is here.", id=fact, type=MemoryType.EPISODIC)
    await check.refused(other, "conflict", "type_mismatch")


async def _within_a_budget(at: Subject, check: Check) -> None:
    """memorywire 2.4, `max_tokens`: whole hits in their order while they fit; the first one always, cut if it must be."""
    for number in range(3):
        await at.remember(f"The weaver's bobbin number {number} is full.", user_id="weaver")
    asked: dict[str, Any] = {"user_id": "weaver", "min_relevance": 0.0}
    free = await at.recall("bobbin", **asked)
    check.equal([hit.rank for hit in free], [1, 2, 3], "the ranks of the hits (2.4)")
    texts = [str(hit.content) for hit in free]
    each = -(-len(texts[0]) // _TOKEN)

    some = await at.recall("bobbin", max_tokens=2 * each, **asked)
    check.equal(
        [hit.content for hit in some], texts[:2], "what a budget for two texts has room for (max_tokens, 2.4)"
    )
    check(not any(hit.truncated for hit in some), "a text that fits is whole (max_tokens, 2.4)")
    (first,) = await at.recall("bobbin", max_tokens=2, **asked)
    check.equal(first.content, texts[0][: 2 * _TOKEN], "the first text, cut (max_tokens, 2.4)")
    check(first.truncated, "a text that was cut says so (max_tokens, 2.4)")


async def _secrets_masked(at: Subject, check: Check) -> None:
    """memorywire 2.10: what a writer wants done with a memory is done."""
    secret = PrivacyIntent(sensitivity=Sensitivity.SECRET)
    hidden = await at.kept(
        "The attic safe opens at 7-31-5.", metadata={"code": "7-31-5"}, privacy_intent=secret
    )

    # Mirrors are not given secrets: where they alone are asked, there is none to be found.
    for hit in await at.recall("attic safe", min_relevance=0.0, k=20):
        if hit.id == hidden:
            check.equal(hit.content, "[redacted]", "what is told of a secret (redact, 2.10)")
            check(hit.redacted and not hit.metadata, "a masked hit says so, without metadata (redact, 2.10)")
    omitted = await at.found("attic safe", redact=Redact.OMIT)
    check(hidden not in omitted, "a secret is left out when it is to be (redact, 2.10)")

    brief = await at.remember("The lift is out of order.", privacy_intent=PrivacyIntent(retain="P30D"))
    kept = await at.get(brief.id)
    lasts = (kept.expires_at or 0) - kept.created_at
    # An operator may let nothing last as long.
    check(0 < lasts <= 30 * DAY_MS, f"a memory is retained as long as was asked (retain, 2.10): {lasts} ms")


RETURNING = (
    Scenario(
        "Q41_everything_comes_back", "what was given is returned unchanged", everything_comes_back, "words"
    ),
)
