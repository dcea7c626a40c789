"""Index, size and copies of a memory: who may have them made, and what they leave as it was."""

import stat
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import Container, open_container
from quipu.config import Settings
from quipu.embed.port import Role
from quipu.errors import (
    BackendUnavailableError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    SecretLeakageError,
)
from quipu.ledger.index import Space
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import FORGET, RECALL, REMEMBER, UPDATE
from quipu.model.principal import Permission, local
from quipu.operation import dispatch, dispatch_stream
from quipu.secrets.operations import ADD_SECRET
from quipu.testing.embedders import WordEmbedder
from quipu.upkeep.operations import BACKUP, REINDEX, STATISTICS, VACUUM
from tests.ledger.builders import commit, faults, put
from tests.upkeep.conftest import Opened, run

T = "default"
DAY_MS = 86_400_000


async def found(container: Container, query: str, **fields: Any) -> list[str]:
    answer = await run(container, RECALL, query=query, min_relevance="off", **fields)
    return [hit.content for hit in answer]


async def ops(container: Container, tenant: str = T) -> list[str]:
    await container.memory.read_log.flush()
    entries = await container.ledger.entries(tenant, JournalQuery())
    return [entry.op for entry in entries if entry.op not in ("recall", "create_store")]


# -- reindex -----------------------------------------------------------------------------------------------------------


async def test_a_memory_moves_to_another_embedder_and_goes_on_beside_it(opened: Opened) -> None:
    before = await opened(dimensions=64)
    for content in ("Ana likes tea", "Bo likes coffee", "the sea is blue"):
        await run(before, REMEMBER, content=content)
    after = await opened(dimensions=32)
    with pytest.raises(ConflictError) as refused:
        await run(after, RECALL, query="tea")
    assert refused.value.reason == "embedding_mismatch"

    steps = await run(after, REINDEX)
    assert [(step.tenant, step.vectors, step.done) for step in steps][-1] == (T, 3, True)
    assert (await found(after, "Ana likes tea"))[0] == "Ana likes tea"
    assert (await after.ledger.space(T)) == Space("words-32", 32)
    assert (await ops(after))[-1] == "reindex"
    assert [(step.terms, step.vectors) for step in await run(after, REINDEX)] == [(0, 0)]
    assert await faults(after.ledger, T) == []
    with pytest.raises(ConflictError):  # who has the former embedder still does not mix its vectors in
        await run(before, REMEMBER, content="late")


async def test_recall_goes_on_in_the_former_space_until_the_last_vector_is_there(opened: Opened) -> None:
    before = await opened(dimensions=64)
    for number in range(130):
        await run(before, REMEMBER, content=f"fact number {number}")
    after = await opened(dimensions=32)
    step_count = 0
    ctx = after.context(local(agent_id="agent"))
    async for step in dispatch_stream(ctx, REINDEX, {}):
        step_count += 1
        if not step.done and step.vectors < 130:
            assert len(await found(before, "fact number 7", k=3)) == 3
    assert step_count == 4
    assert (await found(after, "fact number 7"))[0] == "fact number 7"


async def test_a_move_that_was_begun_is_given_up_by_who_stays(opened: Opened) -> None:
    stays, begins, moves = [await opened(dimensions=size) for size in (64, 32, 16)]
    for number in range(130):
        await run(stays, REMEMBER, content=f"fact number {number}")
    steps = dispatch_stream(begins.context(local(agent_id="agent")), REINDEX, {})
    await anext(steps)
    await steps.aclose()
    with pytest.raises(ConflictError) as refused:
        await run(moves, REINDEX)
    assert refused.value.reason == "embedding_mismatch"
    assert (await found(stays, "fact number 7"))[0] == "fact number 7"
    await run(stays, REINDEX)
    await run(moves, REINDEX)
    assert (await found(moves, "fact number 7"))[0] == "fact number 7"


class Renamed(WordEmbedder):
    """Another model with as many dimensions, which compares the same words by other directions."""

    def __init__(self) -> None:
        super().__init__(64)
        self.model = "other-words-64"

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        return await super().embed([text[::-1] for text in texts], role)


