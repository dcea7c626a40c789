"""A backend behind deadlines and a circuit breaker: whatever a vendor does, its caller goes on.

A call that is late is cancelled and not waited for, so that an adapter which ignores that holds nobody up. What comes
back is looked at before it is believed, and what is raised comes out in our words: a vendor's message may hold anything.
"""

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

from quipu.errors import BackendUnavailableError, QuipuError, UnsupportedError
from quipu.memory.fanout import Breaker, State, monotonic_ms, within
from quipu.mirrors.backend import (
    Answer,
    Backend,
    Capabilities,
    Container,
    Copy,
    Erasing,
    Health,
    Kept,
    Place,
    Query,
    Remaining,
)

_log = logging.getLogger("quipu.mirrors")
T = TypeVar("T")
_LONGEST_ID: Final = 512
_UNREACHABLE, _LATE = "mirror_unreachable", "mirror_late"
#: What is said of a whole mirror; anything else may be about one record.
NOT_THERE: Final = frozenset({"breaker_open", _LATE, _UNREACHABLE, "missing_extra", "embedding_mismatch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many seconds each kind of call may take."""

    open_s: float = 120.0
    search_s: float = 0.8
    effect_s: float = 60.0
    health_s: float = 1.0


class GuardedBackend:
    """A backend that answers in time, or fails in time."""

    def __init__(
        self,
        name: str,
        backend: Backend,
        *,
        patience: Patience | None = None,
        clock: Callable[[], int] = monotonic_ms,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`clock` is what the breaker goes by; `chance` makes its pauses a little longer."""
        self._name, self._backend, self._patience = name, backend, patience or Patience()
        self._clock, self._chance = clock, chance
        self._breaker = Breaker()
        self._opening: asyncio.Task[None] | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    @property
    def state(self) -> State:
        return self._breaker.state(self._clock())

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
            while (kept := await self._guarded(lambda: _next(walk), self._patience.effect_s)) is not None:
                yield kept
        finally:
            if hasattr(walk, "aclose"):
                await cast("Any", walk).aclose()

    async def delete(self, places: Sequence[Place]) -> int:
        async def delete() -> int:
            return int(await self._backend.delete(places))

        return await self._effect(delete)

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        backend = self._backend
        if isinstance(backend, Erasing):
            await self._effect(lambda: backend.erase(places, remaining))

    async def health(self) -> Health:
        """Asked past the breaker: whoever looks after a mirror learns how it is now."""
        try:
            return await within(self._opened(self._backend.health), self._patience.health_s)
        except Exception:  # noqa: BLE001  whatever it says then, it is not well
            return Health(is_up=False)

    async def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        self._opening = None
        try:
            async with asyncio.timeout(self._patience.effect_s):
                await self._backend.close()
        except Exception:  # noqa: BLE001  whatever one mirror raises, the others are closed too
            _log.warning("The mirror %s could not be closed.", self._name)

    # -- the guard ----------------------------------------------------------------------------------------------------

    async def _effect(self, call: Callable[[], Awaitable[T]]) -> T:
        """A mirror that is there and fails has trouble with what it was given: nothing else need wait for that."""
        try:
            return await self._guarded(call, self._patience.effect_s)
        except BackendUnavailableError as error:
            if error.reason not in (_UNREACHABLE, _LATE) or not (await self.health()).is_up:
                raise
            raise BackendUnavailableError(
                error.message, reason="mirror_failed", hint=error.hint
            ) from error.__cause__

    async def _guarded(self, call: Callable[[], Awaitable[T]], seconds: float) -> T:
        if not self._breaker.lets_through(self._clock()):
            raise BackendUnavailableError("The mirror is left alone for a while.", reason="breaker_open")
        self._breaker = self._breaker.called(self._clock())
        try:
            done = await within(self._opened(call), seconds)
        except UnsupportedError:
            self._breaker = self._breaker.succeeded(self._clock())
            raise
        except Exception as error:  # noqa: BLE001  whatever a vendor raises, it comes out in our words
            self._note_failure()
            failed = _failed(error)
            if failed.reason == _UNREACHABLE and self._opening is not None and self._opening.done():
                self._opening = None  # what was open once may be no more, as a process that has died
            raise failed from (error.__cause__ or error)
        self._breaker = self._breaker.succeeded(self._clock())
        return done

    def _opened(self, call: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """The call on a backend that is open. Opened by whoever comes first; a deadline ends the waiting, not the opening."""

        async def called() -> T:
            opening = self._opening
            if opening is None or _is_spent(opening):
                opening = self._opening = asyncio.create_task(self._open())
            await asyncio.shield(opening)
            return await call()

        return called

    async def _open(self) -> None:
        async with asyncio.timeout(self._patience.open_s):
            await self._backend.open()

    def _note_failure(self) -> None:
        before = self.state
        self._breaker = self._breaker.failed(self._clock(), self._chance())
        if self.state != before:
            _log.warning("The mirror %s keeps failing and is left alone for a while.", self._name)


def _is_spent(opening: "asyncio.Task[None]") -> bool:
    """Whether it failed, or was begun on a loop that has ended."""
    if opening.get_loop() is not asyncio.get_running_loop():
        return True
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


def _failed(error: Exception) -> BackendUnavailableError:
    if isinstance(error, TimeoutError) or (isinstance(error, QuipuError) and error.reason == "late"):
        return BackendUnavailableError("The mirror did not answer in time.", reason=_LATE)
    if isinstance(error, BackendUnavailableError):
        return BackendUnavailableError(error.message, reason=error.reason, hint=error.hint)
    if isinstance(error, QuipuError):
        return BackendUnavailableError(
            "The mirror refused it.", reason=error.reason or error.code, hint=error.hint
        )
    return BackendUnavailableError("The mirror failed.", reason="mirror_failed")


async def _next(walk: AsyncIterator[Kept]) -> Kept | None:
    kept = await anext(walk, None)
    return None if kept is None else _found(kept)


def _names(native: object, count: int) -> list[str]:
    """As many native ids as there were copies, each of one copy; anything else is a failure like one of the vendor's."""
    names = list(cast("Sequence[object]", native))
    if len(names) != count or len(set(names)) != count or not all(_is_id(name) for name in names):
        raise ValueError("These are not the native ids of so many copies.")
    return cast("list[str]", names)


def _found(kept: object) -> Kept:
    if not isinstance(kept, Kept):
        raise TypeError("This is nothing that a vendor keeps.")
    return kept


def _believable(hits: Sequence[object], limit: int) -> tuple[Kept, ...]:
    """Hits that are hits, so many at most. An id counts once, where it stands first; a score that is no number is none,
    and so is a text that no ledger could hold."""
    kept: dict[str, Kept] = {}
    for hit in hits:
        if len(kept) >= limit:
            break
        if not isinstance(hit, Kept) or not _is_id(hit.native_id) or hit.native_id in kept:
            continue
        score, text = cast("object", hit.score), cast("object", hit.text)
        kept[hit.native_id] = replace(
            hit,
            score=float(score) if isinstance(score, int | float) and math.isfinite(score) else None,
            text=text if isinstance(text, str) and _is_keepable(text) else "",
        )
    return tuple(kept.values())


def _is_id(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_ID and _is_keepable(name)


def _is_keepable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
