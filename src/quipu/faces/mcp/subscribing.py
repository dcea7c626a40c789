"""The same notices for sessions of the older generation: `resources/subscribe` and `resources/unsubscribe`.

A session has one journal feed for all it subscribed to. It ends with the session, or with the credential that opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

from quipu.faces.mcp.caller import Caller, caller
from quipu.faces.mcp.notices import MOST, Notices, is_recall, named, touched
from quipu.faces.mcp.pacing import Paced
from quipu.model.feed import FeedRequest
from quipu.service.memory import MemoryService

_STATE = "dev.quipu/subscriptions"


class Subscribing:
    """Serves both methods, over the checks that listening has."""

    def __init__(self, service: MemoryService, notices: Notices) -> None:
        self._service, self._notices = service, notices

    def added_to(self, server: MCPServer[Any]) -> None:
        """The SDK's server class has no place for them."""
        low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  the SDK has no public way to it
        low.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    async def _subscribe(
        self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams
    ) -> EmptyResult:
        who = caller()
        await self._notices.check(who, [params.uri])
        heard = _heard(ctx)
        if len(heard.uris) >= MOST:
            raise MCPError(INVALID_PARAMS, f"A session subscribes to at most {MOST} resources.")
        heard.uris[params.uri] = named(params.uri)
        async with heard.starting:
            if heard.telling is None or heard.telling.done():
                await self._start(ctx, who, heard)
        return EmptyResult()

    async def _unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        _heard(ctx).uris.pop(params.uri, None)
        return EmptyResult()

    async def _start(self, ctx: ServerRequestContext[Any, Any], who: Caller, heard: _Heard) -> None:
        feed = await self._service.changes.follow(who.principal, FeedRequest(), who.renewed)
        session = ctx.session

        async def tell() -> None:
            async with contextlib.aclosing(feed), Paced(session.send_resource_updated, is_recall) as notices:
                async for events in feed:
                    for uri in dict.fromkeys(uri for event in events for uri in touched(event, heard.uris)):
                        await notices.tell(uri)

        heard.telling = telling = asyncio.create_task(tell())

        async def stop() -> None:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

        _connection(ctx).exit_stack.push_async_callback(stop)


@dataclass(slots=True)
class _Heard:
    """What a session subscribed to, and who tells it. The feed may end before the session: the next one begins another."""

    uris: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    telling: asyncio.Task[None] | None = None
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)


def _connection(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """What lasts as long as the session."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]  the SDK has no public way to it


def _heard(ctx: ServerRequestContext[Any, Any]) -> _Heard:
    found: _Heard = _connection(ctx).state.setdefault(_STATE, _Heard())
    return found
