"""A server of anybody's that speaks memorywire v0 over HTTP, as what scenarios are played on.

Nothing is asked of it but what v0 has. A scenario that needs one of Quipu's additions says which and is told as not
run; an answer that is not of v0's shape is told by the member that is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, Final, Protocol, cast

from quipu.errors import NotFoundError, QuipuError
from quipu.model.operations import (
    ExpireAction,
    ExpireRequest,
    ForgetRequest,
    Fusion,
    MergeRequest,
    MergeStrategy,
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
from quipu.model.record import DETAIL_FIELDS, MemoryType, Provenance, Tier
from quipu.model.value import Json
from quipu.testing.scenarios_subject import SMALL, Broken, Lacking, Scenario, Subject
from quipu.testing.scenarios_v0 import EXAMPLES, response_faults

#: The fields of each request of v0; the examples use them all.
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    operation: frozenset({"agent_id"}).union(*(body for name, body in EXAMPLES if name == operation))
    for operation, _ in EXAMPLES
}
_LENIENT: Final = {"Prefer": "handling=lenient"}


class Wire(Protocol):
    """The way to the server: JSON in, JSON out. What it refuses is raised as the `QuipuError` of its problem (3.4)."""

    async def asked(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Any: ...

    async def imported(self, line: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The lines that answer an import of one line (3.6)."""
        ...


