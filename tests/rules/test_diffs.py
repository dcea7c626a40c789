"""What a change comes to, how a new text stands to an old one, and what an edit leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.governance import Edit
from quipu.model.operations import Embedding, RememberRequest
from quipu.model.record import Link, MemoryType, PrivacyIntent, Provenance, Record, Sensitivity
from quipu.rules import diffs
from quipu.rules.editing import edited
from quipu.rules.policy_relations import overlap, relation

RECORD = Record(
    tenant="t",
    id="mem_1",
    version=1,
    store_id="ms_1",
    agent_id="ana",
    type=MemoryType.SEMANTIC,
    content="Mara likes tea",
    provenance=Provenance(written_by="ana"),
    created_at=1,
    updated_at=1,
)
TEXTS = st.lists(st.sampled_from(["Mara", "likes", "tea", "not", "9", "."]), max_size=8).map(" ".join)


def test_only_what_differs_is_told() -> None:
    after = replace(
        RECORD,
        version=2,
        confidence=0.5,
        links=(Link("mem_2", "about"),),
        privacy=PrivacyIntent(sensitivity=Sensitivity.SECRET),
        updated_at=9,
    )
    told = diffs.modified(RECORD, after)
    assert told.before == {"confidence": 1.0, "links": [], "sensitivity": None}
    assert told.after == {
        "confidence": 0.5,
        "links": [{"to": "mem_2", "rel": "about"}],
        "sensitivity": "secret",
    }
    assert told.words is None


def test_what_comes_has_no_times_and_what_goes_says_what_it_was() -> None:
    shown = diffs.diff(added=[RECORD], removed=[replace(RECORD, id="mem_2")])
    assert set(shown.added[0]) == {"id", "type", "content", "agent_id", "state", "confidence"}
    assert shown.removed[0] == {
        "id": "mem_2",
        "type": "semantic",
        "content": "Mara likes tea",
        "created_at": 1,
    }


def test_lists_are_cut_and_counted() -> None:
    shown = diffs.diff(removed=[replace(RECORD, id=f"mem_{number}") for number in range(101)])
    assert (len(shown.removed), shown.counts) == (100, {"removed": 101})


def test_what_stands_beside_is_no_part_of_the_essence() -> None:
    bare, beside = diffs.diff(added=[RECORD]), diffs.diff(added=[RECORD], related=[(RECORD, 0.9)])
    assert beside.related
    assert diffs.essence(bare) == diffs.essence(beside)
    assert diffs.essence(bare) != diffs.essence(diffs.diff(added=[replace(RECORD, content="x")]))


@given(TEXTS, TEXTS)
def test_words_say_both_texts(before: str, after: str) -> None:
    pieces = diffs.words(before, after)
    assert pieces is not None
    for kind, text in (("gone", before), ("new", after)):
        said = "".join(piece.text for piece in pieces if piece.kind in ("same", kind))
        assert said.split() == text.split()


@pytest.mark.parametrize(
    ("new", "old", "near", "kind"),
    [
        ("Mara likes tea", "mara LIKES tea!", 0.2, "duplicate"),
        ("Mara likes tea a lot", "Mara likes tea", 0.96, "duplicate"),
        ("Mara owes 900", "Mara owes 800", 0.9, "conflict"),
        ("Mara does not like tea", "Mara likes tea", 0.9, "conflict"),
        ("Mara doesn't like tea", "Mara likes tea", 0.9, "conflict"),
        ("Mara n'aime pas le thé, elle ne boit pas", "Mara ne boit pas de thé", 0.9, "similar"),
        ("Mara owes 900", "Bo has 3 cats", 0.3, "similar"),
        ("Mara likes green tea", "Mara likes black tea", 0.9, "similar"),
    ],
)
def test_how_a_new_text_stands_to_an_old_one(new: str, old: str, near: float, kind: str) -> None:
    assert relation(new, old, near) == kind


@given(TEXTS, TEXTS)
def test_overlap_is_a_share_and_the_same_both_ways(one: str, other: str) -> None:
    assert 0 <= overlap(one, other) == overlap(other, one) <= 1
    assert overlap(one, one) == (1 if one.replace(".", "").strip() else 0)


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ({}, {}),
        ({"content": "y"}, {"content": "y", "embedding": None}),
        ({"type": MemoryType.EMOTIONAL}, {"type": MemoryType.EMOTIONAL}),
        ({"metadata": {"n": 2}}, {"metadata": {"n": 2}}),
        ({"metadata": {"tags": ["b"]}}, {"metadata": {"tags": ["b"]}, "tags": None}),
        ({"tags": ("b",)}, {"tags": ("b",), "metadata": {"n": 1}}),
        ({"confidence": 0.0}, {"confidence": 0.0}),
        ({"expires_at": 5}, {"expires_at": 5}),
        ({"privacy_intent": PrivacyIntent()}, {"privacy_intent": PrivacyIntent()}),
    ],
)
def test_an_edit_changes_what_it_names(edit: dict[str, Any], changed: dict[str, Any]) -> None:
    request = RememberRequest(
        agent_id="ana",
        type=MemoryType.SEMANTIC,
        content="x",
        metadata={"n": 1, "tags": ["a"]},
        tags=("a",),
        embedding=Embedding("m", (1.0,)),
    )
    assert edited(request, Edit(**edit)) == replace(request, **changed)


@pytest.mark.parametrize(
    ("before", "after", "pieces"),
    [
        ("明天下午开会", "明天上午开会", [("same", "明天"), ("gone", "下"), ("new", "上"), ("same", "午开会")]),
        ("ประชุมวันจันทร์", "ประชุมวันศุกร์", None),
        ("cafe\u0301 at noon", "cafe\u0301 at nine", [("same", "cafe\u0301 at "), ("gone", "noon"), ("new", "nine")]),
        ("หมี", "หมู", [("same", "ห"), ("gone", "มี"), ("new", "มู")]),
        ("हिन्दी कक्षा", "हिन्दी किताब", [("same", "हिन्दी "), ("gone", "कक्षा"), ("new", "किताब")]),
        ("ok 👩\u200d🔬 x", "ok 👩\u200d🎨 x", [("same", "ok "), ("gone", "👩\u200d🔬 "), ("new", "👩\u200d🎨 "), ("same", "x")]),
    ],
)  # fmt: skip
def test_no_letter_is_cut_off_from_what_belongs_to_it_and_none_waits_for_a_space(
    before: str, after: str, pieces: list[tuple[str, str]] | None
) -> None:
    told = diffs.words(before, after)
    assert told is not None
    if pieces is not None:
        assert [(piece.kind, piece.text) for piece in told] == pieces
    assert "".join(piece.text for piece in told if piece.kind != "gone") == after
    assert "".join(piece.text for piece in told if piece.kind != "new") == before
