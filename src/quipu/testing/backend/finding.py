"""Search: in the vendor's order, within the limit, honest about filters."""

import math
from typing import Any

from quipu.testing.backend.case import HOME, START_MS, BackendCase, Keeper


class FindingContract(BackendCase):
    """`search`."""

    async def test_the_best_comes_first(self, keeper: Keeper) -> None:
        await keeper.put("violins are made of maple")
        best = await keeper.put("the capital of France is Paris")
        await keeper.put("trams run on electricity")
        assert (await keeper.found("capital of France"))[0] == best.native_id

    async def test_a_hit_has_the_text(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "verbatim")
        await keeper.put("the capital of France is Paris")
        assert [hit.text for hit in (await keeper.asked("capital of France")).hits] == [
            "the capital of France is Paris"
        ]

    async def test_a_hit_has_the_mark(self, keeper: Keeper) -> None:
        """Or the ledger could not tell whose it is where it has no note of it."""
        kept = await keeper.put("the capital of France is Paris")
        assert [hit.mark for hit in (await keeper.asked("capital of France")).hits] == [kept.mark]

    async def test_a_limit_is_kept_and_more_is_said(self, keeper: Keeper) -> None:
        await keeper.put_all([keeper.copy(f"tea number {n}") for n in range(7)])
        few = await keeper.asked("tea number", 3)
        assert len(few.hits) == 3
        assert few.has_more
        assert len((await keeper.asked("tea number", 50)).hits) == 7

    async def test_nobody_is_found_twice(self, keeper: Keeper) -> None:
        """A vendor may cut a long text into pieces; it is one record all the same."""
        long = await keeper.put("tea at noon by the river. " * 400)
        short = await keeper.put("tea at noon")
        found = await keeper.found("tea at noon by the river", 10)
        assert sorted(found) == sorted([long.native_id or "", short.native_id or ""])

    async def test_scores_are_of_the_kind_that_was_promised(self, keeper: Keeper) -> None:
        await keeper.put_all([keeper.copy(f"tea{' and cake' * n}") for n in range(5)])
        scores = [hit.score for hit in (await keeper.asked("tea", 5)).hits]
        kind = keeper.backend.capabilities.score_kind
        if kind == "rank_only":
            assert len(scores) == 5
            return
        said = [score for score in scores if score is not None]
        assert len(said) == 5, "every hit has a score"
        assert all(isinstance(score, int | float) and math.isfinite(score) for score in said), "a number"
        assert len(set(said)) > 1, "a score that is always the same is `rank_only`"
        assert said == sorted(said, reverse=kind != "distance")

    async def test_an_empty_container_holds_nothing(self, keeper: Keeper) -> None:
        assert (await keeper.asked("tea")).hits == ()
        await keeper.put("tea at noon")
        assert await keeper.found("tea", agent_id="nobody", containers=()) == []

    async def test_filters_that_are_said_to_hold_hold_before_the_cut(self, keeper: Keeper) -> None:
        wanted = await keeper.put(
            "tea somewhere else entirely",
            type="episodic",
            metadata={"colour": "green"},
            tags=("leaf", "hot"),
            session_id="s-mine",
            created_at=START_MS + 10,
        )
        others: dict[str, Any] = {"metadata": {"colour": "red"}, "tags": ("hot",), "session_id": "s-other"}
        await keeper.put_all([keeper.copy("tea", **others) for _ in range(8)])
        asked: tuple[dict[str, Any], ...] = (
            {"types": frozenset({"episodic"})},
            {"created_from": START_MS + 5},
            {"created_from": START_MS + 10},
            {"filter": {"colour": "green"}},
            {"filter": {"tags": "leaf"}},
            {"filter": {"tags": ["leaf", "hot"]}},
            {"session_id": "s-mine"},
        )
        for restriction in asked:
            answer = await keeper.asked("tea", 3, **restriction)
            if answer.is_filtered:
                assert [hit.native_id for hit in answer.hits] == [wanted.native_id], restriction
            else:
                assert wanted.native_id in await keeper.found("tea", 20, **restriction), restriction

    async def test_a_filter_it_does_not_know_is_left_to_the_ledger(self, keeper: Keeper) -> None:
        copy = await keeper.put("tea at noon", metadata={"n": {"deep": [1, 2]}})
        hard = {"$or": [{"n.deep": {"$contains": 2}}, {"$not": {"n": None}}]}
        answer = await keeper.asked("tea", filter=hard)
        assert [hit.native_id for hit in answer.hits] == [copy.native_id]
        await keeper.put_all([keeper.copy("tea") for _ in range(8)])
        answer = await keeper.asked("tea", 3, filter={"n": {"$exists": True}})
        if answer.is_filtered:
            assert [hit.native_id for hit in answer.hits] == [copy.native_id], "what it says it applied"

    async def test_values_of_another_type_are_other_values(self, keeper: Keeper) -> None:
        """memorywire 2.11: `"1"` and `true` do not equal 1."""
        others = (True, "1", [1], None)
        await keeper.put_all([keeper.copy("tea", metadata={"n": value}) for value in others])
        wanted = await keeper.put("tea somewhere else entirely", metadata={"n": 1})
        answer = await keeper.asked("tea", 2, filter={"n": 1})
        if answer.is_filtered:
            assert [hit.native_id for hit in answer.hits] == [wanted.native_id]
        else:
            assert wanted.native_id in await keeper.found("tea", 20, filter={"n": 1})

    async def test_odd_queries_are_no_failure(self, keeper: Keeper) -> None:
        await keeper.put("tea at noon")
        for text in ("%", '"', "(", "* AND NOT", "\n", "🧵", "a" * 2000, "https://example.org", "NEAR/2 :"):
            await keeper.asked(text, container=HOME)
