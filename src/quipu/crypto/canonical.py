"""RFC 8785 bytes of a JSON value.

`rfc8785` is the authority. Most of what Quipu hashes holds only plain strings, numbers of everyday size and ASCII keys,
where the standard library's C encoder gives the very same bytes much faster; a property test holds the two equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import rfc8785

_SAFE = 2**53 - 1
#: Between these Python writes a fraction without an exponent, as RFC 8785 does.
_SMALL, _LARGE = 1e-4, 1e15
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def canonical(value: object) -> bytes:
    if _is_plain(value):
        return _encode(value).encode("utf-8")
    return rfc8785.dumps(cast(Any, value))


def _is_plain(value: object) -> bool:
    """True when both encoders agree: no keys that sort differently in UTF-16, no floats that they write differently."""
    kind = type(value)
    if kind is dict:
        members = cast("dict[object, object]", value)
        if not all(type(key) is str and key.isascii() for key in members):
            return False
        parts: Iterable[object] = members.values()
    elif kind is list or kind is tuple:
        parts = cast("list[object]", value)
    else:
        return _is_plain_leaf(value, kind)
    # Leaves are looked at here: most values are leaves, and a call for each would cost the most.
    for part in parts:
        kind = type(part)
        if kind is str or part is None:
            continue
        if not (
            _is_plain(part) if kind is dict or kind is list or kind is tuple else _is_plain_leaf(part, kind)
        ):
            return False
    return True


def _is_plain_leaf(value: object, kind: type) -> bool:
    if kind is int:
        return -_SAFE <= cast("int", value) <= _SAFE
    if kind is float:  # 1.0 is written as 1 in RFC 8785; very large and very small ones have other exponents
        number = cast("float", value)
        return _SMALL <= abs(number) < _LARGE and not number.is_integer()
    return kind is str or kind is bool or value is None
