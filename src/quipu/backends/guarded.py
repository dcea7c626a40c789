"""A backend behind deadlines and a circuit breaker: whatever a vendor does, its caller goes on.

A call that is late is cancelled and not waited for, so an adapter that ignores cancellation holds nobody up. What comes
back is looked at before it is believed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from quipu.errors import BackendUnavailableError, QuipuError, UnsupportedError
from quipu.ports.backend import (
    Answer,
    Backend,
    Capabilities,
    Container,
    Copy,
    Erasing,
    Health,
    Kept,
    NativeHit,
    Place,
    Query,
    Remaining,
)
from quipu.rules.breaker import Breaker
from quipu.rules.texts import is_keepable

_log = logging.getLogger("quipu.backends")
T = TypeVar("T")
_LONGEST_ID = 1024
_NOT_THERE = "mirror_unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many seconds each kind of call may take."""

    open_s: float = 120.0
    search_s: float = 0.8
    effect_s: float = 60.0
    health_s: float = 1.0


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class GuardedBackend:
    """A backend that answers in time, or fails in time."""

    def __init__(
        self,
        name: str,
        backend: Backend,
        *,
        patience: Patience | None = None,
        jitter: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._name, self._backend, self._patience = name, backend, patience or Patience()
        self._jitter, self._clock = jitter, clock
        self._breaker = Breaker()
        self._opening: asyncio.Task[None] | None = None
        #: Calls that were given up and have not noticed yet.
        self._abandoned: set[asyncio.Task[Any]] = set()

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    @property
    def breaker(self) -> str:
        return self._breaker.state(self._clock()).value

    async def open(self) -> None:
        await self._guarded(self._nothing, self._patience.open_s)

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        async def put() -> Sequence[str]:
            return _names(await self._backend.put(copies), len(copies))

        return await self._effect(put)

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        async def get() -> Sequence[Kept]:
            return [_found(kept) for kept in await self._backend.get(places)]

        return await self._guarded(get, self._patience.effect_s)

    async def search(self, query: Query, limit: int) -> Answer:
        async def search() -> Answer:
            answer = await self._backend.search(query, limit)
            return replace(answer, hits=_believable(answer.hits, limit))

        return await self._guarded(search, self._patience.search_s)

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        """Each step has its own deadline; a walk as a whole takes as long as it takes."""
        walk = self._backend.scan(container)
        try:
            while True:
                kept = await self._guarded(lambda: _next(walk), self._patience.effect_s)
                if kept is None:
                    return
                yield kept
        finally:
            if hasattr(walk, "aclose"):
                await cast("Any", walk).aclose()

    async def delete(self, places: Sequence[Place]) -> int:
        return await self._effect(lambda: self._backend.delete(places))

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """Where deleting leaves nothing behind there is nothing to do."""
        backend = self._backend
        if isinstance(backend, Erasing):
            await self._effect(lambda: backend.erase(places, remaining))

    async def health(self) -> Health:
        try:
            return await self._guarded(self._up, self._patience.health_s)
        except QuipuError:
            return Health(is_up=False)

    async def _up(self) -> Health:
        """One that says itself that it is down has not succeeded, as far as the breaker goes."""
        told = await self._backend.health()
        if not told.is_up:
            raise BackendUnavailableError("The mirror is down.", reason=_NOT_THERE)
        return told

    async def close(self) -> None:
        for task in [*self._abandoned, *([self._opening] if self._opening is not None else [])]:
            task.cancel()
        self._opening = None
        try:
            async with asyncio.timeout(self._patience.effect_s):
                await self._backend.close()
        except (QuipuError, TimeoutError):
            _log.warning("The mirror %s could not be closed.", self._name)

    # -- the guard ----------------------------------------------------------------------------------------------

    async def _nothing(self) -> None:
        """To be open is all that is wanted."""

    async def _effect(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """A mirror that is there and fails has trouble with what it was given: nothing else need wait for that."""
        try:
            return await self._guarded(call, self._patience.effect_s)
        except BackendUnavailableError as error:
            if error.reason != _NOT_THERE or not await self._is_well():
                raise
            raise BackendUnavailableError(
                error.message, reason="mirror_failed", hint=error.hint
            ) from error.__cause__

    async def _is_well(self) -> bool:
        """Asked past the breaker: it is told of the call that failed, and of nothing else."""
        until = asyncio.get_running_loop().time() + self._patience.health_s
        try:
            return (await self._in_time(asyncio.ensure_future(self._backend.health()), until)).is_up
        except Exception:  # noqa: BLE001  whatever it says then, it is not well
            return False

    async def _guarded(self, call: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        if not self._breaker.lets_through(self._clock()):
            raise BackendUnavailableError("The mirror is left alone for a while.", reason="breaker_open")
        self._breaker = self._breaker.called(self._clock())
        until = asyncio.get_running_loop().time() + seconds
        try:
            await self._ready(until)
            done = await self._in_time(asyncio.ensure_future(call()), until)
        except UnsupportedError:
            self._breaker = self._breaker.succeeded(self._clock())
            raise
        except Exception as error:  # noqa: BLE001  whatever a vendor raises, it is told in our words
            self._note_failure()
            failed = self._failed(error)
            if failed.reason == _NOT_THERE and self._opening is not None and self._opening.done():
                self._opening = None  # what was open once may be no more, as a process that has died
            raise failed from (error.__cause__ or error)
        self._breaker = self._breaker.succeeded(self._clock())
        return done

    async def _ready(self, until: float) -> None:
        """Opened by whoever comes first; a deadline ends the waiting, not the opening."""
        if self._opening is None or (
            self._opening.done() and (self._opening.cancelled() or self._opening.exception() is not None)
        ):
            self._opening = asyncio.ensure_future(self._backend.open())
        if not self._opening.done():
            await asyncio.wait({self._opening}, timeout=_left(until))
        if not self._opening.done():
            raise TimeoutError
        self._opening.result()

    async def _in_time(self, task: asyncio.Future[T], until: float) -> T:
        try:
            await asyncio.wait({task}, timeout=_left(until))
        finally:
            if not task.done():
                task.cancel()
                kept = cast("asyncio.Task[Any]", task)
                self._abandoned.add(kept)
                kept.add_done_callback(self._let_go)
        if not task.done():
            raise TimeoutError
        return task.result()

    def _let_go(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it any more

    def _note_failure(self) -> None:
        before = self._breaker.state(self._clock())
        self._breaker = self._breaker.failed(self._clock(), self._jitter())
        if self._breaker.state(self._clock()) is not before:
            _log.warning("The mirror %s keeps failing and is left alone for a while.", self._name)

    @staticmethod
    def _failed(error: Exception | None) -> BackendUnavailableError:
        """In Quipu's words: a vendor's message may hold anything."""
        if isinstance(error, BackendUnavailableError):
            return BackendUnavailableError(error.message, reason=error.reason, hint=error.hint)
        if isinstance(error, TimeoutError):
            return BackendUnavailableError("The mirror did not answer in time.", reason="mirror_late")
        return BackendUnavailableError("The mirror failed.", reason="mirror_failed")


def _left(until: float) -> float:
    return max(0.0, until - asyncio.get_running_loop().time())


async def _next(walk: AsyncIterator[Kept]) -> Kept | None:
    kept = await anext(walk, None)
    return None if kept is None else _found(kept)


def _names(native: object, count: int) -> list[str]:
    """As many native ids as there were copies, or an error as good as one of the vendor's: each names one copy."""
    names = list(cast("Sequence[object]", native))
    if len(names) != count or len(set(names)) != count or not all(_is_id(name) for name in names):
        raise ValueError("These are not the native ids of so many copies.")
    return cast("list[str]", names)


def _found(kept: object) -> Kept:
    if not isinstance(kept, Kept):
        raise TypeError("This is nothing that a vendor keeps.")
    return kept


def _is_id(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_ID and is_keepable(name)


def _believable(hits: Sequence[object], limit: int) -> tuple[NativeHit, ...]:
    """Hits that are hits, so many at most. An id counts once, where it stands first; a score that is no number is none,
    and so is a text that no ledger could hold."""
    kept: dict[str, NativeHit] = {}
    for hit in hits:
        if len(kept) >= limit:
            break
        if not isinstance(hit, NativeHit) or not _is_id(hit.native_id) or hit.native_id in kept:
            continue
        score = hit.score
        is_number = isinstance(score, int | float) and math.isfinite(score)
        text = cast("object", hit.text)
        is_text = isinstance(text, str) and is_keepable(text)
        kept[hit.native_id] = replace(hit, score=score if is_number else None, text=text if is_text else "")
    return tuple(kept.values())
