"""Memories that belong together or may go, found a stretch at a time, each with the write that would mend it."""

import base64
import binascii
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from quipu.errors import Fault
from quipu.fields import DAY_MS
from quipu.governance import operations as ops
from quipu.governance.model import (
    PROPOSAL_SUBJECTS,
    PROPOSALS,
    Suggestion,
    SuggestionKind,
    SuggestionsRequest,
    SuggestionsResponse,
)
from quipu.governance.reviewer_scope import reviews
from quipu.governance.similar_memories import SimilarMemories
from quipu.governance.similarity import SAME_MATTER, relation
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.memory.model import ForgetRequest, MergeRequest
from quipu.memory.read_log import ReadLog, RecallBudget
from quipu.memory.scope import Scopes, reaches
from quipu.memory.views import is_secret, record_view
from quipu.model.principal import Principal
from quipu.model.record import Mark, Record
from quipu.model.search import Restriction, Scope, Selection, Snapshot
from quipu.model.store import Store
from quipu.operation import AnyBinding, Binding, Clock, Context, bound, invalid
from quipu.search.engine import SearchEngine

OLD_MS = 90 * DAY_MS
DOUBTFUL = 0.5
#: So many memories are looked at for a page, so many at once, and so many are walked over at most: a reviewer may not see
#: them all.
_LOOKED_AT, _TOGETHER, _WALKED = 256, 64, 2_000
#: Of those like one memory, so many.
_MOST_ALIKE = 5
_BECAUSE = {
    "unused": "It was never recalled, is older than 90 days, and is not sure.",
    "stale": "It was not recalled for 90 days.",
    "duplicate": "They say the same.",
    "contradiction": "The second contradicts the first, which is newer.",
}


# -- rules, pure --------------------------------------------------------------------------------------------------


def unused(record: Record, mark: Mark | None, now: int) -> str | None:
    """Why a memory may go by itself; None: it may not. A procedure is used without being recalled."""
    if record.created_at > now - OLD_MS or record.type == "procedural":
        return None
    last = None if mark is None else mark.last_recalled_at
    if last is None:
        return _BECAUSE["unused"] if record.confidence < DOUBTFUL else None
    return _BECAUSE["stale"] if last <= now - OLD_MS else None


def paired(one: Record, other: Record, similarity: float) -> tuple[SuggestionKind, Record, Record] | None:
    """Whether two belong together, the one that stays first: of duplicates the surer and then the older, of a
    contradiction the newer."""
    if one.type == "procedural" or (one.agent_id, one.user_id) != (other.agent_id, other.user_id):
        return None
    match relation(one.content, other.content, similarity):
        case "duplicate":
            kept, gone = sorted(
                (one, other), key=lambda record: (-record.confidence, record.created_at, record.id)
            )
            return "duplicate", kept, gone
        case "conflict":
            kept, gone = sorted((one, other), key=lambda record: (-record.created_at, record.id))
            return "contradiction", kept, gone
        case "similar":
            return None


