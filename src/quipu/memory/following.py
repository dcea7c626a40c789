"""The change feed: what happens to memories, as it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from quipu.memory import arguments
from quipu.memory.session import Session
from quipu.model.record import MemoryType

if TYPE_CHECKING:
    from quipu.model.feed import FeedEvent
    from quipu.model.principal import Principal


class Following(Session):
    """Being told that something changed."""

    async def changes(
        self,
        *,
        since: int | None = None,
        store: str | None = None,
        types: Sequence[MemoryType | str] | None = None,
        all_agents: bool = False,
    ) -> AsyncGenerator[FeedEvent]:
        """Changes in order, without end and without content; leave the loop to stop.

        `since` is the last position that was seen: nothing after it is lost, nothing before it is repeated. Without
        it the feed begins with the next change.
        """
        service = await self._service()
        from quipu.model.feed import FeedRequest

        request = FeedRequest(
            agent_id=None if arguments.truth(all_agents, "/all_agents") else self.agent_id,
            store=arguments.maybe_text(store, "/store"),
            types=arguments.members(MemoryType, () if types is None else types, "/types"),
            since=None if since is None else arguments.whole(since, "/since"),
        )
        followed = await service.changes.follow(self._principal, request, self._still)
        async with aclosing(followed):
            async for events in followed:
                for event in events:
                    yield event

    async def _still(self) -> Principal:
        return self._principal
