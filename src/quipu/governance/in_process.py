"""`Memory(governance=…)`: an object in this process that decides on held writes, each at once.

It answers within a deadline, or the write goes on waiting. What it does not decide is decided like any other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from quipu.errors import ApprovalRejectedError, QuipuError
from quipu.governance.decision_wait import DecisionWait
from quipu.governance.model import DecideRequest, Review, ReviewRequest
from quipu.governance.review import Reviews
from quipu.memory.model import RememberManyResponse, WriteResponse
from quipu.model.principal import Permission, Principal
from quipu.operation import AnyBinding, Binding, Context, Request, Response

_log = logging.getLogger("quipu.governance")
#: So long an object may think.
DEADLINE_S = 30.0
#: The name under which it decides; the journal says it.
NAME = "governance"


class InProcessReviewer(Protocol):
    """What decides. Its answer has `approved` and may have a `reason`, as attributes or as keys."""

    def review(self, review: Review) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessReview:
    """Shows what is held to an object, and carries out what it says."""

    reviewer: InProcessReviewer
    reviews: Reviews
    waits: DecisionWait
    deadline_s: float = DEADLINE_S

    def around(self, binding: AnyBinding) -> AnyBinding:
        """The same operation, decided at once where it is held."""
        if not issubclass(binding.operation.response, WriteResponse | RememberManyResponse):
            return binding

        async def handler(ctx: Context, request: Request) -> Response:
            held: Response = await cast("Any", binding.handler)(ctx, request)
            if not held.is_held:
                return held
            for proposal_id in _proposals(held):
                await self._decide(ctx, proposal_id)
            return await self.waits.decided(ctx, held, 0)

        return Binding(binding.operation, handler)

    async def _decide(self, ctx: Context, proposal_id: str) -> None:
        asking = Context(_person(ctx.principal), ctx.clock, ctx.services)
        shown = await self.reviews.review(asking, ReviewRequest(id=proposal_id))
        try:
            async with asyncio.timeout(self.deadline_s):
                said = await self.reviewer.review(shown)
        except Exception as error:  # noqa: BLE001  somebody else's code: what it does not decide goes on waiting
            _log.warning("The governance object did not decide: %s.", type(error).__name__)
            return
        approved, reason = _field(said, "approved"), _field(said, "reason")
        if not isinstance(approved, bool):
            _log.warning("The governance object's answer has no `approved`; the write goes on waiting.")
            return
        request = DecideRequest(
            id=proposal_id,
            approved=approved,
            reason=reason[:4096] if isinstance(reason, str) else None,
            etag=shown.etag if approved else None,
        )
        try:
            await self.reviews.decide(asking, request)
        except ApprovalRejectedError:
            raise
        except QuipuError as error:
            _log.warning("The governance object's decision could not be carried out: %s", error.message)


def _person(principal: Principal) -> Principal:
    """Who decides: somebody else than who wrote, in the same tenant."""
    return replace(
        principal,
        name=NAME,
        permissions=frozenset({Permission.READ, Permission.REVIEW}),
        agents=("*",),
        user_id=None,
        review_stores=("*",),
        review_operations=("*",),
        token_id=None,
        is_local=False,
    )


def _field(said: Any, name: str) -> Any:
    return said.get(name) if isinstance(said, Mapping) else getattr(said, name, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  whatever it answered


def _proposals(held: Response) -> list[str]:
    """What waits of an answer."""
    answers = [item.response for item in held.results] if isinstance(held, RememberManyResponse) else [held]
    names = [answer.proposal_id for answer in answers if isinstance(answer, WriteResponse) and answer.is_held]
    return list(dict.fromkeys(name for name in names if name is not None))
