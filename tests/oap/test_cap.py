"""At the end of a grant: what it has not shown is not there, whatever is asked (D8, M7)."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.oap.hosts import Host, pair
from tests.requirement import requirement


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("cap")) as both:
        yield both


def capped(a: Host, b: Host, label: str, texts: list[str], most: int, **members: Any) -> str:
    for text in texts:
        a.remember(text, tags=(label,))
    return a.grant(b.owner, filter={"labels_any": [label]}, max_items=most, trust_level=4, **members)


def asked(a: Host, b: Host, token: str, **body: Any) -> dict[str, Any]:
    answer = b.query(a, token, body)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    output = told["output"]
    texts = [item["content"]["text"] for item in output["items"]]
    return {"texts": texts, "cursor": output["next_cursor"], "warnings": told["warnings"]}


@requirement("oap:cap.silent")
def test_what_was_not_shown_before_the_end_answers_no_question(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id = capped(a, b, "silent", ["Shown first.", "Hidden cancer.", "Hidden debt."], 1)
    token = b.token(a, grant_id)
    assert asked(a, b, token, query="shown")["texts"] == ["Shown first."]
    silence = {"texts": [], "cursor": None, "warnings": ["grant_item_cap_reached"]}
    assert asked(a, b, token, query="cancer") == silence
    assert asked(a, b, token, query="divorce") == silence, "the same where there is none"
    everything = asked(a, b, token, max_results=1)
    assert everything == {**silence, "texts": ["Shown first."]}, "nothing stands before or behind it"


@requirement("oap:cap.silent")
def test_the_last_page_looks_the_same_whether_or_not_there_is_more(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    texts = [f"Number {number}." for number in range(9)]
    few = capped(a, b, "few", texts[:3], 3)
    many = capped(a, b, "many", texts, 3)
    ends = [asked(a, b, b.token(a, grant_id), max_results=3) for grant_id in (few, many)]
    assert [(len(end["texts"]), end["cursor"], end["warnings"]) for end in ends] == [
        (3, None, ["grant_item_cap_reached"])
    ] * 2
    paged = capped(a, b, "paged", texts, 5)
    token, seen, cursor = b.token(a, paged), list[str](), None
    for _ in range(3):
        page = asked(a, b, token, max_results=2, **({} if cursor is None else {"cursor": cursor}))
        seen, cursor = seen + page["texts"], page["cursor"]
    assert (len(seen), len(set(seen)), cursor) == (5, 5, None)


@requirement("oap:cap.silent")
def test_an_export_does_not_tell_how_much_was_left_out(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    texts = [f"Number {number}." for number in range(250)]
    scopes = ["memory.query", "memory.export"]
    told: list[int] = []
    for label, count in (("little", 5), ("much", 250)):
        grant_id = capped(a, b, label, texts[:count], 5, scopes=scopes)
        token, url = b.token(a, grant_id), f"{a.url}/oap/memory/export"
        headers = {"Authorization": f"DPoP {token}", "DPoP": b.proof("POST", url, token)}
        answer = httpx.post(url, json={}, headers=headers, timeout=20)
        assert answer.status_code == 200, answer.text
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert len(archive.read("items.jsonl").splitlines()) == 5
            told.append(len(json.loads(archive.read("manifest.json"))["grant"]["receipts"]))
    assert told == [1, 1]
