"""What may be said when entries are listed and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from quipu.errors import Fault, InvalidError
from quipu.rules.runs_wire import moment

DEFAULT_LIMIT = 100
MOST = 500
#: The unit of a budget: what discovery calls `tokenCounter`.
TOKEN_COUNTER = "chars"  # noqa: S105  a unit, not a password
_LONGEST_TAG = 256
_LONGEST_QUERY = 4096
_OPTIONS = ("limit", "tag", "tokenBudget", "rank", "query")
_RANKS = ("recency", "relevance")
#: What a writer may say; `id` and `createdAt` are the host's to give and passed over.
_ENTRY = ("content", "tags", "expiresAt", "id", "createdAt")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """MemoryListOptions."""

    limit: int = DEFAULT_LIMIT
    tag: str | None = None
    token_budget: int | None = None
    #: Set: ranked by relevance to it.
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """What is to be written."""

    content: str
    tags: tuple[str, ...] = ()
    expires_at: int | None = None


def list_options(body: object) -> ListOptions:
    """The options of a list, or InvalidError. Nothing is guessed: relevance needs a query."""
    given = _closed(body, _OPTIONS)
    limit = _whole(given, "limit", least=0)
    tag = _text(given, "tag", _LONGEST_TAG)
    budget = _whole(given, "tokenBudget", least=1)
    query = _text(given, "query", _LONGEST_QUERY)
    rank = given.get("rank", "recency")
    if rank not in _RANKS:
        raise InvalidError.at("/rank", "bad_value", "There is no such rank.", accepted=_RANKS)
    if rank == "relevance" and query is None:
        raise InvalidError.at("/query", "missing_field", "Ranking by relevance needs a query.")
    return ListOptions(
        limit=min(limit or DEFAULT_LIMIT, MOST),
        tag=tag,
        token_budget=budget,
        query=query if rank == "relevance" else None,
    )


def new_entry(body: object, *, now: int, most_bytes: int) -> NewEntry:
    """An entry that may be written, or InvalidError."""
    given = _closed(body, _ENTRY)
    content = given.get("content")
    if not isinstance(content, str):
        raise InvalidError.at("/content", "wrong_type", "content is a text.", accepted=["string"])
    if len(content.encode("utf-8", "surrogatepass")) > most_bytes:
        raise InvalidError.at(
            "/content",
            "too_large",
            "The entry is too large.",
            accepted=[f"at most {most_bytes} bytes of UTF-8"],
        )
    expires_at = None if given.get("expiresAt") is None else moment(given["expiresAt"], "/expiresAt")
    if expires_at is not None and expires_at <= now:
        raise InvalidError.at("/expiresAt", "bad_value", "expiresAt has passed already.")
    return NewEntry(content=content, tags=tags(given.get("tags")), expires_at=expires_at)


def tags(given: object, pointer: str = "/tags") -> tuple[str, ...]:
    """Tags without the empty ones."""
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise InvalidError.at(pointer, "wrong_type", "tags are a list.", accepted=["array of strings"])
    for index, tag in enumerate(cast("Sequence[object]", given)):
        if not isinstance(tag, str) or len(tag) > _LONGEST_TAG:
            raise InvalidError.at(
                f"{pointer}/{index}",
                "bad_value",
                "A tag is a text that is not too long.",
                accepted=[f"at most {_LONGEST_TAG} characters"],
            )
    return tuple(tag for tag in cast("Sequence[str]", given) if tag)


def size(text: str) -> int:
    """What a text costs, in `TOKEN_COUNTER` units."""
    return len(text)


def within_budget(items: Sequence[T], sizes: Sequence[int], budget: int | None) -> list[T]:
    """The items from the front for as long as they fit: always a prefix, and nothing is cut."""
    if budget is None:
        return list(items)
    kept: list[T] = []
    left = budget
    for item, cost in zip(items, sizes, strict=True):
        left -= cost
        if left < 0:
            break
        kept.append(item)
    return kept


def _closed(body: object, known: Sequence[str]) -> Mapping[str, Any]:
    if body is None:
        return {}
    if not isinstance(body, Mapping):
        raise InvalidError.at("", "wrong_type", "An object is expected.", accepted=["object"])
    given = cast("Mapping[str, Any]", body)
    if unknown := sorted(given.keys() - set(known)):
        raise InvalidError(
            "There is no such field.",
            reason="unknown_field",
            faults=[
                Fault(f"/{name}" if name.isidentifier() else "", "unknown_field", tuple(known))
                for name in unknown
            ],
        )
    return given


def _whole(given: Mapping[str, Any], name: str, *, least: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidError.at(
            f"/{name}", "bad_value", f"{name} is a whole number.", accepted=[f"integer >= {least}"]
        )
    return value


def _text(given: Mapping[str, Any], name: str, most: int) -> str | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise InvalidError.at(
            f"/{name}", "bad_value", f"{name} is a text.", accepted=[f"1 to {most} characters"]
        )
    return value
