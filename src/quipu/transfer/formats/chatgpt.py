"""ChatGPT's export: conversations as graphs of messages. Each message of a person or the assistant is a turn.

What ChatGPT itself remembers is not in its export: paste it as text.
"""

import re
from collections.abc import Iterator
from typing import Any

from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look, shape
from quipu.transfer.formats.values import Found, Item

#: Large exports come in several files.
FILES = re.compile(r"conversations(-\d{1,6})?\.json")
_LONGEST_THREAD = 256


def first_file(source: Source) -> str | None:
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


_ROLES = ("user", "assistant")
_SAID = ("text", "multimodal_text")
#: Marks of citations and pictures, in characters that nobody sees.
_MARKS = re.compile("\ue200[^\ue201]{0,2000}\ue201")


def detect(look: Look) -> bool:
    """Conversations with a `mapping` of their messages."""
    if look.is_archive:
        name = first_file(look.source)
        return name is not None and ".mapping" in shape(look.source, name)
    return ".mapping" in look.members


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Every turn, conversation by conversation."""
    names: list[str | None] = [*source.matching(FILES)] if source.is_archive else [None]
    loss.dropped("other files of the archive", len(source.names) - len(names))
    number = 0
    for name in names:
        for part in values.parts(source.open(name), loss):
            number += 1
            if part.error is not None:
                yield number, part.error
            else:
                yield from ((number, turn) for turn in turns(values.an_object(part.value), loss))


def turns(talk: dict[str, Any], loss: Loss) -> Iterator[Item]:
    """The messages of one conversation, in the order in which they were said."""
    began, thread = talk.get("create_time"), talk.get("conversation_id") or talk.get("id")
    found: list[tuple[int, Item]] = []
    for key, node in values.an_object(talk.get("mapping")).items():
        message = values.an_object(values.an_object(node).get("message"))
        text = _said(message, loss) if message else None
        if text is None:
            continue
        times = message.get("create_time"), began
        item = turn(
            "chatgpt",
            text,
            item_id=message.get("id") or key,
            at=values.when(*times),
            thread=values.a_text(thread),
            structured={
                "role": values.an_object(message.get("author")).get("role"),
                "parent": values.an_object(node).get("parent"),
                "model": values.an_object(message.get("metadata")).get("model_slug"),
                "title": values.a_text(talk.get("title")),
            },
        )
        found.append((next((at for at in map(values.millis, times) if at), 0), item))
    found.sort(key=lambda one: one[0])
    yield from (item for _, item in found)


def _said(message: dict[str, Any], loss: Loss) -> str | None:
    """The text of a message that a person or the assistant said to the other; what is left out is counted."""
    role = values.an_object(message.get("author")).get("role")
    content, metadata = values.an_object(message.get("content")), values.an_object(message.get("metadata"))
    kind = content.get("content_type", "text")
    parts = [_part(part, loss) for part in values.a_list(content.get("parts"))]
    if not parts and isinstance(content.get("text"), str):
        parts = [content["text"]]
    text = values.a_text(_MARKS.sub("", "\n".join(part for part in parts if part is not None)))
    if role not in _ROLES:
        loss.dropped(f"message of {role}")
    elif metadata.get("is_visually_hidden_from_conversation") is True:
        loss.dropped("hidden message")
    elif message.get("recipient", "all") != "all":
        loss.dropped("message to a tool")
    elif kind not in _SAID:
        loss.dropped(f"content {kind}")
    else:
        return text
    return None


def _part(part: Any, loss: Loss) -> str | None:
    if part is None or isinstance(part, str):
        return part
    inside = values.an_object(part)
    if inside.get("content_type") == "audio_transcription" and isinstance(inside.get("text"), str):
        return inside["text"]
    loss.dropped("parts that are no text")
    return None
