"""The five operations, and many remembers at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias, assert_never

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import ForbiddenError, InvalidError, QuipuError
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import json_body
from quipu.faces.http.deadlines import prolong
from quipu.faces.http.problems import problem
from quipu.faces.memorywire import answering, asking, wire
from quipu.faces.memorywire.asking import Preferences
from quipu.faces.memorywire.wire_reading import read
from quipu.faces.memorywire.wire_remember import RememberBody
from quipu.faces.memorywire.wire_replies import (
    ExpireReply,
    ForgetReply,
    MergeReply,
    RecallReply,
    RememberReply,
)
from quipu.faces.memorywire.wire_requests import ExpireBody, ForgetBody, MergeBody, RecallBody
from quipu.model.operations import ExpireRequest, ForgetRequest, MergeRequest, RememberRequest
from quipu.model.outcomes import ExpireResponse, ForgetResponse, MergeResponse, RememberResponse
from quipu.model.principal import Principal
from quipu.rules.staging import Held
from quipu.service.answers import A, Answer
from quipu.service.memory import MemoryService

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Writes: TypeAlias = RememberBody | ForgetBody | MergeBody | ExpireBody


class Operations:
    """Handlers over a service. `public_url` is where people reach the server, if it does not go by the request."""

    def __init__(self, service: MemoryService, public_url: str) -> None:
        self._service, self._public_url = service, public_url

    async def recall(self, request: Request) -> Response:
        """The one that only reads."""
        principal, preferences = principal_of(request), asking.preferences(request)
        data = await json_body(request)
        body, ignored = read(RecallBody, data, strict=not preferences.is_lenient)
        extensions = body.extensions or asking.asks_for_extensions(request)
        asked = asking.signing(request, body.query)
        try:
            found = await self._service.recall(principal, body.to_model())
        except ForbiddenError as error:
            if error.proposal_id is not None:
                base = answering.base_of(request, self._public_url)
                error.approval_url = f"{base}/review/{error.proposal_id}"
            raise
        found = self._service.hit_signing.signed(found, asked)
        headers = answering.manners(ignored, preferences, has_waited=False)
        headers |= answering.beyond(found.extensions)
        return answering.answered(RecallReply.from_model(found, extensions).body(), 200, headers)

    def writing(self, kind: type[Writes]) -> Handler:
        """The handler of one of the four that change something."""

        async def handle(request: Request) -> Response:
            principal, preferences = principal_of(request), asking.preferences(request)
            data = await json_body(request)
            body, ignored = read(kind, data, strict=not preferences.is_lenient)
            extensions = body.extensions or asking.asks_for_extensions(request)
            # A body that says false beside the header wants the extra member without a search for near-duplicates.
            similar = body.extensions if "extensions" in body.model_fields_set else extensions
            asked = _guarded(request, body.to_model(), similar=similar)
            done = await self._done(principal, asked)
            waits = done.pending_approval and not done.is_replayed and preferences.wait_s is not None
            if waits:
                done = await self._awaited(request, principal, done, preferences)
            headers = answering.manners(ignored, preferences, has_waited=waits)
            headers |= answering.beyond(done.extensions)
            if done.is_replayed:
                headers["Idempotency-Replayed"] = "true"
            reply = _body(self._addressed(request, done), extensions)
            return answering.answered(reply, 202 if done.pending_approval else 200, headers)

        return handle

    async def _done(self, principal: Principal, asked: Held) -> Answer:
        match asked:
            case RememberRequest():
                return await self._service.remember(principal, asked)
            case ForgetRequest():
                return await self._service.forget(principal, asked)
            case MergeRequest():
                return await self._service.merge(principal, asked)
            case ExpireRequest():
                return await self._service.expire(principal, asked)
            case _:
                assert_never(asked)

    async def _awaited(self, request: Request, principal: Principal, held: A, preferences: Preferences) -> A:
        seconds = preferences.wait_s or 0
        prolong(request.scope, seconds)
        return await self._service.decisions.awaited(principal, held, seconds)

    def _addressed(self, request: Request, done: A) -> A:
        """The page where a person decides, instead of an address for those without a server."""
        if not done.pending_approval:
            return done
        base = answering.base_of(request, self._public_url)
        return replace(done, approval_url=f"{base}/review/{done.extensions['proposal_id']}")

    # -- many at once -------------------------------------------------------------------------------------------

    async def batch(self, request: Request) -> Response:
        """Many remember requests, each answered in its place."""
        principal, preferences = principal_of(request), asking.preferences(request)
        asking.refuse_if_match(request)
        data = await json_body(request)
        batch, ignored = wire.parsed("remember_batch", data, strict=not preferences.is_lenient)
        self._service.check_batch(batch.items)
        extensions = asking.asks_for_extensions(request)
        items = _keyed(request, batch.items)
        asked = [item for item in items if isinstance(item, RememberRequest)]
        done = iter(await self._service.remember_many(principal, asked, atomic=batch.atomic))
        results: list[dict[str, Any]] = []
        seq: list[int] = []
        repeated: list[bool] = []
        for index, item in enumerate(items):
            outcome = next(done) if isinstance(item, RememberRequest) else item
            if isinstance(outcome, QuipuError):
                results.append({"index": index, "error": problem(outcome, _request_id(request))})
                continue
            wants = extensions or (isinstance(item, RememberRequest) and item.finds_similar)
            results.append({"index": index, "response": _body(self._addressed(request, outcome), wants)})
            repeated.append(outcome.is_replayed)
            seq += [position for position in [outcome.extensions.get("seq")] if isinstance(position, int)]
        headers = answering.manners(ignored, preferences, has_waited=False)
        headers |= answering.beyond({"seq": max(seq, default=None)})
        if repeated and all(repeated):
            headers["Idempotency-Replayed"] = "true"
        return answering.answered({"results": results}, 200, headers)


def _guarded(request: Request, asked: Held, *, similar: bool) -> Held:
    """The request with what the headers add to its body."""
    key = asking.idempotency_key(request, asked.idempotency_key)
    if not isinstance(asked, RememberRequest):
        asking.refuse_if_match(request)
        return replace(asked, idempotency_key=key)
    version = asking.expected_version(request)
    return replace(asked, idempotency_key=key, if_version=version, finds_similar=similar)


def _keyed(
    request: Request, items: tuple[RememberRequest | InvalidError, ...]
) -> list[RememberRequest | InvalidError]:
    """A key for the whole batch is one for each of its items; an item may have its own."""
    key = asking.idempotency_key(request, None)
    if key is None:
        return list(items)
    if len(key) > asking.LONGEST_BATCH_KEY:
        accepted = [f"at most {asking.LONGEST_BATCH_KEY} characters"]
        raise InvalidError.at(
            "/idempotency_key", "too_large", "The Idempotency-Key is too long.", accepted=accepted
        )
    return [
        replace(item, idempotency_key=item.idempotency_key or f"{key}#{index}")
        if isinstance(item, RememberRequest)
        else item
        for index, item in enumerate(items)
    ]


def _body(done: Answer, extensions: bool) -> dict[str, Any]:
    match done:
        case RememberResponse():
            return RememberReply.from_model(done, extensions).body()
        case ForgetResponse():
            return ForgetReply.from_model(done, extensions).body()
        case MergeResponse():
            return MergeReply.from_model(done, extensions).body()
        case ExpireResponse():
            return ExpireReply.from_model(done, extensions).body()
        case _:
            assert_never(done)


def _request_id(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)
