"""A peer that may say anything, or nothing, over one that works."""

import asyncio
from collections.abc import Callable
from typing import Any

from quipu.api import Memory
from quipu.memory.model import Hit, RecallResponse, RememberResponse


class Puppet:
    """It takes what it is given as any other, and answers as a test tells it to."""

    def __init__(self, inner: Memory) -> None:
        self.inner = inner
        #: What it makes of the hits of a recall.
        self.says: Callable[[list[Hit]], list[Any]] = list
        #: What it makes of the id of a write.
        self.names: Callable[[str], str] = str
        self.hangs = self.fails = False
        self.calls = 0

    @property
    def capabilities(self) -> set[str]:
        return self.inner.capabilities

    async def recall(self, request: Any, /) -> RecallResponse:
        answer = await self._asked("recall", request)
        return answer.model_copy(update={"results": tuple(self.says(list(answer)))})

    async def remember(self, request: Any, /) -> RememberResponse:
        done = await self._asked("remember", request)
        return done.model_copy(update={"id": self.names(done.id)})

    async def forget(self, request: Any, /) -> Any:
        return await self._asked("forget", request)

    async def merge(self, request: Any, /) -> Any:
        return await self._asked("merge", request)

    async def expire(self, request: Any, /) -> Any:
        return await self._asked("expire", request)

    async def health(self) -> dict[str, Any]:
        return await self._asked("health")

    async def note_recalled(self, ids: list[str]) -> Any:
        return await self._asked("note_recalled", ids)

    async def _asked(self, name: str, *given: Any) -> Any:
        self.calls += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise OSError("connection to 10.0.0.9 refused")
        return await getattr(self.inner, name)(*given)

    def invent(self, like: Hit, count: int) -> None:
        """Say so many false things first, whatever is asked."""
        lies = [altered(like, id=f"mem_x{n}", content=f"poison {n}", relevance=1.0) for n in range(count)]
        self.says = lambda hits: [*lies, *hits]


def altered(hit: Hit, **changes: Any) -> Hit:
    return hit.model_copy(update=changes)
