"""JSON values from files that strangers wrote: parsed strictly, and told apart by shape."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

from quipu.errors import InvalidError, QuipuError
from quipu.rules.grants_times import rfc3339

#: A memory Item as RFC 0010 has it, in JSON values.
Item: TypeAlias = dict[str, Any]
#: The place in the file, and what stands there; or why it is no item.
Found: TypeAlias = tuple[int, "Item | QuipuError"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#: No year outside of these is a time that somebody meant.
_LATEST = 253_402_300_799_999
DEEPEST = 64
_DIGITS = re.compile(r"-?[0-9]{16,19}")
_SAFE, _INT64 = 2**53 - 1, 2**63


def refused(reason: str, message: str) -> InvalidError:
    """Why an item, or the whole file, does not come in."""
    return InvalidError(message, reason=reason)


def parsed(raw: bytes) -> Any:
    """A JSON text from a file; UTF-8, no bare constants, not too deep."""
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise refused("bad_encoding", "The text is not UTF-8.") from None
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_int=number, parse_float=_finite)
    except (ValueError, OverflowError, RecursionError):
        raise refused("bad_json", "The text is not JSON.") from None
    if _is_too_deep(value):
        raise refused("too_deep", "The JSON is nested too deeply.")
    return value


def _no_constant(_name: str) -> None:
    raise ValueError


def number(text: str) -> int | float:
    """Canonical JSON writes large doubles without an exponent; whole numbers beyond 2^53 are such (RFC 8785)."""
    if len(text) < 16:
        return int(text)
    if len(text) > 400:
        raise ValueError
    whole = int(text)
    return whole if abs(whole) <= _SAFE else float(whole)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _is_too_deep(value: Any) -> bool:
    layer: list[Any] = [value]
    for _ in range(DEEPEST):
        layer = [inner for outer in layer for inner in _inside(outer)]
        if not layer:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def an_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def a_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def a_text(value: Any) -> str | None:
    """The value if it is text with something in it."""
    return value if isinstance(value, str) and value.strip() else None


def texts(value: Any) -> list[str]:
    """The texts of a list."""
    return [one for one in a_list(value) if isinstance(one, str) and one.strip()]


def millis(value: Any) -> int | None:
    """A time as milliseconds: RFC 3339 text, seconds or milliseconds since the epoch. None where it is no time."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        at = value if abs(value) >= 100_000_000_000 else value * 1000
        return int(at) if 0 < at <= _LATEST else None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def moment(at: int | str) -> str:
    """Milliseconds as RFC 3339, in UTC and to the millisecond. Those beyond 2^53 are text in an item."""
    return rfc3339(int(at), fraction=True)


def exact(value: Any) -> int | None:
    """Milliseconds as an item of our own has them: a whole number, or its text where it is beyond 2^53."""
    at = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    return at if isinstance(at, int) and not isinstance(at, bool) and abs(at) < _INT64 else None


def share(value: Any) -> float | None:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def derived(prefix: str, *parts: str) -> str:
    """An id that follows from what it names: the same file brought in again gives the same ids."""
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:17])
    letters = [_CROCKFORD[(number >> (5 * place)) & 31] for place in range(26)]
    return f"{prefix}_{''.join(letters)}"


def b64(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unb64(text: str) -> bytes:
    """Its bytes; ValueError where it is none."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def did_key(public_key: str) -> str:
    """The DID that an Ed25519 public key is by itself."""
    number, letters = int.from_bytes(b"\xed\x01" + unb64(public_key)), ""
    while number:
        number, place = divmod(number, 58)
        letters = _BASE58[place] + letters
    return f"did:key:z{letters}"
