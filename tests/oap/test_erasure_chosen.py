"""What a request to delete means: by grant, by the ids that others know, with what was made out of it and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.model.operations import MergeRequest, MergeStrategy, RememberRequest
from quipu.model.record import Link, MemoryType
from tests.oap.hosts import OWNER, Host, pair
from tests.requirement import requirement


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


def erase(a: Host, **members: Any) -> httpx.Response:
    with a.at.client() as owner:
        return owner.post("/oap/data/delete", json={"principal_did": a.owner, **members})


def is_there(a: Host, record_id: str) -> bool:
    return not a.at.do(a.parts.ledger.read("default", [record_id]))[record_id].is_emptied


@requirement("oap:erasure.selectors")
def test_tags_choose_what_was_shown_under_their_grants_and_nothing_else(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    kept = a.remember("Nobody was shown this.", tags=("own",))
    shown = a.remember("This was shown.", tags=("website_redesign",))
    grant_id = a.grant(b.owner, trust_level=4)
    assert len(b.ask(a, grant_id).items) == 1
    answer = erase(a, provenance_tags=[f"grant:{grant_id}"])
    assert answer.json()["output"]["receipt"]["scope"]["items_deleted"] == 1
    assert is_there(a, kept)
    assert not is_there(a, shown)


@requirement("oap:erasure.selectors")
@pytest.mark.parametrize(
    "members",
    [
        {"provenance_tags": []},
        {"provenance_tags": ["gdpr-art-17"]},
        {"provenance_tags": ["grant:mgr_1", 7]},
        {"provenance_tags": "grant:mgr_1"},
        {"provenance_tags": None},
        {"provenance_tags": ["grant:mgr_1"], "item_ids": ["mem_1"]},
    ],
    ids=["none", "another kind of tag", "a number", "no list", "nothing", "and ids"],
)
def test_tags_that_choose_nothing_do_not_erase_everything(
    hosts: tuple[Host, Host], members: dict[str, Any]
) -> None:
    a, _ = hosts
    kept = a.remember("Stays.")
    assert erase(a, **members).status_code == 400
    assert erase(a, provenance_tags=["grant:mgr_unknown"]).status_code == 200
    assert is_there(a, kept)


@requirement("oap:erasure.everywhere")
def test_an_item_is_erased_by_the_foreign_id_that_others_know(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    request = RememberRequest(
        agent_id="assistant",
        type=MemoryType.SEMANTIC,
        content="It has an id from elsewhere.",
        metadata={"item_id": "crm-42"},
        tags=("website_redesign",),
    )
    record_id = a.at.do(a.at.service.remember(OWNER, request)).id
    grant_id = a.grant(b.owner, trust_level=4)
    assert [item["item_id"] for item in b.ask(a, grant_id).items] == ["crm-42"]
    assert len(b.at.do(b.sharing.borrowing.held(OWNER))) == 1
    answer = erase(a, item_ids=["crm-42", "mem_nothing"])
    assert answer.json()["output"]["receipt"]["scope"]["items_deleted"] == 1
    assert not is_there(a, record_id)
    assert b.at.do(b.sharing.borrowing.held(OWNER)) == [], "told by the id that it was shown under"


@requirement("oap:erasure.everywhere")
def test_what_compaction_made_of_an_item_goes_with_it(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    first = a.remember("The word is zyxwv.")
    second = a.remember("All of it in short: zyxwv.", links=(Link(first, "compacted_from"),))
    third = a.remember("Shorter still: zyxwv.", links=(Link(second, "derived_from"),))
    other = a.remember("Something else.", links=(Link(first, "related_to"),))
    erase(a, item_ids=[first])
    assert [is_there(a, name) for name in (first, second, third, other)] == [False, False, False, True]


@requirement("oap:erasure.everywhere")
def test_what_a_merge_took_of_an_item_goes_with_it_and_what_it_left_alone_stays(
    hosts: tuple[Host, Host],
) -> None:
    a, _ = hosts
    joined, left = a.remember("The door is green."), a.remember("The door is red.")
    words, others = a.remember("The word is zyxwv."), a.remember("The word is vwxyz.")
    for canonical, duplicate, strategy in (
        (joined, words, MergeStrategy.MERGE_CONTENT),
        (left, others, MergeStrategy.KEEP_CANONICAL),
    ):
        merge = MergeRequest(
            agent_id="assistant", canonical=canonical, duplicates=(duplicate,), strategy=strategy
        )
        assert a.at.do(a.at.service.merge(OWNER, merge)).merged_count == 1
    receipt = erase(a, item_ids=[words, others]).json()["output"]["receipt"]
    assert receipt["scope"]["items_deleted"] == 3
    assert [is_there(a, name) for name in (joined, left)] == [False, True]


@requirement("oap:erasure.everywhere")
def test_what_was_made_of_an_item_and_waits_for_a_person_goes_with_it(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    item_id = a.remember("The word is zyxwv.")
    request = RememberRequest(
        agent_id="assistant",
        type=MemoryType.SEMANTIC,
        content="The word is zyxwv.",
        source="consolidation",
        links=(Link(item_id, "derived_from"),),
        approval_required=True,
    )
    assert a.at.do(a.at.service.remember(OWNER, request)).pending_approval
    erase(a, item_ids=[item_id])
    (held,) = a.at.do(a.parts.ledger.proposals("default"))
    assert (held.status, held.request) == ("rejected", {})


@requirement("oap:erasure.everywhere")
def test_held_writes_lose_their_words_with_the_memory_or_the_scope(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts

    def held(text: str, **metadata: Any) -> str:
        request = RememberRequest(
            agent_id="assistant",
            type=MemoryType.SEMANTIC,
            content=text,
            metadata=metadata,
            approval_required=True,
        )
        answer = a.at.do(a.at.service.remember(OWNER, request))
        assert answer.pending_approval
        return a.at.do(a.parts.ledger.proposals("default", "pending"))[-1].id

    def words(proposal_id: str) -> str:
        return str(a.at.do(a.parts.ledger.proposal("default", proposal_id)).request)

    at_work, at_home = held("At work: zyxwv.", scope_id="work"), held("At home: zyxwv.")
    erase(a, scope_id="work")
    assert "zyxwv" not in words(at_work)
    assert "zyxwv" in words(at_home)
    erase(a)
    assert "zyxwv" not in words(at_home)
    assert a.at.do(a.at.service.audit.verify(OWNER)).holds


@requirement("oap:erasure.selectors")
def test_a_moment_chooses_nothing_to_erase(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    kept = a.remember("Stays.")
    answer = erase(a, filter={"as_of": "2026-01-01T00:00:00Z"})
    assert (answer.status_code, answer.json()["error"]["details"]["pointer"]) == (400, "/filter/as_of")
    assert is_there(a, kept)
