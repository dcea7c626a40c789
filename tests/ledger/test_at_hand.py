"""A small partition that is in memory is searched on the spot; anything that may take longer goes to a thread."""

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from quipu.crypto.canonical import canonical
from quipu.ledger.search import cache
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.change import KeepRules
from quipu.model.journal import Op
from quipu.testing.builders import CountedIds, FixedClock, Scribe


class NoThreads(Executor):
    """A pool that refuses all work."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("this was to be done on the spot")


@pytest.fixture
async def scribe(tmp_path: Path) -> AsyncIterator[Scribe]:
    clock = FixedClock()
    ledger = SqliteLedger(tmp_path / "memory.db", clock=clock, mint_id=CountedIds(), canonical=canonical)
    scribe = await Scribe.at(ledger, clock)
    tea = await scribe.put("tea at noon", metadata={"n": 1})
    assert await scribe.found("tea") == {tea.id}
    yield scribe
    await ledger.close()


@pytest.fixture
def forbid_threads(scribe: Scribe) -> Iterator[Callable[[], None]]:
    """Call it, and from then on nothing can be read on another thread."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda: patch.setattr(scribe.ledger, "_readers", NoThreads())


async def test_what_is_in_memory_is_found_on_the_spot(
    scribe: Scribe, forbid_threads: Callable[[], None]
) -> None:
    forbid_threads()
    assert len(await scribe.found("tea")) == 1
    assert (await scribe.shares("tea")).in_reach == 1


async def test_what_was_written_since_is_found_too(
    scribe: Scribe, forbid_threads: Callable[[], None]
) -> None:
    more = await scribe.put("green tea")
    assert more.id in await scribe.found("green")
    forbid_threads()
    assert more.id in await scribe.found("green")


@pytest.mark.parametrize("why", ["large", "behind", "filtered", "not yet read", "wordy"])
async def test_what_may_take_longer_is_left_to_a_thread(
    scribe: Scribe, why: str, forbid_threads: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    text = " ".join(f"tea{number}" for number in range(500)) if why == "wordy" else "tea"
    match why:
        case "large":
            monkeypatch.setattr(cache, "_SMALL", 0)
        case "behind":
            await scribe.put("green tea")
        case "filtered":
            asked = {"filter": {"n": 1}}
        case "wordy":
            pass
        case _:
            asked = {"scope": scribe.scope("bo")}
    forbid_threads()
    with pytest.raises(AssertionError, match="on the spot"):
        await scribe.found(text, **asked)


async def test_another_reader_another_position_and_another_moment_see_their_own(scribe: Scribe) -> None:
    green = await scribe.put("green tea", user_id="mara", expires_at=scribe.clock() + 10)
    (tea,) = await scribe.found("tea") - {green.id}
    assert await scribe.found("tea") == {tea, green.id}
    assert await scribe.found("tea", scope=scribe.scope(user_id="mara")) == {green.id}
    assert await scribe.found("tea") == {tea, green.id}
    assert await scribe.found("tea", seq=green.born - 1) == {tea}
    assert await scribe.found("tea") == {tea, green.id}
    assert await scribe.found("tea", now=scribe.clock() + 10) == {tea}
    assert await scribe.found("tea") == {tea, green.id}
    await scribe.forget(green)
    assert await scribe.found("tea") == {tea}
    assert await scribe.found("tea", seq=green.born) == {tea, green.id}
    await scribe.erase(green.id)
    assert await scribe.found("tea", seq=green.born) == {tea}


async def test_what_was_just_found_is_read_on_the_spot(
    scribe: Scribe, forbid_threads: Callable[[], None]
) -> None:
    (tea,) = await scribe.found("tea")
    forbid_threads()
    now = await scribe.ledger.read(scribe.tenant, [tea])
    assert now[tea].content == "tea at noon"
    assert await scribe.ledger.read(scribe.tenant, [tea], now[tea].born) == now
    assert await scribe.ledger.read(scribe.tenant, [tea], now[tea].born - 1) == {}


async def test_what_was_just_found_and_erased_since_is_not_read(scribe: Scribe) -> None:
    (tea,) = await scribe.found("tea")
    await scribe.erase(tea)
    assert (await scribe.ledger.read(scribe.tenant, [tea]))[tea].content == ""


@pytest.mark.parametrize("why", ["large", "many", "not found", "another tenant's", "never searched"])
async def test_what_may_not_be_in_memory_is_read_on_a_thread(
    scribe: Scribe, why: str, forbid_threads: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, wanted = scribe.tenant, list(await scribe.found("tea"))
    match why:
        case "large":
            monkeypatch.setattr(cache, "_SMALL", 0)
        case "many":
            wanted *= 17
        case "not found":
            wanted.append((await scribe.put("elsewhere", agent_id="bo")).id)
        case "another tenant's":
            tenant = "another"
        case _:
            monkeypatch.delitem(vars(scribe.ledger), "_finder")
    forbid_threads()
    with pytest.raises(AssertionError, match="on the spot"):
        await scribe.ledger.read(tenant, wanted)


async def test_a_guard_that_has_not_moved_is_told_on_the_spot(
    scribe: Scribe, forbid_threads: Callable[[], None]
) -> None:
    known = await scribe.ledger.guard(scribe.tenant)
    forbid_threads()
    await scribe.put("more tea")
    assert await scribe.ledger.guard(scribe.tenant) == known


async def test_a_guard_that_another_process_has_moved_is_read_anew(scribe: Scribe) -> None:
    known = await scribe.ledger.guard(scribe.tenant)
    assert isinstance(scribe.ledger, SqliteLedger)
    other = SqliteLedger(scribe.ledger.path, clock=scribe.clock, mint_id=CountedIds("o"), canonical=canonical)
    theirs = await Scribe.at(other, scribe.clock, CountedIds("o"))
    done = await theirs.commit(KeepRules(rules=({"id": "a"},)), op=Op.CHANGE_RULES)
    await other.close()
    assert known.position < done.seq == (await scribe.ledger.guard(scribe.tenant)).position
