"""Text that somebody pasted: one item for each bullet, or for each paragraph where there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from quipu.formats import archives, values
from quipu.formats.archives import Source
from quipu.formats.losses import Loss
from quipu.formats.values import Found, Item, refused

_BULLET = re.compile(r"\s{0,8}(?:[-*+•·]|\d{1,4}[.)])\s+(.+)")
_DATED = re.compile(r"\[?(\d{4}-\d{2}-\d{2})\]?\s*[:–-]?\s*(.+)", re.DOTALL)
_PREFERS = re.compile(r"\b(?:prefers?|likes?|dislikes?|loves?|hates?|favou?rite|wants?)\b", re.IGNORECASE)
_FENCE = "```"


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Bullets; a line that goes on below one belongs to it. Headings say nothing by themselves."""
    held: tuple[int, list[str]] | None = None
    for number, raw in archives.lines(source.open(source.names[0])):
        if not isinstance(raw, bytes):
            yield number, raw
            continue
        try:
            line = raw.decode("utf-8").removeprefix("\ufeff").rstrip()
        except UnicodeDecodeError:
            yield number, refused("bad_encoding", "The text is not UTF-8.")
            continue
        if line.lstrip().startswith(_FENCE):
            continue
        if line.lstrip().startswith("#"):
            loss.dropped("heading")
            continue
        bullet = _BULLET.fullmatch(line)
        goes_on = bullet is None and line[:1] in (" ", "\t")
        if held is not None and goes_on:
            held[1].append(line.strip())
            continue
        if held is not None:
            yield held[0], item_of("\n".join(held[1]))
        held = number, [line.strip() if bullet is None else bullet.group(1)]
    if held is not None:
        yield held[0], item_of("\n".join(held[1]))


def item_of(text: str) -> Item:
    """One bullet as an Item; its date is kept if it has one."""
    dated = _DATED.fullmatch(text)
    at = None if dated is None else dated.group(1)
    if dated is not None and values.millis(at) is not None:
        text = dated.group(2)
    return {
        "item_id": None,
        "kind": "preference" if _PREFERS.search(text) else "fact",
        "content": {"text": text},
        "provenance": {"captured_at": at, "confidence": 1.0},
        "labels": [],
        "extensions": {"quipu": {"source": "pasted"}},
    }
