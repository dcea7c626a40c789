"""Letta: agent files and exported passages in, blocks out. Tools, servers and skills of a file are never taken."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from quipu.ledger.canonical import canonical
from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.spool import Contents
from quipu.transfer.formats.values import Found, Item

#: Characters of a block.
LIMIT = 20_000
#: Blocks that are filled at once.
_MOST_OPEN = 1000
_ROLES = ("user", "assistant")
#: Blocks that say what the agent or its user is like.
_PORTRAITS = ("persona", "human")
_BLOCKS = ("blocks", "core_memory", "memory_blocks")
_PASSAGES = (None, "passages", "archival_memory", "archival_passages")
_KEPT = ("description", "limit", "read_only", "tags", "metadata")
_SIGNS = {"agents.block_ids", "agents.in_context_message_ids", "blocks.value", "core_memory.value"}
_PASSAGE_SIGNS = {"archive_id", "embedding_config", "embedding"}


def detect(look: Look) -> bool:
    """An agent file, blocks, or a list of passages."""
    members = look.members
    if members & _SIGNS or {"agents", "blocks", "mcp_servers"} <= members:
        return True
    return any(
        f"{name}.text" in members and any(f"{name}.{sign}" in members for sign in _PASSAGE_SIGNS)
        for name in ("", "passages")
    )


# -- reading ----------------------------------------------------------------------------------------------------------


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Blocks as facts and summaries, messages as turns, passages as facts, files as references."""
    number = 0
    for part in values.parts(source.open(), loss):
        if not part.is_element:
            continue
        number += 1
        body = values.an_object(part.value)
        if part.error is not None:
            yield number, part.error
        elif part.name == "agents":
            yield from ((number, item) for item in _of_agent(body, loss))
        elif part.name in ("messages", "in_context_messages"):
            yield from ((number, item) for item in _turn(body, None, loss))
        elif part.name in _BLOCKS:
            yield number, block_item(body)
        elif part.name in _PASSAGES:
            yield number, _passage(body, None, loss)
        elif part.name in ("files", "sources"):
            yield number, _reference(body, loss)
        else:
            loss.dropped(str(part.name))


def _of_agent(agent: dict[str, Any], loss: Loss) -> Iterator[Item]:
    name = values.a_text(agent.get("name"))
    loss.dropped("system prompt of an agent", bool(values.a_text(agent.get("system"))))
    for message in map(values.an_object, values.a_list(agent.get("messages"))):
        yield from _turn(message, name, loss)
    for member in _BLOCKS:
        yield from (block_item(values.an_object(block)) for block in values.a_list(agent.get(member)))
    for member in _PASSAGES[1:]:
        for passage in values.a_list(agent.get(str(member))):
            yield _passage(values.an_object(passage), name, loss)


def block_item(block: dict[str, Any], item_id: Any = None) -> Item:
    """A block of core memory as an item."""
    label = values.a_text(block.get("label"))
    left = {name: block[name] for name in _KEPT if block.get(name) not in (None, [], {})}
    return values.item(
        "summary" if label in _PORTRAITS else "fact",
        block.get("value"),
        item_id=block.get("id") or item_id,
        captured_at=values.when(block.get("created_at")),
        labels=[label] if label else [],
        own={"foreign": {"letta": left}} if left else {},
    )


def _turn(message: dict[str, Any], agent: str | None, loss: Loss) -> Iterator[Item]:
    role = message.get("role")
    loss.dropped("tool calls", len(values.a_list(message.get("tool_calls"))))
    if role not in _ROLES:
        loss.dropped(f"message of {role}")
        return
    content = message.get("content") if message.get("content") is not None else message.get("text")
    said = [content] if isinstance(content, str) else []
    for part in values.a_list(content):
        inside = values.an_object(part)
        if inside.get("type", "text") == "text" and isinstance(inside.get("text"), str):
            said.append(inside["text"])
        else:
            loss.dropped(f"part {inside.get('type')}")
    text = values.a_text("\n".join(said))
    if text is not None:
        yield values.item(
            "conversation_turn",
            text,
            item_id=message.get("id"),
            captured_at=values.when(message.get("created_at"), message.get("timestamp")),
            structured={"role": role, "agent": agent},
        )


def _passage(passage: dict[str, Any], agent: str | None, loss: Loss) -> Item:
    loss.dropped("embedding", passage.get("embedding") is not None)
    metadata = values.an_object(passage.get("metadata") or passage.get("metadata_"))
    return values.item(
        "fact",
        passage.get("text") or passage.get("content"),
        item_id=passage.get("id"),
        captured_at=values.when(passage.get("created_at")),
        labels=values.texts(passage.get("tags")),
        structured={"agent": agent},
        own={"metadata": metadata} if metadata else {},
    )


def _reference(file: dict[str, Any], loss: Loss) -> Item:
    loss.dropped("content of a file", bool(values.a_text(file.get("content"))))
    name = values.a_text(file.get("file_name")) or values.a_text(file.get("name")) or "file"
    return values.item(
        "document_reference",
        f"Document: {name}",
        item_id=file.get("id"),
        captured_at=values.when(file.get("created_at"), file.get("file_creation_date")),
        structured={"file_type": file.get("file_type"), "description": file.get("description")},
    )


# -- writing ----------------------------------------------------------------------------------------------------------


def write(target: BinaryIO, contents: Contents, loss: Loss) -> None:
    """Blocks: one for each label, or several where one has no room; what has no label goes to `memory`."""
    blocks = _Blocks(target)
    target.write(b'{"blocks":[')
    for item in contents.items.items():
        label = next((label for label in item["labels"] if not label.startswith("memory_type:")), "memory")
        text = item["content"].get("text") or ""
        loss.dropped("item_id")
        loss.dropped("captured_at")
        loss.dropped("kind", item["kind"] != "fact")
        loss.dropped("labels beyond the first", max(0, len(item["labels"]) - 1))
        loss.dropped("structured", "structured" in item["content"])
        loss.dropped("metadata", "metadata" in item["extensions"]["quipu"])
        if len(text) > LIMIT:
            loss.dropped("text beyond a block's limit")
        else:
            blocks.add(label, text)
    blocks.close()
    target.write(b"]}\n")


class _Blocks:
    """Blocks that are being filled: few at once, so that memory does not grow with the labels."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._open: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._is_first = True

    def add(self, label: str, text: str) -> None:
        """A text at the end of its label's block."""
        if label in self._open and self._sizes[label] + len(text) + 1 > LIMIT:
            self._finish(label)
        if label not in self._open:
            if len(self._open) == _MOST_OPEN:
                self._finish(next(iter(self._open)))
            self._open[label], self._sizes[label] = [], -1
        self._open[label].append(text)
        self._sizes[label] += len(text) + 1

    def close(self) -> None:
        for label in sorted(self._open):
            self._finish(label)

    def _finish(self, label: str) -> None:
        number = self._written[label] = self._written.get(label, 0) + 1
        block = {
            "label": label if number == 1 else f"{label}_{number}",
            "value": "\n".join(self._open.pop(label)),
            "limit": LIMIT,
        }
        self._target.write((b"" if self._is_first else b",") + canonical(block))
        self._is_first = False