async def test_vectors_of_two_models_of_one_length_are_never_compared(opened: Opened, tmp_path: Path) -> None:
    before = await opened(dimensions=64)
    for number in range(130):
        await run(before, REMEMBER, content=f"fact number {number}")
    after = await open_container(Settings(), stores=[tmp_path / "memory.db"], embedder=Renamed())
    ctx = after.context(local(agent_id="agent"))
    async with aclosing(dispatch_stream(ctx, REINDEX, {})) as steps:
        await anext(steps)  # by now there are vectors of both
        with pytest.raises(ConflictError) as refused:
            await run(after, RECALL, query="fact number 7")
        assert refused.value.reason == "embedding_mismatch"
        assert "quipu reindex" in str(refused.value.hint)
        assert (await found(before, "fact number 7"))[0] == "fact number 7"
    # Stopped after its first step, it goes on with what is left.
    steps = [step for step in await run(after, REINDEX) if step.done]
    assert 0 < steps[-1].vectors < 130
    assert (await found(after, "fact number 7"))[0] == "fact number 7"
    await after.close()


async def test_words_are_cut_anew_and_what_was_right_is_left_alone(opened: Opened) -> None:
    memory = await opened(dimensions=0)
    kept = await run(memory, REMEMBER, content="Ana likes tea")
    await run(memory, REMEMBER, content="Bo likes coffee")
    await memory.ledger.set_terms(T, [((kept.id, 1), None)])
    assert await found(memory, "tea") == []
    (step,) = [step for step in await run(memory, REINDEX) if step.done]
    assert (step.terms, step.vectors) == (1, 0)
    assert await found(memory, "tea") == ["Ana likes tea"]


async def test_memory_that_was_written_without_an_embedder_gets_its_vectors(opened: Opened) -> None:
    await run(await opened(dimensions=0), REMEMBER, content="Ana likes tea")
    memory = await opened(dimensions=64)
    await memory.ledger.open_tenant("empty", 1)
    steps = {step.tenant: step.vectors for step in await run(memory, REINDEX) if step.done}
    assert steps == {T: 1, "empty": 0}
    assert await memory.ledger.space("empty") is not None


class Away(WordEmbedder):
    """An endpoint that is away for a while."""

    is_away = False

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        if self.is_away:
            raise BackendUnavailableError("The endpoint is away.", reason="unreachable")
        return await super().embed(texts, role)


async def test_while_an_endpoint_is_away_words_find_and_vectors_come_with_the_next_reindex() -> None:
    embedder = Away()
    memory = await open_container(Settings(), stores=[":memory:"], embedder=embedder)
    await run(memory, REMEMBER, content="Ana likes tea")
    embedder.is_away = True
    await run(memory, REMEMBER, content="Bo likes coffee")
    assert set(await found(memory, "likes")) == {"Ana likes tea", "Bo likes coffee"}
    assert (await run(memory, STATISTICS)).vectors == 1
    embedder.is_away = False
    assert [step.vectors for step in await run(memory, REINDEX) if step.done] == [1]
    assert (await run(memory, STATISTICS)).vectors == 2
    await memory.close()


# -- statistics and vacuum ----------------------------------------------------------------------------------------------


async def test_statistics_are_those_of_the_own_tenant(opened: Opened) -> None:
    memory = await opened()
    await run(memory, REMEMBER, content="Ana likes tea")
    await run(memory, REMEMBER, content="Bo likes coffee")
    mine = await run(memory, STATISTICS)
    assert (mine.records, mine.versions, mine.vectors) == (2, 2, 2)
    assert mine.bytes > 2 * 64 * 4
    theirs = local("other", agent_id="agent")
    assert (await run(memory, STATISTICS, theirs)).records == 0
    assert (await run(memory, STATISTICS)).records == 2


