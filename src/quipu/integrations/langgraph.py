"""Quipu as a LangGraph store: review, audit and erasure for agents that keep memory there, by changing one line.

    memory = quipu.sync.Memory("assistant")
    graph = builder.compile(store=QuipuStore(memory))

- An item is a memory: (namespace, key) names it, `put` again makes a new version, a value of None forgets it.
- The value is kept whole in the metadata and comes back unchanged. What is searched by is the text at the `index` paths,
  else at `fields`; with `index=False` an item is kept and never found by a query.
- The namespace's labels become user and session by the template given; the tenant is the credential's.
- A batch's reads do not see its writes, and of two puts of one key the last counts, as in LangGraph's own stores.
- `ttl` counts from the write; reads do not extend it.
- `put` answers nothing, so a write that waits for a person is told to `on_held`; with `strict` it raises.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from quipu import sync
from quipu.integrations.items import Item, Items
from quipu.memory.model import RememberResponse

if TYPE_CHECKING:  # the package is the user's, and what it hands over is as untyped here as JSON would be
    _base: Any = None
    _Base: Any = object
else:
    _base = import_module("langgraph.store.base")
    _Base = _base.BaseStore

#: The last moment that a date can name, in milliseconds.
_LAST_MS = 253_402_300_799_999


class QuipuStore(_Base):
    """LangGraph's long-term memory, kept by Quipu, for graphs that await and for those that do not.

    The memory is not closed with it.
    """

    supports_ttl = True
    __slots__ = ("_fields", "_items")

    def __init__(
        self,
        memory: sync.Memory,
        *,
        namespace: Sequence[str] = ("memories", "{user_id}"),
        fields: Sequence[str] = ("$",),
        on_held: Callable[[RememberResponse], object] | None = None,
        strict: bool = False,
    ) -> None:
        """Nothing is opened or written yet.

        namespace: What its labels are: `{user_id}` and `{session_id}` become those of the memory.
        fields: Paths in the value whose text is searched by, unless a put names others; `$` is all of it.
        on_held: Told of each write that waits for a person.
        strict: Such a write raises.
        """
        self._items = Items(memory, template=namespace, on_held=on_held, strict=strict)
        self._fields = tuple(fields)

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        results: list[Any] = []
        puts: dict[tuple[tuple[str, ...], str], Any] = {}
        for op in ops:
            if isinstance(op, _base.PutOp):
                puts[op.namespace, op.key] = op
                results.append(None)
            else:
                results.append(self._read(op))
        for op in puts.values():
            self._write(op)
        return results

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _write(self, op: Any) -> None:
        if op.value is None:
            self._items.delete(op.namespace, op.key)
            return
        paths: Sequence[str] = self._fields if op.index in (None, False) else op.index
        texts: list[str] = [text for path in paths for text in _base.get_text_at_path(op.value, path)]
        self._items.put(op.namespace, op.key, op.value, texts, is_indexed=op.index is not False, ttl=op.ttl)

    def _read(self, op: Any) -> Any:
        if isinstance(op, _base.GetOp):
            item = self._items.get(op.namespace, op.key)
            return None if item is None else _base.Item(**_fields_of(item))
        if isinstance(op, _base.SearchOp):
            found = self._items.search(
                op.namespace_prefix, query=op.query, filter=op.filter, limit=op.limit, offset=op.offset
            )
            return [_base.SearchItem(**_fields_of(item), score=item.score) for item in found]
        if isinstance(op, _base.ListNamespacesOp):
            return self._namespaces(op)
        raise TypeError(f"unknown operation {type(op).__name__}")

    def _namespaces(self, op: Any) -> list[tuple[str, ...]]:
        rules = op.match_conditions or ()
        fit = [one for one in self._items.namespaces() if all(_matches(one, rule) for rule in rules)]
        cut = sorted({one[: op.max_depth] for one in fit})
        return cut[op.offset : op.offset + op.limit]


def _matches(namespace: tuple[str, ...], rule: Any) -> bool:
    path: tuple[str, ...] = tuple(rule.path)
    size = len(path)
    if len(namespace) < size:
        return False
    part = namespace[:size] if rule.match_type == "prefix" else namespace[len(namespace) - size :]
    return all(want in ("*", label) for want, label in zip(path, part, strict=True))


def _fields_of(item: Item) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": _dated(item.created_at),
        "updated_at": _dated(item.updated_at),
    }


def _dated(moment: int) -> datetime:
    return datetime.fromtimestamp(min(moment, _LAST_MS) / 1000, UTC)
