"""JSON from files that strangers wrote: read strictly and in bounds, and told apart by shape.

1. A line, or another small text, is read at once: `parsed`. A document of any size is read a part at a time: `parts`.
2. What is wrong with one part or line refuses that one; what leaves no way to find the next one refuses the file.
3. Nothing is deeper than `DEEPEST`, a name stands once in an object, a number is one that a double can hold.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, BinaryIO, TypeAlias, cast

from quipu.errors import InvalidError, QuipuError
from quipu.ledger.canonical import canonical
from quipu.sharing.times import rfc3339
from quipu.transfer.formats.loss import Loss

#: An item as OAP has it (`sharing.items`), in JSON values.
Item: TypeAlias = dict[str, Any]
#: The place in the file, and the item that stands there; or why there is none.
Found: TypeAlias = "tuple[int, Item | QuipuError]"

DEEPEST = 64
#: Nobody wrote this for a reader: it is not even followed to its end.
_HOPELESS = 1000
#: Bytes of one part of a document: no conversation and no memory is larger.
LONGEST_PART = 64 << 20
#: Values in one part: each takes far more memory than the bytes that write it.
MOST_VALUES = 2_000_000
_SAFE, _INT64 = 2**53, 2**63
_LATEST = 253_402_300_799_999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MARK = b"\xef\xbb\xbf"
_PIECE = 64 << 10
#: One half of a character that takes two escapes, with or without the other half.
_HALF = re.compile(
    rb"((?<!\\)(?:\\\\)*\\u)([dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|[dD][89a-fA-F][\da-fA-F]{2})"
)
#: An escape that is not complete, and the first of two halves, perhaps with a piece of the second one.
_ESCAPE_AT_END = re.compile(
    rb"(?<!\\)\\+(?:u(?:[\da-fA-F]{0,3}|[dD][89abAB][\da-fA-F]{2}(?:\\(?:u[\da-fA-F]{0,3})?)?))?\Z"
)
_WHOLE_ESCAPE, _MOST_HELD = 12, 1 << 20
#: Python makes no whole number of more than 4300 digits.
_MOST_DIGITS = 4000
_ENDLESS = re.compile(rb"[\s,:\[-][0-9]{%d}" % _MOST_DIGITS)


def refused(reason: str, message: str, hint: str | None = None) -> InvalidError:
    """Why an item, or the whole file, does not come in."""
    return InvalidError(message, reason=reason, hint=hint)


# -- at once ----------------------------------------------------------------------------------------------------------


def parsed(raw: bytes) -> Any:
    """A JSON text of a few megabytes at most."""
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise _bad_encoding() from None
    try:
        value = json.loads(
            text,
            parse_constant=_no_constant,
            parse_int=number,
            parse_float=_finite,
            object_pairs_hook=_once,
        )
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except InvalidError:
        raise
    except UnicodeEncodeError:
        raise _bad_encoding() from None
    except (ValueError, OverflowError, RecursionError):
        raise refused("bad_json", "The text is not JSON.") from None
    if _is_too_deep(value):
        raise _too_deep()
    return value


def number(text: str) -> int | float:
    """Canonical JSON writes large doubles without an exponent, and whole numbers of 64 bits as they are."""
    if len(text) < 16:
        return int(text)
    if len(text) > 400:
        raise ValueError
    whole = int(text)
    if abs(whole) < _SAFE:
        return whole
    near = float(whole)
    return near if abs(whole) >= _INT64 or canonical(near) == text.encode() else whole


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _no_constant(_name: str) -> None:
    raise ValueError


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise _twice()
    return found


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


# -- a part at a time -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A member of the outermost object, or one element of an array in it; an outermost array has no name."""

    name: str | None
    is_element: bool
    value: Any
    #: Why there is no value; those after it are not touched by that.
    error: QuipuError | None = None


def parts(stream: BinaryIO, loss: Loss | None = None, longest: int = LONGEST_PART) -> Iterator[Part]:
    """Every part of a document, in the file's order; InvalidError where the rest cannot be read."""
    pieces = _Pieces(stream, longest, loss)
    events = _events(pieces)
    first, _ = next(events)
    if first == "start_array":
        yield from _elements(None, events, pieces)
    elif first == "start_map":
        for kind, name in events:
            if kind == "end_map":
                break
            pieces.begin()
            event, value = next(events)
            if event == "start_array":
                yield from _elements(name, events, pieces)
            else:
                yield _part(name, False, event, value, events)
    else:
        raise refused("bad_json", "The file is no JSON array or object.")
    for _ in events:  # what follows the end is refused by the parser
        pass


