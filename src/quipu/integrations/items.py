"""Items named by a namespace and a key, each of them one memory: what LangGraph's stores keep.

The value is kept whole in the metadata and comes back unchanged; the content is the text that it is searched by.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast

from quipu import sync
from quipu.errors import ConflictError, NotFoundError
from quipu.integrations.records import every
from quipu.memory.model import RecordView, RememberResponse

_KEY = "langgraph"
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it is kept. Times are milliseconds; the score is that of the search that found it."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: int
    updated_at: int
    score: float | None = None


class Items:
    """Keeps and finds items. A write that waits for a person is told to `on_held`, and raises with `strict`."""

    def __init__(
        self,
        memory: sync.Memory,
        *,
        template: Sequence[str],
        on_held: Callable[[RememberResponse], object] | None = None,
        strict: bool = False,
    ) -> None:
        self._memory, self._template = memory, tuple(template)
        self._on_held, self._strict = on_held, strict
        #: Two writers of one new key must not make two memories.
        self._turn = Lock()

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        namespace: Sequence[str],
        key: str,
        value: dict[str, Any],
        texts: Sequence[str],
        *,
        is_indexed: bool = True,
        ttl: float | None = None,
    ) -> None:
        """Keep an item, which is searched by these texts, and is gone so many minutes from now."""
        kept: dict[str, Any] = {
            "namespace": list(namespace),
            "depth": len(namespace),
            "key": key,
            "value": value,
            "is_indexed": is_indexed,
        }
        with self._turn:
            known = self._record(namespace, key)
            answer = self._memory.remember(
                "\n".join(texts).strip() or key,
                id=None if known is None else known.id,
                replace=known is not None,
                metadata={_KEY: kept},
                expires_at=None if ttl is None else f"{max(1, round(ttl * 60))}s",
                **self._owner(namespace),
            )
        if answer.is_held:
            self._held(answer)

    def delete(self, namespace: Sequence[str], key: str) -> None:
        with self._turn:
            known = self._record(namespace, key)
            if known is not None:
                self._memory.forget(ids=[known.id])

    def _held(self, answer: RememberResponse) -> None:
        if self._on_held is not None:
            self._on_held(answer)
        if self._strict:
            raise ConflictError(
                "The item waits for approval and is not visible yet.",
                reason="waits_for_approval",
                hint=answer.approval_url,
            )

    def _owner(self, namespace: Sequence[str]) -> dict[str, Any]:
        """Who an item belongs to, by the labels that the template names."""
        pairs = zip(self._template, namespace, strict=False)
        return {place[1:-1]: label for place, label in pairs if place in ("{user_id}", "{session_id}")}

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, namespace: Sequence[str], key: str) -> Item | None:
        record = self._record(namespace, key)
        return None if record is None else _item(record)

    def _record(self, namespace: Sequence[str], key: str) -> RecordView | None:
        wanted = {**_within(namespace), f"metadata.{_KEY}.depth": len(namespace), f"metadata.{_KEY}.key": key}
        page = self._memory.list(filter=wanted, limit=1)
        return page.records[0] if page.records else None

    def search(
        self,
        prefix: Sequence[str],
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[Item]:
        """Those that a query finds, best first; without one all that fit, the last written first."""
        wanted = {f"metadata.{_KEY}.depth": {"$gte": 1}, **_within(prefix), **_translated(filter or {})}
        last = offset + limit
        if query is None:
            found = sorted(
                every(self._memory, filter=wanted), key=lambda record: record.updated_at, reverse=True
            )
            return [_item(record) for record in found[offset:last]]
        if last < 1 or not query:
            return []
        hits = self._memory.recall(
            query,
            k=min(last, _PAGE),
            filter={**wanted, f"metadata.{_KEY}.is_indexed": True},
            min_relevance="off",
        )
        return [
            _item(record, hit.relevance)
            for hit in list(hits)[offset:last]
            if (record := self._still_there(hit.id)) is not None
        ]

    def namespaces(self) -> set[tuple[str, ...]]:
        return {
            _namespace(record)
            for record in every(self._memory, filter={f"metadata.{_KEY}.depth": {"$gte": 1}})
        }

    def _still_there(self, id: str) -> RecordView | None:
        """The memory of a hit; somebody may have deleted it since it was found."""
        try:
            return self._memory.get(id)
        except NotFoundError:
            return None


def _within(prefix: Sequence[str]) -> dict[str, Any]:
    return {f"metadata.{_KEY}.namespace.{place}": label for place, label in enumerate(prefix)}


def _translated(wanted: Mapping[str, Any], path: str = f"metadata.{_KEY}.value") -> dict[str, Any]:
    """LangGraph's filter as Quipu's, on the value; a nested object without operators descends."""
    found: dict[str, Any] = {}
    for name, test in wanted.items():
        inner = cast("dict[str, Any]", test) if isinstance(test, dict) else {}
        descends = inner and not any(key.startswith("$") for key in inner)
        found |= _translated(inner, f"{path}.{name}") if descends else {f"{path}.{name}": test}
    return found


def _namespace(record: RecordView) -> tuple[str, ...]:
    return tuple(record.metadata[_KEY]["namespace"])


def _item(record: RecordView, score: float | None = None) -> Item:
    kept: dict[str, Any] = record.metadata[_KEY]
    return Item(
        _namespace(record), kept["key"], dict(kept["value"]), record.created_at, record.updated_at, score
    )
