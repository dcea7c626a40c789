"""ChatGPT's export: conversations as graphs of messages; each message of a person or the assistant is a turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quipu.errors import QuipuError
from quipu.formats import json_stream, values
from quipu.formats.archives import Source
from quipu.formats.losses import Loss
from quipu.formats.values import Found, Item

FILE = "conversations.json"
_ROLES = ("user", "assistant")


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Every turn, conversation by conversation. Saved memories are not in the export."""
    name = source.find(FILE) or source.names[0]
    if source.is_archive:
        loss.dropped("other files of the archive", len(source.names) - 1)
    for number, part in enumerate(json_stream.parts(source.open(name)), 1):
        try:
            talk = values.an_object(values.parsed(part.raw))
        except QuipuError as error:
            yield number, error
            continue
        yield from ((number, turn) for turn in turns(talk, loss))


def turns(talk: dict[str, Any], loss: Loss) -> Iterator[Item]:
    """The messages of one conversation, in the order they were said."""
    began = talk.get("create_time")
    thread = values.a_text(talk.get("conversation_id")) or values.a_text(talk.get("id"))
    found: list[tuple[int, Item]] = []
    for key, node in values.an_object(talk.get("mapping")).items():
        message = values.an_object(values.an_object(node).get("message"))
        role = values.an_object(message.get("author")).get("role")
        if not message:
            continue
        if role not in _ROLES:
            loss.dropped(f"message of {str(role)[:20]}")
            continue
        text = _said(values.an_object(message.get("content")), loss)
        if text is None:
            continue
        at = values.millis(message.get("create_time")) or values.millis(began)
        structured = {"role": role, "parent": values.an_object(node).get("parent")}
        model = values.an_object(message.get("metadata")).get("model_slug")
        structured |= {"model": model, "title": values.a_text(talk.get("title"))}
        found.append((at or 0, turn("chatgpt", message.get("id") or key, text, at, thread, structured)))
    found.sort(key=lambda one: one[0])
    yield from (item for _, item in found)


def _said(content: dict[str, Any], loss: Loss) -> str | None:
    parts = values.a_list(content.get("parts"))
    others = sum(1 for part in parts if part is not None and not isinstance(part, str))
    loss.dropped("parts that are no text", others)
    if not parts and isinstance(content.get("text"), str):
        parts = [content["text"]]
    return values.a_text("\n".join(part for part in parts if isinstance(part, str)))


def turn(
    platform: str, name: Any, text: str, at: int | None, thread: str | None, structured: dict[str, Any]
) -> Item:
    """One message as an Item; shared by the readers of conversations."""
    own: dict[str, Any] = {"source": platform}
    if thread is not None:
        own["session_id"] = thread[:256]
    return {
        "item_id": name,
        "kind": "conversation_turn",
        "content": {
            "text": text,
            "structured": {key: value for key, value in structured.items() if value is not None},
        },
        "provenance": {"captured_at": at, "confidence": 1.0},
        "labels": [],
        "extensions": {"quipu": own},
    }
