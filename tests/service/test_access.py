"""What a principal may do, and how far it reaches."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from quipu import ForbiddenError, Memory, NotFoundError, RememberRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType
from tests.service.looks import found, ids, kept

READ, WRITE, DELETE, REVIEW, ADMIN, MANAGE, OPERATE = Permission


def who(*permissions: Permission, **given: Any) -> Principal:
    return Principal(tenant="default", name="carla", permissions=frozenset(permissions), **given)


CALLS: dict[str, tuple[Permission, Any]] = {
    "remember": (WRITE, lambda m: m.remember("x")),
    "remember_many": (WRITE, lambda m: m.remember_many(["x"], atomic=True)),
    "recall": (READ, lambda m: m.recall("x")),
    "recall of secrets": (ADMIN, lambda m: m.recall("x", redact="none")),
    "forget": (DELETE, lambda m: m.forget(ids=["mem_x"])),
    "erase": (ADMIN, lambda m: m.forget(ids=["mem_x"], hard_delete=True)),
    "merge": (WRITE, lambda m: m.merge("mem_x", ["mem_y"])),
    "expire": (DELETE, lambda m: m.expire({"type": "semantic"})),
    "archive": (WRITE, lambda m: m.expire({"type": "semantic"}, action="archive")),
    "get": (READ, lambda m: m.get("mem_x")),
    "list": (READ, lambda m: m.list()),
    "list of all agents": (ADMIN, lambda m: m.list(all_agents=True)),
    "history": (READ, lambda m: m.history("mem_x")),
    "restore": (WRITE, lambda m: m.restore("mem_x")),
    "create_store": (WRITE, lambda m: m.create_store("attic")),
    "list_stores": (READ, lambda m: m.list_stores()),
    "delete_store": (ADMIN, lambda m: m.delete_store("attic", confirm="attic")),
    "proposals": (REVIEW, lambda m: m.proposals()),
    "decide": (REVIEW, lambda m: m.decide("prp_x", approved=True)),
    "import": (WRITE, lambda m: m.import_records([{"content": "x"}])),
    "verify": (READ, lambda m: m.verify()),
    "checkpoint": (READ, lambda m: m.checkpoint()),
    "sweep": (DELETE, lambda m: m.sweep()),
    "reembed": (ADMIN, lambda m: m.reembed()),
}


@pytest.mark.parametrize("name", CALLS)
async def test_each_call_needs_its_permission(opened: Any, name: str) -> None:
    needed, call = CALLS[name]
    others = set(Permission) - {needed, ADMIN}
    without: Memory = opened(principal=who(*others))
    with pytest.raises(ForbiddenError) as refused:
        await call(without)
    assert refused.value.reason == "missing_scope"
    allowed: Memory = opened(principal=who(needed))
    with suppress(NotFoundError):  # allowed to ask, and there is nothing
        await call(allowed)


async def test_exports_are_for_admins(opened: Any, tmp_path: Path) -> None:
    memory: Memory = opened(principal=who(READ, WRITE, DELETE, REVIEW))
    with pytest.raises(ForbiddenError):
        await anext(aiter(memory.export()))
    with pytest.raises(ForbiddenError):
        await memory.export_journal(tmp_path / "x")


async def test_only_an_admin_may_import_ids_and_times(opened: Any) -> None:
    memory: Memory = opened(principal=who(READ, WRITE))
    lines = [
        {"content": "a"},
        {"content": "b", "id": "mem_B"},
        {"content": "c", "created_at": 1},
        {"content": "d", "updated_at": 1},
    ]
    summary = await memory.import_records(lines)
    # What may be brought in at all waits for a person: imports of others than admins are held.
    assert (summary.held, summary.failed) == (1, 3)
    assert {message.partition(":")[0] for _, message in summary.errors} == {"forbidden"}


async def test_a_principal_acts_only_for_its_agents(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    owner: Memory = opened(file, agent_id="shop-1")
    await owner.remember("tea")
    other: Memory = opened(file, agent_id="shop-1", principal=who(*Permission, agents=("desk-*",)))
    for call in (other.remember("x"), other.recall("tea"), other.get("mem_x"), other.forget(ids=["a"])):
        with pytest.raises(ForbiddenError) as refused:
            await call
        assert refused.value.reason == "agent_not_allowed"
    mine: Memory = opened(file, agent_id="desk-7", principal=who(*Permission, agents=("desk-*",)))
    own = await kept(mine, "tea")
    assert await ids(mine, all_agents=True) == {own}


async def test_a_principal_bound_to_a_user_stays_with_that_user(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    owner: Memory = opened(file)
    theirs = await kept(owner, "tea of bo", user_id="bo")
    nobodys = await kept(owner, "tea of nobody")
    bound: Memory = opened(file, principal=who(*Permission, user_id="mara"))
    own = await kept(bound, "tea of mara")
    assert (await owner.get(own)).user_id == "mara"
    assert await found(bound, "tea") == [own]
    assert await ids(bound) == {own}
    assert await ids(bound, all_agents=True) == {own}
    assert (await bound.forget(ids=[theirs, nobodys])).forgotten_ids == ()
    for record_id in (theirs, nobodys):
        with pytest.raises(NotFoundError):
            await bound.get(record_id)
        with pytest.raises(NotFoundError):
            await bound.remember("x", id=record_id)
    for call in (bound.remember("x", user_id="bo"), bound.recall("tea", user_id="bo")):
        with pytest.raises(ForbiddenError) as refused:
            await call
        assert refused.value.reason == "user_not_allowed"
    held = await bound.remember("held", approval_required=True)
    assert (await owner.proposals())[0].request["user_id"] == "mara"
    assert held.pending_approval


async def test_tenants_do_not_meet(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    one: Memory = opened(file)
    other: Memory = opened(
        file, principal=Principal(tenant="other", name="x", permissions=frozenset(Permission))
    )
    mine = await kept(one, "tea")
    await other.remember("tea")
    assert await found(one, "tea") == [mine]
    with pytest.raises(NotFoundError):
        await other.get(mine)
    assert (await other.forget(ids=[mine], hard_delete=True)).forgotten_ids == ()
    assert [entry.op for entry in await one.journal()] == ["genesis", "remember"]


async def test_the_writer_is_stamped_not_told(opened: Any) -> None:
    memory: Memory = opened(principal=who(*Permission))
    record = await memory.get(await kept(memory, "tea", source="user"))
    assert (record.provenance.written_by, record.provenance.trust.value) == ("carla", "agent")
    request = RememberRequest(
        agent_id="ana", type=MemoryType.SEMANTIC, content="x", run_id="run_1", node_id="n1"
    )
    record = await memory.get((await memory.remember(request)).id)
    assert (record.provenance.run_id, record.provenance.node_id) == ("run_1", "n1")
    entry = (await memory.journal())[-1]
    assert (entry.actor, entry.run, entry.node) == ("carla", "run_1", "n1")


@pytest.mark.parametrize("look", ["list", "history"])
async def test_who_comes_with_a_token_is_journaled_for_what_was_looked_at(opened: Any, look: str) -> None:
    """Who has the file itself need not ask for a page of it, and looking at a copy leaves that as it is."""
    reader: Memory = opened(principal=who(READ, WRITE, REVIEW))
    record_id = await kept(reader, "tea")
    await (reader.list() if look == "list" else reader.history(record_id))
    await reader.flush()
    last = (await reader.journal())[-1]
    assert (last.op, last.actor, last.records[0].id) == ("read", "carla", record_id)


async def test_a_list_of_ones_own_file_leaves_nothing_behind(memory: Memory) -> None:
    await kept(memory, "tea")
    before = (await memory.journal())[-1].seq
    assert (await memory.list()).records
    await memory.flush()
    assert (await memory.journal())[-1].seq == before
