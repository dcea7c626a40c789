"""A plain store in this process: words and a dict. It promises three types and words, and nothing else."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import ConflictError, NotFoundError
from quipu.model.operations import (
    ExpireAction,
    ExpireRequest,
    Floor,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ForgetRow,
    Hit,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.record import Provenance, Tier


@dataclass
class Note:
    """What it keeps of a memory."""

    id: str
    request: RememberRequest
    at: int
    demoted: bool = False
    archived: bool = False


class Plain:
    """A `MemoryStore` of the simplest kind."""

    def __init__(self, name: str) -> None:
        self.name, self.notes = name, dict[str, Note]()
        self._count, self._once = itertools.count(1), dict[str, tuple[Any, Any]]()

    @property
    def capabilities(self) -> set[str]:
        return {"semantic", "episodic", "emotional", "fts"}

    async def health(self) -> Mapping[str, Any]:
        return {"status": "ok", "backend": self.name}

    async def remember(self, request: RememberRequest, /) -> RememberResponse:
        known = self._mine(request.agent_id, request.id) if request.id is not None else None
        if request.id is not None and known is None:
            raise NotFoundError("There is no such record.", reason="record")
        if (done := self._done(request)) is not None:
            return done
        id = request.id or f"{self.name}-{next(self._count)}"
        self.notes[id] = Note(id, request, 1_700_000_000_000)
        return self._kept(request, RememberResponse(id=id, stored_at=1_700_000_000_000, stores=(self.name,)))

    async def forget(self, request: ForgetRequest, /) -> ForgetResponse:
        if (done := self._done(request)) is not None:
            return done
        wanted = [self._mine(request.agent_id, id) for id in request.ids]
        gone = {note.id: None for note in wanted if note is not None and self._is_of(note, request.user_id)}
        if request.filter:
            gone |= {
                note.id: None
                for note in self._in_reach(request.agent_id, request.user_id)
                if _holds(request.filter, note)
            }
        for id in () if request.dry_run else gone:
            del self.notes[id]
            self._once = {key: row for key, row in self._once.items() if getattr(row[1], "id", "") != id}
        answer = ForgetResponse(
            forgotten_ids=tuple(gone),
            hard_delete=request.hard_delete,
            stores=(ForgetRow(store=self.name, count=len(gone)),),
        )
        return self._kept(request, answer)

    async def merge(self, request: MergeRequest, /) -> MergeResponse:
        canonical = self._mine(request.agent_id, request.canonical)
        if canonical is None:
            raise NotFoundError("There is no such record.", reason="canonical")
        found = {id for id in request.duplicates if self._mine(request.agent_id, id) not in (None, canonical)}
        for id in found:
            del self.notes[id]
        return MergeResponse(
            canonical=request.canonical,
            merged_count=len(found),
            strategy_used=request.strategy,
            stores=(self.name,),
        )

    async def expire(self, request: ExpireRequest, /) -> ExpireResponse:
        policy = request.policy
        found = [
            note
            for note in self._in_reach(request.agent_id, request.user_id)
            if (policy.type is None or note.request.type is policy.type)
            and (policy.confidence_below is None or _confidence(note) < policy.confidence_below)
            and _holds(request.filter or {}, note)
            and not (request.action is ExpireAction.DEMOTE and note.demoted)
        ]
        for note in () if request.dry_run else found:
            match request.action:
                case ExpireAction.FORGET:
                    del self.notes[note.id]
                case ExpireAction.ARCHIVE:
                    note.archived = True
                case ExpireAction.DEMOTE:
                    note.demoted = True
        return ExpireResponse(
            matched_count=0 if request.dry_run else len(found),
            action_taken=request.action,
            stores=(self.name,),
        )

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        floor = 0.3 if isinstance(request.min_relevance, Floor) else request.min_relevance
        hits = [
            self._hit(note, request)
            for note in self._in_reach(request.agent_id, request.user_id)
            if (not request.types or note.request.type in request.types)
            and _holds(request.filter or {}, note)
        ]
        hits = sorted((hit for hit in hits if hit.relevance >= floor), key=lambda hit: (-hit.score, hit.id))
        ranked = [replace(hit, rank=rank) for rank, hit in enumerate(hits[: request.k], 1)]
        return RecallResponse(
            results=tuple(ranked), fusion_used=request.fusion, stores_queried=(self.name,), latency_ms=0
        )

    def _hit(self, note: Note, request: RecallRequest) -> Hit:
        asked, said = _words(request.query), _words(str(note.request.content))
        relevance = len(asked & said) / max(1, len(asked))
        known = note.request
        return Hit(
            id=note.id,
            type=known.type,
            content=known.content,
            score=relevance * (1 - 0.2 * (1 - _confidence(note))) * (0.25 if note.demoted else 1),
            relevance=relevance,
            rank=1,
            metadata=known.metadata or {},
            created_at=note.at,
            updated_at=note.at,
            supporting=(),
            source_store=self.name,
            provenance=Provenance(written_by="somebody"),
            source=known.source,
            version=1,
            agent_id=known.agent_id,
            user_id=known.user_id,
            session_id=known.session_id,
            store=known.store,
            tier=Tier.LONG_TERM,
            confidence=_confidence(note),
            importance=known.importance,
            tags=known.tags or (),
            expires_at=known.expires_at,
            stores=(self.name,),
            details=known.details,
            demoted=note.demoted,
        )

    def _mine(self, agent: str, id: str | None) -> Note | None:
        note = self.notes.get(id or "")
        return note if note is not None and note.request.agent_id == agent else None

    def _is_of(self, note: Note, user: str | None) -> bool:
        return user is None or note.request.user_id == user

    def _in_reach(self, agent: str, user: str | None) -> Iterator[Note]:
        for note in list(self.notes.values()):
            if note.request.agent_id == agent and self._is_of(note, user) and not note.archived:
                yield note

    def _done(self, request: Any) -> Any:
        """The answer that the same request was given before."""
        key = f"{type(request).__name__} {request.agent_id} {request.idempotency_key}"
        if request.idempotency_key is None or key not in self._once:
            return None
        before, answer = self._once[key]
        if before != request:
            raise ConflictError("The key was used otherwise.", reason="idempotency_key_mismatch")
        return answer

    def _kept(self, request: Any, answer: Any) -> Any:
        if request.idempotency_key is not None:
            key = f"{type(request).__name__} {request.agent_id} {request.idempotency_key}"
            self._once[key] = (request, answer)
        return answer


def _words(text: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"\w+", text.lower()) if len(word) > 2}


def _confidence(note: Note) -> float:
    return 1.0 if note.request.confidence is None else note.request.confidence


def _holds(wanted: Mapping[str, Any], note: Note) -> bool:
    return all((note.request.metadata or {}).get(key) == value for key, value in wanted.items())
