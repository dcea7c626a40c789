"""Requests from outside that happen once: a key is taken before anything is done, and its answer kept for a day (D23)."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

from quipu.errors import ConflictError, InvalidError, QuipuError
from quipu.model.change import KEY_LIFE_MS, Once
from quipu.model.disclosure import Question, Standing, Writes
from quipu.model.value import Json, JsonObject
from quipu.ports.parts import Parts
from quipu.rules.chain import exact

#: A request that broke off without an answer gives its key back after this long.
_BUSY_MS = 600_000


class Keys:
    """What was answered under which key, by owner and caller."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def once(
        self,
        tenant: str,
        who: str,
        action: str,
        key: str,
        body: Json,
        do: Callable[[], Awaitable[JsonObject]],
    ) -> tuple[JsonObject, bool]:
        """The answer, and whether it was given before. What is refused is not kept: it may be tried again."""
        if not 0 < len(key) <= self._parts.limits.key_length or not key.isprintable():
            raise InvalidError.at("/OAP-Idempotency-Key", "bad_value", "The key cannot be used.")
        taken = Once(
            principal=f"oap:{who}",
            operation=action,
            key=hashlib.sha256(key.encode("utf-8", "replace")).hexdigest(),
            fingerprint=hashlib.sha256(self._parts.canonical(exact(body))).hexdigest(),
            answer={},
        )
        known = await self._taken(tenant, taken)
        if known is not None:
            if not known:
                raise ConflictError(
                    "A request under this key is being answered.", reason="idempotency_key_busy"
                )
            return known, True
        try:
            answer = await do()
        except QuipuError:
            await self._kept(tenant, taken, at=0)
            raise
        await self._kept(tenant, replace(taken, answer=answer), at=self._parts.clock())
        return answer, False

    async def _taken(self, tenant: str, once: Once) -> JsonObject | None:
        """What was answered already; nothing at all where it is being answered; None where the key is ours now."""
        now = self._parts.clock()

        def decide(standing: Standing) -> Writes:
            if standing.answered is not None:
                return Writes(answer=standing.answered)
            return Writes(kept=once, kept_at=now - KEY_LIFE_MS + _BUSY_MS)

        question = Question(key=once, now=now)
        return (await self._parts.ledger.lending.decide(tenant, question, decide)).answer

    async def _kept(self, tenant: str, once: Once, at: int) -> None:
        await self._parts.ledger.lending.decide(
            tenant, Question(now=self._parts.clock()), lambda _: Writes(kept=once, kept_at=at)
        )
