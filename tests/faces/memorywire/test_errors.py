"""Bodies that are refused: each fault named by place and reason, and never a value repeated."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.faces.memorywire.wire import BODIES, import_line, parsed
from quipu.faces.memorywire.wire_remember import RememberBatch
from quipu.model.operations import RememberRequest
from tests.faces.memorywire.shapes import near_misses
from tests.requirement import requirement

FACT: dict[str, Any] = {"agent_id": "a", "type": "semantic", "content": "x"}
QUERY: dict[str, Any] = {"agent_id": "a", "query": "q"}
POLICY = ("older_than_days", "type", "confidence_below", "no_recall_in_days")
KINDS = ("semantic", "episodic", "procedural", "emotional")

#: operation, body, pointer, reason, accepted
REFUSED: dict[str, tuple[str, object, str, str, tuple[str, ...]]] = {
    "a list for a body": ("remember", [FACT], "", "bad_value", ("object",)),
    "a text for a body": ("recall", "q", "", "bad_value", ("object",)),
    "a misspelt field": (
        "remember", FACT | {"approval_requird": True}, "/approval_requird", "unknown_field", ("approval_required",),
    ),
    "a field of another operation": ("merge", {"agent_id": "a", "canonical": "c", "duplicates": ["d"], "ids": ["x"]}, "/ids", "unknown_field", ("agent_id", "canonical", "duplicates", "strategy", "approval_required", "store", "dry_run", "reasoning", "idempotency_key", "extensions")),
    "a field with a slash and a tilde": (
        "recall", QUERY | {"a/b~c": 1, "k": 5}, "/a~1b~0c", "unknown_field", ANY_FIELDS := ("any",),
    ),
    "no agent": ("remember", {"type": "semantic", "content": "x"}, "/agent_id", "missing_field", ("agent_id",)),
    "null for an agent": ("recall", QUERY | {"agent_id": None}, "/agent_id", "bad_value", ()),
    "an empty agent": ("remember", FACT | {"agent_id": ""}, "/agent_id", "bad_value", ("at least 1 character",)),
    "a long agent": ("remember", FACT | {"agent_id": "a" * 257}, "/agent_id", "too_large", ("at most 256 characters",)),
    "an unknown type": ("remember", FACT | {"type": "sensory"}, "/type", "bad_value", KINDS),
    "empty content": ("remember", FACT | {"content": ""}, "/content", "bad_value", ("at least 1 character",)),
    "an object as a fact": ("remember", FACT | {"content": {}}, "/content", "wrong_type", ("string",)),
    "a number as a procedure": (
        "remember", FACT | {"type": "procedural", "content": 7}, "/content", "bad_value", ("string",),
    ),
    "a fact with a place": (
        "remember", FACT | {"location": "Cusco"}, "/location", "wrong_type", ("episodic",),
    ),
    "a feeling with a time": (
        "remember", FACT | {"type": "emotional", "event_time": 5}, "/event_time", "wrong_type",
        ("episodic",),
    ),
    "too sure": ("remember", FACT | {"confidence": 1.01}, "/confidence", "bad_value", ("at most 1",)),
    "a flag as a text": ("remember", FACT | {"approval_required": "true"}, "/approval_required", "bad_value", ("boolean",)),
    "half a millisecond": ("remember", FACT | {"expires_at": 0.5}, "/expires_at", "bad_value", ("integer",)),
    "a moment beyond 64 bits": ("remember", FACT | {"expires_at": 1e300}, "/expires_at", "bad_value", ("integer of 64 bits",)),
    "metadata as a list": ("remember", FACT | {"metadata": []}, "/metadata", "bad_value", ("object",)),
    "65 tags": ("remember", FACT | {"tags": ["t"] * 65}, "/tags", "too_large", ("at most 64 items",)),
    "a long tag": ("remember", FACT | {"tags": ["t", "t" * 129]}, "/tags/1", "too_large", ("at most 128 characters",)),
    "a link without a kind": ("remember", FACT | {"links": [{"to": "m"}]}, "/links/0/rel", "missing_field", ("rel",)),
    "a link with a weight": ("remember", FACT | {"links": [{"to": "m", "rel": "r", "weight": 1}]}, "/links/0/weight", "unknown_field", ("to", "rel")),
    "a privacy intent misspelt": (
        "remember", FACT | {"privacy_intent": {"sensitivty": "secret"}}, "/privacy_intent/sensitivty",
        "unknown_field", ("sensitivity",),
    ),
    "two consents": (
        "remember", FACT | {"privacy_intent": {"consent_id": "c", "user_consent_id": "c"}},
        "/privacy_intent/user_consent_id", "bad_value", ("consent_id",),
    ),
    "a vector of texts": (
        "recall", QUERY | {"embedding": {"model": "m", "vector": [1, "2"]}}, "/embedding/vector/1", "bad_value", ("number",),
    ),
    "a vector with infinity": (
        "recall", QUERY | {"embedding": {"model": "m", "vector": [float("inf")]}}, "/embedding/vector/0",
        "bad_value", ("finite number",),
    ),
    "an append to nothing": ("remember", FACT | {"update_strategy": "append"}, "/update_strategy", "bad_value", ("id",)),
    "an unknown strategy": ("remember", FACT | {"id": "m", "update_strategy": "replace"}, "/update_strategy", "bad_value", ("overwrite", "merge", "append")),
    "no query": ("recall", {"agent_id": "a"}, "/query", "missing_field", ("query",)),
    "no hits at all": ("recall", QUERY | {"k": 0}, "/k", "bad_value", ("at least 1",)),
    "too many hits": ("recall", QUERY | {"k": 1001}, "/k", "bad_value", ("at most 1000",)),
    "hits as a text": ("recall", QUERY | {"k": "5"}, "/k", "bad_value", ("integer",)),
    "hits as a boolean": ("recall", QUERY | {"k": True}, "/k", "bad_value", ("integer",)),
    "an unknown kind among types": ("recall", QUERY | {"types": ["semantic", "x"]}, "/types/1", "bad_value", KINDS),
    "a floor by an unknown name": (
        "recall", QUERY | {"min_relevance": "high"}, "/min_relevance", "bad_value",
        ("number from 0 to 1", "auto", "strict", "off"),
    ),
    "a filter as a text": ("recall", QUERY | {"filter": "a=1"}, "/filter", "bad_value", ("object",)),
    "an id that is a number": ("forget", {"agent_id": "a", "ids": ["m", 7]}, "/ids/1", "bad_value", ("string",)),
    "merge of nothing": ("merge", {"agent_id": "a", "canonical": "c", "duplicates": []}, "/duplicates", "bad_value", ("at least 1 item",)),
    "expire without a policy": ("expire", {"agent_id": "a"}, "/policy", "empty_policy", POLICY),
    "expire with null for a policy": ("expire", {"agent_id": "a", "policy": None}, "/policy", "empty_policy", POLICY),
    "expire with an empty policy": ("expire", {"agent_id": "a", "policy": {}}, "/policy", "empty_policy", POLICY),
    "expire with a misspelt policy key": (
        "expire", {"agent_id": "a", "policy": {"type": "semantic", "older_than": 3}}, "/policy/older_than",
        "unknown_policy_key", ("older_than_days",),
    ),
    "expire after no days": ("expire", {"agent_id": "a", "policy": {"older_than_days": 0}}, "/policy/older_than_days", "bad_value", ("at least 1",)),
    "a batch of nothing": ("remember_batch", {"items": []}, "/items", "bad_value", ("at least 1 item",)),
    "a batch with a stray field": ("remember_batch", {"items": [FACT], "atomc": True}, "/atomc", "unknown_field", ("atomic",)),
}  # fmt: skip


def refusal_of(operation: str, body: object) -> InvalidError:
    with pytest.raises(InvalidError) as refusal:
        parsed(operation, body)
    return refusal.value


@requirement("memorywire:wire.errors")
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_bad_body_is_refused_with_place_and_reason(
    case: tuple[str, object, str, str, tuple[str, ...]],
) -> None:
    operation, body, pointer, reason, accepted = case
    error = refusal_of(operation, body)
    (fault,) = error.faults
    assert (fault.pointer, fault.reason, error.reason) == (pointer, reason, reason)
    assert fault.accepted == accepted or (accepted is ANY_FIELDS and "query" in fault.accepted)


@requirement("memorywire:wire.errors")
@pytest.mark.parametrize(
    "scope", [{}, {"ids": []}, {"ids": [], "filter": {}}, {"ids": None, "filter": None}], ids=str
)
def test_forget_without_scope_is_refused_at_both_fields(scope: dict[str, Any]) -> None:
    error = refusal_of("forget", {"agent_id": "a"} | scope)
    assert [(f.pointer, f.reason) for f in error.faults] == [("/ids", "no_scope"), ("/filter", "no_scope")]


@requirement("memorywire:wire.errors")
def test_every_fault_is_told_and_a_misspelt_name_comes_first() -> None:
    error = refusal_of("remember", {"agent": "a", "type": "semantic", "content": "", "confidence": 2})
    assert [(fault.pointer, fault.reason) for fault in error.faults] == [
        ("/agent", "unknown_field"),
        ("/agent_id", "missing_field"),
        ("/content", "bad_value"),
        ("/confidence", "bad_value"),
    ]
    assert "agent_id" in str(error)


@requirement("memorywire:wire.errors")
@pytest.mark.parametrize("operation", BODIES)
@given(data=st.data())
def test_no_value_is_ever_repeated(operation: str, data: st.DataObject) -> None:
    marked = "zq-mark-of-a-value"

    def mark(value: object) -> object:
        if isinstance(value, str):
            return marked
        if isinstance(value, list):
            return [mark(item) for item in value]
        return {k: mark(v) for k, v in value.items()} if isinstance(value, dict) else value

    body = {name: mark(value) for name, value in data.draw(near_misses(f"operations/{operation}")).items()}
    body["surplus"] = marked
    error = refusal_of(operation, body)
    assert marked not in repr((str(error), error.faults, error.hint, error.args))
    assert error.__cause__ is None
    assert error.__suppress_context__


@requirement("memorywire:wire.errors")
def test_a_flood_of_faults_and_endless_names_are_cut() -> None:
    error = refusal_of("remember", FACT | {f"field{n}" * 100: n for n in range(200)})
    assert len(error.faults) == 50
    assert max(len(fault.pointer) for fault in error.faults) < 140


@requirement("memorywire:wire.lenient")
def test_unknown_fields_are_dropped_and_named_without_strictness() -> None:
    request, ignored = parsed("remember", FACT | {"colour": "red", "approval_requird": True}, strict=False)
    assert (request, ignored) == (parsed("remember", FACT)[0], ("colour", "approval_requird"))


@requirement("memorywire:wire.lenient")
@pytest.mark.parametrize(
    ("operation", "body", "reason"),
    [
        ("expire", {"agent_id": "a", "policy": {"type": "semantic", "older": 1}}, "unknown_policy_key"),
        ("remember", FACT | {"privacy_intent": {"retian": "P1D"}}, "unknown_field"),
        ("forget", {"agent_id": "a", "id": "mem_1"}, "no_scope"),
        ("recall", QUERY | {"k": "5"}, "bad_value"),
    ],
    ids=["policy key", "nested field", "scope under a wrong name", "wrong value"],
)
def test_everything_else_stays_strict(operation: str, body: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        parsed(operation, body, strict=False)
    assert refusal.value.reason == reason


@requirement("memorywire:wire.batch")
def test_a_batch_keeps_an_error_in_the_place_of_its_item() -> None:
    batch, ignored = parsed("remember_batch", {"items": [FACT, {"agent_id": "a"}, 3, FACT]})
    assert isinstance(batch, RememberBatch)
    first, second, third, fourth = batch.items
    assert isinstance(first, RememberRequest)
    assert first == fourth
    assert isinstance(second, InvalidError)
    assert [fault.pointer for fault in second.faults] == ["/items/1/type", "/items/1/content"]
    assert isinstance(third, InvalidError)
    assert [fault.pointer for fault in third.faults] == ["/items/2"]
    assert (batch.atomic, ignored) == (False, ())


@requirement("memorywire:wire.batch")
def test_an_atomic_batch_fails_with_its_first_bad_item() -> None:
    body = {"items": [FACT, FACT | {"tgas": []}, {"agent_id": "a"}], "atomic": True}
    assert [fault.pointer for fault in refusal_of("remember_batch", body).faults] == ["/items/1/tgas"]


@requirement("memorywire:wire.batch")
def test_a_lenient_batch_names_the_ignored_fields_of_its_items() -> None:
    body = {"items": [FACT, FACT | {"colour": "red"}], "size": 2}
    batch, ignored = parsed("remember_batch", body, strict=False)
    assert ignored == ("size", "items/1/colour")
    assert batch.items[0] == batch.items[1]


@requirement("memorywire:wire.errors")
def test_an_import_line_is_refused_like_a_request() -> None:
    for body, pointer, reason in [
        (FACT | {"created": 5}, "/created", "unknown_field"),
        (FACT | {"created_at": "2026-01-01"}, "/created_at", "bad_value"),
        (FACT | {"state": "erased"}, "/state", "bad_value"),
        (FACT | {"id": "m", "update_strategy": "append"}, "/update_strategy", "bad_value"),
        (FACT | {"provenance": {"trust": "operator"}}, "/provenance/written_by", "missing_field"),
        ("line", "", "bad_value"),
    ]:
        with pytest.raises(InvalidError) as refusal:
            import_line(body)
        assert [(fault.pointer, fault.reason) for fault in refusal.value.faults] == [(pointer, reason)]
