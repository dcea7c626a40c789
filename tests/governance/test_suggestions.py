"""Suggestions: what belongs together or may go, shown to whom it concerns, with a write that mends it."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quipu.fields import DAY_MS
from quipu.governance.model import PROPOSAL_SUBJECTS, PROPOSALS, Proposal, ProposalSubject
from quipu.governance.operations import SUGGESTIONS
from quipu.governance.similar_memories import SimilarMemories
from quipu.governance.suggestions import Suggestions
from quipu.ledger.commit import Commit, Keep, Put
from quipu.memory.embedding import Embedding
from quipu.memory.operations import FORGET, GET, MERGE, NOTE_RECALLED, RECALL, REMEMBER, UPDATE
from quipu.memory.scope import STORES
from quipu.model.journal import Draft
from quipu.model.principal import Permission
from quipu.model.record import Provenance, Record
from quipu.operation import Binding, Services
from quipu.secrets.model import SECRETS
from tests.fixtures.memories import TestMemory, Unlimited, Untraced, open_memory

TABLES = (STORES, SECRETS, PROPOSALS, PROPOSAL_SUBJECTS)
OLD = 91 * DAY_MS


def with_suggestions(memory: TestMemory, budget: Any = None) -> TestMemory:
    """The memory with suggestions among its operations."""
    service = memory.service
    embedding = service.remember.embedding
    assert isinstance(embedding, Embedding)
    suggestions = Suggestions(
        ledger=memory.ledger,
        scopes=service.remember.scopes,
        engine=memory.engine,
        similar=SimilarMemories(
            ledger=memory.ledger, embedding=embedding, engine=memory.engine, clock=memory.clock
        ),
        read_log=service.read_log,
        budget=budget or Unlimited(),
        clock=memory.clock,
    )
    bindings = (*memory.services.bindings.values(), Binding(SUGGESTIONS, suggestions.suggestions))
    return replace(memory, services=Services.of(bindings, Unlimited(), Untraced()))


@pytest.fixture
async def memory() -> AsyncIterator[TestMemory]:
    opened = with_suggestions(open_memory(tables=TABLES))
    yield opened
    await opened.close()


async def kept(memory: TestMemory, content: str, **fields: Any) -> str:
    memory.clock.now += 1
    return (await memory(REMEMBER, content=content, **fields)).id


async def found(memory: TestMemory, principal: Any = None, **fields: Any) -> list[tuple[str, list[str]]]:
    """Kind and ids, over all pages."""
    said: list[tuple[str, list[str]]] = []
    while True:
        page = await memory(SUGGESTIONS, principal, **fields)
        said += [(one.kind, [shown.id for shown in one.memories]) for one in page.suggestions]
        if page.next_cursor is None:
            return said
        fields["cursor"] = page.next_cursor


async def test_duplicates_are_merged_into_the_surer_and_then_the_older(memory: TestMemory) -> None:
    older = await kept(memory, "Ana lives in Lisbon")
    newer = await kept(memory, "ana lives in lisbon")
    assert await found(memory) == [("duplicate", [older, newer])]
    surer = await kept(memory, "Ana lives in Lisbon!", confidence=1.0)
    await memory(UPDATE, id=older, confidence=0.5)
    await memory(UPDATE, id=newer, confidence=0.4)
    assert ("duplicate", [surer, older]) in await found(memory)


async def test_of_a_contradiction_the_newer_stays(memory: TestMemory) -> None:
    older = await kept(memory, "the office opens at 8 on every working day")
    newer = await kept(memory, "the office opens at 9 on every working day")
    assert await found(memory) == [("contradiction", [newer, older])]
    assert await found(memory, kind="duplicate") == []
    assert await found(memory, kind="stale") == []


async def test_what_nobody_uses_may_go(memory: TestMemory) -> None:
    doubtful = await kept(memory, "perhaps the harbour is closed", confidence=0.4)
    sure = await kept(memory, "the lighthouse is red")
    machine = {"name": "door", "initial": "a", "states": ["a"], "transitions": []}
    await kept(memory, machine, type="procedural", confidence=0.1)  # type: ignore[arg-type]
    assert await found(memory) == []
    memory.clock.now += OLD
    assert await found(memory) == [("stale", [doubtful])]
    await memory(NOTE_RECALLED, ids=[sure])
    assert await found(memory) == [("stale", [doubtful])], "what was recalled just now is used"
    memory.clock.now += OLD
    fresh = await kept(memory, "the ferry leaves from the north pier")
    assert sorted(await found(memory, kind="stale")) == sorted([("stale", [doubtful]), ("stale", [sure])])
    assert fresh not in str(await found(memory))


async def test_each_comes_with_the_write_that_mends_it(memory: TestMemory) -> None:
    """Sent as it is, it asks for approval; carried out, the suggestion is gone."""
    await kept(memory, "Ana lives in Lisbon", user_id="u")
    await kept(memory, "ana lives in lisbon", user_id="u")
    await kept(memory, "the office opens at 8 on every working day")
    await kept(memory, "the office opens at 9 on every working day")
    page = await memory(SUGGESTIONS)
    assert {one.operation for one in page.suggestions} == {"merge", "forget"}
    for one in page.suggestions:
        assert one.request["approval_required"] is True
        operation = MERGE if one.operation == "merge" else FORGET
        await memory(operation, **{**one.request, "approval_required": False})
        assert (await memory(GET, id=one.memories[0].id)).content == one.memories[0].content
    assert await found(memory) == []


async def test_what_waits_is_not_suggested_again(memory: TestMemory) -> None:
    await kept(memory, "Ana lives in Lisbon")
    twin = await kept(memory, "ana lives in lisbon")
    proposal = Proposal(
        id="prop_1",
        operation="merge",
        agent_id="agent",
        request={},
        writer="x",
        held_by=("caller",),
        created_at=1,
        traits={},
    )
    subject = ProposalSubject(record_id=twin, proposal_id="prop_1", version=1)
    commit = Commit(
        tenant="default",
        draft=Draft(op="hold", actor="x", at=1),
        changes=(Keep(PROPOSALS, proposal), Keep(PROPOSAL_SUBJECTS, subject)),
    )
    await memory.ledger.commit(commit)
    assert await found(memory) == []
    decided = replace(commit, changes=(Keep(PROPOSALS, replace(proposal, status="rejected")),))
    await memory.ledger.commit(decided)
    assert len(await found(memory)) == 1


async def test_what_is_secret_or_somebody_elses_is_no_mate(memory: TestMemory) -> None:
    for fields in (
        {},
        {"user_id": "ana"},
        {"user_id": "bo"},
        {"agent_id": "other"},
        {"type": "episodic"},
        {"privacy_intent": {"sensitivity": "secret"}},
    ):
        await kept(memory, "the door opens with a blue key", **fields)
    assert await found(memory) == []


async def test_a_reviewer_is_shown_what_lies_within_the_limits(memory: TestMemory) -> None:
    agents: dict[str, list[str]] = {}
    for agent in ("one", "two"):
        for text in ("Ana lives in Lisbon", "ana lives in lisbon"):
            agents.setdefault(agent, []).append(await kept(memory, text, agent_id=agent, user_id="u"))
    reviewer = memory.named(permissions=frozenset({Permission.REVIEW}), default_agent=None)
    assert len(await found(memory, reviewer)) == 2
    assert await found(memory, reviewer, agent_id="one") == [("duplicate", agents["one"])]
    limited = replace(reviewer, agents=("two",))
    assert await found(memory, limited) == [("duplicate", agents["two"])]
    assert await found(memory, replace(reviewer, user_id="v")) == []
    assert len(await found(memory, replace(reviewer, user_id="u"))) == 2
    assert await found(memory, replace(reviewer, review_stores=("elsewhere",))) == []
    assert await found(memory, replace(reviewer, review_operations=("forget",))) == []
    assert len(await found(memory, replace(reviewer, review_operations=("merge",)))) == 2


async def test_pages_show_everything_once(memory: TestMemory) -> None:
    for number in range(150):
        await kept(memory, f"note {'abcdefghijklmnopqrstuvwxyz'[number % 26]}{number // 26}x quiet")
        if number % 10 == 0:
            await kept(memory, f"NOTE {'abcdefghijklmnopqrstuvwxyz'[number % 26]}{number // 26}X quiet")
    for limit in (1, 4, 100):
        shown = [tuple(ids) for kind, ids in await found(memory, kind="duplicate", limit=limit)]
        assert len(shown) == len(set(shown)) == 15


async def test_without_vectors_words_say_what_is_alike() -> None:
    class NoEmbedding(Embedding):
        async def space(self, tenant: str, given: Any = None) -> None:
            return None

    opened = open_memory(tables=TABLES)
    plain = replace(
        opened.service.remember, embedding=NoEmbedding(opened.ledger, None)
    )  # as where no embedder is set
    memory = with_suggestions(replace(opened, service=replace(opened.service, remember=plain)))
    bindings = {**memory.services.bindings, "remember": Binding(REMEMBER, plain.remember)}
    memory = replace(memory, services=replace(memory.services, bindings=bindings))
    older = await kept(memory, "Ana lives in Lisbon")
    newer = await kept(memory, "ana lives in lisbon")
    assert await found(memory) == [("duplicate", [older, newer])]
    await memory.close()


async def test_what_is_shown_is_counted_and_journaled(memory: TestMemory) -> None:
    await kept(memory, "Ana lives in Lisbon")
    await kept(memory, "ana lives in lisbon")
    await found(memory)
    await memory.service.read_log.flush()
    assert (await memory.ledger.head("default")).seq == 4


@pytest.mark.slow
async def test_a_page_is_quick_at_a_hundred_thousand_memories(memory: TestMemory) -> None:
    await kept(memory, "the first")
    (store,) = await memory.ledger.page(STORES, "default")
    space = await memory.ledger.space("default")
    assert space is not None
    vectors = np.random.default_rng(7).normal(size=(100_000, space.dimensions)).astype("<f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for start in range(0, 100_000, 2_000):
        puts = tuple(
            Put(
                record=Record(
                    id=f"mem_x{number:09d}",
                    version=1,
                    store_id=store.id,
                    agent_id="agent",
                    type="semantic",
                    content=f"memory {number}",
                    provenance=Provenance(written_by="x"),
                    created_at=1,
                    updated_at=1,
                ),
                vector=vectors[number].tobytes(),
                model=space.model,
            )
            for number in range(start, start + 2_000)
        )
        draft = Draft(op="import", actor="x", at=1)
        await memory.ledger.commit(Commit(tenant="default", draft=draft, changes=puts))
    await memory(RECALL, query="warm")
    took: list[float] = []
    cursor = None
    for _ in range(3):
        started = time.perf_counter()
        page = await memory(SUGGESTIONS, kind="duplicate", **({"cursor": cursor} if cursor else {}))
        took.append(time.perf_counter() - started)
        cursor = page.next_cursor
        assert page.looked_at >= 200
    assert min(took) < 1.5, took
