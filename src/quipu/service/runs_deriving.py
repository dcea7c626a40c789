"""Entries out of entries: compaction, distillation and consolidation of one ref of one tenant.

1. What is made is an entry like any other: checked for secrets again, governed, searched, erased.
2. It is made and its sources end in one commit: runs that began before still see the sources.
3. It lives no longer than its sources, and erasing a source erases it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from quipu.errors import ConflictError, InvalidError
from quipu.model.change import Close
from quipu.model.operations import MergeRequest, MergeStrategy, RememberRequest
from quipu.model.outcomes import MergeResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Ending, Link, MemoryType, Record
from quipu.model.store import MAIN
from quipu.model.value import Json, JsonObject
from quipu.ports.parts import Parts
from quipu.rules import runs_deriving, runs_refs
from quipu.rules.drafting import least_trusted
from quipu.rules.runs_options import MOST, ListOptions
from quipu.rules.runs_wire import entry_id
from quipu.service.runs_entering import Entering
from quipu.service.runs_memory import Place, RunMemory

Merge: TypeAlias = Callable[[Principal, MergeRequest], Awaitable[MergeResponse]]
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Derived:
    """What was made, and the event that tells of it."""

    record: Record
    payload: JsonObject


class Deriving:
    """Passes of the host over its tenants' entries."""

    def __init__(self, parts: Parts, memory: RunMemory, entering: Entering, merge: Merge) -> None:
        self._parts, self._memory, self._entering, self._merge = parts, memory, entering, merge

    @property
    def most_sources(self) -> int:
        """So many entries become one, at most."""
        return min(self._parts.limits.links, MOST)

    async def compact(self, principal: Principal, ref: object) -> Derived | None:
        """One entry for several; None where there are fewer than two."""
        place = await self._place(principal, ref)
        for _ in range(_ATTEMPTS):
            sources = await self._sources(principal, place, self.most_sources)
            taken, text = runs_deriving.compacted(
                sources, self._parts.redaction.template, self._parts.host.entry_bytes
            )
            if len(taken) < 2:
                return None
            try:
                record = await self._derive(principal, place, taken, text)
            except ConflictError as conflict:
                if conflict.reason != "version_mismatch":
                    raise
            else:
                return Derived(record, _payload(place.ref, record, taken))
        raise ConflictError("The entries keep changing.", reason="version_mismatch")

    async def _derive(
        self, principal: Principal, place: Place, sources: Sequence[Record], text: str
    ) -> Record:
        new_id = self._parts.mint_id("mem")
        # What is made is trusted no more than what it was made of.
        trust = least_trusted(principal.trust, *(source.provenance.trust for source in sources))
        principal = replace(principal, trust=trust)
        request = RememberRequest(
            agent_id=place.agent_id,
            type=MemoryType.SEMANTIC,
            content=text,
            tags=runs_deriving.provenance_tags(sources, self._parts.limits.tags),
            links=tuple(Link(source.id, runs_deriving.COMPACTED_FROM) for source in sources),
            expires_at=runs_deriving.earliest_end(sources),
            store=place.store_id or MAIN,
            memory_ref=place.ref,
        )
        closing = [Close(record=source, ending=Ending.MERGED, merged_into=new_id) for source in sources]
        answer = await self._entering.put(principal, request, record_id=new_id, closing=closing)
        if answer.pending_approval:
            raise ConflictError("The entry waits for approval.", reason="pending_approval")
        return (await self._parts.ledger.read(principal.tenant, [answer.id]))[answer.id]

    async def distill(
        self, principal: Principal, ref: object, budget: object, sources: Sequence[str] | None = None
    ) -> tuple[Derived, str]:
        """An entry within a budget, and the checksum of the archive of what it was made of."""
        place = await self._place(principal, ref)
        limit = runs_deriving.checked_budget(budget)
        entries: Sequence[Record] = ()
        if sources is None:
            entries = await self._sources(principal, place, self.most_sources)
            entries = sorted(entries, key=lambda one: (one.created_at, one.born, one.id))
            sources = [entry.content for entry in entries]
        text, used = runs_deriving.distilled(sources, limit, self._parts.redaction.template)
        checksum = hashlib.sha256(
            self._parts.canonical({"budget": limit, "sources": list(sources), "text": text})
        ).hexdigest()
        record = await self._derive(principal, place, entries, text)
        told: dict[str, Json] = {"tokenBudget": limit, "tokensUsed": used}
        payload = _payload(place.ref, record, entries, count=len(sources))
        return Derived(record, {**payload, "distillation": told}), checksum

    async def consolidate(self, principal: Principal, ref: object, trigger: str = "on-demand") -> JsonObject:
        """Entries that say the same become one, the oldest. A second pass changes nothing."""
        place = await self._place(principal, ref)
        entries = await self._sources(principal, place, MOST)
        same: dict[str, list[Record]] = {}
        for entry in reversed(entries):
            same.setdefault(runs_deriving.same_said(entry), []).append(entry)
        merged: list[Json] = []
        for canonical, *duplicates in same.values():
            if not duplicates:
                continue
            request = MergeRequest(
                agent_id=place.agent_id,
                canonical=canonical.id,
                duplicates=tuple(entry.id for entry in duplicates),
                strategy=MergeStrategy.KEEP_CANONICAL,
                store=place.store_id,
            )
            await self._merge(principal, request)
            merged.extend(entry_id(entry) for entry in duplicates)
        left = await self._sources(principal, place, MOST)
        return {
            "memoryRef": place.ref,
            "inputCount": len(entries),
            "outputCount": len(left),
            "mergedIds": merged,
            "trigger": trigger,
        }

    async def seed(
        self, principal: Principal, ref: object, name: str, content: str, tags: tuple[str, ...]
    ) -> None:
        """An entry of a test, under the id that the test gives it and without any redaction."""
        place = await self._place(principal, ref)
        record_id = runs_refs.derived_id(place.ref, name)
        newest = (await self._parts.ledger.read(principal.tenant, [record_id])).get(record_id)
        if newest is not None:
            raise ConflictError("There is such an entry already.", reason="version_mismatch")
        request = RememberRequest(
            agent_id=place.agent_id,
            type=MemoryType.SEMANTIC,
            content=content,
            tags=tags,
            metadata={"openwop_entry_id": name},
            store=place.store_id or MAIN,
            memory_ref=place.ref,
        )
        await self._entering.put(principal, request, record_id=record_id, is_seed=True)

    async def count(self, principal: Principal, ref: object) -> int:
        """How many entries a pass could make one of, as far as it matters."""
        return len(await self._sources(principal, await self._place(principal, ref), MOST))

    async def _sources(self, principal: Principal, place: Place, limit: int) -> list[Record]:
        found = await self._memory.list(principal, place.ref, ListOptions(limit=MOST))
        return runs_deriving.derivable(found, principal.user_id)[:limit]

    async def _place(self, principal: Principal, ref: object) -> Place:
        place = await self._memory.place(principal, ref, Permission.WRITE)
        if place is None:
            raise runs_refs.malformed()
        return place


def _payload(ref: str, record: Record, sources: Sequence[Record], count: int | None = None) -> JsonObject:
    """What `memory.compacted` says: no content."""
    if not sources and not count:
        raise InvalidError("There is nothing to make an entry of.", reason="token_budget_exceeded")
    return {
        "memoryRef": ref,
        "outputId": entry_id(record),
        "sourceCount": count or len(sources),
        "trigger": "host-managed",
        "byteSize": len(record.content.encode("utf-8")),
        "sourceIds": [entry_id(source) for source in sources],
    }
