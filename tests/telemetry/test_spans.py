"""What each operation says of itself, attribute by attribute; every span also passes the checker."""

from typing import Any

import pytest

from quipu import ConflictError, InvalidError, NotFoundError
from quipu.bootstrap import OPERATIONS
from quipu.telemetry.describe import OWN, span_of
from tests.fixtures.spans import Shown, values
from tests.requirement import requirement
from tests.telemetry.conftest import Opened

P = "gen_ai.memory."


@requirement("opentelemetry:spans.mapping")
def test_each_operation_names_its_span() -> None:
    named = {operation.name: span_of(operation) for operation in OPERATIONS if operation.span is not None}
    assert named == {
        **dict.fromkeys(
            ("remember", "update", "remember_many", "merge", "restore", "step", "put_entry"), "update_memory"
        ),
        **dict.fromkeys(("recall", "get", "list", "history", "related"), "search_memory"),
        **dict.fromkeys(("forget", "expire", "delete_entry"), "delete_memory"),
        "create_store": "create_memory_store",
        "delete_store": "delete_memory_store",
        "decide": "quipu.memory.review",
        "consolidate": "quipu.consolidate",
    }
    assert {span for span in named.values() if span in OWN} == OWN


@requirement("opentelemetry:spans.stores")
async def test_stores(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    made = await memory.create_store("prefs", scope="user", tier="short_term", namespace="org_acme")
    span = shown.one()
    assert (span.name, span.kind.name, span.status.status_code.name) == (
        "create_memory_store prefs",
        "CLIENT",
        "UNSET",
    )
    assert values(span) == {
        "gen_ai.operation.name": "create_memory_store",
        "gen_ai.provider.name": "quipu",
        f"{P}store.id": made.id,
        f"{P}store.name": "prefs",
        f"{P}scope": "user",
        f"{P}type": "short_term",
        f"{P}namespace": "org_acme",
        "quipu.memory.operation": "create_store",
        "quipu.memory.outcome": "created",
        "quipu.memory.side": "caller",
    }
    await memory.remember("Ana likes tea.", store="prefs")
    shown.taken()
    await memory.delete_store("prefs", confirm="prefs")
    span = shown.one()  # one, however many memories go
    assert span.name == "delete_memory_store prefs"
    assert values(span)[f"{P}store.id"] == made.id
    assert f"{P}scope" not in values(span)


@requirement("opentelemetry:spans.stores")
async def test_the_first_store_of_a_tenant_is_told_once(opened: Opened, shown: Shown) -> None:
    from quipu import Memory, Telemetry
    from quipu.config import Settings

    async with Memory(
        "ana",
        ":memory:",
        embedder="none",
        config=Settings(),
        telemetry=Telemetry(tracer_provider=shown.tracers),
    ) as memory:
        await memory.remember("one")
        await memory.remember("two")
    names = [span.name for span in shown.taken()]
    assert names.count("create_memory_store main") == 1
    assert names.count("update_memory main") == 2


@requirement("opentelemetry:spans.update")
async def test_updates(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    done = await memory.remember(
        "Ana likes tea.", importance=0.5, expires_at=1_900_000_000_000, confidence=0.25
    )
    span = shown.one()
    assert span.name == "update_memory main"
    seen = values(span)
    assert done.store is not None
    assert seen == {
        "gen_ai.operation.name": "update_memory",
        "gen_ai.provider.name": "quipu",
        f"{P}store.id": done.store.id,
        f"{P}store.name": "main",
        f"{P}id": done.id,
        f"{P}type": "long_term",
        f"{P}importance": 0.5,  # and never the confidence
        f"{P}expiration_date": "2030-03-17T17:46:40.000Z",
        "gen_ai.agent.id": "ana",
        "quipu.memory.operation": "remember",
        "quipu.memory.outcome": "created",
        "quipu.memory.record.type": "semantic",
        "quipu.memory.side": "caller",
    }
    for given, strategy in (
        ({}, "merge"),
        ({"replace": True}, "overwrite"),
        ({"update_strategy": "append"}, "append"),
    ):
        await memory.remember("Green tea.", id=done.id, **given)
        assert values(shown.one())[f"{P}update.strategy"] == strategy
    await memory.update(done.id, tags=["drinks"])
    changed = values(shown.one())
    assert (changed["quipu.memory.operation"], changed["quipu.memory.outcome"]) == ("update", "updated")
    other = await memory.remember("Ana drinks tea.")
    shown.taken()
    await memory.merge(done.id, [other.id])
    merged = values(shown.one())
    assert (merged[f"{P}id"], merged[f"{P}update.strategy"], merged["quipu.memory.outcome"]) == (
        done.id,
        "merge",
        "merged",
    )
    assert merged["quipu.memory.count"] == 2
    await memory.restore(other.id)
    restored = values(shown.one())
    assert f"{P}update.strategy" not in restored
    assert restored["quipu.memory.outcome"] == "updated"


@requirement("opentelemetry:spans.update")
async def test_a_batch_is_one_update(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.remember_many([{"content": "one"}, {"content": "two"}])
    span = shown.one()
    seen = values(span)
    assert span.name == "update_memory main"
    assert (seen["quipu.memory.count"], seen["quipu.memory.outcome"]) == (2, "created")
    assert f"{P}id" not in seen
    assert seen["gen_ai.agent.id"] == "ana"
    await memory.remember_many(
        [{"content": "one", "store": "nowhere"}, {"content": "two", "store": "nowhere"}]
    )
    failed = shown.one()
    assert failed.status.status_code.name == "ERROR"
    assert values(failed)["error.type"] == "not_found"


@requirement("opentelemetry:spans.search")
async def test_searches(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    done = await memory.remember("Ana likes tea.", session_id="s1")
    shown.taken()
    assert len(await memory.recall("tea", store="main", min_relevance=0.1)) == 1
    span = shown.one()
    assert span.name == "search_memory main"
    assert values(span) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": "quipu",
        f"{P}store.id": done.store.id if done.store else "",
        f"{P}store.name": "main",
        f"{P}type": "long_term",
        f"{P}search.result.count": 1,
        f"{P}search.similarity.threshold": 0.1,
        "gen_ai.agent.id": "ana",
        "quipu.memory.operation": "recall",
        "quipu.memory.search.k": 5,
        "quipu.memory.side": "caller",
    }
    await memory.recall("tea", min_relevance="off")  # over all stores, and no floor
    seen = values(shown.one())
    assert {f"{P}store.id", f"{P}store.name", f"{P}type", f"{P}search.similarity.threshold"}.isdisjoint(seen)
    assert len(await memory.recall("submarines", types=["episodic"])) == 0
    nothing = shown.one()
    assert nothing.status.status_code.name == "UNSET"
    assert values(nothing)[f"{P}search.result.count"] == 0
    assert values(nothing)["quipu.memory.record.type"] == ("episodic",)
    for asked in (
        memory.get(done.id),
        memory.list(store="main"),
        memory.history(done.id),
        memory.related(done.id),
    ):
        await asked
        assert values(shown.one())[f"{P}search.result.count"] == 1
    await memory.create_store("talks", scope="session")
    await memory.recall("tea", store="talks", session_id="s1")
    assert values(shown.spans[-1])["gen_ai.conversation.id"] == "s1"
    assert "gen_ai.agent.id" not in values(shown.spans[-1])


@requirement("opentelemetry:spans.delete")
async def test_a_delete_by_ids_is_a_span_for_each(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.create_store("prefs", scope="user")
    one, two = await memory.remember("one"), await memory.remember("two", store="prefs", user_id="u1")
    shown.taken()
    await memory.forget(ids=[one.id, two.id, "mem_unknown"])
    spans = shown.taken()
    seen = [
        (span.name, values(span)[f"{P}id"], values(span)[f"{P}scope"], values(span)["quipu.memory.outcome"])
        for span in spans
    ]
    assert sorted(seen) == sorted(
        [
            ("delete_memory main", one.id, "agent", "deleted"),
            ("delete_memory prefs", two.id, "user", "deleted"),
            ("delete_memory", "mem_unknown", "agent", "not_found"),
        ]
    )
    assert len({(span.start_time, span.end_time) for span in spans}) == 1
    assert {values(span)["quipu.memory.delete.selector"] for span in spans} == {"ids"}
    assert not any(f"{P}type" in values(span) for span in spans)  # none selects by tier
    erased = await memory.remember("three", store="prefs")
    shown.taken()
    await memory.forget(ids=[erased.id], hard_delete=True)  # where it was is known although it is gone
    assert shown.one().name == "delete_memory prefs"


@requirement("opentelemetry:spans.delete")
async def test_other_deletes_are_a_span_for_each_store(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.create_store("prefs", scope="user")
    ids = [(await memory.remember(f"fact {number}")).id for number in range(33)]
    await memory.remember("one", tags=["old"])
    await memory.remember("two", tags=["old"], store="prefs")
    shown.taken()
    await memory.forget(filter={"tags": "old"})
    spans = shown.taken()
    assert sorted(span.name for span in spans) == ["delete_memory main", "delete_memory prefs"]
    for span in spans:
        assert f"{P}id" not in values(span)
        assert values(span)["quipu.memory.delete.selector"] == "filter"
    await memory.forget(ids=ids)
    span = shown.one()
    assert (values(span)["quipu.memory.count"], values(span)["quipu.memory.delete.selector"]) == (33, "ids")
    await memory.remember("three")
    shown.taken()
    await memory.expire(policy={"type": "semantic"}, action="archive")
    assert (shown.spans[0].name, values(shown.one())["quipu.memory.outcome"]) == (
        "update_memory main",
        "archived",
    )
    await memory.expire(policy={"type": "semantic"})
    seen = values(shown.one())
    assert (seen["gen_ai.operation.name"], seen["quipu.memory.delete.selector"]) == (
        "delete_memory",
        "policy",
    )


@requirement("opentelemetry:spans.refused")
async def test_what_is_refused_is_a_span_too(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    with pytest.raises(InvalidError):
        await memory.remember("")
    invalid = shown.one()
    assert (invalid.name, values(invalid)["error.type"]) == ("update_memory", "validation_error")
    assert invalid.status.status_code.name == "ERROR"
    assert invalid.status.description is not None
    with pytest.raises(NotFoundError):
        await memory.recall("tea", store="nowhere")
    missing = shown.one()
    assert (missing.name, values(missing)["error.type"]) == ("search_memory", "not_found")
    assert f"{P}search.result.count" not in values(missing)
    with pytest.raises(InvalidError):
        await memory.create_store("", scope="team")
    assert values(shown.one())[f"{P}scope"] == "agent"  # what is not read says nothing
    with pytest.raises(ConflictError):
        await memory.create_store("main", scope="team")
    assert values(shown.one())[f"{P}scope"] == "team"
    with pytest.raises(NotFoundError):
        await memory.delete_store("nowhere", confirm="nowhere")
    assert values(shown.one())["error.type"] == "not_found"


@requirement("opentelemetry:spans.held")
async def test_a_held_write_and_its_decision_are_linked(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    held = await memory.remember("Ana moves to Porto.", approval_required=True)
    span = shown.one()
    assert (span.status.status_code.name, values(span)["quipu.memory.outcome"]) == (
        "UNSET",
        "pending_approval",
    )
    assert values(span)[f"{P}id"] == held.id
    waiting = await memory.review(held.proposal_id or "")
    await memory.decide(held.proposal_id or "", True, etag=waiting.etag)
    (decision,) = (one for one in shown.taken() if one.name == "quipu.memory.review")
    assert decision.kind.name == "INTERNAL"
    assert [link.context.span_id for link in decision.links] == [span.get_span_context().span_id]


@requirement("opentelemetry:spans.namespace")
@pytest.mark.parametrize(("settings", "wanted"), [({}, "u1"), ({"telemetry_namespace": "off"}, None)])
async def test_a_namespace_is_what_isolates(
    opened: Opened, shown: Shown, settings: dict[str, Any], wanted: str | None
) -> None:
    memory = await opened(**settings)
    await memory.remember("Ana likes tea.", user_id="u1")
    assert values(shown.one()).get(f"{P}namespace") == wanted
    await memory.remember("Ana likes tea.")
    assert f"{P}namespace" not in values(shown.one())


@requirement("opentelemetry:spans.consolidation")
async def test_a_pass_of_consolidation_is_linked_with_the_writes_that_caused_it(
    opened: Opened, shown: Shown
) -> None:
    memory = await opened()
    await memory.create_store("window", tier="short_term")
    written = await memory.remember(
        "Ana moved to Porto in May.", store="window", importance=1.0, confidence=1.0
    )
    for _ in range(5):
        await memory.recall("Porto", store="window")
    cause = next(span for span in shown.taken() if values(span)["quipu.memory.operation"] == "remember")
    done = await memory.consolidate()
    spans = shown.taken()
    (whole,) = (span for span in spans if span.name == "quipu.consolidate")
    assert whole.kind.name == "INTERNAL"
    acted = [one for one in done.decisions if one.outcome in ("promoted", "evicted", "known", "held")]
    assert [one for one in acted if written.id in one.ids]
    assert [link.context.span_id for link in whole.links] == [cause.get_span_context().span_id]
    beneath = [
        span
        for span in spans
        if span.parent is not None and span.parent.span_id == whole.get_span_context().span_id
    ]
    assert len(beneath) == len(acted)
