"""Numbers about a whole tenant, counted now and then: counting everything for every page would be slow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from quipu.ports.surroundings import Clock

#: A count may be so old.
KEPT_MS = 30_000


class Lately:
    """The last count of each tenant. Only those who may see all of a tenant ask for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, tuple[int, Mapping[str, int]]] = {}

    async def counts(
        self, tenant: str, count: Callable[[], Awaitable[Mapping[str, int]]]
    ) -> Mapping[str, int]:
        """Counted within the last half minute, or just now."""
        kept = self._counts.get(tenant)
        now = self._clock()
        if kept is None or abs(now - kept[0]) >= KEPT_MS:  # a clock that was set back makes nothing fresh
            kept = (now, await count())
            self._counts[tenant] = kept
        return kept[1]