def _elements(name: str | None, events: Iterator[tuple[str, Any]], pieces: "_Pieces") -> Iterator[Part]:
    for event, value in events:
        if event == "end_array":
            return
        yield _part(name, True, event, value, events)
        pieces.begin()


def _part(
    name: str | None, is_element: bool, event: str, value: Any, events: Iterator[tuple[str, Any]]
) -> Part:
    building = _Building()
    while not building.is_complete_with(event, value):
        event, value = next(events)
    if building.error is not None:
        return Part(name, is_element, None, building.error)
    return Part(name, is_element, building.value)


class _Building:
    """A value as the parser finds it. Once something is wrong with it, it is only followed to its end."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: QuipuError | None = None
        self._depth = self._count = 0
        #: What is open, and the name in each object that its next value belongs to; None in a list.
        self._open: list[Any] = []
        self._names: list[str | None] = []

    def is_complete_with(self, event: str, value: Any) -> bool:
        """Take what was found; whether the value ends with it."""
        if event in ("end_map", "end_array"):
            self._depth -= 1
            if self.error is None:
                self._open.pop()
                self._names.pop()
        elif event == "map_key":
            if self.error is None:
                if value in self._open[-1]:
                    self._fail(_twice())
                else:
                    self._names[-1] = value
        elif event in ("start_map", "start_array"):
            self._depth += 1
            if self._depth > _HOPELESS:
                raise _too_deep()
            if self._depth > DEEPEST:
                self._fail(_too_deep())
            made: Any = {} if event == "start_map" else []
            self._put(made)
            if self.error is None:
                self._open.append(made)
                self._names.append("" if event == "start_map" else None)
        else:
            self._put(value if event != "number" else self._number(value))
        return self._depth == 0

    def _put(self, made: Any) -> None:
        self._count += 1
        if self._count > MOST_VALUES:
            raise _too_large()
        if self.error is not None:
            return
        if not self._open:
            self.value = made
        elif self._names[-1] is None:
            self._open[-1].append(made)
        else:
            self._open[-1][self._names[-1]] = made

    def _number(self, given: "int | Decimal") -> int | float | None:
        if isinstance(given, int) and abs(given) < _SAFE:
            return given
        try:
            made = number(str(given)) if isinstance(given, int) else float(given)
        except (ValueError, OverflowError):
            made = math.inf
        if math.isfinite(made):
            return made
        self._fail(_bad_number())
        return None

    def _fail(self, error: QuipuError) -> None:
        """The first thing that is wrong; what was read is let go of."""
        if self.error is None:
            self.error = error
            self.value = None
            self._open.clear()


def _events(pieces: "_Pieces") -> Iterator[tuple[str, Any]]:
    """What the parser finds; its errors in our words, and an end that comes too early as one of them."""
    import ijson  # pyright: ignore[reportMissingTypeStubs]  the package has none of its own

    broken: tuple[type[Exception], ...] = (ijson.JSONError, ValueError)
    found = iter(ijson.basic_parse(pieces, buf_size=_PIECE))
    while True:
        try:
            event = next(found)
        except StopIteration:
            return
        except QuipuError:
            raise
        except ArithmeticError:
            raise _bad_number() from None
        except broken as error:
            if "UTF8" in str(error) or isinstance(error, UnicodeDecodeError):
                raise _bad_encoding() from None
            raise refused(
                "bad_json",
                "The file is not JSON, or it is cut short.",
                "Export it once more, or check that it came over whole.",
            ) from None
        yield event


class _Pieces:
    """The bytes of a stream as the parser takes them: what it would break over is refused or mended before.

    The parser ends the process over a whole number of thousands of digits, and makes something else of half a character.
    """

    def __init__(self, stream: BinaryIO, longest: int, loss: Loss | None) -> None:
        self._stream, self._longest, self._loss = stream, longest, loss
        self._since, self._is_first = 0, True
        #: What belongs to a number that may go on, and what may be the beginning of an escape.
        self._digits, self._held = b" ", b""

    def begin(self) -> None:
        """A part begins."""
        self._since = 0

    def read(self, size: int = -1) -> bytes:
        if size == 0:  # it is asked once whether there are bytes or text
            return b""
        while True:
            data = self._stream.read(size)
            self._since += len(data)
            if self._since > self._longest or len(self._held) > _MOST_HELD:
                raise _too_large()
            text = self._held + data
            if self._is_first and text:
                if data and len(text) < len(_MARK):
                    self._held = text
                    continue
                text = self._begun(text)
            end = _ESCAPE_AT_END.search(text) if data and b"\\" in text[-_WHOLE_ESCAPE:] else None
            text, self._held = (text, b"") if end is None else (text[: end.start()], text[end.start() :])
            if text or not data:
                return self._checked(text)

    def _begun(self, text: bytes) -> bytes:
        self._is_first = False
        if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise _bad_encoding()
        return text.removeprefix(_MARK)

    def _checked(self, text: bytes) -> bytes:
        digits = self._digits + text
        if _ENDLESS.search(digits):
            raise _bad_number()
        self._digits = digits[-_MOST_DIGITS - 1 :] if digits[-1:].isdigit() else digits[-1:]
        return _HALF.sub(self._mended, text) if b"\\ud" in text or b"\\uD" in text else text

    def _mended(self, found: re.Match[bytes]) -> bytes:
        if len(found[2]) > 4:  # both halves
            return found[0]
        if self._loss is not None:
            self._loss.mapped("half a character", "\ufffd")
        return found[1] + b"fffd"


# -- by shape ---------------------------------------------------------------------------------------------------------


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
    """A time as others write it: RFC 3339, seconds or milliseconds since 1970. None where it is no time."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        at = value if abs(value) >= 100_000_000_000 else value * 1000
        return int(at) if 0 < at <= _LATEST else None
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def when(*values: Any) -> str | None:
    """The first of these that is a time, as items have it."""
    found = next((at for at in map(millis, values) if at is not None), None)
    return None if found is None else rfc3339(found)


