"""What adapters share."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import BackendUnavailableError
from quipu.mirrors import adapter
from quipu.mirrors.backend import Container, Copy, Kept, Query

PARTS = st.none() | st.text(max_size=6) | st.sampled_from(["_", "-", "--", "a--b", "x_5f", "h_0", "a-", "-a"])
HOME = Container(tenant="acme", store_id="ms_01", agent_id="ana", user_id="alice")


@given(st.lists(PARTS, min_size=1, max_size=4), st.lists(PARTS, min_size=1, max_size=4))
def test_different_parts_never_give_one_name(one: list[str | None], other: list[str | None]) -> None:
    if one != other:
        assert adapter.joined(one) != adapter.joined(other)
        assert adapter.joined(one, longest=20) != adapter.joined(other, longest=20)


@given(PARTS, PARTS)
def test_different_labels_stay_different_and_are_legal(one: str | None, other: str | None) -> None:
    assert (adapter.label(one) == adapter.label(other)) == (one == other)
    assert set(adapter.label(one)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def test_a_legal_name_stays_as_it_is() -> None:
    assert adapter.label("ana-1") == "ana-1"
    assert adapter.label(None) == "_"
    assert adapter.label("_") == "x__5f"
    assert adapter.joined(["acme", "ms_01", "ana", None]) == "acme--ms_01--ana--_"


def test_the_mark_is_read_back_with_the_records_own_metadata() -> None:
    copy = Copy(
        container=HOME,
        record_id="mem_1",
        version=3,
        type="semantic",
        content="tea",
        metadata={"quipu_record": "mine"},
        created_at=0,
    )
    kept = adapter.kept("n1", "tea", adapter.mark(copy))
    assert kept.mark == copy.mark
    assert kept.metadata == {"quipu_record": "mine"}
    assert adapter.kept("n2", "tea", {"quipu_record": "mem_1"}).mark is None
    assert adapter.kept("n3", "tea", None).metadata == {}


def test_what_a_vendor_raises_is_said_in_our_words_with_the_cause_kept() -> None:
    with pytest.raises(BackendUnavailableError) as failed, adapter.vendor_errors("Acme", "acme-memory"):
        raise RuntimeError("password hunter2")
    assert "hunter2" not in failed.value.message
    assert isinstance(failed.value.__cause__, RuntimeError)
    with pytest.raises(BackendUnavailableError) as missing, adapter.vendor_errors("Acme", "acme-memory"):
        raise ImportError("no module")
    assert missing.value.reason == "missing_extra"
    assert missing.value.hint == "pip install acme-memory"


def test_rankings_without_scores_take_turns() -> None:
    one, other = [Kept(native_id=name) for name in "ac"], [Kept(native_id="b")]
    assert [hit.native_id for hit in adapter.interleaved([one, other])] == ["a", "b", "c"]


def test_an_answer_has_each_record_once_and_says_what_is_left_to_the_ledger() -> None:
    hits = [
        Kept(native_id="a", score=0.9),
        Kept(native_id="b"),
        Kept(native_id="a", score=0.1),
        Kept(native_id="c"),
    ]
    query = Query(tenant="acme", agent_id="ana", text="tea")
    answer = adapter.answered(query, 2, hits)
    assert [(hit.native_id, hit.score) for hit in answer.hits] == [("a", 0.9), ("b", None)]
    assert (answer.is_filtered, answer.has_more) == (True, True)
    assert not adapter.answered(query, 5, hits).has_more
    assert not adapter.answered(query, 2, hits, most=2).has_more
    left: dict[str, Any]
    for left in (
        {"types": frozenset({"semantic"})},
        {"session_id": ""},
        {"created_from": 0},
        {"filter": {"a": 1}},
    ):
        (name,) = left
        asked = replace(query, **left)
        assert not adapter.answered(asked, 2, hits).is_filtered
        assert adapter.answered(asked, 2, hits, applied=(name,)).is_filtered


def test_only_containers_within_the_query_are_searched() -> None:
    bob = Container(tenant="acme", store_id="ms_01", agent_id="bob")
    other = Container(tenant="other", store_id="ms_01", agent_id="ana", user_id="alice")
    query = Query(tenant="acme", agent_id="ana", text="tea", containers=(HOME, bob, other, HOME))
    assert adapter.within(query) == (HOME,)
