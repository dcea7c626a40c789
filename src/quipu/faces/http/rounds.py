"""What a server does by itself now and then: sign journals, sweep what has expired, settle short-term memory. Nothing of it stops the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from quipu.errors import QuipuError
from quipu.faces.http.exchange import Exchange
from quipu.model.principal import Principal, local

_log = logging.getLogger("quipu.rounds")
#: So many tenants are told of what is new at the same time.
_AT_ONCE = 16


class Chores(Protocol):
    """What there is to do, for one tenant at a time."""

    async def tenants(self) -> list[str]: ...

    async def sign(self, principal: Principal, *, is_last: bool) -> object:
        """Sign where the journal stands, if that is due; at the end also if it is not."""
        ...

    async def sweep(self, principal: Principal) -> object: ...

    async def settle(self, principal: Principal) -> object: ...

    async def notify(self, principal: Principal) -> object: ...

    async def keep(self, principal: Principal) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Often:
    """How often, in seconds; 0: never."""

    sign_s: float = 60
    sweep_s: float = 300
    settle_s: float = 0
    notify_s: float = 0
    keep_s: float = 0


class Rounds:
    """Makes the rounds. As an observer of exchanges it knows which tenants were at work here."""

    def __init__(self, chores: Chores, often: Often) -> None:
        self._chores, self._often = chores, often
        self._active: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def began(self, exchange: Exchange) -> None:
        """Nobody is known yet."""

    def ended(self, exchange: Exchange) -> None:
        if exchange.principal is not None:
            self._active.add(exchange.principal.tenant)

    def touched(self, tenant: str) -> None:
        """Something was written for this tenant by the server itself."""
        self._active.add(tenant)

    def start(self) -> None:
        """Begin, in the running loop."""
        for seconds, chore in (
            (self._often.sign_s, self.sign),
            (self._often.sweep_s, self.sweep),
            (self._often.settle_s, self.settle),
            (self._often.notify_s, self.notify),
            (self._often.keep_s, self.keep),
        ):
            if seconds > 0:
                self._tasks.append(asyncio.create_task(_again_and_again(seconds, chore)))

    async def stop(self) -> None:
        """End, and sign a last time what was at work."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.sign(is_last=True)

    async def sign(self, *, is_last: bool = False) -> None:
        for tenant in sorted(self._active):
            await _quietly(lambda who: self._chores.sign(who, is_last=is_last), tenant, "signed")

    async def notify(self) -> None:
        """Side by side: whoever is slow to be told keeps no other tenant waiting."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def told(tenant: str) -> None:
            async with places:
                await _quietly(self._chores.notify, tenant, "told of")

        await asyncio.gather(*(told(tenant) for tenant in await self._chores.tenants()))

    async def sweep(self) -> None:
        for tenant in await self._chores.tenants():
            await _quietly(self._chores.sweep, tenant, "swept")

    async def keep(self) -> None:
        for tenant in await self._chores.tenants():
            await _quietly(self._chores.keep, tenant, "looked after")

    async def settle(self) -> None:
        for tenant in await self._chores.tenants():
            await _quietly(self._chores.settle, tenant, "settled")


async def _again_and_again(seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await chore()
        except Exception as error:  # noqa: BLE001  a chore that fails is tried again; the server goes on
            _log.warning("A chore failed: %s", type(error).__name__)


async def _quietly(chore: Callable[[Principal], Awaitable[object]], tenant: str, done: str) -> None:
    try:
        await chore(replace(local(tenant), name="system"))
    except QuipuError as error:
        _log.warning("A journal or its records could not be %s: %s", done, error.code)
    except Exception as error:  # noqa: BLE001  what is wrong with one tenant must not keep the others waiting
        _log.warning("A journal or its records could not be %s: %s", done, type(error).__name__)
