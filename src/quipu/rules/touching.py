"""Which stores a held write is about, as far as it says so itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quipu.model.change import Proposal
from quipu.model.store import MAIN


@dataclass(frozen=True, slots=True)
class Touched:
    """Stores by name or id, and records that lie in stores of their own."""

    stores: frozenset[str] = frozenset()
    records: frozenset[str] = frozenset()
    #: It is about whatever matches, wherever that lies; or what it was about is no longer told.
    is_open: bool = False

    def __or__(self, other: Touched) -> Touched:
        return Touched(
            self.stores | other.stores, self.records | other.records, self.is_open or other.is_open
        )


def touched(proposal: Proposal) -> Touched:
    """What a yes would touch. Of what was decided only a memory's store and record are still told."""
    body: Mapping[str, Any] = proposal.request
    if not body:
        return _settled(proposal)
    match proposal.operation:
        case "remember":
            return _written(body)
        case "batch":
            found = Touched()
            for item in body.get("items") or ():
                found |= _written(item)
            return found
        case "restore":
            return _records([body.get("id")])
        case "merge":
            return _records([body.get("canonical"), *(body.get("duplicates") or ())])
        case "forget" if body.get("ids"):
            return _records(body["ids"])
        case _:
            store = body.get("store")
            return Touched(is_open=True) if store is None else Touched(stores=frozenset({str(store)}))


def _written(body: Mapping[str, Any]) -> Touched:
    """A change stays in the store where its record is, whatever it names."""
    if body.get("id") is not None:
        return _records([body["id"]])
    return Touched(stores=frozenset({str(body.get("store") or MAIN)}))


def _settled(proposal: Proposal) -> Touched:
    store = proposal.traits.get("store")
    if store is None or proposal.record_id is None:
        return Touched(is_open=True)
    return Touched(stores=frozenset({str(store)}), records=frozenset({proposal.record_id}))


def _records(ids: Iterable[object]) -> Touched:
    return Touched(records=frozenset(str(name) for name in ids if name is not None))
