"""What JSON cannot carry is told before anything is sent, with its place: nothing is bent into shape on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quipu import InvalidError, Memory
from tests.client.conftest import Reaching
from tests.memory.test_wrong_values import HALF, cyclic, deep


def _any(value: object) -> Any:
    return value


CASES: dict[str, tuple[Callable[[Memory], Awaitable[Any]], str]] = {
    "something deep": (lambda m: m.remember("tea", metadata=deep()), "/metadata"),
    "something cyclic": (lambda m: m.remember("tea", metadata=cyclic()), "/metadata"),
    "something deep in a filter": (lambda m: m.recall("tea", filter=deep()), "/filter"),
    "a set": (lambda m: m.remember("tea", metadata=_any({"a": {1}})), "/metadata/a"),
    "a key that is no text": (lambda m: m.remember("tea", metadata=_any({1: 2})), "/metadata"),
    "a number as a key of a filter": (lambda m: m.list(filter=_any({1: 2})), "/filter"),
    "half a character": (lambda m: m.remember("tea", metadata={"a": HALF}), "/metadata/a"),
    "one by one": (
        lambda m: m.remember("tea", type="episodic", participants=_any(iter(["Mara"]))),
        "/participants",
    ),
    "no store": (lambda m: m.remember("tea", store=_any(None)), "/store"),
    "no word whether to erase": (lambda m: m.forget(ids=["mem_1"], hard_delete=_any(None)), "/hard_delete"),
    "no word whether to try": (lambda m: m.expire({"older_than_days": 1}, dry_run=_any(None)), "/dry_run"),
    "no number of hits": (lambda m: m.recall("tea", k=_any(None)), "/k"),
    "a vector of words": (
        lambda m: m.remember("tea", embedding={"model": "m", "vector": ["x"]}),
        "/embedding",
    ),
    "a vector without end": (
        lambda m: m.remember("tea", embedding={"model": "m", "vector": [10**400]}),
        "/embedding",
    ),
    "nothing to merge": (lambda m: m.merge("mem_1", []), "/duplicates"),
    "keys of another kind": (lambda m: m.import_file("x", keys=_any({"a": 1})), "/keys/a"),
}


@pytest.mark.parametrize(("call", "place"), CASES.values(), ids=CASES)
async def test_it_is_told_as_one_in_this_process_tells_it(
    call: Callable[[Memory], Awaitable[Any]], place: str, reaching: Reaching, memory: Memory
) -> None:
    remote = reaching()
    told: list[tuple[str | None, str]] = []
    for asked in (memory, remote):
        with pytest.raises(InvalidError) as refused:
            await call(asked)
        told.append((refused.value.reason, refused.value.faults[0].pointer))
    assert told[0][0] == told[1][0]
    assert told[1][1].startswith(place)
    assert (await remote.list()).records == ()


@pytest.fixture
async def memory() -> Any:
    async with Memory("ana", "sqlite://:memory:", embedder="none") as opened:
        yield opened


async def test_ids_that_no_address_has_are_not_found_as_ids(reaching: Reaching) -> None:
    remote = reaching()
    for record_id in ("", "a/b", "a\nb", "..", "a/history"):
        for call in (
            remote.get,
            remote.history,
            remote.restore,
            remote.procedure,
            remote.neighbours,
            lambda one: remote.step(one, "go"),
        ):
            with pytest.raises(Exception) as refused:  # noqa: PT011  the reason says which
                await call(record_id)
            assert getattr(refused.value, "reason", None) == "record", (record_id, call)
    for call in (remote.accept_rule, remote.dismiss_rule):
        for named in ("", "a/b", "a\nb"):
            with pytest.raises(Exception) as refused:  # noqa: PT011  the reason says which
                await call(named)
            assert getattr(refused.value, "reason", None) == "suggestion"
