"""Short-term memory becoming long-term: how much an item weighs, and what follows from it (memorywire contract 8).

Pure arithmetic over what is known of the items. Similarity makes an item weigh more; it never removes one.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from quipu.model.consolidation import NearlySame, Settlement
from quipu.model.operations import RememberRequest
from quipu.model.record import Link, MemoryType, Record, Trust
from quipu.model.settling import Settling
from quipu.model.value import Json
from quipu.rules.derivations import CONSOLIDATION, DERIVED_FROM
from quipu.rules.drafting import least_trusted
from quipu.rules.policy_relations import relation, words_of

#: The trait of a held settlement that names the versions it is about.
SETTLES = "settles"
_FRESH_MS = 3_600_000
_MANY = 5
#: What the ledger bounds links and tags by is settled elsewhere; a promotion stays below it.
_MOST_SOURCES, _MOST_OWN, _MOST_FOUND = 32, 24, 8
_WEIGHTS: Mapping[str, float] = {
    "recency": 0.2,
    "salience": 0.3,
    "confidence": 0.2,
    "importance": 0.2,
    "flag": 0.1,
}


@dataclass(frozen=True, slots=True)
class Item:
    """A short-term memory with what is known of its use."""

    record: Record
    recalls: int = 0
    #: Writes in the window that say the same, itself included.
    mentions: int = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of items that say the same; the newest is the first."""

    items: tuple[Item, ...]
    outcome: Settlement
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


_NOTHING_REFUSED = Refusals()


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
    items: Sequence[Item], now: int, settling: Settling, refusals: Refusals = _NOTHING_REFUSED
) -> list[Decision]:
    """What becomes of the short-term memories of one agent and user. Those outside the window do not stay.

    A no to a promotion is a no to the same words said again: nobody is asked twice about them.
    """
    ordered = newest_first(items)
    inside = {item.record.id for item in ordered[: settling.window]}
    decisions: list[Decision] = []
    for group in _groups(ordered):
        best = max(score(item, now) for item in group)
        is_refused = any(item.record.id in refusals.promotion for item in group)
        if best >= settling.threshold and not is_refused:
            decisions.append(Decision(group, Settlement.PROMOTED, best))
            continue
        # What is not promoted is not joined either: each of them goes, or stays, by itself.
        for item in group:
            weight, is_inside = score(item, now), item.record.id in inside
            outcome = _unpromoted(item, now, settling, is_inside, is_heavy=weight >= settling.threshold)
            stays = outcome is Settlement.EVICTED and item.record.id in refusals.removal
            outcome = Settlement.KEPT if stays else outcome
            said_no = stays or (is_refused and outcome is Settlement.KEPT)
            decisions.append(Decision((item,), outcome, weight, said_no))
    return decisions


def newest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.record.created_at, item.record.id), reverse=True)


def _unpromoted(item: Item, now: int, settling: Settling, is_inside: bool, *, is_heavy: bool) -> Settlement:
    """Age takes only what is light; whatever is pushed out of the window goes."""
    is_old = not is_heavy and now - item.record.updated_at >= settling.evict_after_ms
    return Settlement.KEPT if is_inside and not is_old else Settlement.EVICTED


