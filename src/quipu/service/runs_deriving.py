"""Entries out of entries: compaction, distillation and consolidation of one ref of one tenant.

1. What is made is an entry like any other: checked for secrets again, governed, searched, erased.
2. It is made and its sources end in one commit: runs that began before still see the sources. Where the host tells of
   it in a run, the event is in the same transaction.
3. It lives no longer than its sources, and erasing a source erases it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from quipu.errors import ConflictError, InvalidError
from quipu.model.change import Close, Commit
from quipu.model.operations import MergeRequest, MergeStrategy, RememberRequest
from quipu.model.outcomes import MergeResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Ending, Link, MemoryType, Record
from quipu.model.runs import EventType, Happening
from quipu.model.store import MAIN
from quipu.model.value import Json, JsonObject
from quipu.ports.ledger import Proposals
from quipu.ports.parts import Parts
from quipu.rules import derivations, runs_deriving, runs_refs, staging
from quipu.rules.drafting import least_trusted
from quipu.rules.runs_options import MOST, ListOptions
from quipu.rules.runs_wire import entry_id
from quipu.service.committing import Along
from quipu.service.runs_entering import Entering
from quipu.service.runs_memory import Place, RunMemory
from quipu.service.runs_telling import Telling, Told, made

Merge: TypeAlias = Callable[[Principal, MergeRequest, Along | None], Awaitable[MergeResponse]]
#: What else is written together with an entry, known by its id; and what is told of that.
Beside: TypeAlias = Callable[[str], Awaitable[Commit]]
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

    async def compact(
        self, principal: Principal, ref: object, telling: Telling | None = None
    ) -> Derived | None:
        """One entry for several; None where there are fewer than two."""
        place = await self._place(principal, ref)
        for _ in range(_ATTEMPTS):
            sources = await self._joinable(principal, place)
            taken, text = runs_deriving.compacted(
                sources, self._parts.redaction.template, self._parts.host.entry_bytes
            )
            if len(taken) < 2:
                return None
            draft = _Draft(place, taken, text, len(taken))
            if (made := await self._tried(principal, draft, telling)) is not None:
                return made
        raise _changing()

    async def _tried(
        self,
        principal: Principal,
        draft: _Draft,
        telling: Telling | None,
        more: Sequence[Happening] = (),
        beside: Beside | None = None,
    ) -> Derived | None:
        """What was made; None where somebody else was faster."""

        def events(commit: Commit) -> Sequence[Happening]:
            payload = draft.payload(made(commit))
            return (Happening(type=EventType.MEMORY_COMPACTED, payload=payload), *more)

        async def others(commit: Commit) -> Sequence[Commit]:
            return () if beside is None else (await beside(entry_id(made(commit))),)

        try:
            along = None if telling is None else Told(telling, events, others)
            record = await self._derive(principal, draft, along)
        except ConflictError as conflict:
            if conflict.reason != "version_mismatch":
                raise
            return None
        return Derived(record, draft.payload(record))

    async def _derive(self, principal: Principal, draft: _Draft, along: Along | None) -> Record:
        new_id = self._parts.mint_id("mem")
        place, sources = draft.place, draft.sources
        # What is made is trusted no more than what it was made of.
        trust = least_trusted(principal.trust, *(source.provenance.trust for source in sources))
        principal = replace(principal, trust=trust)
        request = RememberRequest(
            agent_id=place.agent_id,
            type=MemoryType.SEMANTIC,
            content=draft.text,
            tags=runs_deriving.provenance_tags(sources, self._parts.limits.tags),
            links=tuple(Link(source.id, derivations.COMPACTED_FROM) for source in sources),
            metadata=(runs_deriving.handling(sources[0]) or None) if sources else None,
            expires_at=runs_deriving.earliest_end(sources),
            store=sources[0].store_id if sources else place.store_id or MAIN,
            privacy_intent=sources[0].privacy if sources else None,
            memory_ref=place.ref,
        )
        closing = [Close(record=source, ending=Ending.MERGED, merged_into=new_id) for source in sources]
        answer = await self._entering.put(principal, request, record_id=new_id, closing=closing, along=along)
        if answer.pending_approval:
            raise ConflictError("The entry waits for approval.", reason="pending_approval")
        return (await self._parts.ledger.read(principal.tenant, [answer.id]))[answer.id]

    async def distill(
        self,
        principal: Principal,
        ref: object,
        budget: object,
        sources: Sequence[str] | None = None,
        *,
        telling: Telling | None = None,
        more: Sequence[Happening] = (),
        index: Beside | None = None,
    ) -> tuple[Derived, str]:
        """An entry within a budget, and the checksum of the archive of what it was made of."""
        place = await self._place(principal, ref)
        limit = runs_deriving.checked_budget(budget)
        for _ in range(_ATTEMPTS):
            entries: Sequence[Record] = ()
            given = sources
            if given is None:
                entries = await self._joinable(principal, place)
                entries = sorted(entries, key=lambda one: (one.created_at, one.born, one.id))
                given = [entry.content for entry in entries]
            text, used = runs_deriving.distilled(given, limit, self._parts.redaction.template)
            archive: JsonObject = {"budget": limit, "sources": list(given), "text": text}
            checksum = hashlib.sha256(self._parts.canonical(archive)).hexdigest()
            told: JsonObject = {"tokenBudget": limit, "tokensUsed": used, "indexUpdated": index is not None}
            draft = _Draft(place, entries, text, len(given), told)
            if (made := await self._tried(principal, draft, telling, more, index)) is not None:
                return made, checksum
        raise _changing()

    async def consolidate(
        self,
        principal: Principal,
        ref: object,
        trigger: str = "on-demand",
        telling: Telling | None = None,
    ) -> JsonObject:
        """Entries that say the same become one, the oldest. A second pass changes nothing."""
        place = await self._place(principal, ref)
        entries = await self._sources(principal, place)
        same: dict[tuple[str, str], list[Record]] = {}
        for entry in reversed(entries):
            # Nothing is merged across stores.
            same.setdefault((entry.store_id, runs_deriving.same_said(entry)), []).append(entry)
        groups = [group for group in same.values() if len(group) > 1]
        waiting = await self._waiting(principal.tenant, place) if groups else frozenset[str]()
        merged: list[Json] = []
        for canonical, *duplicates in groups:
            if not waiting.isdisjoint(entry.id for entry in duplicates):
                continue
            request = MergeRequest(
                agent_id=place.agent_id,
                canonical=canonical.id,
                duplicates=tuple(entry.id for entry in duplicates),
                strategy=MergeStrategy.KEEP_CANONICAL,
                store=place.store_id,
            )
            told = partial(_consolidated, place.ref, len(entries) - len(merged), trigger)
            done = await self._merge(principal, request, None if telling is None else Told(telling, told))
            if not done.pending_approval:
                merged.extend(entry_id(entry) for entry in duplicates)
        left = await self._sources(principal, place)
        return {
            "memoryRef": place.ref,
            "inputCount": len(entries),
            "outputCount": len(left),
            "mergedIds": merged,
            "trigger": trigger,
        }

    async def _waiting(self, tenant: str, place: Place) -> frozenset[str]:
        """Entries whose merge a person has been asked about: nobody is asked twice at once."""
        asked = Proposals(operation="merge", agent_id=place.agent_id)
        found = await self._parts.ledger.proposals(tenant, "pending", asked)
        requests = (staging.request_of(one.operation, one.request) for one in found)
        return frozenset(name for one in requests if isinstance(one, MergeRequest) for name in one.duplicates)

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
        place = await self._place(principal, ref)
        return len(runs_deriving.handled_alike(await self._sources(principal, place)))

    async def _joinable(self, principal: Principal, place: Place) -> list[Record]:
        """What may become one entry."""
        return runs_deriving.handled_alike(await self._sources(principal, place))[: self.most_sources]

    async def _sources(self, principal: Principal, place: Place) -> list[Record]:
        found = await self._memory.list(principal, place.ref, ListOptions(limit=MOST))
        return runs_deriving.derivable(found, principal.user_id)

    async def _place(self, principal: Principal, ref: object) -> Place:
        place = await self._memory.place(principal, ref, Permission.WRITE)
        if place is None:
            raise runs_refs.malformed()
        return place


@dataclass(frozen=True, slots=True)
class _Draft:
    """An entry before it is made, and what it is made of."""

    place: Place
    sources: Sequence[Record]
    text: str
    count: int
    distillation: JsonObject | None = None

    def payload(self, record: Record) -> JsonObject:
        """What `memory.compacted` says: no content."""
        if not self.count:
            raise InvalidError("There is nothing to make an entry of.", reason="token_budget_exceeded")
        told: dict[str, Json] = {
            "memoryRef": self.place.ref,
            "outputId": entry_id(record),
            "sourceCount": self.count,
            "trigger": "host-managed",
            "byteSize": len(record.content.encode("utf-8")),
            "sourceIds": [entry_id(source) for source in self.sources],
        }
        return told if self.distillation is None else {**told, "distillation": self.distillation}


def _consolidated(ref: str, count: int, trigger: str, commit: Commit) -> tuple[Happening, ...]:
    """What `agent.memory.consolidated` says of one merge."""
    gone = [entry_id(change.record) for change in commit.changes if isinstance(change, Close)]
    payload: JsonObject = {
        "memoryRef": ref,
        "inputCount": count,
        "outputCount": count - len(gone),
        "mergedIds": list[Json](gone),
        "trigger": trigger,
    }
    return (Happening(type=EventType.MEMORY_CONSOLIDATED, payload=payload),)


def _changing() -> ConflictError:
    return ConflictError("The entries keep changing.", reason="version_mismatch")
