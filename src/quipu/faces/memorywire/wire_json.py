"""JSON text to values, refusing what no ledger can keep alike.

Refused as `bad_json`: what is not JSON in UTF-8, duplicate member names, NaN and Infinity.
Refused as `bad_value`: U+0000, unpaired surrogates, integers beyond 64 bits signed, numbers too large for a float,
nesting deeper than 64.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn, cast

from quipu.errors import InvalidError
from quipu.faces.memorywire.wire_faults import pointer

DEPTH = 64
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1

#: Text without any of these, and with few brackets, needs no closer look.
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])|[0-9]{19}|[eE]\+?[0-9]{3}|[\ud800-\udfff]")


def loads(text: bytes | str) -> object:
    """The value that a JSON text stands for, or an `InvalidError` that says where the text goes wrong."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad_json(f"The body is not UTF-8: byte {error.start}.") from None
    try:
        value: object = json.loads(text, object_pairs_hook=_members, parse_constant=_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _bad_json(f"The body is not valid JSON: {place}.") from None
    except RecursionError:
        raise _bad_value("", f"nested deeper than {DEPTH}") from None
    except InvalidError:
        raise
    except ValueError:  # the interpreter's limit on the digits of an integer
        raise _bad_value("", "an integer beyond 64 bits") from None
    if _SUSPECT.search(text) or text.count("{") + text.count("[") > DEPTH:
        _look(value, ())
    return value


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _bad_json("A member name appears twice in one object.")
    return members


def _constant(_name: str) -> NoReturn:
    raise _bad_json("NaN and Infinity are not JSON.")


def _look(value: object, path: tuple[str | int, ...]) -> None:
    """Refuse what is not acceptable anywhere inside a value."""
    if isinstance(value, str):
        _look_at_text(value, path)
    elif isinstance(value, bool):
        return
    elif isinstance(value, int):
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise _bad_value(pointer(path), "an integer beyond 64 bits")
    elif isinstance(value, float):
        if value in (float("inf"), float("-inf")):
            raise _bad_value(pointer(path), "a number too large")
    elif isinstance(value, dict):
        _not_deeper(path)
        for name, member in cast("dict[str, object]", value).items():
            _look_at_text(name, path)
            _look(member, (*path, name))
    elif isinstance(value, list):
        _not_deeper(path)
        for index, item in enumerate(cast("list[object]", value)):
            _look(item, (*path, index))


def _look_at_text(text: str, path: tuple[str | int, ...]) -> None:
    if "\0" in text:
        raise _bad_value(pointer(path), "U+0000 in a text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _bad_value(pointer(path), "an unpaired surrogate in a text") from None


def _not_deeper(path: tuple[str | int, ...]) -> None:
    if len(path) >= DEPTH:
        raise _bad_value("", f"nested deeper than {DEPTH}")


def _bad_json(message: str) -> InvalidError:
    return InvalidError.at("", "bad_json", message)


def _bad_value(at: str, what: str) -> InvalidError:
    return InvalidError.at(at, "bad_value", f"The body holds what cannot be kept: {what}.")
