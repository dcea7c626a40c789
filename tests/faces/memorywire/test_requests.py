"""Bodies become requests of the model, with every field in its place."""

from dataclasses import fields
from typing import Any

import pytest

from quipu.faces.memorywire.schemas import schema
from quipu.faces.memorywire.wire import BODIES, checked, parsed
from quipu.model.operations import (
    Embedding,
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    Floor,
    ForgetRequest,
    Fusion,
    MergeRequest,
    MergeStrategy,
    RecallRequest,
    Redact,
    RememberRequest,
    UpdateStrategy,
)
from quipu.model.record import DETAIL_FIELDS, Link, MemoryType, PrivacyIntent, Sensitivity
from tests.requirement import requirement

FULL: dict[str, tuple[dict[str, Any], object]] = {
    "remember": (
        {
            "agent_id": "a", "user_id": "u", "type": "semantic", "content": "x", "metadata": {"tags": ["t"], "n": 1.0},
            "confidence": 0.5, "source": "user", "expires_at": 9, "approval_required": True, "store": "s",
            "session_id": "c", "id": "m", "update_strategy": "append", "importance": 1, "idempotency_key": "k",
            "privacy_intent": {"retain": "P1D", "share_with": [], "user_consent_id": "y", "sensitivity": "secret"},
            "embedding": {"model": "e", "vector": [1, 0.5]}, "tags": ["t"], "links": [{"to": "n", "rel": "r"}],
            "reasoning": "why", "extensions": True,
        },
        RememberRequest(
            agent_id="a", user_id="u", type=MemoryType.SEMANTIC, content="x", metadata={"tags": ["t"], "n": 1.0},
            confidence=0.5, source="user", expires_at=9, approval_required=True, store="s", session_id="c", id="m",
            update_strategy=UpdateStrategy.APPEND, importance=1.0, idempotency_key="k",
            privacy_intent=PrivacyIntent(retain="P1D", share_with=(), consent_id="y", sensitivity=Sensitivity.SECRET),
            embedding=Embedding("e", (1.0, 0.5)), tags=("t",), links=(Link("n", "r"),), reasoning="why",
            finds_similar=True,
        ),
    ),
    "recall": (
        {
            "agent_id": "a", "query": "q", "user_id": "u", "k": 9, "types": ["episodic"], "hops": 2, "fusion": "max",
            "filter": {"n": 1}, "fresher_than_days": 0, "store": "s", "session_id": "c", "min_relevance": 1,
            "as_of": "17", "max_tokens": 8, "quorum_k": 2, "redact": "omit",
            "embedding": {"model": "e", "vector": [1]}, "deadline_ms": 10, "approval_required": True,
            "explain": True, "extensions": False,
        },
        RecallRequest(
            agent_id="a", query="q", user_id="u", k=9, types=(MemoryType.EPISODIC,), hops=2, fusion=Fusion.MAX,
            filter={"n": 1}, fresher_than_days=0, store="s", session_id="c", min_relevance=1.0, as_of="17",
            max_tokens=8, quorum_k=2, redact=Redact.OMIT, embedding=Embedding("e", (1.0,)), deadline_ms=10,
            approval_required=True, explain=True,
        ),
    ),
    "forget": (
        {
            "agent_id": "a", "user_id": "", "ids": ["m"], "filter": {"n": 1}, "hard_delete": True, "reason": "r",
            "approval_required": True, "store": "s", "dry_run": True, "reasoning": "why", "idempotency_key": "k",
            "extensions": True,
        },
        ForgetRequest(
            agent_id="a", user_id="", ids=("m",), filter={"n": 1}, hard_delete=True, reason="r",
            approval_required=True, store="s", dry_run=True, reasoning="why", idempotency_key="k",
        ),
    ),
    "merge": (
        {
            "agent_id": "a", "canonical": "c", "duplicates": ["d", "e"], "strategy": "merge_content",
            "approval_required": True, "store": "s", "dry_run": True, "reasoning": "why", "idempotency_key": "k",
            "extensions": True,
        },
        MergeRequest(
            agent_id="a", canonical="c", duplicates=("d", "e"), strategy=MergeStrategy.MERGE_CONTENT,
            approval_required=True, store="s", dry_run=True, reasoning="why", idempotency_key="k",
        ),
    ),
    "expire": (
        {
            "agent_id": "a",
            "policy": {"older_than_days": 1, "type": "emotional", "confidence_below": 1, "no_recall_in_days": 2.0},
            "action": "demote", "store": "s", "user_id": "u", "filter": {"n": 1}, "approval_required": True,
            "reason": "r", "dry_run": True, "idempotency_key": "k", "extensions": True,
        },
        ExpireRequest(
            agent_id="a", action=ExpireAction.DEMOTE, store="s", user_id="u", filter={"n": 1},
            policy=ExpirePolicy(
                older_than_days=1, type=MemoryType.EMOTIONAL, confidence_below=1.0, no_recall_in_days=2
            ),
            approval_required=True, reason="r", dry_run=True, idempotency_key="k",
        ),
    ),
}  # fmt: skip

