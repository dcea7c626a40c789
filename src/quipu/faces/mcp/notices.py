"""Change notices: who listens to a resource is told that it changed, never what it says.

Each stream follows the journal as its own caller sees it. So nobody hears of what they may not read, writes of other
processes are told too, and a stream ends with the credential that opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from mcp.types import INVALID_PARAMS, SubscriptionsListenRequestParams, SubscriptionsListenResult

from quipu.errors import QuipuError
from quipu.faces.mcp.caller import Caller, caller
from quipu.faces.mcp.graph import RESOURCE as GRAPH
from quipu.faces.mcp.pacing import Paced
from quipu.faces.mcp.resources import PROFILES, RECALL, RECORD, RESERVED, REVIEWS, STORES, SUMMARY
from quipu.model.feed import FeedEvent, FeedRequest, Happening
from quipu.model.principal import Permission
from quipu.service.memory import MemoryService

_RECORD, _SUMMARY, _RECALL = (UriTemplate.parse(text) for text in (RECORD, SUMMARY, RECALL))
#: So many addresses one stream may listen to.
MOST: Final = 1_000


class Notices:
    """Serves `subscriptions/listen`, a journal feed for each stream."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    def added_to(self, server: MCPServer[Any]) -> None:
        """In place of the SDK's own, which tells every caller of every tenant the same."""
        low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  the SDK has no public way to it
        low.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        who = caller()
        uris = frozenset(params.notifications.resource_subscriptions or ())
        await self.check(who, uris)
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)
        feed = await self._service.changes.follow(who.principal, FeedRequest(), who.renewed)

        async def tell() -> None:
            async with contextlib.aclosing(feed), Paced(publish, is_recall) as notices:
                async for events in feed:
                    for uri in dict.fromkeys(uri for event in events for uri in touched(event, uris)):
                        await notices.tell(uri)
            handler.close()

        async def publish(uri: str) -> None:
            await bus.publish(ResourceUpdated(uri=uri))

        telling = asyncio.create_task(tell())
        try:
            return await handler(ctx, params)
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def check(self, who: Caller, uris: Iterable[str]) -> None:
        """Refuse what the caller may not read, in the same words as what does not exist."""
        for count, uri in enumerate(uris):
            if count >= MOST or not await self._may_hear(who, uri):
                raise MCPError(INVALID_PARAMS, "There is no such resource to listen to.")

    async def _may_hear(self, who: Caller, uri: str) -> bool:
        principal = who.principal
        if uri == GRAPH:
            return who.profile == "graph" and principal.may(Permission.READ)
        if who.profile not in PROFILES:
            return False
        if uri == REVIEWS:
            return principal.may(Permission.REVIEW)
        if uri == STORES:
            return principal.may(Permission.READ)
        if (record := _RECORD.match(uri)) is not None:
            try:
                await self._service.reading.history(principal, None, str(record["id"]))
            except QuipuError:
                return False
            return True
        if (store := _SUMMARY.match(uri)) is not None:
            known = [row.name for row in await self._service.stores.list(principal)]
            return str(store["store"]) in known and who.store in (None, str(store["store"]))
        recall = _RECALL.match(uri)
        agent = "" if recall is None else str(recall["agent_id"])
        return bool(agent) and agent not in RESERVED and principal.may_act_for(agent)


def touched(event: FeedEvent, uris: AbstractSet[str]) -> Iterator[str]:
    """Of the addresses that are listened to, those that an event makes stale."""
    if event.op in (Happening.HELD, Happening.DECIDED):
        if REVIEWS in uris:
            yield REVIEWS
        return
    changed = {STORES, GRAPH, f"memory://stores/{event.store}/summary"}
    changed |= {f"memory://records/{record.id}" for record in event.records}
    yield from (uri for uri in uris if uri in changed or _is_recall_of(uri, event.agent_id))


def is_recall(uri: str) -> bool:
    """Whether it is the address of a recall."""
    found = _RECALL.match(uri)
    return found is not None and found["agent_id"] not in RESERVED


def _is_recall_of(uri: str, agent_id: str | None) -> bool:
    found = _RECALL.match(uri)
    if found is None or found["agent_id"] in RESERVED:
        return False
    return agent_id is None or found["agent_id"] == agent_id
