"""Patience with addresses that send bad credentials: a few tries are free, then each costs twice the wait."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from quipu.errors import RateLimitedError

#: So many addresses are remembered; beyond it the one seen longest ago is forgotten.
MOST = 4096


@dataclass(slots=True)
class _Record:
    failures: float
    at: float
    until: float = 0.0


class Backoff:
    """Counts failures by address. A failure weighs half after `half_life_s`; memory is bounded."""

    def __init__(
        self, clock: Callable[[], float], *, free: int = 10, longest_s: float = 300, half_life_s: float = 60
    ) -> None:
        self._clock, self._free, self._longest_s, self._half_life_s = clock, free, longest_s, half_life_s
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def check(self, address: str) -> None:
        """Refuse an address that has to wait."""
        record = self._records.get(_network(address))
        if record is not None and (left := record.until - self._clock()) > 0:
            raise RateLimitedError(
                "Too many bad credentials from this address.",
                reason="bad_credentials",
                retry_after=math.ceil(left),
            )

    def failed(self, address: str) -> None:
        """A bad credential came from there."""
        now, network = self._clock(), _network(address)
        record = self._records.pop(network, None) or _Record(0.0, now)
        record.failures = record.failures * 0.5 ** ((now - record.at) / self._half_life_s) + 1
        record.at = now
        over = record.failures - self._free
        if over > 0:
            record.until = now + min(2.0 ** min(over, 32), self._longest_s)
        self._records[network] = record
        while len(self._records) > MOST:
            self._records.popitem(last=False)


class Remembered:
    """A bounded set: what was added longest ago is forgotten."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, item: object) -> bool:
        return item in self._kept

    def add(self, item: bytes) -> None:
        self._kept[item] = None
        self._kept.move_to_end(item)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def discard(self, item: bytes) -> None:
        self._kept.pop(item, None)


def _network(address: str) -> str:
    """Whoever has one address of a /64 has them all."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
