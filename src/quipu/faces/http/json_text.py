"""JSON text to values, refusing what no ledger can keep alike.

Refused as `bad_json`: what is not JSON in UTF-8, duplicate member names, NaN and Infinity.
Refused as `too_deep`: nesting deeper than 64.
Refused as `bad_value`: U+0000, unpaired surrogates, integers beyond 64 bits signed, numbers too large for a float.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from math import isinf
from typing import NoReturn, TypeAlias, cast

from quipu.errors import InvalidError

Path: TypeAlias = tuple[str | int, ...]

DEPTH = 64
_MARK = b"\xef\xbb\xbf"
#: So much is told of a sender's field name.
LONGEST_NAME = 128
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1

_ESCAPES = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


#: A text in JSON, also one that never ends: every quotation mark is looked at once.
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def refuse_deep(text: bytes) -> None:
    """Refuse deep nesting without parsing: pairs are taken away from the inside, a level or two at a time.

    What is twice as deep as allowed never gets to the parser; `loads` then holds the exact bound.
    """
    if text.count(b"{") + text.count(b"[") <= DEPTH:
        return
    brackets = _TEXTS.sub(b"", text).translate(None, _NO_BRACKETS)
    for _ in range(DEPTH):
        fewer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        # They do not match: the parser says where, unless it would have to go deep.
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    else:
        if brackets:
            raise _too_deep()
    if brackets.count(b"{") + brackets.count(b"[") > DEPTH:
        raise _too_deep()


def loads(text: bytes | str) -> object:
    """The value that a JSON text stands for, or an `InvalidError` that says where the text goes wrong."""
    text = _unicode(text)
    try:
        value, is_odd = _decoded(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _bad_json(f"The body is not valid JSON: {place}.") from None
    except RecursionError:
        raise _too_deep() from None
    # Most texts are seen to be good without a walk through their value.
    if is_odd or ("\\u" in text and _ESCAPES.search(text)):
        _look(value, ())
    elif text.count("{") + text.count("[") > DEPTH:
        _not_deeper(value, DEPTH)
    return value


def parameter(name: str, text: str) -> object:
    """The value of a parameter that is JSON: what is wrong with it is told of the parameter, there is no body."""
    try:
        refuse_deep(text.encode("utf-8", "surrogatepass"))
        return loads(text)
    except InvalidError as error:
        faults = [replace(fault, pointer=f"/{name}{fault.pointer}") for fault in error.faults]
        message = error.message.replace("The body", f"The {name}", 1)
        raise InvalidError(message, reason=error.reason, faults=faults) from error


def _unicode(text: bytes | str) -> str:
    try:
        if isinstance(text, bytes):
            if text.startswith(_MARK):
                raise _bad_json("The body begins with a byte order mark; JSON has none.")
            return text.decode("utf-8")
        text.encode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad_json(f"The body is not UTF-8: byte {error.start}.") from None
    except UnicodeEncodeError:
        raise _bad_value("", "an unpaired surrogate in a text") from None
    return text


def _decoded(text: str) -> tuple[object, bool]:
    """The value, and whether there are numbers in it that cannot be kept."""
    try:
        return _DECODER.decode(text), False
    except _OddNumber:
        return _LENIENT.decode(text), True


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _bad_json("A member name appears twice in one object.")
    return members


def _constant(_name: str) -> NoReturn:
    raise _bad_json("NaN and Infinity are not JSON.")


class _OddNumber(Exception):
    """Not to be kept."""


def _integer(text: str) -> int:
    value = _any_integer(text)
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise _OddNumber
    return value


def _any_integer(text: str) -> int:
    """Too long is too large, whatever it is: the interpreter refuses to read thousands of digits."""
    return int(text) if len(text) <= len(str(INTEGER_MIN)) else INTEGER_MAX + 1


def _number(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise _OddNumber
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_constant=_constant, parse_int=_integer, parse_float=_number
)
#: Reads every number, so that it can be told where the odd one is.
_LENIENT = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_constant, parse_int=_any_integer)


def pointer(path: Iterable[str | int]) -> str:
    """JSON Pointer (RFC 6901) to a place in the sender's body; very long names are cut."""
    return "".join(f"/{_escaped(step)}" for step in path)


def _escaped(step: str | int) -> str:
    text = str(step)
    text = text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"
    return text.replace("~", "~0").replace("/", "~1")


def _look(value: object, path: Path) -> None:
    """Refuse what is not acceptable anywhere inside a value."""
    if len(path) >= DEPTH and isinstance(value, dict | list):
        raise _too_deep()
    if isinstance(value, str):
        _look_at_text(value, path)
    elif isinstance(value, int):
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise _bad_value(pointer(path), "an integer beyond 64 bits")
    elif isinstance(value, float):
        if isinf(value):
            raise _bad_value(pointer(path), "a number too large")
    elif isinstance(value, dict):
        for name, member in cast("dict[str, object]", value).items():
            _look_at_text(name, path)
            _look(member, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            _look(item, (*path, index))


def _look_at_text(text: str, path: Path) -> None:
    if "\0" in text:
        raise _bad_value(pointer(path), "U+0000 in a text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _bad_value(pointer(path), "an unpaired surrogate in a text") from None


def _not_deeper(value: object, levels: int) -> None:
    if not isinstance(value, dict | list):
        return
    if not levels:
        raise _too_deep()
    inner = (
        cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
    )
    for item in inner:
        _not_deeper(item, levels - 1)


def _bad_json(message: str) -> InvalidError:
    return InvalidError.at("", "bad_json", message)


def _too_deep() -> InvalidError:
    return InvalidError.at("", "too_deep", f"The body is nested deeper than {DEPTH}.")


def _bad_value(at: str, what: str) -> InvalidError:
    return InvalidError.at(at, "bad_value", f"The body holds what cannot be kept: {what}.")
