"""Claude's export: conversations, and what Claude itself remembered of them and of projects."""

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

TALKS, MEMORIES = "conversations.json", "memories.json"
_SENDERS = {"human": "user", "assistant": "assistant"}
_SECTION = re.compile(r"(?m)^(?=#{1,3} |\*\*[^*\n]{1,80}\*\*\s*$)")


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Every turn; then a summary for each section of what was remembered."""
    talks, memories = source.find(TALKS), source.find(MEMORIES)
    if not source.is_archive:
        talks = source.names[0]
    else:
        loss.dropped("other files of the archive", len(source.names) - len({talks, memories} - {None}))
    number = 0
    for name, read in ((talks, _turns), (memories, _summaries)):
        if name is None:
            continue
        for part in json_stream.parts(source.open(name)):
            number += 1
            try:
                body = values.an_object(values.parsed(part.raw))
            except QuipuError as error:
                yield number, error
                continue
            yield from ((number, item) for item in read(body, loss))


def _turns(talk: dict[str, Any], loss: Loss) -> Iterator[Item]:
    if "chat_messages" not in talk and "conversations_memory" in talk:
        yield from _summaries(talk, loss)
        return
    for message in map(values.an_object, values.a_list(talk.get("chat_messages"))):
        role = _SENDERS.get(str(message.get("sender")))
        if role is None:
            loss.dropped(f"message of {str(message.get('sender'))[:20]}")
            continue
        loss.dropped("attachments", len(values.a_list(message.get("attachments"))))
        loss.dropped("files", len(values.a_list(message.get("files"))))
        text = _said(message, loss)
        if text is None:
            continue
        at = values.millis(message.get("created_at")) or values.millis(talk.get("created_at"))
        structured = {"role": role, "title": values.a_text(talk.get("name"))}
        yield turn("claude", message.get("uuid"), text, at, values.a_text(talk.get("uuid")), structured)


def _said(message: dict[str, Any], loss: Loss) -> str | None:
    """The text parts; thoughts and budgets are nobody's memory."""
    parts: list[str] = []
    for part in map(values.an_object, values.a_list(message.get("content"))):
        if part.get("type") == "text":
            parts.append(str(part.get("text") or ""))
        else:
            loss.dropped(f"part {str(part.get('type'))[:20]}")
    return values.a_text("\n".join(parts)) or values.a_text(message.get("text"))


def _summaries(body: dict[str, Any], _loss: Loss) -> Iterator[Item]:
    for section in _sections(body.get("conversations_memory")):
        yield _summary(section, None)
    for project, text in values.an_object(body.get("project_memories")).items():
        if (said := values.a_text(text)) is not None:
            yield _summary(said, project)


def _sections(text: Any) -> list[str]:
    if values.a_text(text) is None:
        return []
    return [part.strip() for part in _SECTION.split(str(text)) if part.strip()]


def _summary(text: str, project: str | None) -> Item:
    own: dict[str, Any] = {"source": "claude"}
    item: Item = {
        "item_id": None,
        "kind": "summary",
        "content": {"text": text},
        "provenance": {"captured_at": None, "confidence": 1.0},
        "labels": [],
        "extensions": {"quipu": own},
    }
    if project is not None:
        item["subject_entity_id"] = project
    return item
