"""Change notices: who listens to a resource is notified that it changed, never of what it says.

Each listener follows the journal as its own caller sees it: nobody hears of what they may not read, writes of other
processes are heard too, and a stream ends with the credential that opened it. The modern generation listens with one
request (`subscriptions/listen`); a session of the older one subscribes address by address, and is notified on the stream that
it holds open.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from mcp import types as t
from mcp.server import Server, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from quipu.errors import QuipuError
from quipu.mcp.caller import Caller, Who
from quipu.mcp.resources import REVIEWS, STORES, Address, address, has_resources
from quipu.mcp.settings import McpParts
from quipu.memory.model import ChangeEvent
from quipu.memory.operations import CHANGES
from quipu.memory.scope import reaches
from quipu.model.principal import Permission
from quipu.model.store import Store
from quipu.operation import authorised, dispatch_stream

#: So many addresses one stream may listen to.
MOST = 1000
#: So many sessions may have subscribed; the SDK keeps no more of them either.
_MOST_SESSIONS = 10_000
#: How often a listener's credential is looked at again, and between two notices of one recall, in seconds.
_LOOK_S = 15.0
_APART_S = 1.0


@dataclass(slots=True)
class _Session:
    """What a session of the older generation subscribed to."""

    owner: str
    uris: dict[str, Address] = field(default_factory=dict[str, Address])
    #: How many streams there are to notify it on.
    streams: int = 0
    send: Callable[[str], Awaitable[None]] | None = None
    notices: asyncio.Task[None] | None = None

    def stop(self) -> None:
        if self.notices is not None:
            self.notices.cancel()
            self.notices = None


class Subscriptions:
    """Serves both generations."""

    def __init__(self, parts: McpParts, who: Who) -> None:
        self._parts, self._who = parts, who
        #: By the id of the session, or by what lasts as long as the connection of a host on standard input.
        self._sessions: OrderedDict[object, _Session] = OrderedDict()

    @asynccontextmanager
    async def lifespan(self, _: Server[Any]) -> AsyncGenerator[object]:
        """For as long as a connection on standard input, or the server of all HTTP sessions."""
        connection = object()
        try:
            yield connection
        finally:
            if self._sessions.get(connection) is not None:
                self._sessions.pop(connection).stop()
            else:
                for session in self._sessions.values():
                    session.stop()

    # -- the modern generation ------------------------------------------------------------------------------------

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        """One call is one stream."""
        caller = self._who(ctx)
        uris = await self._allowed(caller, params.notifications.resource_subscriptions or ())
        since = await self._now(caller)  # before the client knows that it is subscribed
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)

        async def send(uri: str) -> None:
            await bus.publish(ResourceUpdated(uri=uri))

        async def notify() -> None:
            try:
                await self._notify(caller, since, uris, send)
            finally:  # the stream ends too, whatever ended this
                handler.close()

        sending = asyncio.create_task(notify())
        try:
            return await handler(ctx, params)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    # -- the older generation -------------------------------------------------------------------------------------

    async def subscribe(
        self, ctx: ServerRequestContext[Any, Any], params: t.SubscribeRequestParams
    ) -> t.EmptyResult:
        caller = self._who(ctx)
        allowed = await self._allowed(caller, [params.uri])
        session = self._session(ctx, caller)
        if len(session.uris) >= MOST:
            raise MCPError(t.INVALID_PARAMS, f"A session subscribes to at most {MOST} resources.")
        session.uris.update(allowed)
        session.send = ctx.session.send_resource_updated
        await self._start(session, caller)
        return t.EmptyResult()

    async def unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: t.UnsubscribeRequestParams
    ) -> t.EmptyResult:
        self._session(ctx, self._who(ctx)).uris.pop(params.uri, None)
        return t.EmptyResult()

    @asynccontextmanager
    async def streaming(self, session_id: str, caller: Caller) -> AsyncGenerator[None]:
        """While a session over HTTP holds a stream open."""
        session = self._session_of(session_id, caller)
        if session is None:
            yield
            return
        session.streams += 1
        try:
            await self._start(session, caller)
            yield
        finally:
            session.streams -= 1
            if not session.streams:
                session.stop()
                if not session.uris:
                    self._sessions.pop(session_id, None)

    def end(self, session_id: str) -> None:
        """The session is over."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            session.stop()

    def _session(self, ctx: ServerRequestContext[Any, Any], caller: Caller) -> _Session:
        if ctx.request is None:
            found = self._session_of(ctx.lifespan_context, caller)
            assert found is not None
            found.streams = 1
            return found
        found = self._session_of(ctx.request.headers.get("mcp-session-id", ""), caller)
        if found is None:
            raise _no_resource()
        return found

    def _session_of(self, key: object, caller: Caller) -> _Session | None:
        """None where it is somebody else's."""
        owner = f"{caller.principal.tenant}/{caller.principal.name}"
        found = self._sessions.setdefault(key, _Session(owner))
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)[1].stop()
        return found if found.owner == owner else None

    async def _start(self, session: _Session, caller: Caller) -> None:
        since = await self._now(caller)
        is_running = session.notices is not None and not session.notices.done()
        if session.streams and session.send is not None and session.uris and not is_running:
            notices = self._notify(caller, since, session.uris, session.send)
            session.notices = asyncio.create_task(notices)

    # -- what both need -------------------------------------------------------------------------------------------

    async def _allowed(self, caller: Caller, uris: Iterable[str]) -> dict[str, Address]:
        """What is meant by each. What the caller may not read is refused in the words for what does not exist."""
        wanted = dict.fromkeys(uris)
        named = {uri: found for uri in wanted if (found := address(uri)) is not None}
        is_allowed = len(wanted) <= MOST and len(named) == len(wanted) and has_resources(caller)
        if not is_allowed or not await self._may_hear(caller, list(named.values())):
            raise _no_resource()
        return named

    async def _may_hear(self, caller: Caller, wanted: list[Address]) -> bool:
        """Nothing is read, so nothing is journaled as read."""
        principal = caller.principal
        stores = await self._parts.scopes.stores(principal.tenant)
        ids = [one.name for one in wanted if one.kind == "record"]
        records = await self._parts.ledger.records(principal.tenant, ids)
        now = caller.ctx().clock()

        def is_there(one: Address) -> bool:
            match one.kind:
                case "record":
                    found = records.get(one.name)
                    return (
                        found is not None and not found.is_expired(now) and reaches(principal, found, stores)
                    )
                case "store":
                    return one.name in {store.name for store in stores.values()} and principal.reaches_store(
                        one.name
                    )
                case "recall":
                    return principal.may_act_for(one.name)
                case "reviews":
                    return principal.may(Permission.REVIEW)
                case _:
                    return True

        return all(map(is_there, wanted))

    async def _now(self, caller: Caller) -> int:
        """The journal position from which on changes are notified."""
        return (await self._parts.ledger.head(caller.principal.tenant)).seq

    async def _notify(
        self,
        caller: Caller,
        since: int,
        uris: Mapping[str, Address],
        send: Callable[[str], Awaitable[None]],
    ) -> None:
        """Until the credential ends, or nobody listens any more."""
        names: Mapping[str, Store] = {}
        async with aclosing(_events(caller, since)) as events, _Paced(send) as paced:
            async for event in events:
                if event.store is not None and event.store not in names:
                    names = await self._parts.scopes.stores(caller.principal.tenant)
                store = names.get(event.store or "")
                for uri in touched(event, uris, None if store is None else store.name):
                    await paced.notify(uri, is_paced=uris[uri].kind == "recall")


