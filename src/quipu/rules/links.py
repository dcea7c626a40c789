"""What holds memories together, and when what they say is so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from quipu.model.graph import Edge, EdgeKind
from quipu.model.record import Link, MemoryType, Record
from quipu.model.value import Json
from quipu.rules.policy_relations import SAME_MATTER, overlap, relation

SUPERSEDES, CONTRADICTS = "supersedes", "contradicts"
#: What is guessed when memory settles, and may be wrong.
RELATED_TO, MAY_CONTRADICT = "related_to", "may_contradict"
_KINDS: Mapping[str, EdgeKind] = {
    SUPERSEDES: EdgeKind.SUPERSESSION,
    CONTRADICTS: EdgeKind.CONTRADICTION,
    MAY_CONTRADICT: EdgeKind.CONTRADICTION,
}
_PLAIN = frozenset({MemoryType.SEMANTIC, MemoryType.EPISODIC, MemoryType.EMOTIONAL})


@dataclass(frozen=True, slots=True)
class Validity:
    """From when on, and until when, something is so; the end itself is not in it."""

    begins: int
    ends: int | None = None

    def holds(self, moment: int) -> bool:
        return self.begins <= moment and (self.ends is None or moment < self.ends)


def validity(record: Record, superseding: Iterable[Record] = ()) -> Validity:
    """As the record says in `valid_from` and `valid_to`, else from its event or writing on.

    What supersedes it ends it where the record itself names no end; its expiry ends it in any case.
    """
    begins = _begins(record)
    named = _moment(record.metadata.get("valid_to"))
    ends = named
    if ends is None:
        ends = min((max(begins, _begins(other)) for other in superseding), default=None)
    known = [end for end in (ends, record.expires_at) if end is not None]
    return Validity(begins, min(known, default=None))


def _begins(record: Record) -> int:
    for value in (record.metadata.get("valid_from"), record.details.get("event_time")):
        moment = _moment(value)
        if moment is not None:
            return moment
    return record.created_at


def _moment(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def found(record: Record, near: Sequence[tuple[Record, float]]) -> tuple[Link, ...]:
    """Links to memories of the same matter, nearest first: to the nearest that agrees, and to any that may not.

    Turns of the same talk stand together already. The measure is that of reviews; `python -m bench.hops` says what the
    links are worth.
    """
    made: list[Link] = []
    for other, share in near:
        if share < SAME_MATTER or (record.session_id is not None and other.session_id == record.session_id):
            continue
        if relation(record.content, other.content, share) == "conflict":
            made.append(Link(other.id, MAY_CONTRADICT))
        elif not any(link.rel == RELATED_TO for link in made):
            made.append(Link(other.id, RELATED_TO))
    return tuple(made)


def superseders(records: Mapping[str, Record]) -> dict[str, list[Record]]:
    """By id: the records that take its place."""
    found: dict[str, list[Record]] = {}
    for record in records.values():
        for link in record.links:
            if link.rel == SUPERSEDES and link.to != record.id:
                found.setdefault(link.to, []).append(record)
    return found


def edges(records: Mapping[str, Record], near: Mapping[str, frozenset[str]]) -> tuple[Edge, ...]:
    """Why these records stand together; `near` says which the ledger holds for neighbours."""
    found: dict[Edge, None] = {}
    for record in records.values():
        for link in record.links:
            if link.to in records and link.to != record.id:
                kind = _KINDS.get(link.rel, EdgeKind.LINK)
                found[Edge(source=record.id, target=link.to, kind=kind, rel=link.rel)] = None
    linked = {frozenset((edge.source, edge.target)) for edge in found}
    for one, other in _pairs(records, near):
        found.update(dict.fromkeys(_unsaid(one, other, frozenset((one.id, other.id)) in linked)))
    return tuple(found)


def _pairs(
    records: Mapping[str, Record], near: Mapping[str, frozenset[str]]
) -> Iterator[tuple[Record, Record]]:
    seen: set[frozenset[str]] = set()
    for name in records:
        for other in sorted(near.get(name, ())):
            pair = frozenset((name, other))
            if other in records and len(pair) > 1 and pair not in seen:
                seen.add(pair)
                first, second = sorted(
                    (records[name], records[other]), key=lambda one: (one.created_at, one.id)
                )
                yield first, second


def _unsaid(one: Record, other: Record, is_linked: bool) -> Iterator[Edge]:
    """What nobody wrote down: the same subject, the same talk, words that cannot both be so."""
    subject = one.provenance.subject
    if _may_contradict(one, other):
        yield Edge(
            source=other.id, target=one.id, kind=EdgeKind.CONTRADICTION, rel="may contradict, by its words"
        )
    if subject is not None and subject == other.provenance.subject:
        yield Edge(source=one.id, target=other.id, kind=EdgeKind.SUBJECT, rel=subject)
    elif one.session_id is not None and one.session_id == other.session_id:
        yield Edge(source=one.id, target=other.id, kind=EdgeKind.SESSION, rel="next in the session")
    elif not is_linked:
        # The ledger knows of a link whose target was merged away since.
        yield Edge(source=one.id, target=other.id, kind=EdgeKind.LINK, rel="linked")


def _may_contradict(one: Record, other: Record) -> bool:
    if one.type not in _PLAIN or one.type is not other.type or one.user_id != other.user_id:
        return False
    return relation(other.content, one.content, overlap(other.content, one.content)) == "conflict"
