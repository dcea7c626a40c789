"""memorywire v0 over HTTP: its requests are accepted, and whatever is answered is valid v0."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from quipu.faces.memorywire.schemas import v0_form
from quipu.testing.builders import FixedClock
from tests.faces.memorywire.shapes import problems, valid_under
from tests.faces.memorywire.test_v0 import excused, v0_problems
from tests.faces.memorywire.wired import wired
from tests.requirement import requirement

#: Reasons for which a valid v0 request may be refused (contract 2.2), beside what its schema lets through.
LISTED = {
    "no_scope",
    "empty_policy",
    "unknown_policy_key",
    "unknown_operator",
    "bad_filter",
    "invalid_procedure",
    "bad_value",
    "too_large",
    "too_deep",
}


async def _checked(name: str, sent: list[dict[str, Any]]) -> None:
    async with wired(FixedClock()) as server:
        ada = await server.caller("ada")
        await ada.kept("something")
        for body in sent:
            for headers in ({}, {"Quipu-Extensions": "true"}, {"Prefer": "handling=lenient"}):
                lenient = {"x_vendor": 1} if "Prefer" in headers else {}
                answer = await ada.post(f"/{name}", body | lenient, headers=headers)
                _judge(name, body, answer, is_extended="Quipu-Extensions" in headers)


def _judge(name: str, body: dict[str, Any], answer: httpx.Response, *, is_extended: bool) -> None:
    told = answer.json()
    if answer.status_code in (200, 202):
        assert excused(name, body) is None
        assert problems(f"operations/{name}.response", told) == []
        assert ("extensions" in told) is is_extended
        told.pop("extensions", None)
        assert v0_problems(f"operations/{name}.response", told) == []
        return
    assert problems("problem", told) == []
    assert answer.status_code in (400, 404, 413), told
    if answer.status_code == 400:
        assert told["reason"] in LISTED, told
        assert excused(name, body) in (None, told["reason"])


@requirement("memorywire:rest.v0")
@pytest.mark.parametrize("name", ["remember", "recall", "forget", "merge", "expire"])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_v0_request_is_accepted_and_answered_in_v0(name: str, data: st.DataObject) -> None:
    form = v0_form(f"operations/{name}")
    bodies = st.lists(valid_under(form, Draft202012Validator(form)), min_size=4, max_size=8)
    sent = [json.loads(json.dumps(body)) for body in data.draw(bodies)]
    import asyncio

    asyncio.run(_checked(name, sent))


@requirement("memorywire:rest.v0")
async def test_a_v0_remember_is_found_by_a_v0_recall() -> None:
    """The shapes that v0's own documents show, each field of v0 used once."""
    async with wired(FixedClock()) as server:
        ada = await server.caller("ada")
        stored = await ada.post(
            "/remember",
            {
                "agent_id": "agent-1",
                "user_id": "user-9",
                "type": "semantic",
                "content": "The user prefers tea",
                "metadata": {"tags": ["drink"], "topic": "taste"},
                "confidence": 0.9,
                "source": "chat",
                "expires_at": 1_900_000_000_000,
                "approval_required": False,
            },
        )
        assert v0_problems("operations/remember.response", stored.json()) == []
        found = await ada.post(
            "/recall",
            {
                "agent_id": "agent-1",
                "user_id": "user-9",
                "query": "what tea",
                "k": 3,
                "types": ["semantic"],
                "hops": 1,
                "fusion": "rrf",
                "filter": {"topic": "taste", "tags": ["drink"]},
                "fresher_than_days": 30,
            },
        )
        assert v0_problems("operations/recall.response", found.json()) == []
        assert [hit["id"] for hit in found.json()["results"]] == [stored.json()["id"]]
        gone = await ada.post(
            "/forget",
            {
                "agent_id": "agent-1",
                "user_id": "user-9",
                "ids": ["mem_other"],
                "filter": {"topic": "taste"},
                "hard_delete": False,
                "reason": "asked",
            },
        )
        assert v0_problems("operations/forget.response", gone.json()) == []
        assert gone.json()["forgotten_ids"] == [stored.json()["id"]]