def _groups(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Items of the same words, kind and handling, newest first."""
    groups: dict[object, list[Item]] = {}
    for item in items:
        record = item.record
        alike = (settled_type(record.type), said(record.content), record.privacy)
        key: object = record.id if record.type is MemoryType.PROCEDURAL else alike
        groups.setdefault(key, []).append(item)
    return [
        tuple(group[start : start + _MOST_SOURCES])
        for group in groups.values()
        for start in range(0, len(group), _MOST_SOURCES)
    ]


# -- saying the same ----------------------------------------------------------------------------------------------


def nearly_same(
    records: Sequence[Record], vectors: Sequence[bytes | None], similar: float
) -> list[NearlySame]:
    """Pairs that seem to say the same: near in meaning, and neither in numbers nor in yes and no apart."""
    numbers = [None if vector is None else array("f", vector) for vector in vectors]
    found: list[NearlySame] = []
    for place, (one, mine) in enumerate(zip(records, numbers, strict=True)):
        for other, theirs in zip(records[place + 1 :], numbers[place + 1 :], strict=True):
            share = _share(one, other, mine, theirs)
            if share >= similar and says_the_same(one.content, other.content, share):
                found.append(NearlySame(id=one.id, other=other.id, similarity=round(share, 4)))
    return found


def said(text: str) -> str:
    """A text without what two writings of the very same words may differ in: case, space, the full stop."""
    return " ".join(text.casefold().split()).rstrip(" .!") or text


def says_the_same(one: str, other: str, similarity: float) -> bool:
    """Whether a near text repeats another. What turns it round, changes a number or puts another word in does not.

    One word in the place of another is seldom a synonym: it is another day, name or colour.
    """
    if said(one) == said(other):
        return True
    return relation(one, other, similarity) != "conflict" and not _is_one_word_apart(one, other)


def _is_one_word_apart(one: str, other: str) -> bool:
    mine, theirs = words_of(one), words_of(other)
    if len(mine) != len(theirs):
        return False
    return sum(word != instead for word, instead in zip(mine, theirs, strict=True)) == 1


def _share(one: Record, other: Record, mine: array[float] | None, theirs: array[float] | None) -> float:
    if said(one.content) == said(other.content):
        return 1.0
    if mine is None or theirs is None or len(mine) != len(theirs):
        return 0.0
    return min(1.0, sum(map(mul, mine, theirs)))


def with_mentions(items: Sequence[Item], pairs: Sequence[NearlySame]) -> list[Item]:
    """The items, each with how often it was said."""
    counts = {item.record.id: 1 for item in items}
    for pair in pairs:
        counts[pair.id] += 1
        counts[pair.other] += 1
    return [Item(item.record, item.recalls, counts[item.record.id]) for item in items]


def is_known(record: Record, candidate: Record) -> bool:
    """Whether a long-term memory says exactly the same, and all that is said beside it."""
    return (
        candidate.type is settled_type(record.type)
        and said(candidate.content) == said(record.content)
        and candidate.privacy == record.privacy
        and all(candidate.metadata.get(name) == value for name, value in _metadata([record]).items())
        and set(record.tags) <= set(candidate.tags)
    )


# -- promotion ----------------------------------------------------------------------------------------------------


def settled_type(kind: MemoryType) -> MemoryType:
    """Events settle as facts; procedures and feelings stay what they are."""
    return MemoryType.SEMANTIC if kind is MemoryType.EPISODIC else kind


def promotion(records: Sequence[Record], store: str, found: Sequence[Link] = ()) -> RememberRequest:
    """The long-term memory that items of the same words become, word for word as the newest says it.

    `found` are links that nobody wrote: to memories of the same matter.
    """
    newest = records[0]
    sessions = {record.session_id for record in records}
    kind = settled_type(newest.type)
    own = {link for record in records for link in record.links}
    return RememberRequest(
        agent_id=newest.agent_id,
        user_id=newest.user_id,
        type=kind,
        content=newest.content,
        metadata=_metadata(records) or None,
        tags=tuple(dict.fromkeys(tag for record in reversed(records) for tag in record.tags)) or None,
        confidence=max(record.confidence for record in records),
        importance=max((one.importance for one in records if one.importance is not None), default=None),
        source=CONSOLIDATION,
        expires_at=min((one.expires_at for one in records if one.expires_at is not None), default=None),
        session_id=newest.session_id if len(sessions) == 1 else None,
        store=store,
        privacy_intent=newest.privacy,
        details=newest.details if kind is newest.type else {},
        links=(
            *(Link(record.id, DERIVED_FROM) for record in records),
            *found[:_MOST_FOUND],
            *sorted(own - set(found), key=lambda link: (link.to, link.rel))[:_MOST_OWN],
        ),
    )


def trust_of(records: Sequence[Record]) -> Trust:
    """No better than the least trusted source."""
    return least_trusted(*(record.provenance.trust for record in records))


def key_of(what: str, records: Iterable[Record], *more: str) -> str:
    """Names one settlement of these very versions, so that it is proposed once."""
    named = sorted(f"{record.id}@{record.version}" for record in records)
    digest = hashlib.sha256("\n".join([*named, *more]).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{what}:{digest[:48]}"


def version_mark(record: Record) -> str:
    """Names one version of one memory, without saying which."""
    return hashlib.sha256(f"{record.id}@{record.version}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def refusals_of(records: Iterable[Record], refused: Mapping[str, frozenset[str]]) -> Refusals:
    """Which of the memories are still the version that was refused; `refused` has marks by operation."""
    marks = {record.id: version_mark(record) for record in records}
    by_operation = {
        operation: frozenset(name for name, mark in marks.items() if mark in found)
        for operation, found in refused.items()
    }
    return Refusals(
        by_operation.get("remember", frozenset()),
        by_operation.get("forget", frozenset()),
    )


def _metadata(records: Sequence[Record]) -> dict[str, Json]:
    """Everybody's, the newest winning; what only an event could say stays beside it."""
    union: dict[str, Json] = {}
    for record in reversed(records):
        if settled_type(record.type) is not record.type:
            union.update(record.details)
        union.update(record.metadata)
    if isinstance(union.get("tags"), list | tuple):
        del union["tags"]  # the request carries them as tags
    return union
