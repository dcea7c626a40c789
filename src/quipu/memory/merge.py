"""Merge: duplicates collapse into one record.

- Nothing is merged across users or stores; across types only with `keep_canonical`; procedures are never joined.
- A text keeps the promises made for it: where the text of a duplicate lives on, the earliest expiry and the strictest
  privacy count, and the lowest trust among the records whose text survives.
- Links to a record that goes point to the canonical one; a link of the canonical to itself is dropped.
- The order in which duplicates are given never matters: they are taken by `created_at`, then id.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from quipu.errors import ConflictError, NotFoundError
from quipu.fields import DAY_MS, duration_ms
from quipu.ledger.commit import Change, Close, Commit, Put
from quipu.ledger.ledger import Ledger
from quipu.memory.drafts import Limits, check_size, least_trusted
from quipu.memory.embedding import Embedding
from quipu.memory.forget import Forget
from quipu.memory.model import MergeRequest, MergeResponse, MergeStrategy
from quipu.memory.pipeline import Held, Pipeline, Plan, Planning, Write
from quipu.memory.remember import held_fields, store_view
from quipu.memory.scope import Scopes, in_scope
from quipu.model.journal import Draft
from quipu.model.record import SENSITIVITY_ORDER, Link, PrivacyIntent, Record, Sensitivity
from quipu.model.search import Scope
from quipu.operation import Context
from quipu.search.terms import index_terms
from quipu.search.text import index_text

EVERYONE = "*"
_CURRENT = ("live", "archived")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge comes to."""

    #: The next version of the canonical record; None when nothing of it changes.
    record: Record | None
    #: The duplicates that go, by `created_at`, then id.
    collapsed: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Plans and carries out merges."""

    ledger: Ledger
    pipeline: Pipeline
    scopes: Scopes
    embedding: Embedding
    forget: Forget
    limits: Limits

    @property
    def write(self) -> Write[MergeRequest, MergeResponse]:
        return Write(
            operation="merge", request=MergeRequest, response=MergeResponse, plan=self.plan, held=_held
        )

    async def merge(self, ctx: Context, request: MergeRequest) -> MergeResponse:
        return await self.pipeline.write(ctx, self.write, request)

    async def plan(self, planning: Planning, request: MergeRequest) -> Plan[MergeResponse]:
        scope = await self.scopes.of(planning, request.agent, request.user_id, request.store)
        canonical = await self.canonical(scope, request.canonical, planning.now)
        duplicates, missing = await self._duplicates(scope, request.duplicates, planning.now)
        return await self.planned(planning, request, canonical, duplicates, missing)

    async def planned(
        self,
        planning: Planning,
        request: MergeRequest,
        canonical: Record,
        duplicates: Sequence[Record],
        missing: Sequence[str] = (),
    ) -> Plan[MergeResponse]:
        """How these collapse. A reviewer may merge a memory that is only just being written into another."""
        result = merged(canonical, duplicates, request.strategy, planning.now)
        record = result.record
        if record is not None:
            if request.strategy == "merge_content":
                record = planning.guard.clean_record(record)
            record = replace(record, provenance=replace(record.provenance, written_by=planning.author))
            check_size(record, self.limits)
        ids = tuple(one.id for one in result.collapsed)
        store = (await self.scopes.stores(planning.tenant)).get(canonical.store_id)
        answer = MergeResponse(
            canonical=request.canonical,
            merged_count=0 if request.dry_run else len(ids),
            strategy_used=request.strategy,
            stores=(self.ledger.name,),
            canonical_id=canonical.id,
            merged_ids=ids,
            not_found=tuple(missing),
            store=None if store is None else store_view(store),
        )
        if not ids:
            return Plan(commits=(), answer=lambda _: answer)
        changes: list[Change] = []
        if record is not None:
            changes.append(await self._put(planning, canonical, record))
        changes.extend(
            Close(id=one.id, expects=one.version, ending="merged", merged_into=canonical.id)
            for one in result.collapsed
            if one.born  # a memory that is only just being written has nothing to close
        )
        draft = Draft(
            op="merge",
            actor=planning.author,
            at=planning.now,
            store=canonical.store_id,
            agent=canonical.agent_id,
            run=request.run_id,
            node=request.node_id,
            detail={"canonical": canonical.id, "strategy": request.strategy},
        )
        return Plan(
            commits=(Commit(tenant=planning.tenant, draft=draft, changes=tuple(changes)),),
            answer=lambda done: answer.model_copy(update={"seq": done[-1].seq}) if done else answer,
            before=(canonical, *result.collapsed),
            after=() if record is None else (record,),
        )

    async def _put(self, planning: Planning, canonical: Record, record: Record) -> Put:
        keeps_index = record.content == canonical.content and index_text(record) == index_text(canonical)
        vector = None
        if not keeps_index:
            (vector,) = await self.embedding.of_records(planning.tenant, [record], [None])
        return Put(
            record=record,
            expects=canonical.version,
            must_stand=True,
            terms=None if keeps_index else index_terms(record),
            vector=vector,
            model=self.embedding.model(planning.tenant),
            keeps_index=keeps_index,
            lifts_demotion=False,
        )

    async def canonical(self, scope: Scope, name: str, now: int) -> Record:
        """The one live memory of a scope that an id or a name means."""
        found = await self._found(scope, name, now)
        live = [record for record in found if record.standing == "live"]
        if not live:
            raise NotFoundError("There is no such memory to merge into.", reason="canonical")
        if len(live) > 1:
            raise ConflictError("Several memories have this name; use an id.", reason="ambiguous_name")
        return live[0]

    async def _duplicates(
        self, scope: Scope, names: Sequence[str], now: int
    ) -> tuple[list[Record], list[str]]:
        found: dict[str, Record] = {}
        missing: list[str] = []
        for name in dict.fromkeys(names):
            records = await self._found(scope, name, now)
            found.update({record.id: record for record in records})
            if not records:
                missing.append(name)
        return list(found.values()), missing

    async def _found(self, scope: Scope, name: str, now: int) -> list[Record]:
        """By id, else by an exact metadata.entity_name in reach."""
        by_id = (await self.ledger.records(scope.tenant, [name])).get(name)
        if by_id is not None and in_scope(by_id, scope) and not by_id.is_expired(now):
            return [by_id] if by_id.standing in _CURRENT else []
        walk = self.forget.matching(scope, frozenset({"live"}), now, filter={"metadata.entity_name": name})
        return [record async for record in walk]


def merged(canonical: Record, duplicates: Sequence[Record], strategy: MergeStrategy, now: int) -> Merged:
    """The canonical after the merge and the duplicates that collapse into it; the given records stay as they are."""
    others = _by_age({row.id: row for row in duplicates if row.id != canonical.id}.values())
    if not others:
        return Merged(record=None, collapsed=())
    _check(canonical, others, strategy)
    draft = canonical
    if strategy == "merge_content":
        draft = _joined(canonical, others)
    elif strategy == "keep_highest_confidence":
        draft = _most_confident(canonical, others)
    draft = replace(draft, links=_links(draft.links, canonical.id, {row.id for row in others}))
    return Merged(
        record=None if _is_same(draft, canonical) else _next_version(draft, now), collapsed=tuple(others)
    )


def _check(canonical: Record, others: Sequence[Record], strategy: MergeStrategy) -> None:
    if len({(row.store_id, row.user_id) for row in (canonical, *others)}) > 1:
        raise ConflictError(
            "Memories of different users or stores cannot be merged.", reason="scope_mismatch"
        )
    if strategy == "keep_canonical":
        return
    if any(row.type != canonical.type for row in others):
        raise ConflictError(
            "Memories of different types cannot be merged this way.",
            reason="type_mismatch",
            hint="The strategy keep_canonical merges across types.",
        )
    if canonical.type == "procedural" and strategy == "merge_content":
        raise ConflictError(
            "Procedures cannot be joined.",
            reason="type_mismatch",
            hint="Use keep_canonical or keep_highest_confidence.",
        )


def _joined(canonical: Record, others: Sequence[Record]) -> Record:
    rows = [canonical, *others]
    text, authors = canonical.content, [canonical]
    for row in others:
        if not _contains(text, row.content):
            text = f"{text}\n{row.content}"
            authors.append(row)
    tags = _distinct(tag for row in rows for tag in row.tags)
    return replace(
        canonical,
        content=text,
        metadata=_metadata(_by_age(rows), tags),
        tags=tags,
        links=tuple(link for row in rows for link in row.links),
        confidence=max(row.confidence for row in rows),
        importance=max((row.importance for row in rows if row.importance is not None), default=None),
        expires_at=_earliest_expiry(rows),
        privacy=_strictest([row.privacy for row in rows]),
        provenance=replace(
            canonical.provenance, trust=least_trusted([row.provenance.trust for row in authors])
        ),
    )


def _most_confident(canonical: Record, others: Sequence[Record]) -> Record:
    """The most confident record's content under the canonical's id; links of all are kept."""
    rows = [canonical, *others]
    best = min(rows, key=lambda row: (-row.confidence, row.created_at, row.id))
    links = tuple(link for row in rows for link in row.links)
    if best is canonical:
        return replace(canonical, links=links)
    return replace(
        canonical,
        content=best.content,
        metadata=best.metadata,
        tags=best.tags,
        links=links,
        details=best.details,
        confidence=best.confidence,
        expires_at=_earliest_expiry([canonical, best]),
        privacy=_strictest([canonical.privacy, best.privacy]),
        provenance=replace(canonical.provenance, trust=best.provenance.trust),
    )


def _is_same(draft: Record, canonical: Record) -> bool:
    """Equal, also as JSON: Python takes true for 1."""
    return draft == canonical and all(
        json.dumps(mine, sort_keys=True) == json.dumps(theirs, sort_keys=True)
        for mine, theirs in ((draft.metadata, canonical.metadata), (draft.details, canonical.details))
    )


def _next_version(draft: Record, now: int) -> Record:
    return replace(
        draft, version=draft.version + 1, updated_at=now, born=0, died=None, ending=None, salt=b"", digest=""
    )


def _by_age(rows: Iterable[Record]) -> list[Record]:
    return sorted(rows, key=lambda row: (row.created_at, row.id))


def _contains(text: str, part: str) -> bool:
    """Whether the part stands in the text as whole words: `likes Ana` is not in `likes Anastasia`."""
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


def _metadata(rows: Sequence[Record], tags: tuple[str, ...]) -> dict[str, Any]:
    """The union, a later record's key replacing an earlier one's; a list of tags in it follows the tags."""
    union: dict[str, Any] = {}
    for row in rows:
        union.update(row.metadata)
    listed = union.get("tags")
    if isinstance(listed, list) and all(isinstance(tag, str) for tag in listed):  # pyright: ignore[reportUnknownVariableType]  free JSON
        union["tags"] = list(tags)
    return union


def _links(links: Iterable[Link], canonical_id: str, gone: set[str]) -> tuple[Link, ...]:
    pointed = (replace(link, to=canonical_id) if link.to in gone else link for link in links)
    return _distinct(link for link in pointed if link.to != canonical_id)


def _distinct(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _earliest_expiry(rows: Iterable[Record]) -> int | None:
    return min((row.expires_at for row in rows if row.expires_at is not None), default=None)


def _strictest(intents: Sequence[PrivacyIntent | None]) -> PrivacyIntent | None:
    """The tightest bound of each member; an absent intent bounds nothing, and its sensitivity is `internal`."""
    if all(intent is None for intent in intents):
        return None
    filled = [intent or PrivacyIntent() for intent in intents]
    retains = [intent.retain for intent in filled if intent.retain is not None]
    consents = [intent.consent_id for intent in filled if intent.consent_id is not None]
    is_level_set = any(intent.sensitivity for intent in filled)
    levels: list[Sensitivity] = [intent.sensitivity or "internal" for intent in filled]
    return PrivacyIntent(
        retain=min(retains, key=_length, default=None),
        share_with=_shared_by_all([intent.share_with for intent in filled]),
        consent_id=consents[0] if consents else None,
        sensitivity=max(levels, key=SENSITIVITY_ORDER.index) if is_level_set else None,
    )


def _length(retain: str) -> float:
    if retain == "session":
        return DAY_MS
    return math.inf if retain == "forever" else duration_ms(retain) or 0


def _shared_by_all(bounds: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """The agents that every bound names. No bound and `*` name everybody, and `*` never replaces no bound."""
    narrow = [bound for bound in bounds if bound is not None and EVERYONE not in bound]
    if not narrow:
        return None if None in bounds else (EVERYONE,)
    return tuple(agent for agent in narrow[0] if all(agent in bound for bound in narrow[1:]))


def _held(request: MergeRequest, held: Held) -> MergeResponse:
    return MergeResponse(
        canonical=request.canonical, merged_count=0, strategy_used=request.strategy, **held_fields(held)
    )
