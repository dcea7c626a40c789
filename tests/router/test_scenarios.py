"""The conformance scenarios over a router of three stores, as far as they need nothing but the five operations."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from quipu import Memory, Router
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import SCENARIOS, SMALL, Scenario, Subject, played
from tests.requirement import requirement

NAMES = {
    "basic_remember_recall",
    "remember_recall_by_user_filter",
    "type_filter",
    "forget_by_ids",
    "forget_no_scope_raises",
    "expire_empty_policy_raises",
    "expire_empty_policy_object_raises",
    "merge_keep_canonical",
    "isinstance_protocol",
    "multi_remember_then_recall",
    "Q3_dead_and_unapproved",
    "Q4_many_users",
    "Q11_confidence",
    "Q6_forget_scope",
    "Q16_merge_into_nothing",
    "Q36_idempotency",
}
PLAYED = [scenario for scenario in SCENARIOS if scenario.name in NAMES]


@pytest.fixture
async def subject() -> AsyncIterator[Subject]:
    memories = {name: Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder()) for name in "abc"}
    made = Subject(Router(memories))
    made.size = SMALL
    yield made
    for memory in memories.values():
        await memory.close()


@requirement("memorywire:router.peers")
@pytest.mark.parametrize("scenario", PLAYED, ids=lambda scenario: scenario.name)
async def test_a_router_keeps_the_contract_of_a_store(subject: Subject, scenario: Scenario) -> None:
    result = await played(subject, scenario)
    assert result.passed, result.detail


def test_every_name_is_a_scenario() -> None:
    assert len(PLAYED) == len(NAMES)
