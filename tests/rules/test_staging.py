"""A held request comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.change import Proposal
from quipu.model.operations import (
    Embedding,
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    MergeStrategy,
    RememberRequest,
    UpdateStrategy,
)
from quipu.model.record import MemoryType
from quipu.rules.staging import operation_of, own_records, request_of
from quipu.service.committing import plain
from quipu.testing.strategies import json_objects, links, privacy_intents, texts

TEXT = texts(max_size=8)
MAYBE = st.none() | TEXT
UNIT = st.none() | st.floats(0, 1)
VECTORS = st.binary(min_size=4, max_size=8) | st.lists(st.floats(-1, 1), min_size=1, max_size=3).map(tuple)
NAMES = st.lists(TEXT, max_size=3).map(tuple)

REMEMBERS = st.builds(
    RememberRequest,
    agent_id=TEXT,
    type=st.sampled_from(MemoryType),
    content=TEXT | json_objects(),
    user_id=MAYBE,
    metadata=st.none() | json_objects(),
    confidence=UNIT,
    source=MAYBE,
    expires_at=st.none() | st.integers(0, 10**12),
    id=MAYBE,
    update_strategy=st.sampled_from(UpdateStrategy),
    if_version=st.none() | st.integers(1, 9),
    idempotency_key=MAYBE,
    privacy_intent=st.none() | privacy_intents(),
    embedding=st.none() | st.builds(Embedding, model=TEXT, vector=VECTORS),
    tags=st.none() | NAMES,
    links=st.none() | st.lists(links(), max_size=3).map(tuple),
    details=st.just({"participants": ["Bo"], "event_time": 5}) | st.just({}),
    reasoning=MAYBE,
)
FORGETS = st.builds(
    ForgetRequest, agent_id=TEXT, ids=NAMES, filter=st.none() | json_objects(), hard_delete=st.booleans()
)
MERGES = st.builds(
    MergeRequest, agent_id=TEXT, canonical=TEXT, duplicates=NAMES, strategy=st.sampled_from(MergeStrategy)
)
POLICIES = st.builds(
    ExpirePolicy,
    older_than_days=st.none() | st.integers(1, 9),
    type=st.none() | st.sampled_from(MemoryType),
    confidence_below=UNIT,
)
EXPIRES = st.builds(
    ExpireRequest, agent_id=TEXT, policy=POLICIES, action=st.sampled_from(ExpireAction), reason=MAYBE
)


@given(REMEMBERS | FORGETS | MERGES | EXPIRES)
def test_a_request_survives_being_staged(request_: Any) -> None:
    staged = json.loads(json.dumps(plain(request_)))
    assert request_of(operation_of(request_), staged) == request_


@pytest.mark.parametrize(
    ("request_", "operation"),
    [
        (RememberRequest(agent_id="a", type=MemoryType.SEMANTIC, content="x"), "remember"),
        (ForgetRequest(agent_id="a"), "forget"),
        (MergeRequest(agent_id="a", canonical="x", duplicates=()), "merge"),
        (ExpireRequest(agent_id="a", policy=ExpirePolicy()), "expire"),
    ],
)
def test_each_request_has_its_name(request_: Any, operation: str) -> None:
    assert operation_of(request_) == operation


@pytest.mark.parametrize("vector", [b"\0\1\2\3", (0.5, 1.0)])
def test_a_vector_survives_in_either_form(vector: Any) -> None:
    request = RememberRequest(
        agent_id="a", type=MemoryType.SEMANTIC, content="x", embedding=Embedding("m", vector)
    )
    assert request_of("remember", json.loads(json.dumps(plain(request)))) == request


def test_what_an_older_version_staged_and_this_one_does_not_know_is_left_out() -> None:
    body = {"agent_id": "a", "canonical": "x", "duplicates": ["y"], "colour": "red"}
    assert request_of("merge", body) == MergeRequest(agent_id="a", canonical="x", duplicates=("y",))


@pytest.mark.parametrize(
    ("agent", "user", "store", "expected"),
    [
        ("ana", None, None, True),
        ("ana", "mara", "main", True),
        ("bo", None, None, False),
        ("ana", "bo", None, False),
        ("ana", None, "attic", False),
    ],
)
def test_a_staged_write_is_its_agents_own(
    agent: str, user: str | None, store: str | None, expected: bool
) -> None:
    proposal = Proposal(
        id="prp_A",
        tenant="t",
        operation="remember",
        agent_id="ana",
        request={"user_id": "mara", "store": "main"},
        writer="x",
        held_by=("caller",),
        status="pending",
        created_at=0,
        lapses_at=None,
        record_id="mem_A",
    )
    assert own_records(proposal, agent, user, store) == ({"mem_A"} if expected else set())
