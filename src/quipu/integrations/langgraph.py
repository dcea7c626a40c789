"""Quipu as a LangGraph store: governance, audit and erasure for agents that keep memory there, by changing one line.

    memory = quipu.sync.Memory(agent_id="assistant")
    store = QuipuStore(memory)
    graph = builder.compile(store=store)

- An item is a record: (namespace, key) names it, `put` again makes a new version, a value of None forgets.
- The value is kept whole in the record's metadata and comes back unchanged. What is searched by is the text at the
  `index` paths, else at `fields`; with `index=False` an item is kept and never found by a query.
- The namespace's labels become user and session by the template given; the tenant is the credential's.
- A batch's reads do not see its writes, and of two puts of one key the last counts, as in LangGraph's own stores.
- `ttl` counts from the write; reads do not extend it.
- `put` answers nothing, so a write that waits for a person is told to `on_held`; with `strict` it raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from quipu import sync
from quipu.bootstrap import now_ms
from quipu.errors import ConflictError, NotFoundError
from quipu.model.outcomes import RememberResponse
from quipu.model.record import Record
from quipu.rules.mirroring_dates import dated

# Named at run time: the package is the user's, and what it hands over is as untyped here as JSON would be.
_base: Any = import_module("langgraph.store.base")
BaseStore: Any = _base.BaseStore
GetOp: Any = _base.GetOp
ListNamespacesOp: Any = _base.ListNamespacesOp
PutOp: Any = _base.PutOp
SearchOp: Any = _base.SearchOp

_KEY = "langgraph"
_MOST = 1_000
_PAGE = 200


class QuipuStore(BaseStore):
    """LangGraph's long-term memory, kept by Quipu. Serves both colours; the memory is not closed with it."""

    supports_ttl = True
    __slots__ = ("_clock", "_fields", "_memory", "_on_held", "_strict", "_template", "_turn")

    def __init__(
        self,
        memory: sync.Memory,
        *,
        namespace: Sequence[str] = ("memories", "{user_id}"),
        fields: Sequence[str] = ("$",),
        on_held: Callable[[RememberResponse], object] | None = None,
        strict: bool = False,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._memory, self._template, self._fields = memory, tuple(namespace), tuple(fields)
        self._on_held, self._strict, self._clock = on_held, strict, clock
        self._turn = asyncio.Lock()

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        return self._memory.portal.run(self._carried_out(list(ops)))

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return await asyncio.to_thread(self.batch, list(ops))

    async def _carried_out(self, ops: Sequence[Any]) -> list[Any]:
        results: list[Any] = []
        puts: dict[tuple[tuple[str, ...], str], Any] = {}
        for op in ops:
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
                results.append(None)
            else:
                results.append(await self._read(op))
        async with self._turn:  # two writers of one new key must not make two records
            for op in puts.values():
                await self._put(op)
        return results

    # -- writing ------------------------------------------------------------------------------------------------

    async def _put(self, op: Any) -> None:
        known = await self._record(op.namespace, op.key)
        memory = self._memory.memory
        if op.value is None:
            if known is not None:
                await memory.forget(ids=[known.id])
            return
        paths: Sequence[str] = self._fields if op.index in (None, False) else op.index
        texts: list[str] = [text for path in paths for text in _base.get_text_at_path(op.value, path)]
        kept: dict[str, Any] = {
            "namespace": list(op.namespace),
            "depth": len(op.namespace),
            "key": op.key,
            "value": op.value,
            "is_indexed": op.index is not False,
        }
        answer = await memory.remember(
            "\n".join(texts).strip() or op.key,
            id=None if known is None else known.id,
            metadata={_KEY: kept},
            expires_at=None if op.ttl is None else self._clock() + int(op.ttl * 60_000),
            **self._scope(op.namespace),
        )
        if answer.pending_approval:
            self._held(answer)

    def _held(self, answer: RememberResponse) -> None:
        if self._on_held is not None:
            self._on_held(answer)
        if self._strict:
            raise ConflictError(
                "The item waits for approval and is not visible yet.", reason="held", hint=answer.approval_url
            )

    def _scope(self, namespace: tuple[str, ...]) -> dict[str, Any]:
        """Who an item belongs to, by the labels the template names."""
        pairs = zip(self._template, namespace, strict=False)
        named = {place[1:-1]: label for place, label in pairs if place[:1] == "{" and place[-1:] == "}"}
        return {name: label for name, label in named.items() if name in ("user_id", "session_id")}

    # -- reading ------------------------------------------------------------------------------------------------

    async def _read(self, op: Any) -> Any:
        match op:
            case GetOp():
                record = await self._record(op.namespace, op.key)
                return None if record is None else _base.Item(**_item(record))
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return await self._namespaces(op)
            case _:
                raise TypeError(f"unknown operation {type(op).__name__}")

    async def _record(self, namespace: tuple[str, ...], key: str) -> Record | None:
        wanted = {**_within(namespace), f"{_KEY}.depth": len(namespace), f"{_KEY}.key": key}
        page = await self._memory.memory.list(filter=wanted, limit=1)
        return page.records[0] if page.records else None

    async def _search(self, op: Any) -> list[Any]:
        wanted = {
            f"{_KEY}.depth": {"$gte": 1},
            **_within(op.namespace_prefix),
            **_translated(op.filter or {}),
        }
        last: int = op.offset + op.limit
        if op.query is None:
            found = [record async for record in self._walk(wanted)]
            found.sort(key=lambda record: record.updated_at, reverse=True)
            return [_base.SearchItem(**_item(record)) for record in found[op.offset : last]]
        hits = await self._memory.memory.recall(
            op.query,
            k=min(max(last, 1), _MOST),
            filter={**wanted, f"{_KEY}.is_indexed": True},
            min_relevance=0.0,
        )
        wanted_hits = list(hits)[op.offset : last]
        records = [(await self._still_there(hit.id), hit) for hit in wanted_hits]
        return [
            _base.SearchItem(**_item(record), score=hit.relevance)
            for record, hit in records
            if record is not None
        ]

    async def _still_there(self, id: str) -> Record | None:
        """The record of a hit; somebody may have deleted it since it was found."""
        try:
            return await self._memory.memory.get(id)
        except NotFoundError:
            return None

    async def _walk(self, wanted: Mapping[str, Any]) -> AsyncIterator[Record]:
        cursor = None
        while True:
            page = await self._memory.memory.list(filter=wanted, limit=_PAGE, cursor=cursor)
            for record in page.records:
                yield record
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _namespaces(self, op: Any) -> list[tuple[str, ...]]:
        found = {_namespace(record) async for record in self._walk({f"{_KEY}.depth": {"$gte": 1}})}
        held = {one for one in found if all(_matches(one, rule) for rule in op.match_conditions or ())}
        cut = sorted({one[: op.max_depth] for one in held})
        return cut[op.offset : op.offset + op.limit]


def _within(prefix: Sequence[str]) -> dict[str, Any]:
    return {f"{_KEY}.namespace.{place}": label for place, label in enumerate(prefix)}


def _translated(wanted: Mapping[str, Any], path: str = f"{_KEY}.value") -> dict[str, Any]:
    """LangGraph's filter as Quipu's, on the value; a nested object without operators descends."""
    found: dict[str, Any] = {}
    for name, test in wanted.items():
        inner = cast("dict[str, Any]", test) if isinstance(test, dict) else {}
        descends = inner and not any(key.startswith("$") for key in inner)
        found |= _translated(inner, f"{path}.{name}") if descends else {f"{path}.{name}": test}
    return found


def _matches(namespace: tuple[str, ...], rule: Any) -> bool:
    path: tuple[str, ...] = tuple(rule.path)
    size = len(path)
    if len(namespace) < size:
        return False
    part = namespace[:size] if rule.match_type == "prefix" else namespace[len(namespace) - size :]
    return all(want in ("*", label) for want, label in zip(path, part, strict=True))


def _namespace(record: Record) -> tuple[str, ...]:
    return tuple(_kept(record)["namespace"])


def _kept(record: Record) -> dict[str, Any]:
    return cast("dict[str, Any]", record.metadata[_KEY])


def _item(record: Record) -> dict[str, Any]:
    kept = _kept(record)
    return {
        "namespace": _namespace(record),
        "key": kept["key"],
        "value": dict(kept["value"]),
        "created_at": dated(record.created_at),
        "updated_at": dated(record.updated_at),
    }
