"""Passes over short-term memory, restored memories and steps of procedures, as spans."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from quipu.config import load
from quipu.errors import InvalidError, NotFoundError
from quipu.testing.builders import FixedClock
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Shown, attributes

DAY = 24 * 3_600_000
MACHINE = {
    "name": "deploy",
    "initial": "idle",
    "states": ["idle", "busy"],
    "transitions": [{"trigger": "go", "source": "idle", "dest": "busy"}],
}


@requirement("telemetry:background")
async def test_a_pass_is_a_trace_of_its_own_that_points_back_to_what_was_written(
    opened: Opened, shown: Shown, clock: FixedClock
) -> None:
    memory = await opened()
    await memory.create_store("window", tier="short_term")
    light = await memory.remember("it rained", store="window", importance=0.0)
    clock.move(DAY)
    heavy = await memory.remember("Mara cancelled her order", store="window", importance=1.0)
    writes = [span.context for span in shown.spans[-2:]]
    shown.clear()
    with shown.tracers.get_tracer("test").start_as_current_span("request") as request:
        done = await memory.consolidate()
    assert done.counts == {"evicted": 1, "promoted": 1}
    root = shown.span("quipu.consolidate")
    assert (root.parent, root.kind.name) == (None, "INTERNAL")
    asked = request.get_span_context()
    linked = {link.context.span_id for link in root.links}
    assert linked == {context.span_id for context in (*writes, asked) if context is not None}
    promoted, evicted = shown.span("update_memory main"), shown.span("delete_memory window")
    assert promoted.parent == evicted.parent == root.context
    (into,) = [one.into for one in done.settled if one.into is not None]
    assert attributes(promoted)["gen_ai.memory.id"] == into != heavy.id
    assert attributes(promoted)["quipu.memory.outcome"] == "created"
    assert attributes(promoted)["gen_ai.memory.type"] == "long_term"
    assert attributes(evicted)["gen_ai.memory.id"] == light.id
    assert attributes(evicted)["quipu.memory.outcome"] == "deleted"
    assert shown.findings() == []


@requirement("telemetry:background")
async def test_a_held_settlement_is_a_write_that_its_review_points_back_to(
    opened: Opened, shown: Shown, clock: FixedClock
) -> None:
    memory = await opened()
    await memory.create_store("window", tier="short_term")
    promotions = {"operations": ["remember"], "sources": ["consolidation"]}
    whens = {"promotions": promotions, "evictions": {"operations": ["forget"]}}
    rules = [{"id": name, "when": when, "effect": "hold"} for name, when in whens.items()]
    await memory.set_rules({"rules": rules})
    await memory.remember("it rained", store="window", importance=0.0)
    clock.move(DAY)
    await memory.remember("Mara cancelled her order", store="window", importance=1.0)
    shown.clear()
    done = await memory.consolidate()
    assert done.counts == {"held": 2}
    root = shown.span("quipu.consolidate")
    held = {one.name: one for one in shown.spans if one.name.startswith(("update_memory", "delete_memory"))}
    assert set(held) == {"update_memory main", "delete_memory window"}
    for span in held.values():
        assert span.parent == root.context
        assert attributes(span)["quipu.memory.outcome"] == "pending_approval"
    asked = {one.into: one.reason for one in done.settled}
    for proposal in await memory.proposals():
        assert proposal.id in asked, "a pass names the proposal that waits"
        shown.clear()
        await memory.decide(proposal.id, approved=False)
        review = shown.span("quipu.memory.review")
        write = held["update_memory main" if proposal.operation == "remember" else "delete_memory window"]
        assert [link.context for link in review.links] == [write.context]
    assert shown.findings() == []


@requirement("telemetry:background")
async def test_a_dry_pass_changes_nothing_and_shows_no_change(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.create_store("window", tier="short_term")
    await memory.remember("Mara cancelled her order", store="window", importance=1.0)
    shown.clear()
    await memory.consolidate(dry_run=True)
    assert [span.name for span in shown.spans] == ["quipu.consolidate"]


@requirement("telemetry:spans.restore")
@pytest.mark.parametrize("convention", ["proposal", "merged", "both"])
async def test_what_comes_back_is_an_update_without_a_strategy(
    opened: Opened, shown: Shown, convention: str
) -> None:
    memory = await opened(telemetry_convention=convention)
    kept = await memory.remember("Mara likes tea")
    await memory.forget(ids=[kept.id])
    shown.clear()
    await memory.restore(kept.id)
    with pytest.raises(NotFoundError):
        await memory.restore("mem_nowhere")
    span, failed = shown.spans
    given = attributes(span)
    assert given["gen_ai.operation.name"] == "update_memory"
    assert given["quipu.memory.operation"] == "restore"
    assert given["quipu.memory.outcome"] == "updated"
    assert kept.id in (given.get("gen_ai.memory.id"), given.get("gen_ai.memory.record.id"))
    assert not [name for name in given if name.endswith("update.strategy")]
    assert attributes(failed)["error.type"] == "not_found"
    assert shown.findings(convention) == []


@requirement("telemetry:spans.procedure")
async def test_a_step_of_a_procedure_is_the_update_it_makes(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    kept = await memory.remember(MACHINE, type="procedural")
    shown.clear()
    await memory.step(kept.id, "go")
    (span,) = shown.spans
    given = attributes(span)
    assert span.name == "update_memory main"
    assert given["gen_ai.memory.id"] == kept.id
    assert given["gen_ai.memory.update.strategy"] == "merge"
    assert given["quipu.memory.record.type"] == "procedural"
    assert shown.findings() == []


@requirement("telemetry:settings")
@pytest.mark.parametrize(
    ("variable", "setting", "default"),
    [
        ("QUIPU_TELEMETRY", "telemetry", True),
        ("QUIPU_TELEMETRY_METRICS", "telemetry_metrics", True),
        ("QUIPU_TELEMETRY_PHASES", "telemetry_phases", False),
        ("QUIPU_TELEMETRY_EVENTS", "telemetry_events", False),
        ("QUIPU_TELEMETRY_CONTENT_LIMIT", "telemetry_content_limit", 4096),
    ],
)
def test_a_switch_with_an_unknown_word_is_warned_of_once(
    variable: str, setting: str, default: Any, caplog: pytest.LogCaptureFixture
) -> None:
    given = {variable: "perhaps", "XDG_CONFIG_HOME": "/nowhere"}
    with caplog.at_level(logging.WARNING, "quipu.telemetry"):
        assert getattr(load(given), setting) == getattr(load(given), setting) == default
    assert [record.getMessage() for record in caplog.records] == [
        f"There is no {setting} 'perhaps'; the default is used."
    ]


def test_any_other_switch_stays_strict() -> None:
    with pytest.raises(InvalidError):
        load({"QUIPU_SECRETS_DETECTORS": "perhaps", "XDG_CONFIG_HOME": "/nowhere"})
