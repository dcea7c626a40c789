"""Values that every ledger can keep alike: what may be wrong with a text, a name, a number, a time, free JSON.

Each function tells the faults of one value at one place, by its JSON Pointer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from quipu.errors import Fault
from quipu.model.limits import Limits
from quipu.model.value import Json, JsonObject

INT64 = 1 << 63
#: Bounded by the size of the whole request alone: v0 sets no limit, and a value no record has matches nothing.
ANY_SIZE = 1 << 40
_encode = json.JSONEncoder(ensure_ascii=False).encode
#: The longest text inside free JSON that is looked at no closer, and what a member of two such takes at most: a
#: control character is written as six, and there are quotes and marks around both.
_GLANCE = 256
_GLANCED_BYTES = 2 * 6 * _GLANCE + 16
#: A fault, and what to say about it when it is the first.
Faults: TypeAlias = Iterator[tuple[Fault, str]]


def fault(pointer: str, reason: str, message: str, accepted: Sequence[str] = ()) -> tuple[Fault, str]:
    return Fault(pointer, reason, tuple(accepted)), message


def is_plain(text: object, most: int) -> bool:
    """Whether a text is right at a glance, as most are. Where it is not, its faults are asked for: there may be none."""
    return isinstance(text, str) and 0 < len(text) <= most and text.isascii() and "\x00" not in text


def is_plain_object(value: JsonObject, limits: Limits) -> bool:
    """The same for free JSON: a few plain texts and whole numbers under plain names."""
    if not isinstance(value, dict) or limits.metadata_depth < 1:
        return False
    size = 2
    for key, item in value.items():
        if not is_plain(key, _GLANCE) or not (
            is_plain(item, _GLANCE)
            if isinstance(item, str)
            else item is None or (isinstance(item, int) and -INT64 <= item < INT64)
        ):
            return False
        size += _GLANCED_BYTES
    return size <= limits.metadata_bytes


def text_faults(pointer: str, text: object, most_bytes: int, least: int = 0) -> Faults:
    """A text that every ledger can keep alike."""
    if not isinstance(text, str):
        yield fault(pointer, "bad_value", f"{pointer[1:]} is not text.", ["text"])
    elif len(text) < least:
        yield fault(pointer, "bad_value", f"{pointer[1:]} is empty.", ["at least 1 character"])
    elif "\x00" in text:
        yield fault(pointer, "bad_value", f"{pointer[1:]} holds the character U+0000.")
    else:
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            yield fault(
                pointer, "bad_value", f"{pointer[1:]} holds an unpaired surrogate; send valid Unicode."
            )
        else:
            if size > most_bytes:
                yield fault(
                    pointer,
                    "too_large",
                    f"{pointer[1:]} has {size:,} bytes.",
                    [f"at most {most_bytes:,} bytes"],
                )


def maybe_text_faults(pointer: str, text: object) -> Faults:
    if text is not None:
        yield from text_faults(pointer, text, ANY_SIZE)


def reference_faults(pointer: str, text: object) -> Faults:
    """What names something else: any text will do, and one that nothing can be called names nothing."""
    if not isinstance(text, str):
        yield fault(pointer, "bad_value", f"{pointer[1:]} is not text.", ["text"])


def name_faults(
    pointer: str, name: object, limits: Limits, *, least: int = 0, most: int | None = None
) -> Faults:
    if name is None and not least:
        return
    longest = most or limits.name_length
    if isinstance(name, str) and len(name) > longest:
        yield fault(
            pointer,
            "too_large",
            f"{pointer[1:]} has {len(name)} characters.",
            [f"at most {longest} characters"],
        )
    else:
        yield from text_faults(pointer, name, 4 * longest, least)


def truth_faults(pointer: str, value: object) -> Faults:
    """Yes or no, and nothing that only looks like it: the text "no" would count as a yes."""
    if value is not True and value is not False:
        yield fault(pointer, "bad_value", f"{pointer[1:]} is neither true nor false.", ["true", "false"])


def unit_faults(pointer: str, number: object) -> Faults:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        yield fault(pointer, "bad_value", f"{pointer[1:]} is not a number from 0 to 1.", ["0 … 1"])


def whole_faults(pointer: str, number: object, least: int, most: int) -> Faults:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        reach = f"of at least {least}" if most == INT64 - 1 else f"from {least} to {most}"
        yield fault(
            pointer, "bad_value", f"{pointer[1:]} is not a whole number {reach}.", [f"{least} … {most}"]
        )


def maybe_whole_faults(pointer: str, number: object, least: int, most: int) -> Faults:
    if number is not None:
        yield from whole_faults(pointer, number, least, most)


def time_faults(pointer: str, moment: Json) -> Faults:
    if moment is not None and (
        isinstance(moment, bool) or not isinstance(moment, int) or not -INT64 <= moment < INT64
    ):
        yield fault(pointer, "bad_value", f"{pointer[1:]} is not a time.", ["milliseconds since 1970, UTC"])


def count_faults(pointer: str, items: Sequence[object], most: int) -> Faults:
    if len(items) > most:
        yield fault(pointer, "too_large", f"{pointer[1:]} has {len(items):,} items.", [f"at most {most:,}"])


def list_faults(pointer: str, names: Sequence[object], most: int) -> Faults:
    """Not too many, and each of them a text."""
    yield from count_faults(pointer, names, most)
    for index, name in enumerate(names[:most]):
        yield from text_faults(f"{pointer}/{index}", name, ANY_SIZE)


def json_faults(pointer: str, value: object, limits: Limits) -> Faults:
    """Free JSON that comes back as it went in."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield fault(pointer, "bad_value", f"{pointer[1:]} is not an object.", ["object"])
        return
    first = next(value_faults(pointer, cast("object", value), limits.metadata_depth), None)
    if first is not None:
        yield first
    elif (size := len(_encode(value).encode("utf-8"))) > limits.metadata_bytes:
        yield fault(
            pointer,
            "too_large",
            f"{pointer[1:]} has {size:,} bytes.",
            [f"at most {limits.metadata_bytes:,} bytes"],
        )


def value_faults(pointer: str, value: object, depth: int) -> Faults:
    if depth < 0:
        yield fault(pointer, "too_large", "The object is nested too deeply.")
    elif isinstance(value, str):
        yield from text_faults(pointer, value, ANY_SIZE)
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int):
        if not -INT64 <= value < INT64:
            yield fault(pointer, "bad_value", "An integer is beyond 64 bits.")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield fault(pointer, "bad_value", "A number is not finite.")
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            if isinstance(key, str):
                place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
                yield from text_faults(pointer, key, ANY_SIZE)
                yield from value_faults(place, item, depth - 1)
            else:
                yield fault(pointer, "bad_value", "A key is not text.")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("Sequence[object]", value)):
            yield from value_faults(f"{pointer}/{index}", item, depth - 1)
    else:
        yield fault(pointer, "bad_value", "A value is not JSON.", ["null, truth, number, text, list, object"])
