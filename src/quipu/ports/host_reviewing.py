"""What a host offers to those who decide what is remembered."""

from __future__ import annotations

from collections.abc import (
    Sequence,
)
from typing import TYPE_CHECKING, Protocol

from quipu.model.notices import Event, IssuedWebhook, Webhook

if TYPE_CHECKING:
    from quipu.model.change import Proposal
    from quipu.model.governance import Replayed, Review, Rule
    from quipu.model.learning import Suggestion
    from quipu.model.principal import Principal
    from quipu.model.recovery import RecoverRequest, RecoverResponse


class Governance(Protocol):
    """Writes that wait for a person."""

    async def proposals(self, principal: Principal, status: str | None = None) -> tuple[Proposal, ...]: ...


class Reviewing(Protocol):
    """What a reviewer sees of one."""

    async def review(self, principal: Principal, proposal_id: str) -> Review: ...


class Policies(Protocol):
    """The rules that decide on writes."""

    async def list(self, principal: Principal) -> tuple[Rule, ...]: ...
    async def own(self, principal: Principal) -> tuple[Rule, ...]: ...
    async def set(self, principal: Principal, document: object) -> tuple[Rule, ...]: ...

    async def tried(
        self, principal: Principal, document: object | None = None, last: int = 1_000
    ) -> tuple[Replayed, ...]: ...


class Learning(Protocol):
    """Rules that decisions suggest."""

    async def suggested(self, principal: Principal) -> tuple[Suggestion, ...]: ...
    async def accept(self, principal: Principal, suggestion_id: str) -> tuple[Rule, ...]: ...
    async def dismiss(self, principal: Principal, suggestion_id: str) -> None: ...


class Recovery(Protocol):
    """Undoing what a cause has done."""

    async def recover(self, principal: Principal, request: RecoverRequest) -> RecoverResponse: ...


class Notices(Protocol):
    """Other machines that are told of held writes and decisions."""

    async def add(
        self,
        principal: Principal,
        *,
        url: str,
        events: Sequence[Event] = tuple(Event),
        agents: Sequence[str] = ("*",),
        with_content: bool = False,
    ) -> IssuedWebhook: ...

    async def list(self, principal: Principal) -> tuple[Webhook, ...]: ...
    async def remove(self, principal: Principal, webhook_id: str) -> None: ...
    async def ping(self, principal: Principal, webhook_id: str) -> None: ...
