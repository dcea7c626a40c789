"""RFC 8785 bytes of a JSON value.

`rfc8785` is the authority. Most of what Quipu hashes holds only plain strings, integers and ASCII keys, where
the standard library's C encoder gives the very same bytes four times faster; a property test holds the two equal.
"""

from __future__ import annotations

import json
from typing import Any, cast

import rfc8785

_SAFE = 2**53 - 1
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def canonical(value: object) -> bytes:
    if _is_plain(value):
        return _encode(value).encode("utf-8")
    return rfc8785.dumps(cast(Any, value))


def _is_plain(value: object) -> bool:
    """True when both encoders agree: no floats (their notations differ), no keys that sort differently in UTF-16."""
    if value is None or value is True or value is False or type(value) is str:
        return True
    if type(value) is int:
        return -_SAFE <= value <= _SAFE
    if type(value) is dict:
        items = cast("dict[object, object]", value).items()
        return all(type(key) is str and key.isascii() and _is_plain(item) for key, item in items)
    if type(value) is list or type(value) is tuple:
        return all(map(_is_plain, cast("list[object]", value)))
    return False