async def test_old_versions_are_emptied_by_an_admin_and_room_is_given_back_by_who_runs_the_server(
    opened: Opened,
) -> None:
    memory = await opened()
    kept = await run(memory, REMEMBER, content="Ana likes tea")
    await run(memory, UPDATE, id=kept.id, content="Ana likes coffee")
    gone = await run(memory, REMEMBER, content="Bo likes rain")
    await run(memory, FORGET, ids=[gone.id])
    person = local(agent_id="agent")
    admin = replace(person, permissions=frozenset({Permission.ADMIN}), is_local=False)
    operator = replace(person, permissions=frozenset({Permission.OPERATE}), is_local=False)
    with pytest.raises(ForbiddenError):
        await run(memory, VACUUM, operator, keep_history_days=1)
    with pytest.raises(ForbiddenError):
        await run(memory, VACUUM, admin)
    done = await run(memory, VACUUM, operator)
    assert (done.emptied, done.compacted) == (0, True)
    # Nothing is so old yet.
    assert (await run(memory, VACUUM, admin, keep_history_days=1)).emptied == 0
    now = memory.clock
    later = memory.context(admin)
    later = replace(later, clock=lambda: now() + 2 * DAY_MS)
    done = await dispatch(later, VACUUM, {"keep_history_days": 1})
    assert (done.emptied, done.compacted) == (1, False)
    assert [one.content for one in await memory.ledger.versions(T, kept.id)] == ["", "Ana likes coffee"]
    assert [one.content for one in await memory.ledger.versions(T, gone.id)] == ["Bo likes rain"]
    assert (await ops(memory))[-1] == "prune"
    assert await faults(memory.ledger, T) == []


# -- backup ------------------------------------------------------------------------------------------------------------


async def test_a_backup_holds_one_tenant_and_is_a_memory_of_its_own(opened: Opened, tmp_path: Path) -> None:
    memory = await opened()
    await run(memory, REMEMBER, content="Ana likes tea")
    await memory.ledger.commit(commit(put("mem_theirs", content="theirs"), tenant="other"))
    done = await run(memory, BACKUP, target=str(tmp_path / "mine.db"))
    assert done.tenants == (T,)
    assert done.bytes == (tmp_path / "mine.db").stat().st_size
    assert stat.S_IMODE((tmp_path / "mine.db").stat().st_mode) == 0o600
    assert b"theirs" not in (tmp_path / "mine.db").read_bytes()
    assert (await ops(memory))[-1] == "backup"

    copy = await opened("mine.db")
    assert await found(copy, "tea") == ["Ana likes tea"]
    assert [one.tenant for one in await copy.ledger.tenants()] == [T]
    assert await faults(copy.ledger, T) == []
    assert (await copy.ledger.head(T)).seq >= 3


async def test_everybodys_backup_is_for_who_runs_the_server_and_stands_in_everybodys_journal(
    opened: Opened, tmp_path: Path
) -> None:
    memory = await opened()
    await run(memory, REMEMBER, content="Ana likes tea")
    await memory.ledger.commit(commit(put("mem_theirs"), tenant="other"))
    admin = replace(local(), permissions=frozenset({Permission.ADMIN}), is_local=False)
    for named in ("*", "other"):
        with pytest.raises(ForbiddenError):
            await run(memory, BACKUP, admin, target=str(tmp_path / "all.db"), tenant=named)
    done = await run(memory, BACKUP, target=str(tmp_path / "all.db"), tenant="*")
    assert done.tenants == (T, "other")
    assert (await ops(memory))[-1] == (await ops(memory, "other"))[-1] == "backup"
    copy = await opened("all.db")
    assert await faults(copy.ledger, T) == await faults(copy.ledger, "other") == []


async def test_a_backup_that_cannot_be_made_leaves_nothing_behind(opened: Opened, tmp_path: Path) -> None:
    memory = await opened()
    await run(memory, REMEMBER, content="Ana likes tea")
    there = tmp_path / "there.db"
    there.write_text("something")
    with pytest.raises(BackendUnavailableError) as refused:
        await run(memory, BACKUP, target=str(there))
    assert refused.value.reason == "target_exists"
    assert there.read_text() == "something"
    with pytest.raises(InvalidError):
        await run(memory, BACKUP, target=str(tmp_path / "no" / "folder.db"))
    with pytest.raises(NotFoundError):
        await run(memory, BACKUP, target=str(tmp_path / "new.db"), tenant="nobody")
    await run(memory, ADD_SECRET, label="pass", value="correct-horse-battery")
    with pytest.raises(SecretLeakageError):
        await run(memory, BACKUP, target=str(tmp_path / "correct-horse-battery.db"))
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["memory.db", "there.db"]  # noqa: ASYNC240  a test
