"""How the spans of recalls end. Most of what they tell is the same from one to the next, so it is made once and kept.

Recall is what an agent does most and waits for. Whatever is worked out here comes right after a search that has swept the
processor's caches: there, a few look-ups cost a fraction of the functions that would work all of it out again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from quipu.model.observation import Observation
from quipu.telemetry import names
from quipu.telemetry.describing import Value, ended
from quipu.telemetry.names import TABLES, Operation
from quipu.telemetry.settings import Showing

_Clean: TypeAlias = Callable[[str], str]
_NAME = Operation.SEARCH.value
#: So many kinds of recalls are kept for a tenant, and so many tenants.
_MOST_KINDS = 512
_MOST_TENANTS = 256


class _Kept(NamedTuple):
    """What all recalls of a kind tell."""

    scope: object
    tier: object
    name: str
    attributes: Mapping[str, Value]


class Recalls:
    """Describes recalls that went well. Everything of such a request has been validated."""

    def __init__(self, showing: Showing) -> None:
        self._showing = showing
        table = TABLES[showing.convention]
        every = {**table.attributes, **table.extra}
        #: All names of how many were found, and the one of the relevance asked for.
        self._counts = tuple(every[key].name for key in ("results", "count") if key in every)
        self._threshold = every["threshold"].name
        self._limits = (names.SEARCH_K, names.TOP_K) if table.has_top_k else (names.SEARCH_K,)
        #: With what takes secrets out of names: once that changes, nothing that it let pass is shown again.
        self._tenants: dict[str | None, tuple[_Clean | None, dict[Hashable, _Kept]]] = {}

    def ended(self, seen: Observation) -> tuple[str, dict[str, Value]]:
        """Name and attributes: the same as `describing.ended` tells, content aside."""
        known = self._tenants.get(seen.tenant)
        if known is None or known[0] is not seen.clean:
            known = self._begun(seen)
        kind = (
            seen.user_id,
            seen.store_id,
            seen.store_name,
            seen.namespace,
            seen.agent_id,
            seen.session_id,
            seen.types,
        )
        kept = known[1].get(kind)
        if kept is None or kept.scope is not seen.scope or kept.tier is not seen.tier:
            kept = self._made(seen, kind, known[1])
        told = {**kept.attributes}
        if seen.count is not None:
            for called in self._counts:
                told[called] = seen.count
        if seen.threshold is not None:
            told[self._threshold] = seen.threshold
        if seen.k is not None:
            for called in self._limits:
                told[called] = seen.k
        if seen.backends_failed:
            told[names.BACKENDS_FAILED] = seen.backends_failed
        return kept.name, told

    def _begun(self, seen: Observation) -> tuple[_Clean | None, dict[Hashable, _Kept]]:
        if len(self._tenants) >= _MOST_TENANTS:
            self._tenants.clear()
        known: tuple[_Clean | None, dict[Hashable, _Kept]] = seen.clean, {}
        self._tenants[seen.tenant] = known
        return known

    def _made(self, seen: Observation, kind: Hashable, kinds: dict[Hashable, _Kept]) -> _Kept:
        if len(kinds) >= _MOST_KINDS:
            kinds.clear()
        bare = replace(seen, count=None, threshold=None, k=None, backends_failed=0)
        name, _, attributes = ended(bare, self._showing, _NAME)
        kept = kinds[kind] = _Kept(seen.scope, seen.tier, name, attributes)
        return kept
