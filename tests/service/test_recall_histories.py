"""Random histories: what recall said at a position, it says as of that position ever after, whoever asks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quipu import ConflictError, Memory, NotFoundError
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.service.looks import kept, verifies

WORDS = ("tea", "rope", "quay", "noon", "Mara", "bread", "Stra\u00dfe")
USERS = (None, "mara", "bo")
said = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
places = st.integers(0, 20)
STEPS = st.one_of(
    st.tuples(st.just("keep"), said, st.sampled_from(USERS), st.sampled_from((None, "s")), st.booleans()),
    st.tuples(st.just("change"), places, said),
    st.tuples(st.just("forget"), places),
    st.tuples(st.just("restore"), places),
    st.tuples(st.just("merge"), places, places),
    st.tuples(st.just("archive")),
    st.tuples(st.just("wait")),
    st.tuples(st.just("reopen")),
)
ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"user_id": "mara", "hops": 2},
    {"types": ["episodic"], "fusion": "max"},
    {"filter": {"n": 1}, "session_id": "s"},
    {"min_relevance": "auto"},
)


class Historian:
    """Carries steps out on one file through two memories, and notes what recall said after each."""

    def __init__(self, folder: Path) -> None:
        self._file, self.clock = folder / "memory.db", FixedClock()
        self.memories = [self.opened(), self.opened()]
        self.ids: list[str] = []
        self.told: list[tuple[int, dict[str, Any], list[Any]]] = []

    def opened(self) -> Memory:
        return Memory("ana", self._file, embedder=WordEmbedder(16), clock=self.clock)

    async def take(self, number: int, step: tuple[Any, ...]) -> None:
        memory = self.memories[number % 2]
        match step:
            case ("keep", text, user, session, is_turn):
                kind, meta = "episodic" if is_turn else "semantic", {"n": number % 2}
                self.ids.append(
                    await kept(memory, text, user_id=user, session_id=session, type=kind, metadata=meta)
                )
            case ("change", place, text):
                record = await memory.get(self.at(place))
                await memory.remember(text, id=record.id, type=record.type)
            case ("forget", place):
                await memory.forget(ids=[self.at(place)])
            case ("restore", place):
                await memory.restore(self.at(place))
            case ("merge", place, other):
                await memory.merge(self.at(place), [self.at(other)], strategy="merge_content")
            case ("archive",):
                await memory.expire({"older_than_days": 1, "type": "semantic"}, action="archive")
            case ("wait",):
                self.clock.move(86_400_000)
            case _:
                await memory.close()
                self.memories[number % 2] = self.opened()

    def at(self, place: int) -> str:
        return self.ids[place % len(self.ids)] if self.ids else "mem_none"

    async def ask(self, number: int) -> None:
        asked = ASKED[number % len(ASKED)]
        one, other = [await answer(memory, asked) for memory in self.memories]
        assert one == other
        seq = (await self.memories[0].recall("tea")).extensions["seq"]
        self.told.append((int(str(seq)), asked, one))


async def answer(memory: Memory, asked: dict[str, Any], **more: Any) -> list[Any]:
    given: dict[str, Any] = {"min_relevance": 0, **asked, **more}
    hits = await memory.recall("tea and rope at the quay", **given)
    return [(hit.id, hit.version, hit.content, hit.score, hit.relevance, hit.supporting) for hit in hits]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=5, max_size=25))
async def test_what_was_recalled_then_is_recalled_as_of_then(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        historian = Historian(Path(folder))
        try:
            for number, step in enumerate(steps):
                try:
                    await historian.take(number, step)
                except (NotFoundError, ConflictError):
                    continue  # such as what is forgotten already
                await historian.ask(number)
            historian.memories.append(historian.opened())
            for memory in historian.memories:
                for seq, asked, then in historian.told:
                    assert await answer(memory, asked, as_of=seq) == then
            assert await verifies(historian.memories[0])
        finally:
            for memory in historian.memories:
                await memory.close()
