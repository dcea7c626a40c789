"""What was made out of what, so that an erasure takes along every text that says what the erased one said.

1. What compaction, consolidation or a model that looks for facts makes says what its sources say: it goes with any of
   them, also while it waits for a person.
2. What somebody wrote and linked by hand is their own text, and stays.
3. What is written together or not at all goes as a whole.
4. A removal that waits says in somebody's words why: it goes once nothing is left that it could remove.
5. What a merge took from a duplicate stands in a memory that has words of its own: whoever erases is told, and decides.
   A request to delete that is answered with a receipt takes it along, as nothing else would be true.
6. What something was made of is not made of it, and stays: whoever erases is told of that, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, cast

from quipu.model.change import Proposal
from quipu.model.record import Record, State
from quipu.model.value import Json
from quipu.rules import staging

#: How what is made here is linked to what it was made of.
COMPACTED_FROM: Final = "compacted_from"
DERIVED_FROM: Final = "derived_from"
CONSOLIDATION: Final = "consolidation"
EXTRACTION: Final = "extraction"
#: Sources of memories that are made here out of others, and are linked to them by DERIVED_FROM.
MAKERS: Final = frozenset({CONSOLIDATION, EXTRACTION})


def sources_of(record: Record) -> frozenset[str]:
    """What a memory was made of, if it was made here."""
    rels = _rels(record.source)
    return frozenset(link.to for link in record.links if link.rel in rels)


def holds_words_of(proposal: Proposal, ids: AbstractSet[str]) -> bool:
    """Whether a write that waits, or was kept after a decision, says what one of these memories says.

    What makes or changes a single memory is found by its id, and is not meant.
    """
    if not proposal.request:
        return False
    if proposal.operation == "batch" and not staging.made_by(proposal).isdisjoint(ids):
        return True
    if proposal.operation in ("forget", "merge"):
        return _is_about(proposal, ids)
    return any(_is_made_of(body, ids) for body in (proposal.request, *_listed(proposal.request.get("items"))))


def _is_made_of(body: Mapping[str, Any], ids: AbstractSet[str]) -> bool:
    rels = _rels(body.get("source"))
    return any(link["rel"] in rels and link["to"] in ids for link in _listed(body.get("links")))


def _rels(source: object) -> frozenset[str]:
    """Links that say what something was made of, by where it comes from."""
    return frozenset({COMPACTED_FROM, DERIVED_FROM} if source in MAKERS else {COMPACTED_FROM})


def _is_about(proposal: Proposal, ids: AbstractSet[str]) -> bool:
    """Whether a removal is of these memories: of all that it could remove, while it waits; of any, once decided.

    An erasure is left alone: it may be the one that is being carried out, and what it says goes when it is decided.
    """
    body = proposal.request
    if body.get("hard_delete"):
        return False
    gone = frozenset(_listed(body.get("ids")) or _listed(body.get("duplicates")))
    if not gone.isdisjoint(ids) and proposal.status != "pending":
        return True
    return body.get("canonical") in ids or (bool(gone) and gone <= ids and not body.get("filter"))


def names_one_of(value: Json, ids: AbstractSet[str]) -> bool:
    """Whether a text in it, at whatever depth, is one of these."""
    if isinstance(value, str):
        return value in ids
    inner = value.values() if isinstance(value, Mapping) else _listed(value)
    return any(names_one_of(item, ids) for item in inner)


def is_taken(versions: Sequence[Record], duplicate: Record) -> bool:
    """Whether a memory, of which these are the versions, still says what a merge gave it of a duplicate."""
    if not versions or versions[-1].state is State.ERASED:
        return False
    before = None
    for version in versions:
        if version.born == duplicate.died:
            return _is_changed(before, version, versions, duplicate)
        before = version
    return False


def _is_changed(
    before: Record | None, version: Record, versions: Sequence[Record], duplicate: Record
) -> bool:
    if before is not None and (before.is_emptied or version.is_emptied):
        # Retention has emptied what the merge did: what is left tells.
        return bool(duplicate.content) and any(duplicate.content in one.content for one in versions)
    return before is None or _said(before) != _said(version)


def _said(record: Record) -> object:
    return record.content, record.metadata, record.tags, record.details


def _listed(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
