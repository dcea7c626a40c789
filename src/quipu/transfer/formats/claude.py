"""Claude's export: conversations, and what Claude itself remembered of them and of projects."""

import re
from collections.abc import Iterator
from typing import Any

from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.chatgpt import FILES, first_file, turn
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look, shape
from quipu.transfer.formats.values import Found, Item, Part

_MEMORIES = re.compile(r"memories(-\d{1,6})?\.json")
_SENDERS = {"human": "user", "assistant": "assistant"}
_SECTION = re.compile(r"(?m)^(?=#{1,3} |\*\*[^*\n]{1,80}\*\*\s*$)")
_MOST_PROJECTS = 10_000


def detect(look: Look) -> bool:
    """Conversations with their `chat_messages`, or memories."""
    if not look.is_archive:
        return bool(look.members & {".chat_messages", ".conversations_memory", "conversations_memory"})
    name = first_file(look.source)
    if name is not None and ".chat_messages" in shape(look.source, name):
        return True
    return any(
        shape(look.source, memory) & {".conversations_memory", "conversations_memory"}
        for memory in _memories(look.source)[:1]
    )


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Every turn; then a summary for each section of what was remembered."""
    names: list[str | None] = [None]
    projects: dict[str, str] = {}
    if source.is_archive:
        names = [*source.matching(FILES), *_memories(source)]
        listed = _projects(source)
        projects = _project_names(source, listed)
        loss.dropped("projects' instructions and documents", len(projects))
        loss.dropped("other files of the archive", len(source.names) - len(names) - len(listed))
    number = 0
    for name in names:
        members: dict[str, Any] = {}
        for part in values.parts(source.open(name), loss):
            if not part.is_element:  # memories may be one object instead of a list
                members[str(part.name)] = part.value
                continue
            number += 1
            yield from ((number, item) for item in _of_part(part, projects, loss))
        if members:
            number += 1
            yield from ((number, item) for item in _summaries(members, projects, loss))


def _of_part(part: Part, projects: dict[str, str], loss: Loss) -> Iterator[Item | values.QuipuError]:
    body = values.an_object(part.value)
    if part.error is not None:
        yield part.error
    elif "chat_messages" in body:
        yield from _turns(body, loss)
    elif "conversations_memory" in body or "project_memories" in body:
        yield from _summaries(body, projects, loss)
    elif part.name is None:
        loss.dropped("elements that are no conversation")
    else:
        loss.dropped(part.name)


def _memories(source: Source) -> list[str]:
    """Files of what was remembered: `memories.json`, or one for each account in a folder."""
    return [
        name
        for name in source.names
        if _MEMORIES.fullmatch(name.rsplit("/", 1)[-1])
        or (name.rsplit("/", 2)[-2:-1] == ["memories"] and name.endswith(".json"))
    ]


def _projects(source: Source) -> list[str]:
    return [
        name
        for name in source.names
        if name.rsplit("/", 1)[-1] == "projects.json"
        or (name.rsplit("/", 2)[-2:-1] == ["projects"] and name.endswith(".json"))
    ]


def _project_names(source: Source, listed: list[str]) -> dict[str, str]:
    """What projects are called, by the ids that memories name them by."""
    found: dict[str, str] = {}
    for file in listed[:_MOST_PROJECTS]:
        single: dict[str, Any] = {}
        try:
            for part in values.parts(source.open(file)):
                if not part.is_element:
                    single[str(part.name)] = part.value
                elif part.name is None and len(found) < _MOST_PROJECTS:
                    _add_project(found, values.an_object(part.value))
        except values.InvalidError:
            continue  # it is only asked for a name
        _add_project(found, single)
    return found


def _add_project(found: dict[str, str], project: dict[str, Any]) -> None:
    uuid, name = values.a_text(project.get("uuid")), values.a_text(project.get("name"))
    if uuid is not None and name is not None:
        found[uuid[:256]] = name[:256]


def _turns(talk: dict[str, Any], loss: Loss) -> Iterator[Item]:
    for message in map(values.an_object, values.a_list(talk.get("chat_messages"))):
        role = _SENDERS.get(str(message.get("sender")))
        if role is None:
            loss.dropped(f"message of {message.get('sender')}")
            continue
        loss.dropped("attachments", len(values.a_list(message.get("attachments"))))
        loss.dropped("files", len(values.a_list(message.get("files"))))
        text = _said(message, loss)
        if text is not None:
            yield turn(
                "claude",
                text,
                item_id=message.get("uuid"),
                at=values.when(message.get("created_at"), talk.get("created_at")),
                thread=values.a_text(talk.get("uuid")),
                structured={"role": role, "title": values.a_text(talk.get("name"))},
            )


def _said(message: dict[str, Any], loss: Loss) -> str | None:
    """The text parts; thoughts, tools and budgets are nobody's memory."""
    parts: list[str] = []
    for part in map(values.an_object, values.a_list(message.get("content"))):
        if part.get("type") == "text":
            parts.append(str(part.get("text") or ""))
        else:
            loss.dropped(f"part {part.get('type')}")
    return values.a_text("\n".join(parts)) or values.a_text(message.get("text"))


def _summaries(body: dict[str, Any], projects: dict[str, str], loss: Loss) -> Iterator[Item]:
    loss.dropped("memory_files", len(values.a_list(body.get("memory_files"))))
    text = values.a_text(body.get("conversations_memory"))
    for section in [] if text is None else _SECTION.split(text):
        if section.strip():
            yield _summary(section.strip(), None)
    for project, said in values.an_object(body.get("project_memories")).items():
        if values.a_text(said) is not None:
            yield _summary(said, projects.get(project, project))


def _summary(text: str, project: str | None) -> Item:
    item = values.item("summary", text, own={"source": "claude"})
    if project is not None:
        item["subject_entity_id"] = project[:256]
    return item
