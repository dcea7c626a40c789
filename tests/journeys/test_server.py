"""One server, two companies, several agents: a working day through the remote client, with a crash in the middle."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import quipu
from quipu import Memory
from quipu.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    UnauthenticatedError,
)
from quipu.model.record import State
from tests.faces.serving import Program

pytestmark = pytest.mark.slow

#: Five parts of an import, as the client sends them; the server is killed when it has told of the second.
ORDERS, KILLED_AFTER = 5_000, 2_000


def open_at(server: Program, token: str, agent: str) -> Memory:
    return quipu.connect(server.url, token=token, agent_id=agent)


async def companies(server: Program) -> dict[str, dict[str, str]]:
    """Two tenants, each with an admin, two agents bound to their own names, and a reviewer."""
    tokens: dict[str, dict[str, str]] = {}
    async with open_at(server, server.token, "operator") as operator:
        for tenant in ("acme", "globex"):
            await operator.create_tenant(tenant)
            tokens[tenant] = {}
            for name, roles, agents in (
                ("boss", ["admin"], ["*"]),
                ("support", ["agent"], ["support-*"]),
                ("sales", ["agent"], ["sales"]),
                ("rita", ["reviewer"], ["*"]),
            ):
                issued = await operator.create_token(name, roles=roles, agents=agents, tenant=tenant)
                tokens[tenant][name] = issued.text
    return tokens


async def test_a_working_day(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    with Program(store) as server:
        admin = server.token
        tokens = await companies(server)
        first = await morning(server, tokens)
        await borders(server, tokens, first)
        await approval(server, tokens)
        stored_before = await interrupted_import(server, tokens)
    with Program(store) as server:
        assert "token" not in server.told
        await afternoon(server, tokens, first, stored_before)
        await whole_import(server, tokens)
        async with open_at(server, tokens["acme"]["boss"], "support-1") as boss:
            assert (await boss.verify()).holds
        assert server.stop() == 0
    with Program(store) as server:
        async with open_at(server, admin, "operator") as operator:
            assert [tenant.id for tenant in await operator.list_tenants()] == ["acme", "default", "globex"]
        for tenant in ("acme", "globex"):
            async with open_at(server, tokens[tenant]["boss"], "support-1") as boss:
                assert (await boss.verify()).holds


async def morning(server: Program, tokens: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Everything an agent does, and the same words in both companies."""
    notes: dict[str, Any] = {}
    for tenant in ("acme", "globex"):
        async with open_at(server, tokens[tenant]["support"], "support-1") as memory:
            kept = await memory.remember(
                f"Mara of {tenant} prefers tea",
                user_id="mara",
                idempotency_key="the-same-key",
                tags=["drink"],
            )
            again = await memory.remember(
                f"Mara of {tenant} prefers tea",
                user_id="mara",
                idempotency_key="the-same-key",
                tags=["drink"],
            )
            assert (again.id, again.is_replayed) == (kept.id, True)
            with pytest.raises(ConflictError):
                await memory.remember("another text", idempotency_key="the-same-key")
            before = kept.extensions["seq"]
            await memory.remember(f"Mara of {tenant} prefers coffee", id=kept.id, tags=["drink"])
            double = await memory.remember(f"Mara of {tenant} likes coffee", user_id="mara")
            assert (await memory.merge(kept.id, [double.id])).merged_count == 1
            gone = await memory.remember("the old phone number", user_id="mara")
            await memory.forget(ids=[gone.id], reason="she moved")
            await memory.restore(gone.id)
            await memory.forget(ids=[gone.id])
            await memory.remember("a passing remark", confidence=0.1)
            assert (await memory.expire({"confidence_below": 0.2}, action="archive")).matched_count == 1
            hits = await memory.recall(
                "what does Mara drink: coffee or tea?", user_id="mara", min_relevance=0
            )
            assert [hit.content for hit in hits] == [f"Mara of {tenant} prefers coffee"]
            past = await memory.recall("tea", user_id="mara", as_of=int(str(before)), min_relevance=0)
            assert [hit.content for hit in past] == [f"Mara of {tenant} prefers tea"]
            history = await memory.history(kept.id)
            assert [version.record.version for version in history] == [1, 2]
            notes[tenant] = {"id": kept.id, "seq": before}
    return notes


async def borders(server: Program, tokens: dict[str, dict[str, str]], notes: dict[str, Any]) -> None:
    """Neither the other company's, nor another agent's, nor anything after the token has ended."""
    async with open_at(server, tokens["globex"]["support"], "support-1") as stranger:
        with pytest.raises(NotFoundError):
            await stranger.get(notes["acme"]["id"])
    async with open_at(server, tokens["acme"]["sales"], "support-1") as wrong:
        with pytest.raises(ForbiddenError) as refused:
            await wrong.recall("tea")
        assert refused.value.reason == "agent_not_allowed"
    async with open_at(server, tokens["acme"]["sales"], "sales") as sales:
        assert len(await sales.recall("tea", min_relevance=0)) == 0
        with pytest.raises(NotFoundError):
            await sales.get(notes["acme"]["id"])
        with pytest.raises(ForbiddenError):
            await sales.forget(ids=["mem_x"], hard_delete=True)
        with pytest.raises(InvalidError) as bad:
            await sales.remember("x", confidence=7)
        assert bad.value.faults[0].pointer == "/confidence"
    async with open_at(server, tokens["acme"]["boss"], "sales") as boss:
        spare = await boss.create_token("spare", roles=["agent"], agents=["sales"])
        async with open_at(server, spare.text, "sales") as short:
            await short.remember("said before the end")
            await boss.revoke_token(spare.token.id)
            with pytest.raises(UnauthenticatedError):
                await short.recall("anything")


