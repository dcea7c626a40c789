"""The ledger as a whole, and the journal: who may do what to them, and how far they see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quipu import ForbiddenError, Memory
from quipu.model.principal import Permission, Principal
from quipu.testing.builders import FixedClock
from tests.service.looks import kept

DAY = 86_400_000
READ, REVIEW, ADMIN, OPERATE = Permission.READ, Permission.REVIEW, Permission.ADMIN, Permission.OPERATE


def who(*permissions: Permission, **given: Any) -> Principal:
    return Principal(tenant="default", name="carla", permissions=frozenset(permissions), **given)


CALLS: dict[str, tuple[set[Permission], Any]] = {
    "journal": ({REVIEW, ADMIN}, lambda m, _: m.journal()),
    "keys": ({READ, ADMIN}, lambda m, _: m.signing_keys()),
    "backup": ({OPERATE}, lambda m, folder: m.backup(folder / "copy.db")),
    "vacuum": ({OPERATE}, lambda m, _: m.vacuum()),
    "retention": ({ADMIN}, lambda m, _: m.vacuum(keep_history_days=1)),
    "statistics": ({ADMIN, OPERATE}, lambda m, _: m.statistics()),
    "changes": ({READ, ADMIN}, lambda m, _: anext(aiter(m.changes(since=0)))),
}


@pytest.mark.parametrize("name", CALLS)
async def test_each_call_needs_one_of_its_permissions(opened: Any, tmp_path: Path, name: str) -> None:
    enough, call = CALLS[name]
    owner: Memory = opened(tmp_path / "memory.db")
    await owner.remember("tea")
    without: Memory = opened(
        tmp_path / "memory.db", principal=who(*(set(Permission) - enough - {Permission.ADMIN}))
    )
    with pytest.raises(ForbiddenError) as refused:
        await call(without, tmp_path)
    assert refused.value.reason == "missing_scope"
    for number, permission in enumerate(sorted(enough)):
        folder = tmp_path / str(number)
        folder.mkdir()
        await call(opened(tmp_path / "memory.db", principal=who(permission)), folder)


async def test_the_journal_tells_only_of_agents_one_may_act_for(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    for agent in ("shop-1", "desk-1", "shop-2", "desk-2"):
        await opened(file, agent_id=agent).remember("tea")
    all_of_it: Memory = opened(file, principal=who(REVIEW))
    assert [entry.seq for entry in await all_of_it.journal()] == [1, 2, 3, 4, 5]
    some: Memory = opened(file, principal=who(REVIEW, agents=("shop-*",)))
    assert [entry.agent for entry in await some.journal()] == ["shop-1", "shop-2"]
    assert [entry.agent for entry in await some.journal(after=2, limit=1)] == ["shop-2"]
    assert await some.journal(after=4, limit=1) == []


async def test_a_tenant_s_admin_empties_history_and_leaves_the_file_alone(
    opened: Any, tmp_path: Path, clock: FixedClock
) -> None:
    file = tmp_path / "memory.db"
    owner: Memory = opened(file)
    name = await kept(owner, "x" * 100_000)
    await owner.remember("short", id=name)
    clock.move(10 * DAY)
    await owner.remember("later")
    admin: Memory = opened(file, principal=who(ADMIN))
    assert await admin.vacuum(keep_history_days=5) == 1
    assert (await owner.history(name))[0].record.content == ""


async def test_a_memory_of_this_process_knows_who_it_acts_as(opened: Any) -> None:
    memory: Memory = opened(principal=who(READ, agents=("a*",)))
    assert await memory.whoami() == who(READ, agents=("a*",))
    described = await memory.describe()
    assert described["wire"] == "memorywire/v0"


async def test_keys_are_those_that_sign(opened: Any) -> None:
    memory: Memory = opened()
    await memory.remember("tea")
    assert (await memory.checkpoint()).key_id in await memory.signing_keys()
