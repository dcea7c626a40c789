"""A vector is of the text as the item was shown, at whichever level evidence or a request made of it (D16, 7.1)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quipu.rules.grants_times import rfc3339
from quipu.testing.builders import FixedClock
from tests.oap.hosts import OWNER, Host, embedder, pair
from tests.oap.test_invoke import envelope, invoked
from tests.oap.test_trust import credential
from tests.requirement import requirement

SCOPES = ["memory.query", "memory.embeddings"]
LIFE_MS = 900_000


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def hosts(tmp_path: Any, clock: FixedClock) -> Iterator[tuple[Host, Host]]:
    """A host that trusts nobody beyond level 1 on a grant alone."""
    with pair(tmp_path, embedder=embedder(), clock=clock, oap_trust_unvouched=1) as both:
        for day in ("tue", "wed"):
            text = f"Meet Mara on {day}, at the harbour."
            both[0].remember(text, tags=("website_redesign",), structured={"day": day})
        yield both


def vouched(a: Host, b: Host, life_ms: int = 3_600_000) -> dict[str, str]:
    ends = {"validUntil": rfc3339(a.parts.clock() + life_ms)}
    return credential(a, b, a, who=OWNER.tenant, claims=ends)


def shown(a: Host, b: Host, token: str, **projection: Any) -> list[dict[str, Any]]:
    body = {"include_embeddings": True, **({"projection": projection} if projection else {})}
    answer = b.query(a, token, body)
    assert answer.status_code == 200, answer.text
    return answer.json()["output"]["items"]


def fetched(b: Host, url: str, token: str) -> httpx.Response:
    return httpx.get(url, headers={"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", url, token)})


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["details"].get("pointer", "")


@requirement("oap:embeddings.as-shown")
def test_a_vector_is_that_of_the_answer_with_evidence_without_it_and_when_less_was_asked_for(
    hosts: tuple[Host, Host],
) -> None:
    a, b = hosts
    grant = a.grant(b.owner, scopes=SCOPES, trust_level=4)
    token, evidence = b.token(a, grant), [vouched(a, b)]
    texts: set[str] = set()
    for projection, level in (
        ({}, 1),
        ({"evidence": evidence}, 4),
        ({"evidence": evidence, "requested_trust_level": 2}, 2),
        ({"requested_trust_level": 1}, 1),
    ):
        item = shown(a, b, token, **projection)[0]
        data = b.at.do(b.sharing.borrowing.vector(OWNER, a.url, grant, item["embedding"]["vector_url"]))
        assert digest(data) == item["embedding"]["digest"], projection
        assert data == a.at.do(a.parts.embedder.embed([item["content"]["text"]]))[0]
        assert ("harbour" in item["content"]["text"]) is (level == 4)
        texts.add(item["content"]["text"])
        receipt = a.at.do(a.sharing.grants.receipts(OWNER))[-1].body
        assert receipt["action_id"] == "memory_vector_read"
        applied = receipt["policy_decisions"][0]["projection_applied"]
        assert applied["trust_level"] == level
        assert ("evidence" in applied) is ("evidence" in projection)
    assert len(texts) == 2, "the levels differ in what is shown"


@requirement("oap:embeddings.as-shown")
def test_without_its_evidence_a_vector_is_of_what_the_grant_alone_shows(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    token = b.token(a, a.grant(b.owner, scopes=SCOPES, trust_level=4))
    whole = shown(a, b, token, evidence=[vouched(a, b)])[0]
    plain = shown(a, b, token)[0]
    assert "?" not in plain["embedding"]["vector_url"], "what the grant says needs no more words"
    bare = fetched(b, whole["embedding"]["vector_url"].partition("?")[0], token)
    assert digest(bare.content) == plain["embedding"]["digest"] != whole["embedding"]["digest"]


@requirement("oap:embeddings.as-shown")
def test_an_address_is_good_for_its_grant_and_item_and_for_nothing_else(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant = a.grant(b.owner, scopes=SCOPES, trust_level=4)
    token = b.token(a, grant)
    one, two = (item["embedding"]["vector_url"] for item in shown(a, b, token, evidence=[vouched(a, b)]))
    assert fetched(b, one, token).status_code == 200
    sealed = one.partition("?")[2]
    moved = f"{two.partition('?')[0]}?{sealed}"
    for wrong in (moved, one[:-2], f"{one}x", f"{one.partition('?')[0]}?shown=", f"{one}&shown=x"):
        assert refused(fetched(b, wrong, token)) == (400, "/shown"), wrong
    other = b.token(a, a.grant(b.owner, scopes=SCOPES, trust_level=4))
    assert shown(a, b, other)
    assert refused(fetched(b, one, other)) == (400, "/shown"), "of another grant"
    plain = b.token(a, a.grant(b.owner, trust_level=4))
    assert fetched(b, one, plain).status_code == 403, "vectors still need their own scope"
    assert httpx.get(one).status_code == 401, "an address is no credential"
    a.at.do(a.sharing.grants.revoke(OWNER, grant))
    assert fetched(b, one, token).status_code == 401


@requirement("oap:embeddings.as-shown")
@pytest.mark.parametrize(("life_ms", "good_ms"), [(60_000, 60_000), (3_600_000, LIFE_MS)])
def test_an_address_ends_with_the_evidence_and_after_a_quarter_of_an_hour_at_the_latest(
    hosts: tuple[Host, Host], clock: FixedClock, life_ms: int, good_ms: int
) -> None:
    a, b = hosts
    grant, began = a.grant(b.owner, scopes=SCOPES, trust_level=4), clock.now
    url = shown(a, b, b.token(a, grant), evidence=[vouched(a, b, life_ms)])[0]["embedding"]["vector_url"]
    # The end of a credential is told in whole seconds.
    clock.now = began + good_ms - 1_000
    assert fetched(b, url, b.token(a, grant)).status_code == 200
    clock.now = began + good_ms
    assert refused(fetched(b, url, b.token(a, grant))) == (400, "/shown")


@requirement("oap:embeddings.as-shown")
def test_an_envelope_may_say_how_an_item_was_shown(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    token = b.token(a, a.grant(b.owner, scopes=SCOPES, trust_level=4))
    item = shown(a, b, token, evidence=[vouched(a, b)])[0]
    url = httpx.URL(item["embedding"]["vector_url"])
    named = {"item_id": item["item_id"], "shown": url.params["shown"]}
    answer = invoked(a, b, envelope(a, b, "memory_vector_read", named), token)
    assert digest(base64.b64decode(answer.json()["output"]["vector"])) == item["embedding"]["digest"]
    for wrong in ({**named, "shown": 5}, {**named, "more": 1}, {"shown": named["shown"]}):
        assert invoked(a, b, envelope(a, b, "memory_vector_read", wrong), token).status_code == 400
