"""Content on its way to a span: the hook first, then text, or JSON text that stays JSON when it is cut."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from quipu.telemetry.settings import RedactContent

#: So many characters stand on a span.
LONGEST = 4096


def redacted(
    records: Sequence[Mapping[str, Any]], operation: str, hook: RedactContent | None
) -> Sequence[Mapping[str, Any]]:
    """What the hook lets through. Raises whatever it raises, and TypeError for what is no list of records."""
    if hook is None or not records:
        return records
    passed = cast("object", hook(records, operation))
    if passed is None:
        return ()
    if not isinstance(passed, Sequence) or isinstance(passed, str | bytes):
        raise TypeError("the hook gave back no list of records")
    found: list[Mapping[str, Any]] = []
    for record in cast("Sequence[object]", passed):
        if not isinstance(record, Mapping):
            raise TypeError("the hook gave back something that is no record")
        found.append(dict(cast("Mapping[str, Any]", record)))
    _json(found)  # what is no JSON is found out here
    return found


def text_of(content: Any, most: int = LONGEST) -> tuple[str, bool]:
    """A string as it is, anything else as JSON text; and whether it was cut. Cut JSON is a JSON string of its beginning."""
    if isinstance(content, str):
        return content[:most], len(content) > most
    whole = _json(content)
    if len(whole) <= most:
        return whole, False
    return _json(whole[: _longest(len(whole), lambda size: len(_json(whole[:size])) <= most)]), True


def records_text(records: Sequence[Mapping[str, Any]], most: int = LONGEST) -> tuple[str, bool]:
    """A JSON array: records are left off from the end, then the content of the only one is cut."""
    kept: list[str] = []
    length = len("[]")
    for record in records:
        text = _json(record)
        length += len(text) + (1 if kept else 0)
        if length > most:
            return (f"[{','.join(kept)}]" if kept else _cut(record, most)), True
        kept.append(text)
    return f"[{','.join(kept)}]", False


def _cut(record: Mapping[str, Any], most: int) -> str:
    """One record with as much of its content as there is room for; an empty list where its other fields fill it."""
    content = record.get("content", "")
    whole = content if isinstance(content, str) else _json(content)

    def cut_to(size: int) -> str:
        return _json([{**record, "content": whole[:size]}])

    text = cut_to(_longest(len(whole), lambda size: len(cut_to(size)) <= most))
    return text if len(text) <= most else "[]"


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """The greatest number that fits: how long escapes make a text can only be tried."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
