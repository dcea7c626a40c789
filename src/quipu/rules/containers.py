"""Names for containers in places that do not allow every name.

A label that is legal stays as it is, so what was there before Quipu is still found. Anything else, and what looks like
an escaped label, is written as `x_` and its characters, `_hh` for each byte that is no letter or digit. Labels that
are too long become `h_` and a hash. No user is `_`. Two different containers never get one name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

#: Stands between labels where a container has one name.
SEPARATOR: Final = "--"
NOBODY: Final = "_"
#: What nearly every vendor allows in a name.
PLAIN: Final = r"[A-Za-z0-9_-]+"
_TAKEN: Final = ("x_", "h_")


def label(text: str | None, legal: str = PLAIN, longest: int = 128) -> str:
    """One part of a container as a name the vendor allows; `legal` is what a whole name must match."""
    if text is None:
        return NOBODY
    is_plain = re.fullmatch(legal, text) is not None and text != NOBODY
    named = text if is_plain and not text.startswith(_TAKEN) else _escaped(text)
    return named if len(named) <= longest else _hashed(text)


def joined(parts: Sequence[str | None], legal: str = PLAIN, longest: int = 63) -> str:
    """Several parts as one name; hashed as a whole where it would be too long."""
    labels = [_apart(part, legal) for part in parts]
    name = SEPARATOR.join(labels)
    return name if len(name) <= longest else _hashed(name)


def _apart(part: str | None, legal: str) -> str:
    """A label in which no separator can be seen, nor made out together with the one beside it."""
    if part is not None and (SEPARATOR in part or part.startswith("-") or part.endswith("-")):
        return _escaped(part)
    return label(part, legal, longest=10_000)


def _escaped(text: str) -> str:
    coded = (
        chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"_{byte:02x}"
        for byte in text.encode("utf-8", "surrogatepass")
    )
    return "x_" + "".join(coded)


def _hashed(text: str) -> str:
    return "h_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]
