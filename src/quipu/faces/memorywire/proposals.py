"""Held writes: listed, shown, decided, taken back."""

from __future__ import annotations

from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import json_body
from quipu.faces.memorywire import answering, asking
from quipu.faces.memorywire.wire_decisions import DecisionBody
from quipu.faces.memorywire.wire_reading import read
from quipu.faces.memorywire.wire_reviews import decision_body, review_body
from quipu.model.operations import MergeStrategy, ProposalsRequest
from quipu.service.memory import MemoryService

_PAGE = 50


class Status(StrEnum):
    """How a held write stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class Proposals:
    """Handlers over a service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def list(self, request: Request) -> Response:
        """A page of them."""
        asking.known(request, "status", "agent_id", "cursor", "limit")
        status, limit = asking.member(request, "status", Status), asking.number(request, "limit")
        wanted = ProposalsRequest(
            status=(status or Status.PENDING).value,
            agent_id=asking.word(request, "agent_id"),
            limit=_PAGE if limit is None else limit,
            cursor=asking.word(request, "cursor"),
        )
        page = await self._service.governance.page(principal_of(request), wanted)
        reviews = [review_body(proposal) for proposal in page.proposals]
        return answering.answered({"reviews": reviews, "next_cursor": page.next_cursor})

    async def get(self, request: Request) -> Response:
        """One of them."""
        asking.known(request)
        found = await self._service.reviewing.review(principal_of(request), request.path_params["id"])
        return answering.answered(review_body(found.proposal, found))

    async def decide(self, request: Request) -> Response:
        """A yes or a no."""
        principal, preferences = principal_of(request), asking.preferences(request)
        body, ignored = read(DecisionBody, await json_body(request), strict=not preferences.is_lenient)
        proposal_id = request.path_params["id"]
        await self._service.decide(
            principal,
            proposal_id,
            approved=body.approved,
            reason=body.reason,
            etag=body.etag,
            edit=None if body.edit is None else body.edit.edit(),
            merge_into=None if body.merge_into is None else body.merge_into.canonical,
            strategy=MergeStrategy(
                body.merge_into.strategy if body.merge_into else MergeStrategy.KEEP_CANONICAL
            ),
            supersedes=body.supersedes or (),
        )
        decided = await self._service.governance.proposal(principal, proposal_id)
        headers = answering.manners(ignored, preferences, has_waited=False)
        return answering.answered(decision_body(decided), 200, headers)

    async def withdraw(self, request: Request) -> Response:
        """Taken back by who wrote it."""
        asking.known(request)
        await self._service.governance.withdraw(principal_of(request), request.path_params["id"])
        return Response(status_code=204)
