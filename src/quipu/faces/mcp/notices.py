"""Change notices: who listens to a resource is told that it changed, never what it says.

Each stream follows the journal as its own caller sees it. So nobody hears of what they may not read, writes of other
processes are told too, and a stream ends with the credential that opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
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
        wanted = frozenset(params.notifications.resource_subscriptions or ())
        await self.check(who, wanted)
        uris = {uri: named(uri) for uri in wanted}
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)
        feed = await self._service.changes.follow(who.principal, FeedRequest(), who.renewed)

        async def tell() -> None:
            try:
                async with contextlib.aclosing(feed), Paced(publish, is_recall) as notices:
                    async for events in feed:
                        for uri in dict.fromkeys(uri for event in events for uri in touched(event, uris)):
                            await notices.tell(uri)
            finally:  # a listener that will hear nothing more is told so, whatever ended the feed
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
        kind, name = named(uri)
        if kind == "record":
            try:
                found = await self._service.reading.history(principal, None, name)
            except QuipuError:
                return False
            stores = {store.id: store.name for store in await self._service.stores.list(principal)}
            return who.sees(stores.get(found[-1].record.store_id))
        if kind == "store":
            known = [row.name for row in await self._service.stores.list(principal)]
            return name in known and who.sees(name)
        return bool(name) and principal.may_act_for(name)


def touched(event: FeedEvent, uris: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Of the addresses that are listened to, each with what it names, those that an event makes stale."""
    if event.op in (Happening.HELD, Happening.DECIDED):
        if REVIEWS in uris:
            yield REVIEWS
        return
    changed = {("record", record.id) for record in event.records} | {("store", event.store)}
    for uri, (kind, name) in uris.items():
        is_recalled = kind == "recall" and event.agent_id in (None, name)
        if uri in (STORES, GRAPH) or (kind, name) in changed or is_recalled:
            yield uri


def is_recall(uri: str) -> bool:
    """Whether it is the address of a recall."""
    return named(uri)[0] == "recall"


def named(uri: str) -> tuple[str, str]:
    """What an address is about, and its name: in an address that may be written in another way than in the journal."""
    if (record := _RECORD.match(uri)) is not None:
        return "record", str(record["id"])
    if (store := _SUMMARY.match(uri)) is not None:
        return "store", str(store["store"])
    recall = _RECALL.match(uri)
    if recall is None or recall["agent_id"] in RESERVED:
        return "", ""
    return "recall", str(recall["agent_id"])
