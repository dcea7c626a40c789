"""LangGraph: a JSON dump of a store's items, `[item.dict() for item in store.search(())]`; LangMem keeps its memories there."""

import re
from collections.abc import Iterator
from typing import Any

from quipu.errors import InvalidError
from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.values import Found, Item

_ARRAYS = (None, "items", "results", "memories")
#: Members of a value that hold its text, the likeliest first.
_TEXTS = ("text", "content", "memory", "fact", "data", "summary")
_OWN_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|mem_[0-9A-Z]{26}")


def detect(look: Look) -> bool:
    """Items with a namespace, a key and a value; or rows of the store's table."""
    return any(
        {f"{array}.key", f"{array}.value"} <= look.members
        and (f"{array}.namespace" in look.members or f"{array}.prefix" in look.members)
        for array in ("", "items", "results", "memories")
    )


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Each item of the store."""
    for number, part in values.elements(source.open(), _ARRAYS, loss):
        try:
            yield number, part.error or item_of(values.an_object(part.value), loss)
        except InvalidError as error:
            yield number, error


def item_of(stored: dict[str, Any], loss: Loss) -> Item:
    """One item of a store: its text where it has one, everything else as structure."""
    value = stored.get("value")
    if isinstance(value, str):  # a row of the SQLite store holds it as text
        value = values.parsed(value.encode("utf-8", "surrogatepass"))
    value = dict(values.an_object(value))
    namespace, key = _namespace(stored), str(stored.get("key") or "")
    loss.dropped("score", stored.get("score") is not None)
    loss.dropped("expires_at", stored.get("expires_at") is not None)
    own: dict[str, Any] = {"foreign": {"langgraph": {"namespace": namespace, "key": key}}}
    if (updated := values.millis(stored.get("updated_at"))) is not None:
        own["updated_at"] = updated
    text = _text(value)
    kind = value.pop("kind", None)
    return values.item(
        "preference" if str(kind).lower() == "preference" else "fact",
        text,
        item_id=key if _OWN_ID.fullmatch(key) else "/".join((*namespace, key)),
        captured_at=values.when(stored.get("created_at")),
        structured={**value, "schema": kind if kind not in (None, "Memory") else None},
        own=own,
    )


def _namespace(stored: dict[str, Any]) -> list[str]:
    prefix = stored.get("prefix")
    if isinstance(prefix, str):
        return prefix.split(".")
    return [label for label in values.a_list(stored.get("namespace")) if isinstance(label, str)]


def _text(value: dict[str, Any]) -> str | None:
    """The text of a value, which is taken out of it. LangMem has one more object around it."""
    inner = value.get("content")
    if isinstance(inner, dict):
        found = _text(values.an_object(inner))
        if found is not None and not inner:
            value.pop("content")
        return found
    for name in _TEXTS:
        if (text := values.a_text(value.get(name))) is not None:
            value.pop(name)
            return text
    return None
