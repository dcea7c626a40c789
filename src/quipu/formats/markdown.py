"""A folder of markdown: one file for each item, with front matter (contract 11.5). Front matter is plain `key: JSON`,
which every YAML reader understands; tags, anchors and blocks of YAML are not read.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from quipu.errors import QuipuError
from quipu.formats import values
from quipu.formats.archives import Source
from quipu.formats.bounds import is_dense
from quipu.formats.losses import Loss
from quipu.formats.seen import Seen
from quipu.formats.values import Found, Item, refused

_DATE = (1980, 1, 1, 0, 0, 0)
_KEY = re.compile(r"([a-z_]{1,40}):[ \t]*(.*)")
_STRUCTURE = re.compile(r"\n*```json\n(.*?)\n```\s*\Z", re.DOTALL)
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_SHORT = 8 << 10
_NO_ROOM = ("importance", "details", "privacy_intent", "session_id", "links")


def write(target: BinaryIO, items: Iterable[Item], loss: Loss) -> None:
    """The folder, as an archive. No two files have one name, also where upper and lower case are the same."""
    names = Seen()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for item in items:
            name = item["item_id"]
            if not _SAFE_NAME.fullmatch(name) or name.startswith("."):
                name = values.derived("mem", name)
            while not names.add(name.lower()):  # ids that came from elsewhere need not differ
                name = values.derived("mem", name, str(len(names)))
            text = text_of(item, loss).encode("utf-8", "replace")
            entry = zipfile.ZipInfo(f"items/{name}.md", _DATE)
            entry.compress_type = zipfile.ZIP_STORED if _is_dense(text) else zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, text)


def _is_dense(text: bytes) -> bool:
    """Many of them together are taken for a trap, too; what is short has a name and a place that are as long."""
    return len(text) > _SHORT and is_dense(len(text), len(zlib.compress(text)), _SHORT)


def text_of(item: Item, loss: Loss) -> str:
    """One item as a markdown file."""
    own = item["extensions"]["quipu"]
    for name in _NO_ROOM:
        loss.dropped(name, name in own)
    loss.dropped("metadata", bool(set(own.get("metadata", {})) - {"oap_kind", "structured", "scope_id"}))
    front: dict[str, Any] = {
        "id": item["item_id"],
        "kind": item["kind"],
        "scope": item.get("scope_id"),
        "subject": item.get("subject_entity_id"),
        "created": item["provenance"]["captured_at"],
        "confidence": item["provenance"]["confidence"],
        "labels": item["labels"] or None,
        "ttl_days": item.get("ttl_days"),
        "exportable": item["exportable"],
        "source": own.get("source"),
        "user": own.get("user_id"),
    }
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in front.items()
        if value is not None
    ]
    text = item["content"].get("text") or ""
    structure = ""
    if "structured" in item["content"]:
        body = json.dumps(item["content"]["structured"], ensure_ascii=False, indent=2, sort_keys=True)
        structure = f"\n```json\n{body}\n```\n"
    return "---\n" + "\n".join(lines) + f"\n---\n\n{text}\n{structure}"


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Every `.md` file, in the order of the names."""
    names = sorted(name for name in source.names if name.endswith(".md"))
    loss.dropped("files that are no markdown", len(source.names) - len(names) if source.is_archive else 0)
    for number, name in enumerate(names if source.is_archive else source.names, 1):
        try:
            yield number, item_of(source.whole(name), name)
        except QuipuError as error:
            yield number, error


def item_of(raw: bytes, name: str) -> Item:
    """A markdown file as an Item; one without front matter is a fact."""
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise refused("bad_encoding", "The text is not UTF-8.") from None
    front: dict[str, Any] = {}
    if text.startswith("---\n"):
        head, mark, body = text[4:].partition("\n---\n")
        if not mark:
            raise refused("bad_file", "The front matter does not end.")
        front, text = _front(head), body
    content: dict[str, Any] = {}
    if (found := _STRUCTURE.search(text)) is not None and (structure := _structure(found.group(1))):
        content["structured"], text = structure, text[: found.start()]
    content["text"] = text.strip()
    return _item(front, content, name)


def _structure(text: str) -> dict[str, Any]:
    """The object that a block at the end is; any other block is part of the text, as its writer meant it."""
    try:
        return values.an_object(values.parsed(text.encode()))
    except QuipuError:
        return {}


def _item(front: dict[str, Any], content: dict[str, Any], name: str) -> Item:
    stem = name.rsplit("/", 1)[-1].removesuffix(".md")
    own = {
        to: front[key]
        for key, to in (("user", "user_id"), ("source", "source"))
        if values.a_text(front.get(key))
    }
    item: Item = {
        "item_id": front.get("id") or stem or None,
        "kind": front.get("kind") or "fact",
        "content": content,
        "provenance": {
            "captured_at": front.get("created"),
            "confidence": front.get("confidence", 1.0),
        },
        "labels": values.texts(front.get("labels")),
        "exportable": front.get("exportable") is not False,
        "extensions": {"quipu": own},
    }
    for key, to in (("scope", "scope_id"), ("subject", "subject_entity_id"), ("ttl_days", "ttl_days")):
        if front.get(key) is not None:
            item[to] = front[key]
    return item


def _front(head: str) -> dict[str, Any]:
    front: dict[str, Any] = {}
    for line in head.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _KEY.fullmatch(line)
        if found is None or found.group(2)[:1] in ("!", "&", "*", "|", ">"):
            raise refused("bad_file", "The front matter is not plain `key: value` lines.")
        front[found.group(1)] = _scalar(found.group(2).strip())
    return front


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if text.startswith("[") and text.endswith("]"):
        return [part.strip().strip("'\"") for part in text[1:-1].split(",") if part.strip()]
    return text.strip("'\"") or None
