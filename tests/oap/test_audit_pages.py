"""A grantee reads its own receipts in pages, which say nothing of how much is lent to others (contract 5.7, M7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quipu.service import disclosing
from tests.oap.hosts import OWNER, Host, pair
from tests.requirement import requirement


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


def audit(a: Host, b: Host, token: str, **params: str) -> httpx.Response:
    url = f"{a.url}/oap/audit"
    headers = {"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", url, token)}
    return httpx.get(url, params=params, headers=headers)


@requirement("oap:audit.pages")
def test_a_grantee_reads_its_receipts_in_pages_and_none_of_others(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    monkeypatch.setattr(disclosing, "_RECEIPTS", 3)
    token = b.token(a, a.grant(b.owner))
    theirs = b.token(a, a.grant(b.owner))
    a.grant(b.did)
    for one in (token, theirs, token, token):
        assert b.query(a, one).status_code == 200
        a.grant(b.did)
    seen, after = list[dict[str, Any]](), ""
    for size in (3, 3, 0):
        told = audit(a, b, token, **({"after": after} if after else {})).json()["output"]
        assert len(told["receipts"]) == size
        seen += told["receipts"]
        if told["next"] is None:
            break
        after = told["next"]
        assert after == seen[-1]["receipt_id"], "a place is a receipt of one's own, not one in the chain"
    chain = [one.body for one in a.at.do(a.sharing.grants.receipts(OWNER))]
    assert seen == [one for one in chain if one["agent_did"] == b.owner]
    other = next(one for one in chain if one["agent_did"] == b.did)
    for place in (other["receipt_id"], "urn:oap:receipt:none"):
        found = audit(a, b, token, after=place).json()["output"]
        assert found == {"receipts": [], "next": None}, "what is not one's own is no place"


@requirement("oap:audit.pages")
def test_reading_them_counts_against_the_rate_of_the_grant(tmp_path: Any) -> None:
    with pair(tmp_path, oap_queries_per_minute=2) as (a, b):
        token = b.token(a, a.grant(b.owner))
        answers = [audit(a, b, token) for _ in range(4)]
    assert [one.status_code for one in answers[:2]] == [200, 200]
    assert answers[-1].status_code == 429
    assert answers[-1].json()["error"]["details"]["reason"] == "request_rate"


@requirement("oap:audit.pages")
@pytest.mark.parametrize("after", ["\u00b2", "9" * 19, "9" * 5000, "-1", "1.0", "x"])
def test_a_place_that_is_none_is_told_to_the_owner(hosts: tuple[Host, Host], after: str) -> None:
    with hosts[0].at.client() as owner:
        answer = owner.get("/oap/audit", params={"after": after})
        assert (answer.status_code, answer.json()["error"]["details"]["pointer"]) == (400, "/after")
        assert owner.get("/oap/audit", params={"after": "9" * 18}).json()["output"]["receipts"] == []
