"""Which of the items that somebody may see fit a query: judged by what they see, and by nothing else (F19).

A score depends on the query and on the one item, never on other items: no score tells what else there is, and the order
stays the same from page to page whatever is added or deleted meanwhile (D10, D27).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from quipu.model.value import JsonObject
from quipu.rules.stop_words import is_stop_word

_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("ings", "ing", "edly", "ed", "ies", "es", "s", "ly")


def words(text: str) -> list[str]:
    """The words of a text that say something, without their endings."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if not is_stop_word(word)]


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word[: -len(ending)]
            return stem + "y" if ending == "ies" else stem
    return word


def seen_words(item: JsonObject) -> frozenset[str]:
    """The words of an item as it is shown: text, structure and labels."""
    content = cast("Mapping[str, Any]", item["content"])
    parts = [*_texts(content.get("text")), *_texts(content.get("structured")), *_texts(item.get("labels"))]
    parts.append(str(item.get("kind", "")))
    return frozenset(word for part in parts for word in words(part))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in cast("Mapping[str, Any]", value).items():
            yield name
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in cast("list[Any]", value):
            yield from _texts(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def share(found: int, wanted: int) -> float:
    """The share of a query's words that an item has, rounded to two places."""
    return round(found / wanted, 2) if wanted else 0.0
