"""What exports of conversations have in common."""

import re
from typing import Any

from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.values import Item

#: Large exports come in several files.
FILES = re.compile(r"conversations(-\d{1,6})?\.json")
_LONGEST_THREAD = 256


def first(source: Source) -> str | None:
    """The first file of conversations in an archive."""
    return next(iter(source.matching(FILES)), None)


def turn(
    platform: str,
    text: str,
    *,
    item_id: Any,
    at: str | None,
    thread: str | None,
    structured: dict[str, Any],
) -> Item:
    """One message as an item."""
    own: dict[str, Any] = {"source": platform}
    if thread is not None:
        own["session_id"] = thread[:_LONGEST_THREAD]
    return values.item(
        "conversation_turn", text, item_id=item_id, captured_at=at, structured=structured, own=own
    )
