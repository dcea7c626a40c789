"""Where ids, the clock and randomness come from; handed in everywhere else."""

import time

from ulid import ULID


def new_id(prefix: str) -> str:
    """A new id in order of time, such as `mem_01J…`."""
    return f"{prefix}_{ULID()}"


def now() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000
