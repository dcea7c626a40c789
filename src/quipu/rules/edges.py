"""Whether the edges that `hops` walks are those that versions state.

1. An edge leads from a version to what its record names, or to what that was merged into; it begins with the version or
   with a merge, and ends with the version, or when what it leads to is merged away.
2. Each link of a version has such an edge, and one that lasts as long as the version.
3. Erasing a record takes away the edges to and from it: of a link that passes one nothing more is known.
4. Of an emptied version nobody knows what it linked to.
5. An edge that begins where it ends is never walked, but an erasure follows it: what was made out of others takes them in
   with the same commit, and goes when one of them does. So it is stated too, and there for each that was taken in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from quipu.model.beside import KeptLink
from quipu.model.outcomes import Fault
from quipu.model.record import Record


@dataclass(frozen=True, slots=True)
class Seen:
    """What a walk through all versions has met: records that state links, and those that were merged away."""

    linking: set[str] = field(default_factory=set[str])
    merged: set[str] = field(default_factory=set[str])

    def note(self, record: Record) -> None:
        if record.links:
            self.linking.add(record.id)
        if record.merged_into is not None:
            self.merged.add(record.id)


@dataclass(frozen=True, slots=True)
class Way:
    """Where a link may lead by now: what it names, and what that was merged into."""

    #: id → the positions at which it was merged away
    places: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    passes_erased: bool = False


def targets(versions: Collection[Record]) -> set[str]:
    """What these versions link to."""
    return {link.to for version in versions for link in version.links}


def fault(
    versions: Sequence[Record], kept: Sequence[KeptLink], ways: Mapping[str, Way], record_id: str
) -> Fault | None:
    """What is wrong with the edges from one record, if anything is."""
    walked = [edge for edge in kept if edge.died != edge.born]
    passed = [edge for edge in kept if edge.died == edge.born]
    stated: set[KeptLink] = set()
    for version in versions:
        mine = [edge for edge in walked if _is_of(edge, version)]
        stated.update(mine)
        if version.is_emptied:
            continue
        if not (_lead(mine, version, ways) and _last(mine, version, ways) and _took(passed, version, ways)):
            return _differs(record_id, version.born)
    for edge in walked:
        if edge not in stated or (edge.died is not None and edge.died < edge.born):
            return _differs(record_id, edge.born)
    for edge in passed:
        if not any(_may_state(version, edge, ways) for version in versions):
            return _differs(record_id, edge.born)
    return None


def _is_of(edge: KeptLink, version: Record) -> bool:
    return version.born <= edge.born and (version.died is None or edge.born < version.died)


def _lead(mine: Sequence[KeptLink], version: Record, ways: Mapping[str, Way]) -> bool:
    """Each edge is one that the version states."""
    for edge in mine:
        led = [ways[link.to] for link in version.links if link.rel == edge.rel]
        if any(way.passes_erased for way in led):
            continue
        merged = [way.places[edge.to_id] for way in led if edge.to_id in way.places]
        if not merged or (edge.died != version.died and not any(edge.died in at for at in merged)):
            return False
        end = edge.died
        if any(edge.born < at and (end is None or end > at) for at in frozenset[int]().union(*merged)):
            return False  # it outlived what it leads to
    return True


def _last(mine: Sequence[KeptLink], version: Record, ways: Mapping[str, Way]) -> bool:
    """Each link has an edge that lasts as long as the version. What was merged into itself leads nowhere."""
    for link in version.links:
        way = ways[link.to]
        if way.passes_erased or version.id in way.places:
            continue
        if not any(
            edge.rel == link.rel and edge.to_id in way.places and edge.died == version.died for edge in mine
        ):
            return False
    return True


def _took(passed: Sequence[KeptLink], version: Record, ways: Mapping[str, Way]) -> bool:
    """Each that a version took in as it was written has an edge that begins and ends there."""
    there = {(edge.to_id, edge.rel, edge.born) for edge in passed}
    return all(
        (link.to, link.rel, version.born) in there
        for link in version.links
        if not ways[link.to].passes_erased
        and version.born in ways[link.to].places[link.to]
        and version.id in ways[link.to].places
    )


def _may_state(version: Record, edge: KeptLink, ways: Mapping[str, Way]) -> bool:
    """Whether a passing edge can be of a version: it began with it, or with a merge while it stood."""
    if edge.born < version.born or (version.died is not None and edge.born > version.died):
        return False
    if version.is_emptied:
        return True
    led = [ways[link.to] for link in version.links if link.rel == edge.rel]
    return any(way.passes_erased or edge.to_id in way.places for way in led)


def _differs(record_id: str, seq: int) -> Fault:
    detail = "the links that recall walks are not those that the record states"
    return Fault(kind="beside_differs", seq=seq, id=record_id, detail=detail)
