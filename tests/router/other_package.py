"""Another package's store, as memorywire's reference package makes them: models and enums of its own, v0 and no more."""

import itertools
import re
from collections.abc import Callable
from enum import Enum
from typing import Any

from pydantic import BaseModel, Field

from quipu.model.ids import now


class MemoryType(str, Enum):  # noqa: UP042  theirs is of this kind
    SEMANTIC = "semantic"
    EPISODIC = "episodic"
    PROCEDURAL = "procedural"
    EMOTIONAL = "emotional"


class RememberRequest(BaseModel):
    agent_id: str = Field(min_length=1)
    user_id: str | None = None
    type: MemoryType
    content: str = Field(min_length=1)
    metadata: dict[str, Any] | None = None
    confidence: float | None = None
    source: str | None = None
    expires_at: int | None = None
    approval_required: bool | None = None


class RememberResponse(BaseModel):
    id: str
    stored_at: int
    stores: list[str]
    pending_approval: bool
    approval_url: str | None = None


class RecallRequest(BaseModel):
    agent_id: str
    user_id: str | None = None
    query: str
    k: int | None = None
    types: list[MemoryType] | None = None
    hops: int | None = None
    fusion: str | None = None
    filter: dict[str, Any] | None = None
    fresher_than_days: int | None = None


class RecallHit(BaseModel):
    id: str
    type: MemoryType
    content: str | dict[str, Any]
    score: float
    metadata: dict[str, Any] | None = None
    created_at: int | None = None
    supporting: list[str] | None = None
    source_store: str | None = None


class RecallResponse(BaseModel):
    results: list[RecallHit]
    fusion_used: str
    stores_queried: list[str]
    latency_ms: int


class ForgetRequest(BaseModel):
    agent_id: str
    user_id: str | None = None
    ids: list[str] | None = None
    filter: dict[str, Any] | None = None
    hard_delete: bool | None = None
    reason: str | None = None


class ForgetRow(BaseModel):
    store: str
    count: int
    error: str | None = None


class ForgetResponse(BaseModel):
    forgotten_ids: list[str]
    hard_delete: bool
    stores: list[ForgetRow]


class MergeRequest(BaseModel):
    agent_id: str
    canonical: str
    duplicates: list[str] = Field(min_length=1)
    strategy: str | None = None


class MergeResponse(BaseModel):
    canonical: str
    merged_count: int
    strategy_used: str
    stores: list[str]


class ExpirePolicy(BaseModel):
    older_than_days: int | None = None
    type: MemoryType | None = None
    confidence_below: float | None = None
    no_recall_in_days: int | None = None


class ExpireRequest(BaseModel):
    agent_id: str
    policy: ExpirePolicy | None = None
    action: str | None = None


class ExpireResponse(BaseModel):
    matched_count: int
    action_taken: str
    stores: list[str]


class Store:
    """Rows in a dict, found by words. It says by its annotations which models it takes."""

    def __init__(self, name: str, clock: Callable[[], int] = now) -> None:
        self.name, self._clock = name, clock
        self.rows: dict[str, RememberRequest] = {}
        self.born: dict[str, int] = {}
        self.asked: list[BaseModel] = []
        self.capabilities = {"semantic", "episodic", "emotional", "fts"}
        self._ids = itertools.count(1)

    async def health(self) -> dict[str, Any]:
        return {"status": "ok", "backend": self.name}

    async def remember(self, req: RememberRequest) -> RememberResponse:
        assert type(req) is RememberRequest
        self.asked.append(req)
        id = f"o-{next(self._ids)}"
        self.rows[id], self.born[id] = req, self._clock()
        return RememberResponse(id=id, stored_at=self._clock(), stores=[self.name], pending_approval=False)

    async def recall(self, req: RecallRequest) -> RecallResponse:
        assert type(req) is RecallRequest
        self.asked.append(req)
        wanted = words(req.query)
        hits = [
            RecallHit(
                **{
                    "id": id,
                    "type": row.type,
                    "content": row.content,
                    "score": score,
                    "metadata": row.metadata,
                },
                created_at=self.born[id],
            )
            for id, row in self._reached(req)
            if (score := len(wanted & words(row.content)) / max(1, len(wanted))) > 0
            and (not req.types or row.type in req.types)
            and (req.fresher_than_days is None or self._age(id) < req.fresher_than_days)
        ]
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        return RecallResponse(
            results=hits[: req.k or 5],
            fusion_used=req.fusion or "rrf",
            stores_queried=[self.name],
            latency_ms=0,
        )

    async def forget(self, req: ForgetRequest) -> ForgetResponse:
        assert type(req) is ForgetRequest
        self.asked.append(req)
        found = [id for id in req.ids or () if id in self.rows]
        found += [id for id, _ in self._reached(req) if req.filter and id not in found]
        for id in found:
            del self.rows[id]
        return ForgetResponse(
            forgotten_ids=found,
            hard_delete=bool(req.hard_delete),
            stores=[ForgetRow(store=self.name, count=len(found))],
        )

    async def merge(self, req: MergeRequest) -> MergeResponse:
        self.asked.append(req)
        if req.canonical not in self.rows:
            raise LookupError(req.canonical)
        gone = [self.rows.pop(id) for id in req.duplicates if id in self.rows]
        return MergeResponse(
            canonical=req.canonical,
            merged_count=len(gone),
            strategy_used=req.strategy or "keep_canonical",
            stores=[self.name],
        )

    async def expire(self, req: ExpireRequest) -> ExpireResponse:
        self.asked.append(req)
        assert req.policy is not None
        policy = req.policy
        gone = [
            id
            for id, row in self.rows.items()
            if row.agent_id == req.agent_id
            and (policy.type is None or row.type is policy.type)
            and (policy.older_than_days is None or self._age(id) > policy.older_than_days)
            and (policy.confidence_below is None or (row.confidence or 1.0) < policy.confidence_below)
        ]
        for id in gone:
            del self.rows[id]
        return ExpireResponse(
            matched_count=len(gone), action_taken=req.action or "forget", stores=[self.name]
        )

    def _age(self, id: str) -> float:
        return (self._clock() - self.born[id]) / 86_400_000

    def _reached(self, req: Any) -> list[tuple[str, RememberRequest]]:
        return [
            (id, row)
            for id, row in self.rows.items()
            if row.agent_id == req.agent_id
            and req.user_id in (None, row.user_id)
            and all((row.metadata or {}).get(key) == value for key, value in (req.filter or {}).items())
        ]


class Silent(Store):
    """The same without annotations: its models stand beside it."""

    async def remember(self, req):
        return await super().remember(req)

    async def recall(self, req):
        return await super().recall(req)

    async def forget(self, req: Any) -> Any:
        return await super().forget(req)


class Neighbourly(Store):
    """It knows which of its rows are linked."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.capabilities.add("graph")
        self.links: dict[str, list[tuple[str, int]]] = {}

    async def neighbors(self, id: str, hops: int) -> list[RecallHit]:
        return [
            RecallHit(
                id=other, type=MemoryType.SEMANTIC, content="…", score=1.0, metadata={"hop_distance": far}
            )
            for other, far in self.links.get(id, ())
            if far <= hops
        ]


def words(text: str) -> set[str]:
    return {re.sub("e?s?$", "", word) for word in re.findall(r"\w+", text.lower()) if len(word) > 2}
