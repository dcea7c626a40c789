"""Content on its way out: the hook first, then JSON text that stays JSON when it is cut."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

from quipu.model.value import Json
from quipu.telemetry.settings import RedactContent

_log = logging.getLogger("quipu.telemetry")
_warned: list[bool] = []


def redacted(
    records: Sequence[Mapping[str, Json]], operation: str, hook: RedactContent | None
) -> Sequence[Mapping[str, Json]]:
    """What the hook lets through; nothing where it fails."""
    if hook is None or not records:
        return records
    try:
        return hook(records, operation)
    except Exception as error:  # noqa: BLE001  somebody else's code; what it did not pass is not shown
        if not _warned:
            _warned.append(True)
            _log.warning("The redaction hook failed (%s); content is left off.", type(error).__name__)
        return []


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
    kept = [dict(record) for record in records]
    text = _json(kept)
    is_cut = len(text) > limit
    while len(text) > limit and len(kept) > 1:
        kept.pop()
        text = _json(kept)
    if len(text) > limit and kept:
        content = kept[0].get("content")
        whole = content if isinstance(content, str) else _json(content)
        low, high = 0, len(whole)
        while low < high:  # escapes make the length of the text a matter of trying
            middle = (low + high + 1) // 2
            if len(_json([{**kept[0], "content": whole[:middle]}])) <= limit:
                low = middle
            else:
                high = middle - 1
        text = _json([{**kept[0], "content": whole[:low]}])
        if len(text) > limit:
            text = "[]" if limit >= 2 else ""
    return text, is_cut


def _longest(whole: str, limit: int) -> str:
    low, high = 0, len(whole)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_json(whole[:middle])) <= limit:
            low = middle
        else:
            high = middle - 1
    return _json(whole[:low])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
