"""The five operations, and many remembers at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quipu.errors import InvalidError, QuipuError
from quipu.memory import arguments
from quipu.memory.session import Session
from quipu.memory.shapes import shaped
from quipu.model.operations import (
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    Floor,
    ForgetRequest,
    Fusion,
    MergeRequest,
    MergeStrategy,
    RecallRequest,
    Redact,
    RememberRequest,
    UpdateStrategy,
)
from quipu.model.record import Link, MemoryType, PrivacyIntent
from quipu.model.store import MAIN

if TYPE_CHECKING:
    from quipu.model.outcomes import (
        ExpireResponse,
        ForgetResponse,
        MergeResponse,
        RecallResponse,
        RememberResponse,
    )
    from quipu.model.value import Json, JsonObject
    from quipu.ports.host import Host


class Operations(Session):
    """remember, recall, forget, merge, expire."""

    async def remember(
        self,
        content: str | JsonObject | RememberRequest,
        *,
        type: MemoryType | str = MemoryType.SEMANTIC,
        user_id: str | None = None,
        metadata: JsonObject | None = None,
        confidence: float | None = None,
        source: str | None = None,
        expires_at: int | None = None,
        approval_required: bool = False,
        store: str = MAIN,
        session_id: str | None = None,
        id: str | None = None,
        update_strategy: UpdateStrategy | str = UpdateStrategy.OVERWRITE,
        if_version: int | None = None,
        importance: float | None = None,
        idempotency_key: str | None = None,
        privacy_intent: PrivacyIntent | Mapping[str, Any] | None = None,
        embedding: arguments.EmbeddingLike = None,
        tags: Sequence[str] | None = None,
        links: Sequence[Link | Mapping[str, str]] | None = None,
        reasoning: str | None = None,
        find_similar: bool = False,
        **details: Json,
    ) -> RememberResponse:
        """Keep a memory, or with `id` change one. Durable when it returns.

        Who stops waiting, such as at a timeout, does not know whether it was kept: what has begun is carried through.
        With the same `idempotency_key` it can be asked again, and is kept once.

        `details` are the fields of one type: event_time, location, participants (episodic); sentiment, valence,
        arousal, emotion, target (emotional).
        """
        service = self._host or await self._service()
        if isinstance(content, RememberRequest):
            return await service.remember(self._principal, shaped(content))
        arguments.content(content, type)
        request = RememberRequest(
            agent_id=self.agent_id,
            type=arguments.member(MemoryType, type, "/type"),
            content=content,
            user_id=user_id,
            metadata=metadata,
            confidence=confidence,
            source=source,
            expires_at=expires_at,
            approval_required=arguments.truth(approval_required, "/approval_required"),
            store=arguments.text(store, "/store"),
            session_id=session_id,
            id=id,
            update_strategy=arguments.member(UpdateStrategy, update_strategy, "/update_strategy"),
            if_version=arguments.maybe_whole(if_version, "/if_version"),
            importance=importance,
            idempotency_key=idempotency_key,
            privacy_intent=arguments.privacy(privacy_intent),
            embedding=arguments.embedding(embedding),
            tags=None if tags is None else arguments.several(tags, "/tags"),
            links=None
            if links is None
            else tuple(
                arguments.link(link, f"/links/{index}")
                for index, link in enumerate(arguments.several(links, "/links", "list of links"))
            ),
            details=arguments.details(details),
            reasoning=reasoning,
            finds_similar=arguments.truth(find_similar, "/find_similar"),
        )
        return await service.remember(self._principal, request)

    async def recall(
        self,
        query: str | RecallRequest,
        *,
        k: int = 5,
        types: Sequence[MemoryType | str] | None = None,
        hops: int = 0,
        fusion: Fusion | str | None = None,
        filter: JsonObject | None = None,
        fresher_than_days: int | None = None,
        user_id: str | None = None,
        store: str | None = None,
        session_id: str | None = None,
        min_relevance: float | Floor | str = Floor.AUTO,
        as_of: str | int | None = None,
        max_tokens: int | None = None,
        redact: Redact | str = Redact.MASK,
        embedding: arguments.EmbeddingLike = None,
        quorum_k: int = 1,
        deadline_ms: int | None = None,
        explain: bool = False,
    ) -> RecallResponse:
        """Find the memories that answer a query, best first; nothing when nothing does."""
        service = await self._service()
        if isinstance(query, RecallRequest):
            return await service.recall(self._principal, shaped(query))
        request = RecallRequest(
            agent_id=self.agent_id,
            query=query,
            user_id=user_id,
            k=arguments.whole(k, "/k"),
            types=tuple(
                arguments.member(MemoryType, kind, "/types")
                for kind in arguments.several(() if types is None else types, "/types")
            ),
            hops=arguments.whole(hops, "/hops"),
            fusion=self._fusion if fusion is None else arguments.member(Fusion, fusion, "/fusion"),
            filter=arguments.filter(filter),
            fresher_than_days=arguments.maybe_whole(fresher_than_days, "/fresher_than_days"),
            store=store,
            session_id=session_id,
            min_relevance=arguments.floor(min_relevance),
            as_of=arguments.moment(as_of, "/as_of"),
            max_tokens=arguments.maybe_whole(max_tokens, "/max_tokens"),
            redact=arguments.member(Redact, redact, "/redact"),
            embedding=arguments.embedding(embedding),
            quorum_k=arguments.whole(quorum_k, "/quorum_k"),
            deadline_ms=arguments.maybe_whole(deadline_ms, "/deadline_ms"),
            explain=arguments.truth(explain, "/explain"),
        )
        return await service.recall(self._principal, request)

    async def forget(
        self,
        request: ForgetRequest | None = None,
        /,
        *,
        ids: Sequence[str] | None = None,
        filter: JsonObject | None = None,
        hard_delete: bool = False,
        reason: str | None = None,
        user_id: str | None = None,
        store: str | None = None,
        dry_run: bool = False,
        approval_required: bool = False,
        idempotency_key: str | None = None,
    ) -> ForgetResponse:
        """Forget, which `restore` undoes, or with `hard_delete` erase, which nothing undoes."""
        arguments.instance(request, ForgetRequest, "/request", "Name records as ids=[...].")
        service = await self._service()
        return await service.forget(
            self._principal,
            shaped(request)
            if request is not None
            else ForgetRequest(
                agent_id=self.agent_id,
                user_id=user_id,
                ids=arguments.several(() if ids is None else ids, "/ids"),
                filter=arguments.filter(filter),
                hard_delete=arguments.truth(hard_delete, "/hard_delete"),
                reason=reason,
                store=store,
                dry_run=arguments.truth(dry_run, "/dry_run"),
                approval_required=arguments.truth(approval_required, "/approval_required"),
                idempotency_key=idempotency_key,
            ),
        )

    async def merge(
        self,
        canonical: str | MergeRequest,
        duplicates: Sequence[str] = (),
        *,
        strategy: MergeStrategy | str = MergeStrategy.KEEP_CANONICAL,
        store: str | None = None,
        dry_run: bool = False,
        approval_required: bool = False,
        idempotency_key: str | None = None,
    ) -> MergeResponse:
        """Collapse duplicates into one record; each of them can be restored."""
        service = await self._service()
        if isinstance(canonical, MergeRequest):
            return await service.merge(self._principal, shaped(canonical))
        request = MergeRequest(
            agent_id=self.agent_id,
            canonical=canonical,
            duplicates=arguments.several(duplicates, "/duplicates"),
            strategy=arguments.member(MergeStrategy, strategy, "/strategy"),
            store=store,
            dry_run=arguments.truth(dry_run, "/dry_run"),
            approval_required=arguments.truth(approval_required, "/approval_required"),
            idempotency_key=idempotency_key,
        )
        return await service.merge(self._principal, request)

    async def expire(
        self,
        policy: ExpirePolicy | Mapping[str, Any] | ExpireRequest | None = None,
        *,
        action: ExpireAction | str = ExpireAction.FORGET,
        user_id: str | None = None,
        store: str | None = None,
        filter: JsonObject | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        approval_required: bool = False,
        idempotency_key: str | None = None,
    ) -> ExpireResponse:
        """Forget, archive or demote what a policy matches."""
        service = await self._service()
        if isinstance(policy, ExpireRequest):
            asked = replace(policy, policy=arguments.policy(policy.policy))
            return await service.expire(self._principal, shaped(asked))
        request = ExpireRequest(
            agent_id=self.agent_id,
            policy=arguments.policy(policy),
            action=arguments.member(ExpireAction, action, "/action"),
            user_id=user_id,
            store=store,
            filter=arguments.filter(filter),
            reason=reason,
            dry_run=arguments.truth(dry_run, "/dry_run"),
            approval_required=arguments.truth(approval_required, "/approval_required"),
            idempotency_key=idempotency_key,
        )
        return await service.expire(self._principal, request)

    async def submit(self, operation: str, body: Mapping[str, Any], /, *, strict: bool = True) -> Any:
        """One operation as memorywire JSON.

        With `strict=False` unknown fields are ignored instead of refused, and named in the answer's `extensions`.
        """
        service = await self._service()
        from quipu.faces.memorywire import wire  # pydantic is slow to load, and most calls do not need it

        arguments.truth(strict, "/strict")
        if arguments.text(operation, "/operation") not in wire.BODIES:
            raise InvalidError.at(
                "/operation", "bad_value", "There is no such operation.", accepted=list(wire.BODIES)
            )
        request, ignored = wire.parsed(
            operation, {"agent_id": self.agent_id, **arguments.mapping(body, "")}, strict=strict
        )
        response = await self._answered(service, request)
        if not ignored:
            return response
        warnings: list[Json] = [f"ignored field: {name}" for name in ignored]
        return replace(response, extensions={**response.extensions, "warnings": warnings})

    async def _answered(self, service: Host, request: object) -> Any:
        match request:
            case RememberRequest():
                return await service.remember(self._principal, request)
            case RecallRequest():
                return await service.recall(self._principal, request)
            case ForgetRequest():
                return await service.forget(self._principal, request)
            case MergeRequest():
                return await service.merge(self._principal, request)
            case ExpireRequest():
                return await service.expire(self._principal, request)
            case _:
                raise TypeError(f"not a request: {type(request).__name__}")

    async def remember_many(
        self, items: Iterable[Mapping[str, Any] | RememberRequest | str], /, *, atomic: bool = False
    ) -> list[RememberResponse | QuipuError]:
        """Many memories at once, embedded and committed together. `atomic`: all or none."""
        arguments.truth(atomic, "/atomic")
        service = await self._service()
        requests: list[RememberRequest] = []
        faults: dict[int, QuipuError] = {}
        for place, item in enumerate(arguments.several(items, "/items", "list of memories")):
            try:
                requests.append(self._request(item))
            except QuipuError as error:
                if atomic:
                    raise error.within(f"/items/{place}") from error
                faults[place] = error
        answers = iter(await service.remember_many(self._principal, requests, atomic=atomic))
        return [
            faults[place] if place in faults else next(answers)
            for place in range(len(requests) + len(faults))
        ]

    def _request(self, item: Mapping[str, Any] | RememberRequest | str) -> RememberRequest:
        if isinstance(item, RememberRequest):
            return shaped(item)
        body: Mapping[str, Any] = {"content": item} if isinstance(item, str) else arguments.mapping(item, "")
        embedding = body.get("embedding")
        if embedding is not None:  # vectors may come as bytes here, which JSON cannot carry
            body = {key: value for key, value in body.items() if key != "embedding"}
        from quipu.faces.memorywire import wire  # pydantic is slow to load, and most calls do not need it

        given = {"agent_id": self.agent_id, "type": MemoryType.SEMANTIC.value, **body}
        checked, _ = wire.read(wire.RememberBody, given, strict=True)
        return checked.to_model(None if embedding is None else arguments.embedding(embedding))
