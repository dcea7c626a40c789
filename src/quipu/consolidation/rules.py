"""How much a short-term memory weighs, and what follows from that. Pure.

Similarity makes a memory weigh more and never removes one: one word, number or negation apart is another fact.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from quipu.consolidation.model import Outcome, SimilarPair
from quipu.fields import DAY_MS
from quipu.governance.similarity import relation, words_of
from quipu.memory.drafts import least_trusted
from quipu.memory.model import LinkTo, Privacy, RememberRequest
from quipu.model.record import Link, MemoryType, PrivacyIntent, Record, Trust
from quipu.model.store import MAIN

#: What writes promotions, as their source.
CONSOLIDATION = "consolidation"
DERIVED_FROM = "derived_from"
_FRESH_MS = 3_600_000
_MANY = 5
#: A memory has at most 64 links: to what it was made of, and those that its sources had.
_MOST_SOURCES, _MOST_OWN = 32, 32
_MOST_TAGS = 64
_WEIGHTS: Mapping[str, float] = {
    "recency": 0.2,
    "salience": 0.3,
    "confidence": 0.2,
    "importance": 0.2,
    "flag": 0.1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where the lines are drawn."""

    #: So many of an agent's and user's short-term memories are its window.
    window: int = 100
    #: From this score on a memory is promoted.
    promoted_from: float = 0.6
    #: Below it, it is forgotten at this age.
    evicted_after_ms: int = DAY_MS
    #: Texts so near count as said again.
    similar: float = 0.92


@dataclass(frozen=True, slots=True)
class Item:
    """A short-term memory with what is known of its use."""

    record: Record
    recalls: int = 0
    #: Memories of the window that say the same, itself included.
    mentions: int = 1


class Scorer(Protocol):
    """How much an item weighs at a moment, from 0 to 1."""

    def __call__(self, item: Item, now: int) -> float: ...


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to become of items that say the same; the newest is the first."""

    items: tuple[Item, ...]
    outcome: Outcome
    score: float
    #: A person said no to what its weight would lead to.
    is_refused: bool = False

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(item.record for item in self.items)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(record.id for record in self.records)


@dataclass(frozen=True, slots=True)
class Refusals:
    """Memories that a person, asked about them as they are, did not want promoted or forgotten."""

    promotion: frozenset[str] = frozenset()
    removal: frozenset[str] = frozenset()


# -- weighing -----------------------------------------------------------------------------------------------------


def score(item: Item, now: int) -> float:
    """From 0 to 1. An axis without a value is left out, and the others weigh more."""
    record = item.record
    axes: dict[str, float] = {
        "recency": max(0.0, 1 - max(0, now - record.updated_at) / _FRESH_MS),
        "salience": min(1.0, (item.mentions + item.recalls) / _MANY),
        "confidence": record.confidence,
        "flag": 1.0 if record.metadata.get("user_flagged") is True else 0.0,
    }
    if record.importance is not None:
        axes["importance"] = record.importance
    whole = sum(_WEIGHTS[name] for name in axes)
    return sum(_WEIGHTS[name] * value for name, value in axes.items()) / whole


def planned(
    items: Sequence[Item],
    now: int,
    thresholds: Thresholds,
    refusals: Refusals,
    scorer: Scorer = score,
) -> list[Planned]:
    """What becomes of the short-term memories of one agent and user. Those outside the window do not stay.

    A no to a promotion is a no to the same words said again: nobody is asked twice about them.
    """
    ordered = newest_first(items)
    inside = {item.record.id for item in ordered[: thresholds.window]}
    weights = {item.record.id: scorer(item, now) for item in ordered}
    plans: list[Planned] = []
    for group in _groups(ordered):
        best = max(weights[item.record.id] for item in group)
        is_refused = any(item.record.id in refusals.promotion for item in group)
        if best >= thresholds.promoted_from and not is_refused:
            plans.append(Planned(group, "promoted", best))
            continue
        # What is not promoted is not joined either: each of them goes, or stays, by itself.
        for item in group:
            weight = weights[item.record.id]
            is_old = now - item.record.updated_at >= thresholds.evicted_after_ms
            is_light = weight < thresholds.promoted_from
            goes = item.record.id not in inside or (is_old and is_light)
            is_to_stay = goes and item.record.id in refusals.removal
            outcome: Outcome = "evicted" if goes and not is_to_stay else "kept"
            plans.append(Planned((item,), outcome, weight, is_to_stay or (is_refused and outcome == "kept")))
    return plans


def newest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.record.created_at, item.record.id), reverse=True)


def _groups(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Items of the same words, kind, handling and time of validity, newest first."""
    groups: dict[object, list[Item]] = {}
    for item in items:
        record = item.record
        validity = (record.key, record.valid_from, record.valid_until)
        alike = (promoted_type(record.type), words(record.content), record.privacy, validity)
        key: object = record.id if record.type == "procedural" else alike
        groups.setdefault(key, []).append(item)
    return [
        tuple(group[start : start + _MOST_SOURCES])
        for group in groups.values()
        for start in range(0, len(group), _MOST_SOURCES)
    ]


# -- saying the same ----------------------------------------------------------------------------------------------


def words(text: str) -> str:
    """A text without what two writings of the very same words may differ in: case, space, the full stop."""
    return " ".join(text.casefold().split()).rstrip(" .!") or text


