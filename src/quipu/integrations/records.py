"""Several memories read or written as one: all of them, or none."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Protocol

from quipu import sync
from quipu.errors import ConflictError
from quipu.memory.model import RecordView

_PAGE = 1000


class Call(Protocol):
    """Runs an operation by its name, wherever the memory is."""

    def __call__(self, name: str, /, **given: Any) -> Awaitable[Any]: ...


async def walk(call: Call, **wanted: Any) -> AsyncIterator[RecordView]:
    """Every memory that fits, newest first."""
    cursor: dict[str, str] = {}
    while True:
        page = await call("list", limit=_PAGE, **wanted, **cursor)
        for record in page.records:
            yield record
        if page.next_cursor is None:
            return
        cursor = {"cursor": page.next_cursor}


def every(memory: sync.Memory, **wanted: Any) -> list[RecordView]:
    """The same over a memory that is not awaited."""
    records: list[RecordView] = []
    cursor: str | None = None
    while True:
        page = memory.list(limit=_PAGE, cursor=cursor, **wanted)
        records += page.records
        cursor = page.next_cursor
        if cursor is None:
            return records


async def keep(call: Call, items: Sequence[Mapping[str, Any]]) -> None:
    """Write all of them, or none. One that waits for a person is told as an error: nothing has changed."""
    if len(items) == 1:  # an error need not say which of them it is about
        is_held = (await call("remember", **items[0])).is_held
    elif items:
        is_held = (await call("remember_many", items=[dict(item) for item in items], atomic=True)).is_held
    else:
        return
    if is_held:
        raise _waits()


async def drop(call: Call, records: Sequence[RecordView], **given: Any) -> None:
    """Forget all of them; or none, while that waits for a person."""
    ids = [record.id for record in records]
    for first in range(0, len(ids), _PAGE):
        if (await call("forget", ids=ids[first : first + _PAGE], **given)).is_held:
            raise _waits()


def _waits() -> ConflictError:
    return ConflictError(
        "Nothing has changed: a person has to approve it first. Do not repeat the call.",
        reason="waits_for_approval",
    )
