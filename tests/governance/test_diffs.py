"""What a plan comes to, and its texts word by word."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quipu.governance import diffs
from quipu.governance.similarity import relation
from quipu.ledger.commit import Close, Commit, Demote, Erase, Put
from quipu.memory.pipeline import Plan
from quipu.model.journal import Draft
from quipu.model.record import PrivacyIntent, Provenance, Record

WORDS = st.lists(
    st.sampled_from(["Ana", "lives", "in", "Lisbon", ".", ",", "日本", "\n", "cafe\u0301", " "]), max_size=60
)


def record(name: str = "mem_1", content: str = "Ana", **more: Any) -> Record:
    return Record(
        id=name,
        version=1,
        store_id="ms_1",
        agent_id="agent",
        type="semantic",
        content=content,
        provenance=Provenance(written_by="x"),
        created_at=1,
        updated_at=1,
        **more,
    )


def plan(*changes: Any, before: tuple[Record, ...] = ()) -> Plan[Any]:
    draft = Draft(op="remember", actor="x", at=1)
    commit = Commit(tenant="t", draft=draft, changes=changes)
    return Plan(commits=(commit,), answer=lambda _: None, before=before)


@given(WORDS, WORDS)
def test_the_pieces_of_a_text_are_both_texts(old: list[str], new: list[str]) -> None:
    before, after = " ".join(old), " ".join(new)
    pieces = diffs.words(before, after)
    assert pieces is not None
    if all(piece.kind != "skipped" for piece in pieces):
        assert "".join(piece.text for piece in pieces if piece.kind != "gone") == after
        assert "".join("".join(p.text.split()) for p in pieces if p.kind != "new") == "".join(before.split())


def test_words_are_whole_and_long_stretches_that_stayed_are_cut() -> None:
    said = [(one.kind, one.text) for one in diffs.words("Ana lives in Lisbon", "Ana lived in Lisbon") or ()]
    assert said == [("same", "Ana "), ("gone", "lives "), ("new", "lived "), ("same", "in Lisbon")]
    assert [one.kind for one in diffs.words("東京に住む", "京都に住む") or ()].count("same") >= 1
    long = "word " * 500
    kinds = [one.kind for one in diffs.words(f"{long}old {long}", f"{long}new {long}") or ()]
    assert kinds == ["skipped", "same", "gone", "new", "same", "skipped"]
    assert diffs.words("word " * 2_001, "other") is None


def test_a_diff_says_what_comes_goes_and_changes() -> None:
    kept, gone, merged = record("kept"), record("gone"), record("merged", content="Ana!")
    shown = diffs.diff(
        plan(
            Put(record=record("new", "Bo")),
            Put(record=replace(kept, version=2, tags=("home",)), expects=1),
            Close(id="gone", expects=1, ending="forgotten"),
            Close(id="merged", expects=1, ending="merged", merged_into="canonical"),
            Demote(id="kept", expects=1),
            before=(kept, gone, merged),
        ),
        {"canonical": record("canonical")},
    )
    assert [one["content"] for one in shown.added] == ["Bo"]
    assert [one["id"] for one in shown.removed] == ["gone", "merged"]
    assert [one.after for one in shown.modified] == [{"tags": ["home"]}, {"demoted": True}]
    assert [one["id"] for one in shown.stays] == ["canonical"]
    many = [record(f"mem_{number}") for number in range(150)]
    cut = diffs.diff(plan(*(Erase(id=one.id) for one in many), before=tuple(many)))
    assert (len(cut.removed), cut.counts) == (100, {"removed": 150})


def test_an_etag_names_what_is_done_and_not_the_ids_and_moments_that_a_preview_cannot_know() -> None:
    def etag(one: Record, expects: int = 0, nonce: str = "n") -> str:
        return diffs.etag(nonce, plan(Put(record=one, expects=expects)))

    first = etag(record("mem_1"))
    assert first == etag(record("mem_2")) == etag(record("mem_1", expires_at=7))
    others = [
        etag(record(content="Bo")),
        etag(record(tags=("x",))),
        etag(record(privacy=PrivacyIntent(sensitivity="secret"))),
        etag(record(), expects=1),
        etag(record("mem_2"), expects=1),
        etag(record(), expects=2),
        etag(record(), nonce="m"),
        diffs.etag("n", diffs.NOTHING),
        diffs.etag("n", diffs.NOTHING, "version_mismatch"),
    ]
    assert len({first, *others}) == len(others) + 1
    assert diffs.is_etag_of(etag(record(), nonce="other"), plan(Put(record=record("mem_9"))))
    assert not diffs.is_etag_of("", diffs.NOTHING)


def test_two_texts_say_the_same_the_opposite_or_something_alike() -> None:
    cases = [
        ("Ana likes tea", "ana likes tea!", 0.9, "duplicate"),
        ("Ana likes tea", "Ana likes green tea", 0.97, "duplicate"),
        ("Ana likes tea", "Ana does not like tea", 0.9, "conflict"),
        ("Ana has 2 cats", "Ana has 3 cats", 0.9, "conflict"),
        ("Ana likes tea", "Ana likes coffee", 0.8, "similar"),
        ("Ana has 2 cats", "Ana has 3 dogs", 0.65, "similar"),
    ]
    for new, old, near, wanted in cases:
        assert relation(new, old, near) == wanted, (new, old)
