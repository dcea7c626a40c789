"""Gemini's part of Takeout: one entry of `MyActivity.json` is one exchange, in either of two shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from quipu.errors import QuipuError
from quipu.formats import json_stream, values
from quipu.formats.archives import Source
from quipu.formats.chatgpt import turn
from quipu.formats.losses import Loss
from quipu.formats.values import Found, Item

FILE = "MyActivity.json"
_THREAD = re.compile(r"/app/([A-Za-z0-9_-]{1,128})")


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """What was asked and what was answered, as turns."""
    name = source.find(FILE) or source.names[0]
    if source.is_archive:
        loss.dropped("other files of the archive", len(source.names) - 1)
    for number, part in enumerate(json_stream.parts(source.open(name)), 1):
        try:
            entry = values.an_object(values.parsed(part.raw))
        except QuipuError as error:
            yield number, error
            continue
        yield from ((number, item) for item in _turns(entry))


def _turns(entry: dict[str, Any]) -> Iterator[Item]:
    at = values.millis(entry.get("time"))
    found = _THREAD.search(str(entry.get("titleUrl", "")))
    thread = None if found is None else found.group(1)
    for role, text in _said(entry):
        # An entry has no id of its own: one that follows from what it says is the same next time.
        yield turn("gemini", None, text, at, thread, {"role": role})


def _said(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    roles = {"request": "user", "prompt": "user", "response": "assistant"}
    for detail in map(values.an_object, values.a_list(entry.get("details"))):
        role = roles.get(str(detail.get("name", "")).lower())
        if role is not None and (text := values.a_text(detail.get("value"))) is not None:
            yield role, text
    for one in map(values.an_object, values.a_list(entry.get("userInteractions"))):
        exchange = values.an_object(one.get("userInteraction"))
        for name, role in (("request", "user"), ("response", "assistant")):
            if (text := _inner(exchange.get(name))) is not None:
                yield role, text


def _inner(value: Any) -> str | None:
    """A JSON string may hold the text, or an object that holds it."""
    text = values.a_text(value)
    if text is None or text[0] not in '{["':
        return text
    try:
        body = values.parsed(text.encode())
    # What is no Unicode is no JSON either; it is refused where it would be kept.
    except (QuipuError, UnicodeEncodeError):
        return text
    if isinstance(body, str):
        return values.a_text(body)
    held = values.an_object(body)
    return next(
        (found for name in ("text", "prompt", "content") if (found := values.a_text(held.get(name)))), text
    )
