"""Tenants, stores, agents and users are kept apart, before the best are chosen and whatever they are called."""

from dataclasses import replace

from quipu.mirrors.backend import Container
from quipu.testing.backend.case import HOME, BackendCase, Keeper, place

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


class ApartContract(BackendCase):
    """Containers."""

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
