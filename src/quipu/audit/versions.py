"""Versions against the journal, and what search knows of them against the versions. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from quipu.audit.chain import Life, Walk
from quipu.audit.model import AuditFault
from quipu.ledger.digests import record_digest
from quipu.ledger.index import Space
from quipu.ledger.records import StoredVersion
from quipu.model.record import Provenance, Record
from quipu.search.terms import index_terms

#: A vector is of length 1, up to what float32 rounds.
_UNIT = 1e-2
_SILENT = Provenance(written_by="")


@dataclass(frozen=True, slots=True)
class Indexed:
    """What search knows of some records."""

    #: Record → target, relation, born, died.
    links: Mapping[str, Sequence[tuple[str, str, int, int | None]]] = field(
        default_factory=dict[str, Sequence[tuple[str, str, int, int | None]]]
    )
    #: Record → version, number of the space, the numbers.
    vectors: Mapping[str, Sequence[tuple[int, int, bytes]]] = field(
        default_factory=dict[str, Sequence[tuple[int, int, bytes]]]
    )
    spaces: Mapping[int, Space] = field(default_factory=dict[int, Space])


def version_faults(stored: StoredVersion, walk: Walk, indexed: Indexed) -> Iterator[AuditFault]:
    """Is a version what the journal says, born and ended where it says, and found by what it says?"""
    life = walk.lives.life(stored.id, stored.version)
    if life is None:
        yield _fault("unjournaled_record", stored, None, "stands in no entry of the journal")
        return
    life.is_seen = True
    record = stored.record
    if record is None:
        yield _fault("altered_record", stored, life, "cannot be read")
        return
    if record.digest != life.digest:
        yield _fault("digest_differs", stored, life, "has another digest than the journal says")
    elif record.is_emptied:
        yield from _emptied_faults(stored, record, life, walk)
    elif not _has_its_digest(record):
        yield _fault("altered_record", stored, life, "is not what was written")
    elif stored.emptied is not None:
        yield _fault("altered_record", stored, life, "is said to be empty and is not")
    if stored.strays:
        columns = ", ".join(stored.strays)
        yield _fault("altered_record", stored, life, f"says something else in the columns {columns}")
    written = (record.born, record.died, record.ending, record.merged_into)
    if written != (life.born, life.died, life.ending, life.merged_into):
        until = "goes on" if life.died is None else f"ended at {life.died}"
        yield _fault("life_differs", stored, life, f"was born at {life.born} and {until} by the journal")
    yield from _index_faults(stored, record, life, walk, indexed)


def missing_fault(record_id: str, version: int, life: Life) -> AuditFault:
    """A version that the journal names and that is not there."""
    detail = f"version {version} is missing"
    return AuditFault(kind="missing_record", seq=life.born, id=record_id, detail=detail)


def may_be_empty(record_id: str, emptied: int | None, life: Life, walk: Walk) -> bool:
    """Whether an erasure or retention emptied a version at that position."""
    if emptied is None:
        return False
    if walk.erased.get(record_id) == emptied:
        return True
    horizon = walk.prunings.get(emptied)
    is_old = life.died is not None and horizon is not None and life.died <= horizon
    return is_old and life.ending == "replaced"


def _emptied_faults(stored: StoredVersion, record: Record, life: Life, walk: Walk) -> Iterator[AuditFault]:
    if not may_be_empty(record.id, stored.emptied, life, walk):
        yield _fault("emptied_record", stored, life, "was emptied, and no entry says so")
    texts = (record.content, record.metadata, record.tags, record.links, record.details)
    others = (
        *(record.session_id, record.importance, record.source, record.privacy, record.key),
        *(record.expires_at, record.valid_from, record.valid_until),
    )
    says_something = any(texts) or any(one is not None for one in others)
    if says_something or record.provenance != _SILENT or record.state != "erased" or stored.terms is not None:
        yield _fault("altered_record", stored, life, "was erased and says something")


def _has_its_digest(record: Record) -> bool:
    try:
        return record_digest(record, record.salt).hex() == record.digest
    except (ValueError, TypeError, RecursionError):  # nobody could have written such a thing
        return False


# -- what search knows ------------------------------------------------------------------------------------------------


def _index_faults(
    stored: StoredVersion, record: Record, life: Life, walk: Walk, indexed: Indexed
) -> Iterator[AuditFault]:
    if not record.is_emptied and stored.terms != index_terms(record):
        yield _fault("index_differs", stored, life, "is found by other words than its own")
    vectors = [one for one in indexed.vectors.get(stored.id, ()) if one[0] == stored.version]
    is_usable = all(_is_unit(data, indexed.spaces.get(space)) for _, space, data in vectors)
    if not is_usable or (record.is_emptied and vectors):
        yield _fault("index_differs", stored, life, "has a vector that is none of its own")
    is_erased = record.id in walk.erased
    if record.is_emptied and not is_erased:
        return  # retention leaves the links of what it empties, and nothing says any more which they were
    found = {
        (target, rel, died)
        for target, rel, born, died in indexed.links.get(stored.id, ())
        if born == life.born
    }
    expected = {
        (link.to, link.rel, life.died)
        for link in ((), record.links)[not is_erased]
        # The erasure of a memory takes the links to it.
        if walk.erased.get(link.to, 0) <= life.born
    }
    if found != expected:
        yield _fault("index_differs", stored, life, "is linked otherwise than it says")


def stray_index_faults(record_id: str, walk: Walk, indexed: Indexed) -> Iterator[AuditFault]:
    """Links and vectors of versions that never were."""
    lives = walk.lives.of(record_id)
    births = {life.born for life in lives}
    has_strays = any(born not in births for _, _, born, _ in indexed.links.get(record_id, ())) or any(
        not 0 < version <= len(lives) for version, _, _ in indexed.vectors.get(record_id, ())
    )
    if has_strays:
        detail = "search knows of a version that never was"
        yield AuditFault(kind="index_differs", id=record_id, detail=detail)


def _is_unit(data: bytes, space: Space | None) -> bool:
    """Whether it is one vector or several of the space, each of length one."""
    if space is None or not data or len(data) % (4 * space.dimensions):
        return False
    vectors = np.frombuffer(data, "<f4").reshape(-1, space.dimensions)
    with np.errstate(all="ignore"):
        return bool((np.abs(np.vecdot(vectors, vectors) - 1) < _UNIT).all())


def _fault(kind: str, stored: StoredVersion, life: Life | None, said: str) -> AuditFault:
    return AuditFault(
        kind=kind,
        seq=None if life is None else life.born,
        id=stored.id,
        detail=f"version {stored.version} {said}",
    )
