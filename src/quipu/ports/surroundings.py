"""Clock and ids, handed in so that tests decide them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

#: Milliseconds since the Unix epoch, UTC.
Clock: TypeAlias = Callable[[], int]
#: A fresh id with the given prefix: `mem` gives `mem_01J…`.
MintId: TypeAlias = Callable[[str], str]
#: Fresh random bytes.
MintSalt: TypeAlias = Callable[[], bytes]
#: RFC 8785 bytes of a JSON value.
Canonical: TypeAlias = Callable[[object], bytes]
