"""Recalls are described from what is kept of the last one like it: never otherwise than all others are."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from quipu.model.observation import Action, Observation
from quipu.model.record import Tier
from quipu.model.store import StoreScope
from quipu.telemetry.describing import Described, ended
from quipu.telemetry.names import Convention
from quipu.telemetry.recalls import Recalls
from quipu.telemetry.settings import Identity, Namespaces, Showing
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Shown, attributes


def _plain(text: str) -> str:
    return text


def _dark(text: str) -> str:
    return "[gone]"


_ONE = Observation(
    action=Action.RECALL,
    tenant="acme",
    agent_id="ana",
    user_id="mara",
    session_id="s1",
    types=("semantic", "episodic"),
    k=5,
    count=3,
    threshold=0.7,
    clean=_plain,
)
_STORE = {"store_id": "ms_1", "store_name": "notes", "scope": StoreScope.AGENT, "tier": Tier.LONG_TERM}
#: Each differs from the one before it, so that whatever is kept by too little is told wrongly.
_CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"count": 0},
    {"threshold": None},
    {"k": 7},
    {"backends_failed": 2},
    {"user_id": "ben"},
    {"tenant": "globex"},
    {"tenant": None},
    {"agent_id": "bo"},
    {"session_id": "s2"},
    {"types": ()},
    _STORE,
    {**_STORE, "store_name": "other"},
    {**_STORE, "store_id": "ms_2"},
    {**_STORE, "namespace": "org"},
    {**_STORE, "scope": StoreScope.SESSION},
    {**_STORE, "scope": StoreScope.USER, "tier": Tier.SHORT_TERM},
    {**_STORE, "clean": _dark},
    {**_STORE, "clean": None},
    {},
)


@requirement("telemetry:cost")
@pytest.mark.parametrize("convention", Convention)
@pytest.mark.parametrize("identity", Identity)
def test_what_is_kept_says_what_working_it_out_says(convention: Convention, identity: Identity) -> None:
    showing = Showing(convention=convention, identity=identity, namespace=Namespaces.PLAIN)
    recalls = Recalls(showing)
    for _, change in product(range(2), _CHANGES):
        seen = replace(_ONE, **change)
        told = ended(seen, showing, "search_memory")
        assert Described(*_with_kind(recalls.ended(seen), told)) == told


def _with_kind(kept: tuple[str, Any], told: Described) -> tuple[str, bool, Any]:
    return kept[0], told.is_client, kept[1]


@requirement("telemetry:cost")
def test_what_is_told_of_one_recall_is_not_changed_by_the_next() -> None:
    recalls = Recalls(Showing())
    _, first = recalls.ended(_ONE)
    before = dict(first)
    recalls.ended(replace(_ONE, count=0, backends_failed=1))
    assert first == before


@requirement("telemetry:cost")
def test_only_so_many_kinds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quipu.telemetry.recalls._MOST_KINDS", 8)
    monkeypatch.setattr("quipu.telemetry.recalls._MOST_TENANTS", 4)
    recalls = Recalls(Showing())
    for number in range(100):
        seen = replace(_ONE, user_id=f"user-{number}", tenant=f"tenant-{number // 20}")
        assert recalls.ended(seen)[1]["gen_ai.memory.namespace"] == f"tenant-{number // 20}/user-{number}"
    assert len(recalls._tenants) <= 4
    assert all(len(kinds) <= 8 for _, kinds in recalls._tenants.values())


@requirement("telemetry:content.secrets")
async def test_a_name_that_became_a_secret_is_not_shown_again(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.recall("tea", user_id="opal-meridian-774")
    await memory.add_secret("plan", "opal-meridian-774")
    await memory.recall("tea", user_id="opal-meridian-774")
    before, after = (span for span in shown.spans if span.name.startswith("search_memory"))
    assert attributes(before)["gen_ai.memory.namespace"] == "opal-meridian-774"
    assert "opal-meridian" not in str(attributes(after))


@requirement("telemetry:metrics.duration")
async def test_calls_that_wait_to_be_counted_are_counted_once_each(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    for _ in range(37):
        await memory.recall("tea")
    counted = {
        labels["gen_ai.operation.name"]: point.count
        for labels, point in shown.points("gen_ai.client.operation.duration")
    }
    assert counted["search_memory"] == 37
    ((_, results),) = shown.points("quipu.memory.search.results")
    assert (results.count, results.sum) == (37, 0)
