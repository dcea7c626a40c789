"""Search: in the vendor's order, within the limit, honest about filters; tenants, stores, agents and users kept apart."""

import math
from dataclasses import replace
from typing import Any

from quipu.mirrors.backend import Container
from quipu.testing.backend.case import HOME, START_MS, BackendCase, Keeper, place

_ODD = (
    "",
    " ",
    " x",
    "x",
    "x ",
    "_",
    "a.b",
    "a/b",
    "a:b",
    "ünï 🧵",
    "%",
    "u1",
    "u10",
    "x_5f",
    "A",
    "a",
    # The same to the eye, and to whoever normalises names.
    "caf\u00e9",
    "cafe\u0301",
    "\ufb01",
    "fi",
    "q" * 256,
)


class FindingContract(BackendCase):
    """`search`, and containers."""

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

    # -- containers: before the best are chosen, and whatever they are called -----------------------------------------

    async def test_nearer_rows_of_others_hide_nothing(self, keeper: Keeper) -> None:
        others = (
            replace(HOME, tenant="other"),
            replace(HOME, agent_id="bob"),
            replace(HOME, user_id="carol"),
            replace(HOME, store_id="ms_02"),
        )
        for other in others:
            await keeper.put_all([keeper.copy("tea", other) for _ in range(12)])
        mine = await keeper.put("tea somewhere else entirely")
        assert await keeper.found("tea", 3) == [mine.native_id]

    async def test_without_a_user_all_users_are_in_reach(self, keeper: Keeper) -> None:
        users: tuple[str | None, ...] = ("alice", "bob", None, "")
        homes = [replace(HOME, user_id=user) for user in users]
        kept = [await keeper.put("tea at noon", home) for home in homes]
        everybody = await keeper.found("tea at noon", 10, user_id=None, containers=tuple(homes))
        assert sorted(everybody) == sorted(copy.native_id or "" for copy in kept)
        for home, copy in zip(homes, kept, strict=True):
            if home.user_id is not None:
                assert await keeper.found("tea at noon", 10, home) == [copy.native_id]

    async def test_without_a_store_or_an_agent_all_are_in_reach(self, keeper: Keeper) -> None:
        shared, private = replace(HOME, agent_id="bob"), replace(HOME, store_id="ms_02")
        kept = [await keeper.put("tea at noon", home) for home in (HOME, shared, private)]
        names = [copy.native_id or "" for copy in kept]
        assert sorted(
            await keeper.found("tea", 10, agent_id=None, user_id=None, containers=(HOME, shared))
        ) == sorted(names[:2])
        assert sorted(await keeper.found("tea", 10, store_id=None, containers=(HOME, private))) == sorted(
            [names[0], names[2]]
        )

    async def test_odd_names_of_users_are_kept_apart(self, keeper: Keeper) -> None:
        homes = [replace(HOME, user_id=name) for name in _ODD]
        kept = await keeper.put_all([keeper.copy("tea at noon", home) for home in homes])
        for home, copy in zip(homes, kept, strict=True):
            assert await keeper.found("tea at noon", 5, home) == [copy.native_id], repr(home.user_id)

    async def test_odd_names_of_agents_are_kept_apart(self, keeper: Keeper) -> None:
        homes = [replace(HOME, agent_id=name, user_id=None) for name in _ODD if name]
        kept = await keeper.put_all([keeper.copy("tea at noon", home) for home in homes])
        for home, copy in zip(homes, kept, strict=True):
            assert await keeper.found("tea at noon", 5, home) == [copy.native_id], repr(home.agent_id)

    async def test_names_do_not_run_into_each_other(self, keeper: Keeper) -> None:
        homes = (
            Container(tenant="acme", store_id="ms_01", agent_id="a", user_id="b--c"),
            Container(tenant="acme", store_id="ms_01", agent_id="a--b", user_id="c"),
            Container(tenant="acme", store_id="ms_01--a", agent_id="b", user_id="c"),
        )
        kept = await keeper.put_all([keeper.copy("tea at noon", home) for home in homes])
        for home, copy in zip(homes, kept, strict=True):
            assert await keeper.found("tea at noon", 5, home) == [copy.native_id]

    async def test_a_walk_stays_in_its_container(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "list")
        mine = await keeper.put("tea at noon")
        other = replace(HOME, user_id="u10")
        await keeper.put("tea at noon", other)
        assert [one.mark for one in await keeper.held()] == [mine.mark]
        assert await keeper.held(replace(HOME, agent_id="nobody")) == []
        await keeper.backend.delete([place(mine)])
        assert len(await keeper.held(other)) == 1
