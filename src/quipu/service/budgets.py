"""Rates and recall budgets, kept in memory: each server process has its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TypeVar

from quipu.errors import QuotaExceededError, RateLimitedError
from quipu.model.principal import Principal
from quipu.ports.surroundings import Clock
from quipu.rules import rates
from quipu.rules.rates import Bucket

K = TypeVar("K")
V = TypeVar("V")

#: What the request at hand has spent since it was let in: a list by relevance recalls first, and is paid for once.
_own: ContextVar[int] = ContextVar("quipu-spent-here", default=0)
#: Whoever was not seen for longest is forgotten beyond so many.
_MOST = 100_000


class Budgets:
    """Counts what each credential does, and what is read of each agent with it."""

    def __init__(self, clock: Clock, *, rate: int | None, recall_budget: int | None) -> None:
        """Without a limit nothing is counted; a credential may have its own."""
        self._clock, self._rate, self._recall_budget = clock, rate, recall_budget
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._spent: dict[tuple[str, str, str], Mapping[int, int]] = {}

    def charge_request(self, principal: Principal) -> None:
        """One request of this credential."""
        rate = self._rate if principal.rate is None else principal.rate
        if principal.is_local or not rate:
            return
        key = (principal.tenant, principal.name)
        bucket, wait = rates.taken(self._buckets.pop(key, None), rate, self._clock())
        self._buckets[key] = bucket
        _bounded(self._buckets)
        if wait is not None:
            raise RateLimitedError(
                "This credential sends requests too fast.",
                reason="request_rate",
                hint=f"At most {rate} a minute; wait {wait} s.",
                retry_after=wait,
            )

    def check_recall(self, principal: Principal, agent_id: str | None) -> None:
        """Is there any budget left?"""
        self._check(principal, agent_id, 0)
        _own.set(0)

    def _check(self, principal: Principal, agent_id: str | None, own: int) -> None:
        """Whether anything is left; `own` is what the same request has spent of it so far."""
        budget = self._budget(principal)
        now = self._clock()
        for key in _keys(principal, agent_id) if budget else ():
            spent = self._spent.get(key, {})
            if rates.spent_within_an_hour(spent, now) - own >= (budget or 0):
                wait = rates.seconds_until_free(spent, now)
                raise QuotaExceededError(
                    "The recall budget of this hour is spent.",
                    reason="recall_budget",
                    hint=f"At most {budget} memories an hour; some come free in {wait} s.",
                    retry_after=wait,
                )

    def charge_recall(self, principal: Principal, agent_id: str | None, count: int) -> None:
        """So many memories are handed out in all; none where others who asked at the same time have spent the rest."""
        own = _own.get()
        count -= own  # what was handed on from one step to the next is the same memories
        if count <= 0 or not self._budget(principal):
            return
        self._check(principal, agent_id, own)
        _own.set(own + count)
        now = self._clock()
        for key in _keys(principal, agent_id):
            self._spent[key] = rates.spending(self._spent.pop(key, {}), count, now)
        _bounded(self._spent)

    def _budget(self, principal: Principal) -> int | None:
        if principal.is_local:
            return None
        return self._recall_budget if principal.recall_budget is None else principal.recall_budget


def _keys(principal: Principal, agent_id: str | None) -> list[tuple[str, str, str]]:
    """Counted per credential, and per agent whoever asks."""
    mine = [(principal.tenant, "credential", principal.name)]
    return mine if agent_id is None else [*mine, (principal.tenant, "agent", agent_id)]


def _bounded(counts: dict[K, V]) -> None:
    while len(counts) > _MOST:
        del counts[next(iter(counts))]
