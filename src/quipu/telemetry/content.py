"""Content on its way out: the hook first, then JSON text that stays JSON when it is cut."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import cast

from quipu.model.value import Json
from quipu.telemetry.settings import RedactContent

_log = logging.getLogger("quipu.telemetry")
_warned: list[bool] = []


def redacted(
    records: Sequence[Mapping[str, Json]], operation: str, hook: RedactContent | None
) -> Sequence[Mapping[str, Json]]:
    """What the hook lets through; nothing where it fails, or gives back what is no list of records."""
    if hook is None or not records:
        return records
    try:
        return _as_records(hook(records, operation))
    except Exception as error:  # noqa: BLE001  somebody else's code; what it did not pass is not shown
        if not _warned:
            _warned.append(True)
            _log.warning("The redaction hook failed (%s); content is left off.", type(error).__name__)
        return []


def _as_records(passed: object) -> Sequence[Mapping[str, Json]]:
    """As they will be shown. A hook may give back anything, and what is no JSON would fail only where the span ends."""
    if passed is None:
        return []
    if not isinstance(passed, Sequence) or isinstance(passed, (str, bytes)):
        raise TypeError
    records: list[Mapping[str, Json]] = []
    for record in cast("Sequence[object]", passed):
        if not isinstance(record, Mapping):
            raise TypeError
        records.append(dict(cast("Mapping[str, Json]", record)))
    _json(records)
    return records


def text_of(content: Json, limit: int) -> tuple[str, bool]:
    """A string as it is, anything else as JSON text; and whether it had to be shortened.

    JSON that is too long is shortened to a JSON string of its beginning, so that it can still be parsed.
    """
    if isinstance(content, str):
        return content[:limit], len(content) > limit
    whole = _json(content)
    if len(whole) <= limit:
        return whole, False
    return _longest(whole, limit), True


def records_text(records: Sequence[Mapping[str, Json]], limit: int) -> tuple[str, bool]:
    """A JSON array: whole records go from the end first, then the last content is shortened."""
    kept: list[str] = []
    length = len("[]")
    # No more of them is made than is shown: a search may have found a thousand long ones.
    for record in records:
        text = _json(dict(record))
        length += len(text) + (1 if kept else 0)
        if kept and length > limit:
            return f"[{','.join(kept)}]", True
        kept.append(text)
        if length > limit:
            return _shortened(record, limit), True
    return f"[{','.join(kept)}]", False


def _shortened(record: Mapping[str, Json], limit: int) -> str:
    """One record with as much of its content as there is room for."""
    content = record.get("content")
    whole = content if isinstance(content, str) else _json(content)
    low, high = 0, min(len(whole), limit)
    while low < high:  # escapes make the length of the text a matter of trying
        middle = (low + high + 1) // 2
        if len(_json([{**record, "content": whole[:middle]}])) <= limit:
            low = middle
        else:
            high = middle - 1
    text = _json([{**record, "content": whole[:low]}])
    if len(text) > limit:
        return "[]" if limit >= 2 else ""
    return text


def _longest(whole: str, limit: int) -> str:
    low, high = 0, min(len(whole), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_json(whole[:middle])) <= limit:
            low = middle
        else:
            high = middle - 1
    return _json(whole[:low])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
