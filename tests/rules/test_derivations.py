"""Which texts say what an erased memory said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quipu.model.change import Proposal
from quipu.model.record import Link, MemoryType, Provenance, Record, State, Tier
from quipu.rules import derivations

ERASED = frozenset({"mem_1", "mem_2"})


def held(operation: str, status: str = "pending", **request: Any) -> Proposal:
    return Proposal(
        id="prp_1",
        tenant="t",
        operation=operation,
        agent_id="ana",
        request=request,
        writer="ana",
        held_by=("caller",),
        status=status,
        created_at=1,
        lapses_at=None,
    )


def linked(rel: str, to: str = "mem_1") -> list[dict[str, str]]:
    return [{"to": to, "rel": rel}]


def version(number: int, content: str, born: int, **given: Any) -> Record:
    record = Record(
        tenant="t",
        id="mem_c",
        version=number,
        store_id="ms_1",
        agent_id="ana",
        type=MemoryType.SEMANTIC,
        tier=Tier.LONG_TERM,
        state=State.LIVE,
        content=content,
        confidence=1.0,
        provenance=Provenance(written_by="ana"),
        created_at=1,
        updated_at=1,
    )
    return replace(record, **{"born": born, "salt": b"salt", "digest": "d", **given})


CASES = {
    "nothing is kept of it": (held("remember"), False),
    "a promotion": (
        held("remember", content="x", source="consolidation", links=linked("derived_from")),
        True,
    ),
    "a fact": (held("remember", content="x", source="extraction", links=linked("derived_from")), True),
    "a compaction": (held("remember", content="x", links=linked("compacted_from")), True),
    "linked by hand": (held("remember", content="x", links=linked("derived_from")), False),
    "made of another": (
        held("remember", content="x", source="consolidation", links=linked("derived_from", "mem_9")),
        False,
    ),
    "a batch with it": (
        held("batch", items=[{"content": "x"}, {"content": "y"}], record_ids=["mem_9", "mem_2"]),
        True,
    ),
    "a batch with what was made of it": (
        held("batch", items=[{"content": "x", "links": linked("compacted_from")}], record_ids=["mem_9"]),
        True,
    ),
    "a batch without it": (held("batch", items=[{"content": "x"}], record_ids=["mem_9"]), False),
    "a removal of it": (held("forget", ids=["mem_1", "mem_2"], reason="x"), True),
    "a removal of others, too": (held("forget", ids=["mem_1", "mem_9"], reason="x"), False),
    "a removal of whatever matches": (held("forget", ids=["mem_1"], filter={"a": 1}), False),
    "a removal by a filter alone": (held("forget", filter={"a": 1}, reason="x"), False),
    "a removal that was decided": (held("forget", "rejected", ids=["mem_1", "mem_9"]), True),
    "an erasure": (held("forget", ids=["mem_1"], hard_delete=True), False),
    "a merge into it": (held("merge", canonical="mem_1", duplicates=["mem_9"]), True),
    "a merge of it": (held("merge", canonical="mem_9", duplicates=["mem_2"]), True),
    "a merge of others, too": (held("merge", canonical="mem_9", duplicates=["mem_2", "mem_8"]), False),
}


@pytest.mark.parametrize(("proposal", "expected"), CASES.values(), ids=CASES)
def test_what_holds_words_of_an_erased_memory(proposal: Proposal, expected: bool) -> None:
    assert derivations.holds_words_of(proposal, ERASED) is expected


def test_a_memory_says_what_it_was_made_of() -> None:
    links = (Link("mem_1", "derived_from"), Link("mem_2", "compacted_from"), Link("mem_3", "about"))
    one = version(1, "x", 1, links=links)
    assert derivations.sources_of(replace(one, source="consolidation")) == {"mem_1", "mem_2"}
    assert derivations.sources_of(one) == {"mem_2"}


def test_what_a_merge_took_is_seen_by_what_changed_in_it() -> None:
    first, joined = version(1, "tea", 1), version(2, "tea\ncake", 5)
    gone = version(1, "cake", 2, id="mem_d", died=5, merged_into="mem_c")
    assert derivations.is_taken([first, joined], gone)
    assert derivations.is_taken([joined], gone), "it was made by it"
    assert not derivations.is_taken([first, replace(joined, content="tea")], gone)
    assert derivations.is_taken([first, replace(joined, content="tea", tags=("t",))], gone)
    assert not derivations.is_taken([first], gone), "it was left as it was"
    assert not derivations.is_taken([], gone)
    assert not derivations.is_taken([first, replace(joined, state=State.ERASED)], gone)


def test_where_retention_has_emptied_what_a_merge_did_what_is_left_tells() -> None:
    emptied = version(1, "", 1, salt=b"")
    gone = version(1, "cake", 2, id="mem_d", died=5, merged_into="mem_c")
    assert derivations.is_taken([emptied, version(2, "tea\ncake", 5)], gone)
    assert not derivations.is_taken([emptied, version(2, "tea", 5)], gone)
    assert not derivations.is_taken([emptied, version(2, "tea", 5)], replace(gone, content=""))