def validity(since: Any, until: Any, loss: Loss) -> dict[str, int]:
    """From when and until when something is true; where it would end before it begins, only its end."""
    first, last = millis(since), millis(until)
    if first is not None and last is not None and last < first:
        loss.dropped("valid_at after invalid_at")
        first = None
    found = {"valid_from": first, "valid_until": last}
    return {name: at for name, at in found.items() if at is not None}


def elements(stream: BinaryIO, arrays: Sequence[str | None], loss: Loss) -> Iterator[tuple[int, Part]]:
    """The elements of these arrays of a document, counted; those of others are left out."""
    number = 0
    for part in parts(stream, loss):
        if part.is_element and part.name in arrays:
            number += 1
            yield number, part
        elif part.is_element:
            loss.dropped(str(part.name))


def item(
    kind: str,
    text: Any,
    *,
    item_id: Any = None,
    captured_at: str | None = None,
    confidence: float = 1.0,
    labels: Sequence[str] = (),
    structured: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
) -> Item:
    """An item out of what somebody else's file says. `own`: what records have and OAP does not."""
    content: dict[str, Any] = {"text": text}
    if left := {name: value for name, value in (structured or {}).items() if value is not None}:
        content["structured"] = left
    return {
        "item_id": item_id if a_text(item_id) else None,
        "kind": kind,
        "content": content,
        "provenance": {"captured_at": captured_at, "confidence": confidence},
        "labels": list(dict.fromkeys(labels)),
        "extensions": {"quipu": dict(own or {})},
    }


def _bad_encoding() -> InvalidError:
    return refused("bad_encoding", "The text is not UTF-8.", "Save it as UTF-8.")


def _bad_number() -> InvalidError:
    return refused("bad_number", "A number is too large.")


def _too_deep() -> InvalidError:
    return refused("too_deep", f"The JSON is nested more than {DEEPEST} deep.")


def _too_large() -> InvalidError:
    return refused("too_large", "A part of the file is too large.")


def _twice() -> InvalidError:
    return refused("duplicate_key", "A name stands twice in one JSON object.")