class WireStore:
    """memorywire's five operations, over HTTP."""

    def __init__(self, wire: Wire, capabilities: set[str]) -> None:
        self._wire, self.capabilities = wire, capabilities

    async def remember(self, request: RememberRequest, /) -> RememberResponse:
        told = await self.submit("remember", _body("remember", request))
        return RememberResponse(
            id=told["id"],
            stored_at=told["stored_at"],
            stores=tuple(told["stores"]),
            pending_approval=told["pending_approval"],
            approval_url=told["approval_url"],
        )

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        told = await self.submit("recall", _body("recall", request))
        return RecallResponse(
            results=tuple(
                _hit(hit, rank, request.agent_id) for rank, hit in enumerate(told["results"], start=1)
            ),
            fusion_used=Fusion(told["fusion_used"]),
            stores_queried=tuple(told["stores_queried"]),
            latency_ms=told["latency_ms"],
        )

    async def forget(self, request: ForgetRequest, /) -> ForgetResponse:
        told = await self.submit("forget", _body("forget", request))
        return ForgetResponse(
            forgotten_ids=tuple(told["forgotten_ids"]),
            hard_delete=told["hard_delete"],
            stores=tuple(ForgetRow(**row) for row in told["stores"]),
            pending_approval=told["pending_approval"],
            approval_url=told["approval_url"],
        )

    async def merge(self, request: MergeRequest, /) -> MergeResponse:
        told = await self.submit("merge", _body("merge", request))
        return MergeResponse(
            canonical=told["canonical"],
            merged_count=told["merged_count"],
            strategy_used=MergeStrategy(told["strategy_used"]),
            stores=tuple(told["stores"]),
            pending_approval=told["pending_approval"],
            approval_url=told["approval_url"],
        )

    async def expire(self, request: ExpireRequest, /) -> ExpireResponse:
        told = await self.submit("expire", _body("expire", request))
        return ExpireResponse(
            matched_count=told["matched_count"],
            action_taken=ExpireAction(told["action_taken"]),
            stores=tuple(told["stores"]),
            pending_approval=told["pending_approval"],
            approval_url=told["approval_url"],
        )

    async def health(self) -> Mapping[str, Json]:
        return await self._wire.asked("GET", "health")

    async def submit(self, operation: str, body: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """The answer, if it is one: who refuses with a success, or leaves a member out, is told so."""
        told = await self._wire.asked("POST", operation, body, headers=None if strict else _LENIENT)
        if not isinstance(told, dict):
            raise Broken(f"the answer to {operation} is no object")
        answer = cast("dict[str, Any]", told)
        if faults := list(response_faults(operation, answer)):
            raise Broken(f"the answer to {operation} is not v0's: {'; '.join(faults)}")
        return answer


class WireSubject(Subject):
    """Such a server, beside whatever is there. What a scenario wrote is erased afterwards, by its ids."""

    store: WireStore
    size = SMALL
    is_alone = is_extended = False
    brief_ms = 5_000

    def __init__(self, wire: Wire, capabilities: set[str], *, label: str, clock: Callable[[], int]) -> None:
        super().__init__(WireStore(wire, capabilities), agent=f"conformance-{label}")
        self._wire, self._label, self._clock = wire, label, clock
        self._kept: dict[str, list[str]] = {}

    @property
    def held(self) -> object:
        raise Lacking("an object to be held: it is asked over HTTP")

    def fresh(self, scenario: Scenario) -> AbstractAsyncContextManager[Subject]:
        return self._tidied(scenario)

    @asynccontextmanager
    async def _tidied(self, scenario: Scenario) -> AsyncGenerator[Subject]:
        async with super()._as_another_agent(scenario) as fresh:
            try:
                yield fresh
            finally:
                for agent, ids in self._kept.items():
                    with suppress(QuipuError, Broken):
                        await self.store.forget(
                            ForgetRequest(agent_id=agent, ids=tuple(ids), hard_delete=True)
                        )
                self._kept.clear()

    def beside(self, name: str) -> str:
        return f"{name}-{self._label}"

    async def remember(self, content: Any, **given: Any) -> RememberResponse:
        request = self.request(content, **given)
        answer = await self.store.remember(request)
        self._kept.setdefault(request.agent_id, []).append(answer.id)
        return answer

    async def remember_all(self, requests: Sequence[RememberRequest]) -> list[str]:
        ids = await super().remember_all(requests)
        for request, record_id in zip(requests, ids, strict=True):
            self._kept.setdefault(request.agent_id, []).append(record_id)
        return ids

    def now(self) -> int:
        return self._clock()

    async def outlast(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000 + 0.1)

    async def submit(self, operation: str, body: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        answer = await self.store.submit(operation, {"agent_id": self.agent, **body}, strict=strict)
        if operation == "remember":
            self._kept.setdefault(self.agent, []).append(answer["id"])
        return answer

    async def kept_since(self, created_at: int, content: str, **given: Any) -> str:
        """By way of import (3.6), where the server has it: a line may say when a memory was made."""
        line = _body("remember", self.request(content, **given)) | {"created_at": created_at}
        try:
            told = await self._wire.imported(line)
        except NotFoundError:
            raise Lacking("a way to backdate a record (POST /import, 3.6)") from None
        record_id = next((one["id"] for one in told if "id" in one), None)
        if record_id is None:
            raise Broken(f"the import of a line was not answered with its id (3.6): {told}")
        self._kept.setdefault(self.agent, []).append(record_id)
        return record_id


def _body(operation: str, request: Any) -> dict[str, Any]:
    """The request as v0 has it: what says no more than its default is not sent."""
    said = {one.name: _plain(getattr(request, one.name)) for one in fields(request) if _is_said(one, request)}
    said |= said.pop("details", {})
    if said.get("min_relevance") == 0:
        del said["min_relevance"]  # v0 knows no floor
    if beyond := sorted(said.keys() - FIELDS[operation]):
        raise Lacking(f"{beyond[0]}, which v0 does not have in {operation}")
    return said


def _is_said(one: Field[Any], request: Any) -> bool:
    default = one.default_factory() if one.default_factory is not MISSING else one.default
    value = getattr(request, one.name)
    return type(value) is not type(default) or value != default


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, tuple | list | frozenset):
        return [_plain(one) for one in cast("Sequence[Any]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        members = {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
        return {name: one for name, one in members.items() if one is not None}
    return value


def _hit(told: Mapping[str, Any], rank: int, agent_id: str) -> Hit:
    """A hit; what v0 does not ask for is as little as it may be where it is not told."""
    return Hit(
        id=told["id"],
        type=MemoryType(told["type"]),
        content=told["content"],
        score=told["score"],
        relevance=told.get("relevance", 0.0),
        rank=told.get("rank", rank),
        metadata=told["metadata"],
        created_at=told["created_at"],
        updated_at=told.get("updated_at", told["created_at"]),
        supporting=tuple(told["supporting"]),
        source_store=told["source_store"],
        provenance=Provenance(written_by=""),
        source=told.get("source"),
        version=told.get("version", 1),
        agent_id=told.get("agent_id", agent_id),
        user_id=told.get("user_id"),
        session_id=told.get("session_id"),
        store=told.get("store", "main"),
        tier=Tier(told.get("tier", Tier.LONG_TERM)),
        confidence=told.get("confidence", 1.0),
        importance=told.get("importance"),
        tags=tuple(told.get("tags", ())),
        expires_at=told.get("expires_at"),
        stores=tuple(told.get("stores", (told["source_store"],))),
        details={name: told[name] for name in DETAIL_FIELDS if name in told},
    )
