"""The router for code that cannot await: over blocking memories, each of which goes on in a thread of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, cast

from quipu.memory.routing import Router as AsyncRouter
from quipu.model.operations import (
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.value import Json
from quipu.ports.memory_store import MemoryStore
from quipu.service.routing import DEADLINE_S, WRITE_DEADLINE_S
from quipu.sync import Memory
from quipu.sync.portal import Portal

P = ParamSpec("P")
R = TypeVar("R")


class _Awaited:
    """A blocking peer as a router wants it: asked on the peer's own event loop, without holding up the router's."""

    def __init__(self, store: MemoryStore, portal: Portal) -> None:
        self._store, self._portal = store, portal

    @property
    def capabilities(self) -> set[str]:
        return self._store.capabilities

    async def health(self) -> Mapping[str, Json]:
        return await self._portal.joined(self._store.health())

    async def remember(self, request: RememberRequest, /) -> RememberResponse:
        return await self._portal.joined(self._store.remember(request))

    async def recall(self, request: RecallRequest, /) -> RecallResponse:
        return await self._portal.joined(self._store.recall(request))

    async def forget(self, request: ForgetRequest, /) -> ForgetResponse:
        return await self._portal.joined(self._store.forget(request))

    async def merge(self, request: MergeRequest, /) -> MergeResponse:
        return await self._portal.joined(self._store.merge(request))

    async def expire(self, request: ExpireRequest, /) -> ExpireResponse:
        return await self._portal.joined(self._store.expire(request))


def _blocking(
    method: Callable[Concatenate[AsyncRouter, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Router, P], R]:
    """The same method, waited for."""

    @functools.wraps(method)
    def run(self: Router, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.portal.run(method(self.router, *args, **kwargs))

    return run


class Router:
    """`quipu.Router`, blocking."""

    def __init__(
        self,
        peers: Mapping[str, BlockingStore] | Sequence[BlockingStore],
        *,
        ids: str | None = None,
        write_policy: str = "all",
        weights: Mapping[str, float] | None = None,
        trim_votes: bool = True,
        own_contents: Collection[str] = (),
        deadline_s: float = DEADLINE_S,
        write_deadline_s: float = WRITE_DEADLINE_S,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """As `quipu.Router`, over `quipu.sync.Memory`s and other blocking routers.

        A store of your own may have blocking peers beside it: it is awaited, on the router's event loop.
        """
        self.router: AsyncRouter = AsyncRouter(
            _awaited(peers),
            ids=ids,
            write_policy=write_policy,
            weights=weights,
            trim_votes=trim_votes,
            own_contents=own_contents,
            deadline_s=deadline_s,
            write_deadline_s=write_deadline_s,
            clock=clock,
        )
        self.portal: Portal = Portal("router")

    def __repr__(self) -> str:
        """The peers by name, as `quipu.Router` shows them."""
        return repr(self.router)

    def close(self) -> None:
        """Answer nobody any more, and let go of the map's ledger. The peers are whoever's they are, and stay open."""
        self.portal.close(self.router.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def capabilities(self) -> set[str]:
        """What every peer promises, as far as several keep it together."""
        return self.router.capabilities

    remember = _blocking(AsyncRouter.remember)
    recall = _blocking(AsyncRouter.recall)
    forget = _blocking(AsyncRouter.forget)
    merge = _blocking(AsyncRouter.merge)
    expire = _blocking(AsyncRouter.expire)
    health = _blocking(AsyncRouter.health)
    copies = _blocking(AsyncRouter.copies)


#: What a blocking router asks.
BlockingStore: TypeAlias = Memory | Router | MemoryStore


def _awaited(peers: Any) -> Any:
    """The peers as a router wants them, and what is no peer as it is: the router says what is wrong with it.

    One that was given twice stays one, so that it is found out.
    """
    known: dict[int, _Awaited] = {}

    def one(peer: object) -> object:
        if isinstance(peer, Memory):
            return known.setdefault(id(peer), _Awaited(peer.memory, peer.portal))
        if isinstance(peer, Router):
            return known.setdefault(id(peer), _Awaited(peer.router, peer.portal))
        return peer

    if isinstance(peers, Mapping):
        return {name: one(peer) for name, peer in cast("Mapping[object, object]", peers).items()}
    if isinstance(peers, Sequence) and not isinstance(peers, str):
        return [one(peer) for peer in cast("Sequence[object]", peers)]
    return peers
