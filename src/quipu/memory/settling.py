"""Procedures that step, short-term memory that settles, and the graph of memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from quipu.memory import arguments
from quipu.memory.session import Session
from quipu.model.operations import StepRequest

if TYPE_CHECKING:
    from quipu.model.consolidation import Consolidation, Undone
    from quipu.model.graph import Graph
    from quipu.model.outcomes import StepResponse
    from quipu.model.procedure import Procedure


class Settling(Session):
    """step, procedure, consolidate, neighbours."""

    async def step(
        self,
        record_id: str,
        trigger: str | None = None,
        /,
        *,
        facts: Mapping[str, bool] | None = None,
        replay: Sequence[str] | None = None,
        persist: bool | None = None,
        if_version: int | None = None,
        approval_required: bool = False,
        idempotency_key: str | None = None,
    ) -> StepResponse:
        """Let a procedure take a step: its new state is a new version. A trigger that does nothing now raises.

        `facts` is what guards ask for; one that is missing is false. `replay` plays triggers through from the initial
        state, and keeps nothing unless `persist` says so.
        """
        request = StepRequest(
            id=arguments.text(record_id, "/id"),
            agent_id=self.agent_id,
            trigger=arguments.maybe_text(trigger, "/trigger"),
            facts={} if facts is None else arguments.facts(facts),
            replay=None if replay is None else arguments.texts(replay, "/replay"),
            persist=None if persist is None else arguments.truth(persist, "/persist"),
            if_version=arguments.maybe_whole(if_version, "/if_version"),
            approval_required=arguments.truth(approval_required, "/approval_required"),
            idempotency_key=arguments.maybe_text(idempotency_key, "/idempotency_key"),
        )
        return await (await self._service()).procedures.step(self._principal, request)

    async def procedure(self, record_id: str, /) -> Procedure:
        """A procedure: its machine, where it stands, what can be asked of it, and every step it took."""
        asked = arguments.text(record_id, "/id")
        return await (await self._service()).procedures.shown(self._principal, asked, self.agent_id)

    async def consolidate(
        self,
        *,
        user_id: str | None = None,
        all_agents: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Consolidation:
        """Settle short-term memory: what weighs enough is promoted, what is light and old is forgotten."""
        arguments.called(progress, "/progress")
        from quipu.model.consolidation import ConsolidateRequest

        arguments.truth(dry_run, "/dry_run")
        request = ConsolidateRequest(
            agent_id=None if arguments.truth(all_agents, "/all_agents") else self.agent_id,
            user_id=arguments.maybe_plain(user_id, "/user_id"),
            dry_run=dry_run,
        )
        service = await self._service()
        return await service.consolidating.consolidate(self._principal, request, progress)

    async def undo_consolidation(self, pass_id: str, /) -> Undone:
        """Take a pass back: what it promoted is forgotten, what it forgot is restored."""
        asked = arguments.text(pass_id, "/pass_id")
        return await (await self._service()).consolidating.undo(self._principal, asked)

    async def neighbours(
        self,
        record_id: str,
        /,
        *,
        hops: int = 1,
        limit: int = 100,
        as_of: str | int | None = None,
        valid_at: int | None = None,
    ) -> Graph:
        """What is around a memory: explicit links, its subject, its session; and when each thing is so."""
        from quipu.model.graph import GraphRequest

        request = GraphRequest(
            id=arguments.text(record_id, "/id"),
            agent_id=self.agent_id,
            hops=arguments.whole(hops, "/hops"),
            limit=arguments.whole(limit, "/limit"),
            as_of=arguments.moment(as_of, "/as_of"),
            valid_at=arguments.maybe_whole(valid_at, "/valid_at"),
        )
        return await (await self._service()).graphs.around(self._principal, request)
