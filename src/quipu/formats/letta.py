"""Letta: blocks out, agent files in (contract 11.4). Tools, servers and skills of a file are never taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from quipu.errors import QuipuError
from quipu.formats import json_stream, values
from quipu.formats.archives import Source
from quipu.formats.losses import Loss
from quipu.formats.signing import Canonical
from quipu.formats.values import Found, Item

#: Characters of a block.
LIMIT = 20_000
_ROLES = ("user", "assistant")


def write(target: BinaryIO, items: Iterable[Item], canonical: Canonical, loss: Loss) -> None:
    """One block for each label, as long as its text has room; what has no label goes to `memory`."""
    blocks: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for item in items:
        label = next((label for label in item["labels"] if not label.startswith("memory_type:")), "memory")
        text = item["content"].get("text") or ""
        loss.dropped("item_id")
        loss.dropped("captured_at")
        loss.dropped("kind", item["kind"] != "fact")
        loss.dropped("labels beyond the first", max(0, len(item["labels"]) - 1))
        loss.dropped("structured", "structured" in item["content"])
        loss.dropped("metadata", "metadata" in item["extensions"]["quipu"])
        if sizes.get(label, 0) + len(text) + 1 > LIMIT:
            loss.dropped("text beyond the block's limit")
            continue
        blocks.setdefault(label, []).append(text)
        sizes[label] = sizes.get(label, 0) + len(text) + 1
    shown = [
        {"label": label, "value": "\n".join(texts), "limit": LIMIT} for label, texts in sorted(blocks.items())
    ]
    target.write(canonical({"blocks": shown}) + b"\n")


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Blocks as facts and summaries, messages as turns, files as references."""
    number = 0
    for part in json_stream.parts(source.open(source.names[0])):
        if not part.is_element or part.name is None:
            continue
        number += 1
        try:
            body = values.an_object(values.parsed(part.raw))
        except QuipuError as error:
            yield number, error
            continue
        match part.name:
            case "blocks":
                yield number, _block(body)
            case "agents":
                yield from ((number, turn) for turn in _turns(body, loss))
            case "files" | "sources":
                yield number, _reference(body)
            case _:
                loss.dropped(part.name)


def _block(block: dict[str, Any]) -> Item:
    label = values.a_text(block.get("label"))
    left = {
        name: block[name]
        for name in ("description", "limit", "read_only", "tags")
        if block.get(name) is not None
    }
    item = _item(block, "summary" if label in ("persona", "human") else "fact", block.get("value"))
    item["labels"] = [label] if label else []
    item["extensions"] = {"quipu": {"foreign": {"letta": left}} if left else {}}
    return item


def _turns(agent: dict[str, Any], loss: Loss) -> Iterator[Item]:
    for message in values.a_list(agent.get("messages")):
        body = values.an_object(message)
        if body.get("role") not in _ROLES:
            loss.dropped(f"message of {str(body.get('role'))[:20]}")
            continue
        text = _said(body.get("content"))
        if text is None:
            continue
        item = _item(body, "conversation_turn", text)
        item["content"]["structured"] = {"role": body["role"]}
        yield item


def _said(content: Any) -> str | None:
    parts = [content] if isinstance(content, str) else []
    parts += [
        values.an_object(part).get("text")
        for part in values.a_list(content)
        if values.an_object(part).get("type") == "text"
    ]
    return values.a_text("\n".join(part for part in parts if isinstance(part, str)))


def _reference(file: dict[str, Any]) -> Item:
    name = values.a_text(file.get("file_name")) or values.a_text(file.get("name")) or "file"
    return _item(file, "document_reference", f"Document: {name}")


def _item(body: dict[str, Any], kind: str, text: Any) -> Item:
    return {
        "item_id": body.get("id"),
        "kind": kind,
        "content": {"text": text},
        "provenance": {"captured_at": body.get("created_at"), "confidence": 1.0},
        "labels": [],
    }