LEAST: dict[str, tuple[dict[str, Any], object]] = {
    "remember": (
        {"agent_id": "a", "type": "semantic", "content": "x"},
        RememberRequest(agent_id="a", type=MemoryType.SEMANTIC, content="x"),
    ),
    "recall": ({"agent_id": "a", "query": "q", "filter": {}}, RecallRequest(agent_id="a", query="q")),
    "forget": ({"agent_id": "a", "ids": ["m"]}, ForgetRequest(agent_id="a", ids=("m",))),
    "merge": (
        {"agent_id": "a", "canonical": "c", "duplicates": ["d"]},
        MergeRequest(agent_id="a", canonical="c", duplicates=("d",)),
    ),
    "expire": (
        {"agent_id": "a", "policy": {"older_than_days": 30}},
        ExpireRequest(agent_id="a", policy=ExpirePolicy(older_than_days=30)),
    ),
}

#: What a request of the model has and no body carries: it comes by a header, or from inside.
NOT_ON_THE_WIRE = {"if_version", "run_id", "node_id", "memory_ref", "finds_similar", "import_id"}


@requirement("memorywire:wire.to-model")
@pytest.mark.parametrize("operation", FULL)
def test_every_field_of_a_full_body_arrives(operation: str) -> None:
    body, request = FULL[operation]
    assert set(body) | set(DETAIL_FIELDS) >= set(schema(f"operations/{operation}")["properties"])
    assert parsed(operation, body) == (request, ())


@requirement("memorywire:wire.to-model")
@pytest.mark.parametrize("operation", LEAST)
def test_the_smallest_body_gives_the_defaults_of_the_model(operation: str) -> None:
    body, request = LEAST[operation]
    assert parsed(operation, body) == (request, ())


@requirement("memorywire:wire.to-model")
@pytest.mark.parametrize("operation", FULL)
def test_every_field_of_the_model_has_a_field_on_the_wire(operation: str) -> None:
    inside = {field.name for field in fields(FULL[operation][1])}  # type: ignore[arg-type]  # a dataclass
    outside = set(schema(f"operations/{operation}")["properties"])
    assert inside - NOT_ON_THE_WIRE - {"details"} == outside - {"extensions"} - set(DETAIL_FIELDS)


@requirement("memorywire:wire.to-model")
def test_the_fields_of_one_type_are_gathered_as_details() -> None:
    event = {"event_time": 5.0, "location": "Cusco", "participants": ["p"]}
    feeling = {"sentiment": "mixed", "valence": -1, "arousal": 0, "emotion": "awe", "target": "t"}
    for kind, details in {"episodic": event, "emotional": feeling}.items():
        request, _ = parsed("remember", {"agent_id": "a", "type": kind, "content": "x"} | details)
        assert request.details == details
    assert set(event) | set(feeling) == set(DETAIL_FIELDS)


@requirement("memorywire:wire.to-model")
def test_a_procedure_arrives_as_it_was_sent_text_or_object() -> None:
    for content in ('{"name": "p"}', {"name": "p"}):
        assert (
            parsed("remember", {"agent_id": "a", "type": "procedural", "content": content})[0].content
            == content
        )


@requirement("memorywire:wire.to-model")
def test_a_relevance_floor_is_a_name_or_a_number() -> None:
    for sent, floor in {
        "auto": Floor.AUTO,
        "strict": Floor.STRICT,
        "off": Floor.OFF,
        0: 0.0,
        0.25: 0.25,
    }.items():
        request, _ = parsed("recall", {"agent_id": "a", "query": "q", "min_relevance": sent})
        assert (request.min_relevance, type(request.min_relevance)) == (floor, type(floor))


@requirement("memorywire:wire.to-model")
@pytest.mark.parametrize("operation", LEAST)
def test_the_wish_for_extensions_stays_with_the_body(operation: str) -> None:
    body = LEAST[operation][0]
    assert checked(operation, body | {"extensions": True})[0].extensions
    assert not checked(operation, body)[0].extensions
    assert isinstance(checked(operation, body)[0], BODIES[operation])


@requirement("memorywire:wire.integer")
def test_a_number_without_a_fraction_is_an_integer() -> None:
    request, _ = parsed("recall", {"agent_id": "a", "query": "q", "k": 7.0, "max_tokens": 1e3, "quorum_k": 2})
    assert (request.k, request.max_tokens, request.quorum_k) == (7, 1000, 2)
    assert type(request.k) is type(request.max_tokens) is int


@requirement("memorywire:wire.integer")
def test_numbers_inside_metadata_stay_as_they_are() -> None:
    metadata = {"a": 5.0, "b": 5, "c": True, "d": "5", "e": [1.0]}
    request, _ = parsed(
        "remember", {"agent_id": "a", "type": "semantic", "content": "x", "metadata": metadata}
    )
    assert repr(request.metadata) == repr(metadata)
