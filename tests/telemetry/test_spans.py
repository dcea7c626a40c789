"""Every operation as a span: name, kind, attributes, errors."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import quipu
from quipu import Memory
from quipu.bootstrap.telemetry import Telemetry
from quipu.config import Config
from quipu.errors import InvalidError, NotFoundError, QuipuError
from quipu.model.operations import ExpirePolicy
from quipu.model.principal import local
from quipu.testing.builders import FixedClock
from tests.faces.serving import served
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Shown, attributes


@requirement("telemetry:spans.five")
async def test_the_five_operations_have_the_proposals_names_kind_and_attributes(
    opened: Opened, shown: Shown
) -> None:
    memory = await opened()
    store = await memory.create_store("prefs", scope="user", namespace="user_12345")
    kept = await memory.remember("Mara likes tea", store="prefs", user_id="user_12345", importance=0.8)
    await memory.recall("what does Mara like?", store="prefs", user_id="user_12345", min_relevance=0.2, k=7)
    await memory.forget(ids=[kept.id], store="prefs", user_id="user_12345")
    await memory.delete_store("prefs", confirm="prefs")
    common = {"gen_ai.provider.name": "quipu", "quipu.memory.side": "caller"}
    inside = {
        "gen_ai.memory.store.id": store.id,
        "gen_ai.memory.store.name": "prefs",
        "gen_ai.memory.namespace": "user_12345",
    }
    expected: dict[str, dict[str, Any]] = {
        "create_memory_store prefs": {
            "gen_ai.operation.name": "create_memory_store",
            "gen_ai.memory.scope": "user",
            "gen_ai.memory.type": "long_term",
            "quipu.memory.operation": "create_store",
            "quipu.memory.outcome": "created",
        },
        "update_memory prefs": {
            "gen_ai.operation.name": "update_memory",
            "gen_ai.memory.type": "long_term",
            "gen_ai.memory.id": kept.id,
            "gen_ai.memory.importance": 0.8,
            "quipu.memory.operation": "remember",
            "quipu.memory.outcome": "created",
            "quipu.memory.record.type": "semantic",
        },
        "search_memory prefs": {
            "gen_ai.operation.name": "search_memory",
            "gen_ai.memory.type": "long_term",
            "gen_ai.memory.search.result.count": 1,
            "gen_ai.memory.search.similarity.threshold": 0.2,
            "quipu.memory.operation": "recall",
            "quipu.memory.search.k": 7,
        },
        "delete_memory prefs": {
            "gen_ai.operation.name": "delete_memory",
            "gen_ai.memory.scope": "user",
            "gen_ai.memory.id": kept.id,
            "quipu.memory.operation": "forget",
            "quipu.memory.outcome": "deleted",
            "quipu.memory.delete.selector": "id",
        },
        "delete_memory_store prefs": {
            "gen_ai.operation.name": "delete_memory_store",
            "quipu.memory.operation": "delete_store",
            "quipu.memory.outcome": "deleted",
        },
    }
    assert [span.name for span in shown.spans] == list(expected)
    for name, own in expected.items():
        span = shown.span(name)
        assert attributes(span) == {**common, **inside, **own}
        assert span.kind.name == "CLIENT"
        assert span.status.status_code.name == "UNSET"
        assert not span.events
    assert shown.findings() == []


@requirement("telemetry:spans.main")
async def test_the_store_main_is_created_once(tmp_path: Path, shown: Shown) -> None:
    told = Telemetry(tracer_provider=shown.tracers)
    for _ in range(2):
        async with Memory("ana", f"sqlite:///{tmp_path}/a.db", embedder="none", telemetry=told) as memory:
            await memory.list_stores()
    (span,) = shown.spans
    assert span.name == "create_memory_store main"
    assert attributes(span)["gen_ai.memory.scope"] == "agent"
    assert shown.findings() == []


@requirement("telemetry:spans.update-strategy")
async def test_an_update_tells_its_strategy_expiry_and_the_store_of_its_record(
    opened: Opened, shown: Shown, clock: FixedClock
) -> None:
    memory = await opened()
    await memory.create_store("short", scope="session", tier="short_term")
    kept = await memory.remember("tea", store="short", session_id="s1", expires_at=clock.now + 60_000)
    created = attributes(shown.span("update_memory short"))
    shown.clear()
    await memory.remember("green tea", id=kept.id)
    await memory.remember("with milk", id=kept.id, update_strategy="append")
    overwritten, appended = (attributes(span) for span in shown.spans)
    assert "gen_ai.memory.update.strategy" not in created
    assert created["gen_ai.memory.expiration_date"] == "2023-11-14T22:14:20.000Z"
    assert created["gen_ai.conversation.id"] == "s1"
    assert overwritten["gen_ai.memory.update.strategy"] == "overwrite"
    assert appended["gen_ai.memory.update.strategy"] == "append"
    for changed in (overwritten, appended):
        assert changed["gen_ai.memory.store.name"] == "short"
        assert changed["gen_ai.memory.type"] == "short_term"
        assert changed["quipu.memory.outcome"] == "updated"
        assert changed["gen_ai.memory.id"] == kept.id
    assert shown.findings() == []


@requirement("telemetry:spans.identity")
async def test_agent_and_session_are_told_where_the_store_is_theirs(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    for scope, tier in (("user", "long_term"), ("session", "short_term"), ("agent", "long_term")):
        await memory.create_store(scope, scope=scope, tier=tier)
    shown.clear()
    for store in ("user", "session", "agent"):
        await memory.recall("tea", store=store, session_id="s1", user_id="mara")
    user, session, agent = (attributes(span) for span in shown.spans)
    keys = {"gen_ai.agent.id", "gen_ai.conversation.id", "gen_ai.memory.type"}
    assert {key: user[key] for key in keys & set(user)} == {"gen_ai.memory.type": "long_term"}
    assert {key: session[key] for key in keys & set(session)} == {
        "gen_ai.memory.type": "short_term",
        "gen_ai.conversation.id": "s1",
    }
    assert {key: agent[key] for key in keys & set(agent)} == {
        "gen_ai.memory.type": "long_term",
        "gen_ai.agent.id": "ana",
    }
    shown.clear()
    always = await opened(telemetry_identity="always")
    await always.recall("tea", session_id="s1")
    assert attributes(shown.spans[0])["gen_ai.conversation.id"] == "s1"


@requirement("telemetry:spans.namespace")
async def test_a_namespace_is_the_user_the_tenant_or_both(shown: Shown) -> None:
    told = Telemetry(tracer_provider=shown.tracers)
    seen: list[str | None] = []
    for principal, user in (
        (local(), None),
        (local(), "mara"),
        (local("acme"), None),
        (local("acme"), "mara"),
    ):
        url = "sqlite://:memory:"
        async with Memory("ana", url, embedder="none", principal=principal, telemetry=told) as memory:
            shown.clear()
            await memory.recall("tea", user_id=user)
            seen.append(attributes(shown.spans[0]).get("gen_ai.memory.namespace"))
    assert seen == [None, "mara", "acme", "acme/mara"]


@requirement("telemetry:spans.namespace")
async def test_a_namespace_may_be_hashed_or_left_off(tmp_path: Path, shown: Shown) -> None:
    told = Telemetry(tracer_provider=shown.tracers)
    seen: list[str | None] = []
    for kind in ("hash", "hash", "off"):
        config = Config(store_url=f"sqlite:///{tmp_path}/a.db", embedder="none", telemetry_namespace=kind)
        async with Memory("ana", config=config, telemetry=told) as memory:
            shown.clear()
            await memory.recall("tea", user_id="mara")
            seen.append(attributes(shown.spans[0]).get("gen_ai.memory.namespace"))
    first, again, off = seen
    assert first is not None
    assert first == again != "mara"  # stable over a restart
    assert len(first) == 32
    assert off is None


@requirement("telemetry:spans.merge")
async def test_a_merge_is_one_update_of_the_surviving_record(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    first = await memory.remember("Mara drinks tea")
    second = await memory.remember("Mara drinks a lot of tea")
    shown.clear()
    await memory.merge(first.id, [second.id])
    (span,) = shown.spans
    assert attributes(span)["gen_ai.memory.update.strategy"] == "merge"
    assert attributes(span)["gen_ai.memory.id"] == first.id
    assert attributes(span)["quipu.memory.outcome"] == "merged"
    assert span.name == "update_memory main"


@requirement("telemetry:spans.several-stores")
async def test_a_search_over_several_stores_names_none(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.remember("tea")
    await memory.recall("tea")
    assert shown.spans[-1].name == "search_memory main"  # the only store there is
    await memory.create_store("other")
    shown.clear()
    await memory.recall("tea")
    (span,) = shown.spans
    assert span.name == "search_memory"
    assert not {"gen_ai.memory.store.id", "gen_ai.memory.store.name", "gen_ai.memory.type"} & set(
        attributes(span)
    )
    assert shown.findings() == []


@requirement("telemetry:spans.delete-many")
async def test_a_forget_of_several_ids_is_one_span_each_that_share_their_times(
    opened: Opened, shown: Shown
) -> None:
    memory = await opened()
    await memory.create_store("team", scope="team")
    one = await memory.remember("one")
    two = await memory.remember("two", store="team")
    shown.clear()
    await memory.forget(ids=[one.id, two.id, "mem_nowhere"])
    spans = shown.spans
    assert {(span.start_time, span.end_time) for span in spans} == {(spans[0].start_time, spans[0].end_time)}
    told = {attributes(span)["gen_ai.memory.id"]: attributes(span) for span in spans}
    assert {
        name: (row["gen_ai.memory.scope"], row["quipu.memory.outcome"]) for name, row in told.items()
    } == {
        one.id: ("agent", "deleted"),
        two.id: ("team", "deleted"),
        "mem_nowhere": ("agent", "not_found"),
    }
    assert {row["quipu.memory.delete.selector"] for row in told.values()} == {"id"}
    assert shown.findings() == []


@requirement("telemetry:spans.delete-many")
async def test_above_32_ids_there_is_one_span_without_an_id(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    ids = [(await memory.remember(f"fact {number}")).id for number in range(33)]
    shown.clear()
    await memory.forget(ids=ids)
    (span,) = shown.spans
    assert "gen_ai.memory.id" not in attributes(span)
    assert attributes(span)["quipu.memory.delete.selector"] == "ids"


@requirement("telemetry:spans.delete-by-store")
async def test_a_forget_by_filter_is_one_span_for_each_store(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.create_store("team", scope="team")
    await memory.remember("one", tags=["old"])
    await memory.remember("two", tags=["old"])
    await memory.remember("three", tags=["old"], store="team")
    shown.clear()
    await memory.forget(filter={"tags": "old"})
    told = [(span.name, attributes(span)["gen_ai.memory.scope"]) for span in shown.spans]
    assert sorted(told) == [("delete_memory main", "agent"), ("delete_memory team", "team")]
    assert {attributes(span)["quipu.memory.delete.selector"] for span in shown.spans} == {"filter"}
    assert all("gen_ai.memory.id" not in attributes(span) for span in shown.spans)


@requirement("telemetry:spans.expire")
async def test_an_expiry_deletes_by_policy_and_otherwise_updates(
    opened: Opened, shown: Shown, clock: FixedClock
) -> None:
    memory = await opened()
    await memory.remember("one")
    clock.move(3 * 86_400_000)
    shown.clear()
    await memory.expire(ExpirePolicy(older_than_days=1), action="demote")
    await memory.expire(ExpirePolicy(older_than_days=1), action="archive")
    await memory.remember("two")
    clock.move(3 * 86_400_000)
    await memory.expire(ExpirePolicy(older_than_days=1))
    demoted, archived, _, deleted = shown.spans
    assert attributes(demoted)["quipu.memory.outcome"] == "demoted"
    assert attributes(archived)["quipu.memory.outcome"] == "archived"
    assert "gen_ai.memory.update.strategy" not in attributes(archived)
    assert archived.name.startswith("update_memory")
    assert attributes(deleted)["quipu.memory.delete.selector"] == "policy"
    assert attributes(deleted)["quipu.memory.outcome"] == "deleted"
    assert shown.findings() == []


@requirement("telemetry:spans.get-and-list")
async def test_reading_by_id_and_listing_are_searches(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    kept = await memory.remember("one")
    shown.clear()
    await memory.get(kept.id)
    await memory.list()
    got, listed = (attributes(span) for span in shown.spans)
    assert [span.name for span in shown.spans] == ["search_memory main"] * 2
    assert (got["quipu.memory.operation"], listed["quipu.memory.operation"]) == ("get", "list")
    assert got["gen_ai.memory.search.result.count"] == listed["gen_ai.memory.search.result.count"] == 1
    shown.clear()
    await memory.list_stores()
    assert shown.spans == []


@requirement("telemetry:spans.held")
async def test_a_held_write_is_pending_and_its_decision_points_back_to_it(
    opened: Opened, shown: Shown
) -> None:
    memory = await opened()
    held = await memory.remember("one", approval_required=True)
    write = shown.span("update_memory main")
    assert attributes(write)["quipu.memory.outcome"] == "pending_approval"
    assert write.status.status_code.name == "UNSET"
    await memory.decide(str(held.extensions["proposal_id"]), approved=True)
    review = shown.span("quipu.memory.review")
    assert [link.context for link in review.links] == [write.context]
    assert review.kind.name == "INTERNAL"
    assert len(shown.spans) == 2  # no second write


@requirement("telemetry:errors")
async def test_an_error_has_the_code_that_the_other_faces_have(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    with pytest.raises(NotFoundError):
        await memory.remember("one", store="nowhere")
    with pytest.raises(InvalidError):
        await memory.recall("one", k=0)
    missing, invalid = shown.spans
    assert missing.name == "update_memory"  # no store was ever known
    assert attributes(missing)["error.type"] == "not_found"
    assert attributes(invalid)["error.type"] == "validation_error"
    assert missing.status.status_code.name == "ERROR"
    assert missing.status.description == "There is no such memory store."
    assert not missing.events
    assert "gen_ai.memory.search.result.count" not in attributes(invalid)
    assert shown.findings() == []


@requirement("telemetry:errors")
async def test_a_name_that_cannot_be_is_not_shown(opened: Opened, shown: Shown) -> None:
    """What a refused request holds may be more than an exporter can write."""
    memory = await opened(telemetry_identity="always")
    for name in ("\ud800", "x" * 5_000):
        with pytest.raises(QuipuError):
            await memory.get(name)
        with suppress(QuipuError):
            await memory.recall("tea", session_id=name)
    assert len(shown.spans) == 4
    for span in shown.spans:
        assert {"gen_ai.memory.id", "gen_ai.conversation.id"}.isdisjoint(attributes(span))


@requirement("telemetry:errors")
async def test_a_store_that_a_server_does_not_know_is_in_no_name(shown: Shown) -> None:
    told = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    with served() as running:
        url, token = running.url, running.admin_token
        async with quipu.connect(url, token=token, agent_id="ana", telemetry=told) as memory:
            for store in ("nowhere", "\ud800", 7):
                with pytest.raises(QuipuError):
                    await memory.recall("tea", store=store)  # type: ignore[arg-type]  of every kind
            await memory.recall("tea", store="main")
    names = [span.name for span in shown.spans]
    assert names == ["search_memory", "search_memory", "search_memory", "search_memory main"]


@requirement("telemetry:errors")
async def test_a_search_that_finds_nothing_is_no_error(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    assert len(await memory.recall("what?")) == 0
    assert attributes(shown.spans[-1])["gen_ai.memory.search.result.count"] == 0
    assert shown.spans[-1].status.status_code.name == "UNSET"


@requirement("telemetry:spans.batch")
async def test_a_batch_is_one_update(opened: Opened, shown: Shown) -> None:
    memory = await opened(telemetry_convention="both")
    await memory.remember_many(["one", "two", "three"])
    (span,) = shown.spans
    assert span.name == "update_memory main"
    assert attributes(span)["gen_ai.memory.record.count"] == 3
    assert "gen_ai.memory.id" not in attributes(span)
    shown.clear()
    summary = await memory.import_records([{"content": "four", "type": "semantic"}])
    assert summary.stored == 1
    (imported,) = shown.spans
    assert attributes(imported)["gen_ai.memory.record.count"] == 1


@requirement("telemetry:background")
async def test_what_expires_by_itself_goes_in_a_trace_of_its_own_that_points_back(
    opened: Opened, shown: Shown, clock: FixedClock
) -> None:
    memory = await opened()
    await memory.remember("one", expires_at=clock.now + 1000)
    write = shown.spans[-1]
    await memory.sweep()
    assert len(shown.spans) == 1  # nothing was due
    clock.move(2000)
    with shown.tracers.get_tracer("test").start_as_current_span("request"):
        await memory.sweep()
    root, delete = shown.span("quipu.expire"), shown.span("delete_memory main")
    assert root.parent is None
    assert root.kind.name == "INTERNAL"
    assert write.context in [link.context for link in root.links]
    assert delete.parent == root.context
    assert attributes(delete)["quipu.memory.delete.selector"] == "policy"
    assert shown.findings() == []


@requirement("telemetry:phases")
async def test_phases_are_shown_only_to_who_asked(opened: Opened, shown: Shown) -> None:
    await (await opened()).recall("one")
    assert [span.name for span in shown.spans] == ["search_memory main"]
    shown.clear()
    await (await opened(telemetry_phases=True)).recall("one")
    names = [span.name for span in shown.spans]
    assert names == ["quipu.phase.embed", "quipu.phase.search", "quipu.phase.fuse", "search_memory main"]
    assert {span.parent.span_id for span in shown.spans[:-1] if span.parent} == {
        shown.spans[-1].context.span_id
    }


@requirement("telemetry:off")
async def test_switched_off_nothing_is_told(opened: Opened, shown: Shown) -> None:
    memory = await opened(telemetry=False)
    await memory.remember("one")
    await memory.recall("one")
    assert shown.spans == []
    assert shown.points("gen_ai.client.operation.duration") == []