async def approval(server: Program, tokens: dict[str, dict[str, str]]) -> None:
    """Held by the agent, decided by a person, seen in the feed of changes."""
    async with (
        open_at(server, tokens["acme"]["support"], "support-1") as agent,
        open_at(server, tokens["acme"]["rita"], "support-1") as rita,
    ):
        held = await agent.remember("Mara wants her account closed", user_id="mara", approval_required=True)
        assert (held.pending_approval, held.stores) == (True, ())
        assert held.approval_url is not None
        assert held.approval_url.startswith(server.url)
        assert len(await agent.recall("account closed", min_relevance=0)) == 0
        (proposal,) = await rita.proposals()
        await rita.decide(proposal.id, approved=True, reason="she wrote to us")
        hits = await agent.recall("account closed", min_relevance=0)
        assert [hit.id for hit in hits] == [held.id]
        with pytest.raises(ForbiddenError):
            await rita.remember("reviewers do not write")


def lines(count: int, word: str) -> Callable[[], AsyncIterator[dict[str, Any]]]:
    async def stream() -> AsyncIterator[dict[str, Any]]:
        for number in range(count):
            yield {
                "agent_id": "sales",
                "type": "semantic",
                "content": f"{word} number {number}",
                "user_id": f"user-{number % 50}",
                "idempotency_key": f"{word}-{number}",
            }

    return stream


async def interrupted_import(server: Program, tokens: dict[str, dict[str, str]]) -> int:
    """The server is killed while records stream in; what it had told is what it keeps, at least."""
    told = 0

    def progress(done: int) -> None:
        nonlocal told
        told = done
        if done >= KILLED_AFTER and server.process.poll() is None:
            server.process.send_signal(signal.SIGKILL)

    async with open_at(server, tokens["globex"]["boss"], "sales") as memory:
        with pytest.raises(QuipuError):
            await memory.import_records(lines(ORDERS, "order")(), progress=progress)
    assert told >= KILLED_AFTER
    await asyncio.to_thread(server.process.wait, 30)
    return told


async def afternoon(
    server: Program, tokens: dict[str, dict[str, str]], notes: dict[str, Any], stored_before: int
) -> None:
    """After the restart: all there, tokens still good, the past still the past."""
    for tenant in ("acme", "globex"):
        async with open_at(server, tokens[tenant]["support"], "support-1") as memory:
            assert (await memory.get(notes[tenant]["id"])).content == f"Mara of {tenant} prefers coffee"
            then = await memory.get(notes[tenant]["id"], as_of=int(str(notes[tenant]["seq"])))
            assert then.content == f"Mara of {tenant} prefers tea"
    async with open_at(server, tokens["globex"]["boss"], "sales") as memory:
        kept = await everything(memory)
        assert len(kept) >= stored_before
        assert len(set(kept)) == len(kept)
        assert (await memory.verify()).holds


async def whole_import(server: Program, tokens: dict[str, dict[str, str]]) -> None:
    """The same file again: what was there stays one, what was missing comes, progress is told on the way."""
    seen: list[int] = []
    async with open_at(server, tokens["globex"]["boss"], "sales") as memory:
        summary = await memory.import_records(lines(ORDERS, "order")(), progress=seen.append)
        assert (summary.read, summary.failed) == (ORDERS, 0)
        assert seen == sorted(seen)
        assert seen[-1] == ORDERS
        assert len(seen) >= 5
        kept = await everything(memory)
        assert len(kept) == ORDERS
        assert set(kept) == {f"order number {number}" for number in range(ORDERS)}
    async with open_at(server, tokens["acme"]["boss"], "sales") as other:
        assert [text for text in await everything(other) if text.startswith("order")] == []


async def everything(memory: Memory) -> list[str]:
    found: list[str] = []
    async for record in memory.export(states=(State.LIVE,)):
        found.append(str(record["content"]))
    return found


async def test_what_two_clients_see_of_each_other(tmp_path: Path) -> None:
    """One follows the changes while the other works; nothing is missed over a restart, nothing told twice."""
    store = tmp_path / "memory.db"
    seen: list[int] = []
    with Program(store) as server:
        token = server.token
        async with open_at(server, token, "ana") as memory:
            for number in range(5):
                await memory.remember(f"before {number}")
            async for change in memory.changes(since=0):
                seen.append(change.seq)
                if len(seen) == 5:
                    break
        server.stop(signal.SIGKILL)
    with Program(store) as server:
        async with open_at(server, token, "ana") as memory:
            wrote = [(await memory.remember(f"after {number}")).extensions["seq"] for number in range(5)]
            async for change in memory.changes(since=seen[-1]):
                seen.append(change.seq)
                if len(seen) == 10:
                    break
    assert seen[5:] == wrote
    assert len(set(seen)) == 10
    assert json.dumps(seen) == json.dumps(sorted(seen))
