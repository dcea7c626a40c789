"""Every conformance scenario over a router: of one memory, of two, of three; and with nothing but the five operations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu import Memory, Router
from quipu.faces.memorywire import wire
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import SCENARIOS, SMALL, Scenario, Subject, played
from quipu.testing.scenarios_memory import FullMemory
from quipu.testing.scenarios_router import RouterOpening, RouterSubject
from quipu.testing.scenarios_subject import AGENT
from tests.conformance.test_scenarios import Lent, real, reply
from tests.requirement import requirement
from tests.router.plain import Plain

__all__ = ["real"]  # a fixture

#: What the five operations have no word for, and which scenarios speak of it.
HOOKS: Mapping[str, Sequence[str]] = {
    "a way to read the store's clock": [
        "expire_by_age",
        "fresher_than_days_filter",
        "Q10_expires_at",
        "Q15_unknown_policy_key",
    ],
    "a way to move the store's clock": ["Q17_merge_strategies"],
    "a way to send memorywire JSON": ["recall_returns_score_metadata", "Q8_misspelt_field", "Q9_v0_superset"],
    "a way to stop the backend": ["health_returns_status"],
    "a way to flush the notes of reads": ["Q18_erasure"],
    "a look at the store's files": ["Q19_erasure_everywhere"],
    "a list of held writes": ["approval_required_pending", "Q29_held_removals"],
    "a check of chain and index": ["Q37_first_calls"],
    "creating a memory store": ["Q2_filter_before_top_k"],
    "reading the journal": ["Q34_concurrent_writers"],
    "reading a record by its id": [
        "Q1_cross_agent_isolation",
        "Q12_demote",
        "Q13_archive",
        "Q28_approval_staging",
        "Q41_everything_comes_back",
    ],
}
UNPROMISED = "not run, the store does not promise "
#: Peers count as recalled what they gave the router, which is more than it showed.
NOT_PROMISED = dict.fromkeys(
    ("Q14_no_recall_in_days", "Q43_recall_does_not_write"),
    f"{UNPROMISED}recall_tracking",
)
NOT_RUN = {name: f"not run, the store lacks {hook}" for hook, names in HOOKS.items() for name in names}


def _memory(place: Path, name: str, embedder: Any, clock: FixedClock | None = None) -> Any:
    return Memory(AGENT, stores=f"sqlite://{place}/{name}.db", embedder=embedder, clock=clock)


def _embedder(scenario: Scenario, real: Lent) -> Any:
    return real if scenario.embedder == "real" else WordEmbedder()


@pytest.fixture(params=[1, 2, 3], ids=lambda peers: f"{peers}-peers")
def over(request: pytest.FixtureRequest, real: Lent, tmp_path: Path) -> RouterSubject:
    """A router of so many memories in files."""

    def peers(scenario: Scenario, clock: FixedClock) -> Mapping[str, FullMemory]:
        names = [f"store-{number}" for number in range(request.param)]
        return {name: _memory(tmp_path, name, _embedder(scenario, real), clock) for name in names}

    opening = RouterOpening(
        peers=peers,
        router=lambda peers: Router(peers),
        request=lambda operation, body, strict: wire.parsed(operation, body, strict=strict),
        reply=reply,
        files=lambda: sorted(tmp_path.glob("store-*.db*")),
    )
    subject = RouterSubject(opening)
    subject.size = SMALL
    return subject


@requirement("memorywire:router.conformance")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_router_keeps_the_contract_of_a_store(
    over: RouterSubject, scenario: Scenario, request: pytest.FixtureRequest
) -> None:
    result = await played(over, scenario)
    is_alone = "1-peers" in request.node.name
    if scenario.name in NOT_PROMISED and not is_alone:
        assert result.detail == NOT_PROMISED[scenario.name]
        return
    assert result.passed, result.detail
    assert result.assertions > 0


@pytest.fixture(params=[1, 3], ids=lambda peers: f"{peers}-peers")
async def bare(request: pytest.FixtureRequest, real: Lent, tmp_path: Path) -> AsyncIterator[Subject]:
    """A router by itself: what the five operations, health and capabilities tell."""
    memories = {f"store-{n}": _memory(tmp_path, f"store-{n}", real) for n in range(request.param)}
    subject = Subject(Router(memories))
    subject.size = SMALL
    yield subject
    for memory in memories.values():
        await memory.close()


@requirement("memorywire:router.conformance")
async def test_with_nothing_but_the_five_operations_every_scenario_passes_or_says_why_not(
    bare: Subject,
) -> None:
    is_alone = "recall_tracking" in bare.store.capabilities
    for scenario in SCENARIOS:
        result = await played(bare, scenario)
        expected = NOT_RUN | (
            dict.fromkeys(NOT_PROMISED, "not run, the store lacks a way to read the store's clock")
            if is_alone
            else NOT_PROMISED
        )
        assert result.passed or result.detail == expected.get(scenario.name), (
            f"{result.name}: {result.detail}"
        )
        assert result.passed is (scenario.name not in expected), f"{result.name} is on the list and passes"


@requirement("memorywire:router.conformance")
@pytest.mark.parametrize("peers", [1, 2, 3])
async def test_plain_stores_keep_what_they_promise_and_the_rest_is_told(peers: int) -> None:
    """They let nothing wait, know no links and keep no procedures: nobody is asked for what nobody promised."""
    router = Router({f"plain-{n}": Plain(f"plain-{n}") for n in range(peers)})
    subject = Subject(router)
    subject.size = SMALL
    results = [await played(subject, scenario) for scenario in SCENARIOS]

    assert not [result for result in results if not result.passed and not result.detail.startswith("not run")]
    assert {
        result.name: result.detail.removeprefix(UNPROMISED)
        for result in results
        if UNPROMISED in result.detail
    } == {
        **dict.fromkeys(("Q14_no_recall_in_days", "Q43_recall_does_not_write"), "recall_tracking"),
        **dict.fromkeys(("Q9_v0_superset", "Q41_everything_comes_back"), "procedural"),
        **dict.fromkeys(
            (
                "approval_required_pending",
                "Q18_erasure",
                "Q19_erasure_everywhere",
                "Q28_approval_staging",
                "Q29_held_removals",
            ),
            "governance",
        ),
        "Q27_hops": "graph",
    }


def test_every_name_is_a_scenario() -> None:
    names = {scenario.name for scenario in SCENARIOS}
    assert names >= NOT_RUN.keys() | NOT_PROMISED.keys()
    assert len(SCENARIOS) == 44, "docs/howto/router.md counts them"
