"""Replies: JSON, valid against our schemas and v0's, and with nothing in them that has no value."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from quipu.faces.memorywire.schemas import v0_form, v0_names
from quipu.faces.memorywire.wire import (
    ExpireReply,
    ForgetReply,
    MergeReply,
    RecallReply,
    RememberReply,
    hit_body,
    loads,
)
from quipu.model.outcomes import Hit, RememberResponse
from quipu.model.record import MemoryType, Provenance, Tier, Trust
from tests.faces.memorywire.answers import RESPONSES, hits
from tests.faces.memorywire.shapes import problems
from tests.requirement import requirement

REPLIES: dict[str, Any] = {
    "remember": RememberReply,
    "recall": RecallReply,
    "forget": ForgetReply,
    "merge": MergeReply,
    "expire": ExpireReply,
}
BARE = Hit(
    id="mem_1", type=MemoryType.SEMANTIC, content="x", score=0.5, relevance=0.9, rank=1, metadata={}, created_at=1,
    updated_at=2, supporting=(), source_store="sqlite", provenance=Provenance(written_by="w", trust=Trust.AGENT),
    source=None, version=1, agent_id="a", user_id=None, session_id=None, store="main", tier=Tier.LONG_TERM,
    confidence=1.0, importance=None, tags=(), expires_at=None, stores=(), details={},
)  # fmt: skip


def v0_problems(name: str, body: object) -> list[str]:
    return [error.message for error in Draft202012Validator(v0_form(name)).iter_errors(body)]


@requirement("memorywire:reply.schema")
@pytest.mark.parametrize("operation", REPLIES)
@pytest.mark.parametrize("extensions", [False, True], ids=["plain", "with extensions"])
@given(data=st.data())
def test_a_reply_is_json_and_valid_against_its_schema(
    operation: str, extensions: bool, data: st.DataObject
) -> None:
    response = data.draw(RESPONSES[operation])
    body = REPLIES[operation].from_model(response, extensions).body()
    assert loads(json.dumps(body)) == body
    assert problems(f"operations/{operation}.response", body) == []
    assert ("extensions" in body) == extensions
    REPLIES[operation].model_validate(body)


@requirement("memorywire:v0.responses")
@pytest.mark.parametrize("operation", [op for op in REPLIES if f"operations/{op}.response" in v0_names()])
@given(data=st.data())
def test_a_reply_is_valid_v0_but_for_the_one_member_that_was_asked_for(
    operation: str, data: st.DataObject
) -> None:
    response, name = data.draw(RESPONSES[operation]), f"operations/{operation}.response"
    plain = REPLIES[operation].from_model(response).body()
    assert v0_problems(name, plain) == []
    asked = REPLIES[operation].from_model(response, True).body()
    assert v0_problems(name, asked)
    del asked["extensions"]
    assert asked == plain


@requirement("memorywire:v0.responses")
def test_merge_and_expire_always_tell_whether_they_wait_for_a_person() -> None:
    for operation in ("merge", "expire"):
        assert {"pending_approval", "approval_url"} <= set(REPLIES[operation].model_fields)


@requirement("memorywire:reply.schema")
def test_the_reply_of_a_held_write_tells_where_to_decide() -> None:
    response = RememberResponse(
        id="mem_1",
        stored_at=5,
        stores=(),
        pending_approval=True,
        approval_url="quipu:proposal/prp_1",
        extensions={"seq": None, "held_by": ("caller",)},
    )
    assert RememberReply.from_model(response, True).body() == {
        "id": "mem_1",
        "stored_at": 5,
        "stores": [],
        "pending_approval": True,
        "approval_url": "quipu:proposal/prp_1",
        "extensions": {"quipu": {"held_by": ["caller"]}},
    }


@requirement("memorywire:reply.hits")
def test_a_bare_hit_has_what_is_always_sent_and_nothing_without_a_value() -> None:
    assert hit_body(BARE) == {
        "id": "mem_1",
        "type": "semantic",
        "content": "x",
        "score": 0.5,
        "metadata": {},
        "created_at": 1,
        "supporting": [],
        "source_store": "sqlite",
        "relevance": 0.9,
        "provenance": {"written_by": "w", "trust": "agent"},
        "rank": 1,
        "version": 1,
        "agent_id": "a",
        "store": "main",
        "tier": "long_term",
        "confidence": 1.0,
        "updated_at": 2,
    }


@requirement("memorywire:reply.hits")
def test_a_value_that_is_zero_or_empty_text_is_a_value() -> None:
    body = hit_body(replace(BARE, importance=0.0, user_id="", source="", expires_at=0, confidence=0.0))
    assert (body["importance"], body["user_id"], body["expires_at"], body["confidence"]) == (0.0, "", 0, 0.0)
    assert body["provenance"] == {"written_by": "w", "trust": "agent", "source": ""}


@requirement("memorywire:reply.hits")
@given(hit=hits())
def test_a_flag_is_there_only_when_it_is_true(hit: Hit) -> None:
    body = hit_body(hit)
    for flag in ("demoted", "foreign", "redacted", "truncated"):
        assert body.get(flag, False) is getattr(hit, flag)


@requirement("memorywire:reply.hits")
def test_a_procedure_is_an_object_whether_it_was_kept_as_text_or_not() -> None:
    machine = {"name": "p", "initial": "s", "states": ["s"], "transitions": [], "current": "s"}
    for content in (machine, json.dumps(machine)):
        assert hit_body(replace(BARE, type=MemoryType.PROCEDURAL, content=content))["content"] == machine


@requirement("memorywire:reply.hits")
def test_text_that_looks_like_json_stays_text_in_other_types() -> None:
    assert hit_body(replace(BARE, content='{"a": 1}'))["content"] == '{"a": 1}'


@requirement("memorywire:reply.hits")
def test_a_masked_procedure_stays_masked() -> None:
    hit = replace(BARE, type=MemoryType.PROCEDURAL, content="[redacted]", redacted=True)
    assert hit_body(hit)["content"] == "[redacted]"