# -- service ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """Looks through the live memories in a reviewer's reach."""

    ledger: Ledger
    scopes: Scopes
    engine: SearchEngine
    similar: SimilarMemories
    read_log: ReadLog
    budget: RecallBudget
    clock: Clock

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (Binding(ops.SUGGESTIONS, self.suggestions),)

    async def suggestions(self, ctx: Context, request: SuggestionsRequest) -> SuggestionsResponse:
        """Going on until there is no cursor looks at every memory once. What waits already is not suggested."""
        looking = _Looking(
            self, ctx.principal, _bound(ctx, request), await self.scopes.stores(ctx.tenant), ctx.clock()
        )
        await self.read_log.flush()  # what was recalled just now is used
        async with self.budget.reserved(ctx, looking.request.agent_id, 2 * request.limit) as allowed:
            found, looked, place = await looking.found(max(1, min(request.limit, allowed.count // 2)))
            shown = {record.id: record for one in found for record in one.records}
            allowed.spend(len(shown))
        if shown:
            self.read_log.read(ctx, looking.request.agent_id, list(shown.values()))
        return SuggestionsResponse(
            suggestions=tuple(one.view(looking.stores) for one in found),
            looked_at=looked,
            next_cursor=None if place is None else _cursor(place),
        )


@dataclass(frozen=True, slots=True)
class _Found:
    kind: SuggestionKind
    records: tuple[Record, ...]
    because: str
    similarity: float | None = None

    @property
    def operation(self) -> str:
        return "merge" if self.kind == "duplicate" else "forget"

    def view(self, stores: Mapping[str, Store]) -> Suggestion:
        """With the ordinary request that would mend it: it asks for approval, and what goes can be brought back."""
        kept, gone = self.records[0], self.records[-1]
        request = (
            MergeRequest(
                agent_id=kept.agent_id,
                canonical=kept.id,
                duplicates=(gone.id,),
                strategy="keep_canonical",
                reasoning=self.because,
                approval_required=True,
            )
            if self.kind == "duplicate"
            else ForgetRequest(
                agent_id=gone.agent_id,
                user_id=gone.user_id,
                ids=(gone.id,),
                reason=self.because,
                approval_required=True,
            )
        )
        return Suggestion(
            kind=self.kind,
            memories=tuple(record_view(record, stores, is_masked=False) for record in self.records),
            similarity=None if self.similarity is None else round(self.similarity, 4),
            because=self.because,
            operation="merge" if self.kind == "duplicate" else "forget",
            request=request.model_dump(mode="json", exclude_unset=True, exclude_none=True),
        )


@dataclass(frozen=True, slots=True)
class _Looking:
    """One page."""

    over: Suggestions
    principal: Principal
    request: SuggestionsRequest
    stores: Mapping[str, Store]
    now: int

    async def found(self, limit: int) -> tuple[list[_Found], int, str | None]:
        """What was found, how many memories were looked at, and where the next page begins."""
        found: list[_Found] = []
        looked, walked = 0, 0
        async for chunk in self._chunks():
            for record, ones in await self._among(chunk):
                looked += 1
                found.extend(ones[: limit - len(found)])
                if len(found) == limit:
                    return found, looked, record.id
            walked += len(chunk)
            if looked >= _LOOKED_AT or walked >= _WALKED:
                return found, looked, chunk[-1].id
        return found, looked, None

    async def _chunks(self) -> AsyncIterator[list[Record]]:
        """The live memories, newest first, a few at a time."""
        selection = Selection(
            tenant=self.principal.tenant,
            agent_id=self.request.agent_id,
            user_id=self.request.user_id,
            below=None if self.request.cursor is None else _below(self.request.cursor),
            created_to=self.now - OLD_MS if self.request.kind == "stale" else None,
        )
        chunk: list[Record] = []
        async for record in self.over.ledger.scan(selection, Snapshot(None, self.now)):
            chunk.append(record)
            if len(chunk) == _TOGETHER:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    async def _among(self, records: Sequence[Record]) -> list[tuple[Record, list[_Found]]]:
        """Of those that the reviewer sees and no proposal is about: what is suggested of each."""
        free = await self._free([record for record in records if self._is_seen(record)])
        found: dict[str, list[_Found]] = {record.id: [] for record in free}
        for record_id, one in [*await self._alone(free), *await self._pairs(free)]:
            if reviews(self.principal, one.operation):
                found[record_id].append(one)
        return [(record, found[record.id]) for record in free]

    def _is_seen(self, record: Record) -> bool:
        return reaches(self.principal, record, self.stores) and not is_secret(record)

    async def _free(self, records: Sequence[Record]) -> list[Record]:
        """Those that no waiting proposal is about."""
        ids = [record.id for record in records]

        def work(reader: Reader) -> set[str]:
            subjects = [kept.value for kept in reader.matching(PROPOSAL_SUBJECTS, "record_id", ids)]
            proposals = list(dict.fromkeys(one.proposal_id for one in subjects))
            kept = reader.matching(PROPOSALS, "id", proposals) if proposals else []
            pending = {one.value.id for one in kept if one.value.is_pending}
            return {one.record_id for one in subjects if one.proposal_id in pending}

        waiting = await self.over.ledger.read(self.principal.tenant, work) if ids else set[str]()
        return [record for record in records if record.id not in waiting]

    async def _alone(self, records: Sequence[Record]) -> list[tuple[str, _Found]]:
        if self.request.kind not in (None, "stale") or not records:
            return []
        marks = await self.over.ledger.marks(self.principal.tenant, [record.id for record in records])
        said = ((record, unused(record, marks.get(record.id), self.now)) for record in records)
        return [(one.id, _Found("stale", (one,), because)) for one, because in said if because is not None]

    async def _pairs(self, records: Sequence[Record]) -> list[tuple[str, _Found]]:
        """Each pair with the one of the two that is looked at first."""
        if self.request.kind == "stale":
            return []
        known = {record.id: record for record in records}
        agents = dict.fromkeys(record.agent_id for record in records)
        near = [pair for agent in agents for pair in await self._near(agent, records) if pair[0] > pair[1]]
        missing = list({other for _, other, _ in near} - known.keys())
        others = (await self.over.ledger.records(self.principal.tenant, missing)).values()
        for record in await self._free([one for one in others if self._is_seen(one)]):
            known[record.id] = record
        found: list[tuple[str, _Found]] = []
        for first, second, similarity in near:
            other = known.get(second)
            pair = None if other is None else paired(known[first], other, similarity)
            if pair is not None and self.request.kind in (None, pair[0]):
                found.append((first, _Found(pair[0], pair[1:], _BECAUSE[pair[0]], min(1.0, similarity))))
        return found

    async def _near(self, agent: str, records: Sequence[Record]) -> list[tuple[str, str, float]]:
        """Pairs that speak of the same matter, by meaning; without vectors, by the words that they share."""
        own = [record for record in records if record.agent_id == agent]
        over, tenant = self.over, self.principal.tenant
        scope = Scope(tenant=tenant, agent_id=agent, user_id=self.principal.user_id)
        if await over.ledger.space(tenant) is not None:
            restriction = Restriction(without_sensitivity=frozenset({"secret"}))
            ids = [record.id for record in own]
            return await over.ledger.read(
                tenant,
                lambda reader: over.engine.alike(
                    reader,
                    scope,
                    Snapshot(None, self.now),
                    restriction,
                    ids,
                    nearness=SAME_MATTER,
                    most=_MOST_ALIKE,
                ),
            )
        return [
            (record.id, other.id, share)
            for record in own
            for other, share in await over.similar.to(tenant, record)
        ]


def _bound(ctx: Context, request: SuggestionsRequest) -> SuggestionsRequest:
    """Bound to the caller's user, and to an agent only where one is named: otherwise to all in reach."""
    return bound(ctx.principal, request).model_copy(update={"agent_id": request.agent_id})


def _cursor(record_id: str) -> str:
    return base64.urlsafe_b64encode(record_id.encode()).decode("ascii").rstrip("=")


def _below(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError):
        raise invalid([Fault("/cursor", "bad_value", "next_cursor of the page before")]) from None
