"""What a request must be. The table of refusals stands with the service; here are the properties."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.model.limits import Limits
from quipu.model.operations import (
    CreateStoreRequest,
    ExpirePolicy,
    ExpireRequest,
    Floor,
    ForgetRequest,
    ListRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
    UpdateStrategy,
)
from quipu.model.record import MemoryType
from quipu.rules import validation, values
from quipu.testing.strategies import json_objects, machines, texts

LIMITS = Limits()
SMALL = Limits(
    content_bytes=20, metadata_bytes=60, metadata_depth=3, query_bytes=20, ids_per_call=3, reason_length=5
)


def asked(**fields: Any) -> RememberRequest:
    known: dict[str, Any] = {"agent_id": "ana", "type": MemoryType.SEMANTIC, "content": "x"}
    return RememberRequest(**{**known, **fields})


def pointers(refused: pytest.ExceptionInfo[InvalidError]) -> list[str]:
    return [fault.pointer for fault in refused.value.faults]


@given(texts(min_size=1, max_size=200), json_objects(), st.none() | st.floats(0, 1))
def test_anything_a_ledger_can_keep_is_accepted(
    content: str, metadata: Any, confidence: float | None
) -> None:
    assume("tags" not in metadata)  # they become the record's own, and are checked as such
    request = asked(content=content, metadata=metadata, confidence=confidence)
    assert validation.checked_remember(request, LIMITS).content == content


@given(st.text())
def test_a_text_is_refused_exactly_when_no_ledger_can_keep_it(text: str) -> None:
    faults = list(values.text_faults("/x", text, 1 << 30))
    try:
        unkeepable = "\0" in text or text.encode("utf-8").decode("utf-8") != text
    except UnicodeEncodeError:
        unkeepable = True
    assert bool(faults) == unkeepable


@given(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30),
    st.integers(0, 40),
)
def test_sizes_are_counted_in_bytes(text: str, most: int) -> None:
    faults = list(values.text_faults("/x", text, most))
    assert bool(faults) == (len(text.encode("utf-8")) > most)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"a": 1}, "Only a procedure's content may be an object."),
        (None, "content is not text."),
        (5, "content is not text."),
        (["a"], "content is not text."),
    ],
)
def test_content_that_is_no_text_is_called_what_it_is(content: Any, said: str) -> None:
    with pytest.raises(InvalidError) as refused:
        validation.checked_remember(asked(content=content), LIMITS)
    assert refused.value.message == said
    assert pointers(refused) == ["/content"]


@given(st.floats() | st.integers() | st.booleans() | st.text() | st.none())
def test_a_share_is_a_number_from_0_to_1(value: Any) -> None:
    is_share = not isinstance(value, bool | str) and value is not None and 0 <= value <= 1
    assert bool(list(values.unit_faults("/x", value))) == (not is_share)


@given(st.floats() | st.integers() | st.booleans() | st.text() | st.none(), st.integers(-5, 5))
def test_a_whole_number_is_one_between_its_bounds(value: Any, least: int) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and least <= value <= 100
    assert bool(list(values.whole_faults("/x", value, least, 100))) == (not is_whole)
    is_left_out = value is None
    assert bool(list(values.maybe_whole_faults("/x", value, least, 100))) == (
        not is_whole and not is_left_out
    )


@given(st.floats() | st.integers() | st.booleans() | st.text() | st.none())
def test_only_true_and_false_are_truths(value: Any) -> None:
    assert bool(list(values.truth_faults("/x", value))) == (not isinstance(value, bool))


@pytest.mark.parametrize("value", [None, 0, -(1 << 63), (1 << 63) - 1])
def test_a_time_is_any_integer_of_64_bits(value: Any) -> None:
    assert not list(values.time_faults("/x", value))


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 1.0, True, "1"])
def test_anything_else_is_no_time(value: Any) -> None:
    assert list(values.time_faults("/x", value))


# -- metadata -----------------------------------------------------------------------------------------------------


@given(json_objects())
def test_json_is_accepted_as_it_is(value: Any) -> None:
    assert not list(values.json_faults("/metadata", value, LIMITS))


@pytest.mark.parametrize(
    ("metadata", "pointer", "reason"),
    [
        ({"a": {"b": {"c": {"d": 1}}}}, "/metadata/a/b/c/d", "too_large"),
        ({"a": "x" * 60}, "/metadata", "too_large"),
        ({"a~b/c": [1, object()]}, "/metadata/a~0b~1c/1", "bad_value"),
        ({"a": float("-inf")}, "/metadata/a", "bad_value"),
        ({"a": 1 << 63}, "/metadata/a", "bad_value"),
        ({("a",): 1}, "/metadata", "bad_value"),
        ({"a\0": 1}, "/metadata", "bad_value"),
    ],
)
def test_what_is_not_json_is_refused_at_its_place(metadata: Any, pointer: str, reason: str) -> None:
    with pytest.raises(InvalidError) as refused:
        validation.checked_remember(asked(metadata=metadata), SMALL)
    assert (pointers(refused), refused.value.reason) == ([pointer], reason)


# -- procedures ---------------------------------------------------------------------------------------------------


@given(machines())
def test_a_machine_is_accepted_as_object_and_as_text(machine: Any) -> None:
    for content in (machine, json.dumps(machine)):
        validation.checked_remember(asked(type=MemoryType.PROCEDURAL, content=content), LIMITS)


@pytest.mark.parametrize("content", ["prose", "[1]", "7", "[" * 99_999, '{"a": Infinity}', [1], None])
def test_anything_else_is_no_machine(content: Any) -> None:
    with pytest.raises(InvalidError) as refused:
        validation.checked_remember(asked(type=MemoryType.PROCEDURAL, content=content), LIMITS)
    assert refused.value.reason in ("invalid_procedure", "bad_value")
    assert pointers(refused)[0].startswith("/content")


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [({"update_strategy": UpdateStrategy.MERGE}, "/update_strategy"), ({"if_version": 1}, "/if_version")],
)
def test_how_to_change_goes_with_what_to_change(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidError) as refused:
        validation.checked_remember(asked(**fields), LIMITS)
    assert pointers(refused) == [pointer]
    assert validation.checked_remember(asked(id="mem_A", **fields), LIMITS)


# -- tags and reasons ---------------------------------------------------------------------------------------------


def test_tags_are_settled_from_the_metadata_and_reasoning_is_cut() -> None:
    request = asked(metadata={"tags": ["b", "a", "b"]}, reasoning="a long story")
    checked = validation.checked_remember(request, SMALL)
    assert (checked.tags, checked.reasoning) == (("b", "a"), "a lon")
    assert validation.checked_remember(asked(reasoning="a long story"), SMALL).reasoning == "a lon"
    assert validation.checked_remember(asked(metadata={"tags": ["a"]}), LIMITS).tags == ("a",)
    plain = asked()
    assert validation.checked_remember(plain, LIMITS) is plain


@given(st.none() | st.text())
def test_a_reason_is_cut_and_keepable(text: str | None) -> None:
    kept = validation.cut(text, SMALL)
    assert (kept is None) == (text is None)
    assert kept is None or (len(kept) <= 5 and "\0" not in kept)


# -- the other operations -----------------------------------------------------------------------------------------


def test_every_fault_of_a_recall_is_told() -> None:
    request = RecallRequest(agent_id="\ud800", query="", k=0, hops=9, min_relevance=2.0, max_tokens=0)
    with pytest.raises(InvalidError) as refused:
        validation.checked_recall(request, LIMITS)
    assert pointers(refused) == ["/agent_id", "/query", "/k", "/hops", "/max_tokens", "/min_relevance"]


@pytest.mark.parametrize("floor", [*Floor, 0, 1, 0.5])
def test_every_floor_is_accepted(floor: Any) -> None:
    validation.checked_recall(RecallRequest(agent_id="a", query="q", min_relevance=floor), LIMITS)


def test_lists_are_bounded_and_reasons_cut() -> None:
    checked = validation.checked_forget(
        ForgetRequest(agent_id="a", ids=("x",), filter={"n": 1}, reason="a long story", reasoning="another"),
        SMALL,
    )
    assert (checked.reason, checked.reasoning) == ("a lon", "anoth")
    merge = MergeRequest(agent_id="a", canonical="x", duplicates=("y",), reasoning="a long story")
    assert validation.checked_merge(merge, SMALL).reasoning == "a lon"
    expire = ExpireRequest(
        agent_id="a", policy=ExpirePolicy(older_than_days=1), filter={"n": 1}, reason="a long story"
    )
    assert validation.checked_expire(expire, SMALL).reason == "a lon"
    for many in (
        lambda: validation.checked_forget(ForgetRequest(agent_id="a", ids=("x",) * 4), SMALL),
        lambda: validation.checked_merge(
            MergeRequest(agent_id="a", canonical="x", duplicates=("y",) * 4), SMALL
        ),
    ):
        with pytest.raises(InvalidError) as refused:
            many()
        assert refused.value.reason == "too_large"


def test_a_list_and_a_store_are_checked_too() -> None:
    validation.checked_list(ListRequest(agent_id="a", filter={"n": 1}), LIMITS)
    with pytest.raises(InvalidError) as refused:
        validation.checked_list(ListRequest(limit=0, session_id="\0"), LIMITS)
    assert pointers(refused) == ["/session_id", "/limit"]
    validation.checked_create_store(CreateStoreRequest(name="attic", description="x"), LIMITS)
    with pytest.raises(InvalidError) as refused:
        validation.checked_create_store(CreateStoreRequest(name="", namespace="\ud800"), LIMITS)
    assert pointers(refused) == ["/name", "/namespace"]


def test_fields_of_one_type_are_checked_by_name() -> None:
    with pytest.raises(InvalidError) as refused:
        validation.checked_remember(asked(details={"colour": "red"}), LIMITS)
    assert (refused.value.reason, pointers(refused)) == ("unknown_field", ["/colour"])
    good = {"sentiment": "mixed", "valence": -1, "arousal": 0.5, "emotion": "joy", "target": "tea"}
    validation.checked_remember(asked(type=MemoryType.EMOTIONAL, details=good), LIMITS)
    event = {"event_time": -5, "location": "", "participants": ("Bo",)}
    validation.checked_remember(asked(type=MemoryType.EPISODIC, details=event), LIMITS)