def _no_resource() -> MCPError:
    return MCPError(t.INVALID_PARAMS, "There is no such resource to listen to.")


async def _events(caller: Caller, since: int) -> AsyncGenerator[ChangeEvent]:
    """What changes, as the caller sees it; ends when the caller's credential does."""
    request = CHANGES.request(since=since)
    feed = dispatch_stream(caller.ctx(), CHANGES, request)
    pending = asyncio.ensure_future(anext(feed, None))
    look_at = time.monotonic() + _LOOK_S
    try:
        while True:
            await asyncio.wait({pending}, timeout=look_at - time.monotonic())
            if time.monotonic() >= look_at:
                authorised(await caller.renewed(), CHANGES, request)
                look_at = time.monotonic() + _LOOK_S
            if pending.done():
                event = pending.result()
                if event is None:
                    return
                yield event
                pending = asyncio.ensure_future(anext(feed, None))
    except QuipuError:
        return
    finally:
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)


def touched(event: ChangeEvent, uris: Mapping[str, Address], store: str | None) -> Iterator[str]:
    """Of the addresses that are listened to, those that an event makes stale. `store`: the name of the event's."""
    if event.type.startswith("proposal."):
        if REVIEWS in uris:
            yield REVIEWS
        return
    for uri, one in tuple(uris.items()):
        if (
            uri == STORES
            or (one.kind == "record" and one.name in event.record_ids)
            or (one.kind == "store" and one.name == store)
            or (one.kind == "recall" and event.agent_id in (None, one.name))
        ):
            yield uri


class _Paced:
    """Notifies of a recall at most once a second, and of the last change always."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._last: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def notify(self, uri: str, *, is_paced: bool) -> None:
        if not is_paced:
            await self._send(uri)
        elif uri not in self._waiting:
            left = self._last.get(uri, float("-inf")) + _APART_S - time.monotonic()
            if left > 0:
                self._waiting[uri] = asyncio.create_task(self._later(uri, left))
            else:
                self._last[uri] = time.monotonic()
                await self._send(uri)

    async def _later(self, uri: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        del self._waiting[uri]
        self._last[uri] = time.monotonic()
        await self._send(uri)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        waiting = list(self._waiting.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
