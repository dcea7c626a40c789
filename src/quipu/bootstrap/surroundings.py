"""Time and chance: the only place that asks the system for them."""

from __future__ import annotations

import os
import secrets
import threading
import time


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def now_ns() -> int:
    return time.time_ns()


class Randomness:
    """The system's random bytes, asked for in blocks: on some machines one question costs more than a whole write."""

    def __init__(self, block: int = 8192) -> None:
        self._block = block
        self._lock = threading.Lock()
        self._bytes = b""
        self._used = 0
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A forked child must not hand out what its parent hands out."""
        self._bytes, self._used, self._lock = b"", 0, threading.Lock()

    def __call__(self, size: int) -> bytes:
        with self._lock:
            if self._used + size > len(self._bytes):
                self._bytes, self._used = secrets.token_bytes(max(self._block, size)), 0
            piece = self._bytes[self._used : self._used + size]
            self._used += size
            return piece


#: Crockford's base 32, two signs at a time: every write spells an id.
_SIGNS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(f"{one}{other}" for one in _SIGNS for other in _SIGNS)
_PLACES = range(120, -1, -10)


def _spelt(number: int) -> str:
    """128 bits as a ULID is written."""
    return "".join([_PAIRS[number >> place & 1023] for place in _PLACES])


class RisingIds:
    """ULIDs that rise: within one millisecond each is the one before plus one, so a batch keeps its order."""

    def __init__(self, random: Randomness) -> None:
        self._random = random
        self._lock = threading.Lock()
        self._last = 0
        os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self._lock, self._last = threading.Lock(), 0

    def __call__(self, prefix: str) -> str:
        fresh = int.from_bytes(now_ms().to_bytes(6, "big") + self._random(10), "big")
        with self._lock:
            is_later = fresh >> 80 > self._last >> 80
            self._last = fresh if is_later else self._last + 1
            return f"{prefix}_{_spelt(self._last)}"


random_bytes = Randomness()
mint_id = RisingIds(random_bytes)


def mint_salt() -> bytes:
    return random_bytes(16)


def jitter() -> float:
    """A fresh number from 0 to 1."""
    return int.from_bytes(random_bytes(4), "big") / (1 << 32)