def similar_pairs(
    records: Sequence[Record], vectors: Sequence[bytes | None], similar: float
) -> list[SimilarPair]:
    """Pairs that seem to say the same: near in meaning, and neither in numbers nor in yes and no apart."""
    shares = _shares(vectors)
    texts = [words(record.content) for record in records]
    found: list[SimilarPair] = []
    for one, record in enumerate(records):
        for other in range(one + 1, len(records)):
            share = 1.0 if texts[one] == texts[other] else float(shares[one, other])
            if share >= similar and says_the_same(record.content, records[other].content, share):
                found.append(SimilarPair(id=record.id, other=records[other].id, similarity=round(share, 4)))
    return found


def _shares(vectors: Sequence[bytes | None]) -> Any:
    """How near each is to each other; nothing is near to what has no vector."""
    sizes = [0 if vector is None else len(vector) // 4 for vector in vectors]
    rows = np.zeros((len(vectors), max(sizes, default=0)), np.float32)
    for place, vector in enumerate(vectors):
        if vector is not None and sizes[place] == rows.shape[1]:
            rows[place] = np.frombuffer(vector, "<f4")
    return np.minimum(rows @ rows.T, 1.0)


def says_the_same(one: str, other: str, similarity: float) -> bool:
    """Whether a near text repeats another. What turns it round, changes a number or puts another word in does not.

    One word in the place of another is seldom a synonym: it is another day, name or colour.
    """
    if words(one) == words(other):
        return True
    return relation(one, other, similarity) != "conflict" and not _is_one_word_apart(one, other)


def _is_one_word_apart(one: str, other: str) -> bool:
    mine, theirs = words_of(one), words_of(other)
    if len(mine) != len(theirs):
        return False
    return sum(word != instead for word, instead in zip(mine, theirs, strict=True)) == 1


def with_mentions(items: Sequence[Item], pairs: Sequence[SimilarPair]) -> list[Item]:
    """The items, each with how often it was said."""
    counts = {item.record.id: 1 for item in items}
    for pair in pairs:
        counts[pair.id] += 1
        counts[pair.other] += 1
    return [Item(item.record, item.recalls, counts[item.record.id]) for item in items]


def is_known(record: Record, other: Record) -> bool:
    """Whether a long-term memory says exactly the same, and all that is said beside it."""
    return (
        other.type == promoted_type(record.type)
        and (other.key, other.valid_until) == (record.key, record.valid_until)
        and words(other.content) == words(record.content)
        and other.privacy == record.privacy
        and all(other.metadata.get(name) == value for name, value in _metadata([record]).items())
        and set(record.tags) <= set(other.tags)
    )


# -- promotion ----------------------------------------------------------------------------------------------------


def promoted_type(kind: MemoryType) -> MemoryType:
    """Events become facts; procedures and feelings stay what they are."""
    return "semantic" if kind == "episodic" else kind


def promotion(records: Sequence[Record], content: Any) -> RememberRequest:
    """The long-term memory that memories of the same words become, word for word as the newest says it."""
    newest = records[0]
    sessions = {record.session_id for record in records}
    kind = promoted_type(newest.type)
    own = sorted({link for record in records for link in record.links}, key=lambda link: (link.to, link.rel))
    links = [*(Link(record.id, DERIVED_FROM) for record in records), *own[:_MOST_OWN]]
    given: dict[str, Any] = {
        "agent_id": newest.agent_id,
        "user_id": newest.user_id,
        "type": kind,
        "content": content,
        "metadata": _metadata(records) or None,
        "tags": tuple(dict.fromkeys(tag for record in reversed(records) for tag in record.tags))[:_MOST_TAGS],
        "confidence": max(record.confidence for record in records),
        "importance": max((one.importance for one in records if one.importance is not None), default=None),
        "source": CONSOLIDATION,
        "expires_at": earliest_end(records),
        "session_id": newest.session_id if len(sessions) == 1 else None,
        "store": MAIN,
        "key": newest.key,
        "valid_from": newest.valid_from,
        "valid_until": newest.valid_until,
        "privacy_intent": privacy_of(newest.privacy),
        "links": tuple(LinkTo(to=link.to, rel=link.rel) for link in links),
    }
    if kind == newest.type:
        given |= newest.details
    return RememberRequest.parse({name: value for name, value in given.items() if value is not None})


def privacy_of(intent: PrivacyIntent | None) -> Privacy | None:
    """The same, as a request says it."""
    if intent is None:
        return None
    return Privacy(
        retain=intent.retain,
        share_with=intent.share_with,
        consent_id=intent.consent_id,
        sensitivity=intent.sensitivity,
    )


def earliest_end(records: Sequence[Record]) -> int | None:
    """What is made of them lives no longer than the first of them."""
    return min((one.expires_at for one in records if one.expires_at is not None), default=None)


def trust_of(records: Sequence[Record]) -> Trust:
    """No better than the least trusted source."""
    return least_trusted([record.provenance.trust for record in records])


def key_of(what: str, records: Iterable[Record], *more: str) -> str:
    """Names what is done with these very versions, so that it is done or proposed once."""
    named = sorted(f"{record.id}@{record.version}" for record in records)
    digest = hashlib.sha256("\n".join([*named, *more]).encode()).hexdigest()
    return f"{what}:{digest[:48]}"


def _metadata(records: Sequence[Record]) -> dict[str, Any]:
    """Everybody's, the newest winning; what only an event could say stays beside it."""
    union: dict[str, Any] = {}
    for record in reversed(records):
        if promoted_type(record.type) != record.type:
            union.update(record.details)
        union.update(record.metadata)
    if isinstance(union.get("tags"), list | tuple):
        del union["tags"]  # the request carries them as tags
    return union
