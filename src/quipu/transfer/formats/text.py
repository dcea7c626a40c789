"""Text that somebody pasted: one item for each bullet, or for each line where there is none."""

import re
from collections.abc import Iterator

from quipu.transfer.formats import archive, values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.values import Found, Item, refused

_BULLET = re.compile(r"\s{0,8}(?:[-*+•·]|\d{1,4}[.)])\s+(.+)")
_DATED = re.compile(r"\[?(\d{4}-\d{2}-\d{2})\]?\s*[:\u2013-]?\s*(.+)", re.DOTALL)
_PREFERS = re.compile(r"\b(?:prefers?|likes?|dislikes?|loves?|hates?|favou?rite|wants?)\b", re.IGNORECASE)
_FENCE = "```"
#: Lines that are kept for one item: a text that only looks like one long bullet is refused, not held.
_MOST_LINES = 10_000


def detect(look: Look) -> bool:
    """Whatever is text and nothing else."""
    return not look.is_archive and not look.is_json and b"\x00" not in look.head


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Bullets; an indented line belongs to the one above it. Headings say nothing by themselves."""
    held: tuple[int, list[str]] | None = None
    for number, raw in archive.lines(source.open()):
        line = _decoded(raw)
        if not isinstance(line, str):
            yield number, line
            continue
        if line.lstrip().startswith(_FENCE) or not line.strip():
            continue
        if line.lstrip().startswith("#"):
            loss.dropped("heading")
            continue
        bullet = _BULLET.fullmatch(line)
        if held is not None and bullet is None and line[:1] in (" ", "\t") and len(held[1]) < _MOST_LINES:
            held[1].append(line.strip())
            continue
        if held is not None:
            yield held[0], item_of("\n".join(held[1]))
        held = number, [line.strip() if bullet is None else bullet.group(1)]
    if held is not None:
        yield held[0], item_of("\n".join(held[1]))


def _decoded(raw: bytes | values.InvalidError) -> str | values.InvalidError:
    if not isinstance(raw, bytes):
        return raw
    try:
        return raw.decode("utf-8").removeprefix("\ufeff").rstrip()
    except UnicodeDecodeError:
        return refused("bad_encoding", "The text is not UTF-8.", "Save it as UTF-8.")


def item_of(text: str) -> Item:
    """One bullet as an item; its date is kept if it has one."""
    dated = _DATED.fullmatch(text)
    at = None if dated is None else values.when(dated.group(1))
    if dated is not None and at is not None:
        text = dated.group(2)
    kind = "preference" if _PREFERS.search(text) else "fact"
    return values.item(kind, text, captured_at=at, own={"source": "pasted"})
