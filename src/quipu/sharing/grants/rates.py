"""How often something may happen under each grant, counted in this process."""

from collections import OrderedDict

from quipu.access.budgets import Bucket, taken_from
from quipu.operation import Clock

PER_MINUTE = 60
_MOST = 20_000


class Rates:
    """So many times a minute for each grant; grants that were not used for longest are forgotten."""

    def __init__(self, clock: Clock, per_minute: int = PER_MINUTE) -> None:
        self._clock, self._per_minute = clock, per_minute
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    def wait(self, tenant: str, grant_id: str) -> int | None:
        """None, and it counts; or the seconds to wait."""
        key = (tenant, grant_id)
        bucket, wait = taken_from(self._buckets.pop(key, None), self._per_minute, self._clock())
        self._buckets[key] = bucket
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return wait
