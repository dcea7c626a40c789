"""The same notices for sessions of the older generation: `resources/subscribe` and `resources/unsubscribe`.

A session has one journal feed for all it subscribed to. It ends with the session, or with the credential that opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

from quipu.faces.mcp.caller import Caller, caller
from quipu.faces.mcp.notices import MOST, Notices, is_recall, touched
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
        connection = _connection(ctx)
        is_first = _STATE not in connection.state
        uris = _uris(connection)
        if len(uris) >= MOST:
            raise MCPError(INVALID_PARAMS, f"A session subscribes to at most {MOST} resources.")
        uris.add(params.uri)
        if is_first:
            await self._start(ctx, connection, who, uris)
        return EmptyResult()

    async def _unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        if _STATE in (connection := _connection(ctx)).state:
            _uris(connection).discard(params.uri)
        return EmptyResult()

    async def _start(
        self, ctx: ServerRequestContext[Any, Any], connection: Connection, who: Caller, uris: set[str]
    ) -> None:
        feed = await self._service.changes.follow(who.principal, FeedRequest(), who.renewed)
        session = ctx.session

        async def tell() -> None:
            async with contextlib.aclosing(feed), Paced(session.send_resource_updated, is_recall) as notices:
                async for events in feed:
                    for uri in dict.fromkeys(uri for event in events for uri in touched(event, uris)):
                        await notices.tell(uri)

        telling = asyncio.create_task(tell())

        async def stop() -> None:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

        connection.exit_stack.push_async_callback(stop)


def _connection(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """What lasts as long as the session."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]  the SDK has no public way to it


def _uris(connection: Connection) -> set[str]:
    found: set[str] = connection.state.setdefault(_STATE, set())
    return found
