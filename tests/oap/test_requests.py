"""Requests for access: an agent asks, a person answers, and nobody else learns of it (contract 5.4)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quipu.errors import ConflictError, QuipuError
from quipu.testing.builders import FixedClock
from tests.oap.hosts import BRIEFING, OWNER, Host, pair
from tests.requirement import requirement


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


def draft(a: Host, **members: Any) -> dict[str, Any]:
    return {"granter": f"{a.owner}#personal", "purpose": "Redesign.", "filter": BRIEFING, **members}


def asked(a: Host, b: Host, **members: Any) -> dict[str, Any]:
    return b.at.do(b.sharing.borrowing.request(OWNER, a.url, draft(a, **members)))


def requested(a: Host, b: Host, task: dict[str, Any]) -> dict[str, Any]:
    return b.at.do(b.sharing.borrowing.requested(OWNER, a.url, task["task_id"]))


def sent(a: Host, b: Host, body: Any, proof: str | None = None) -> httpx.Response:
    url = f"{a.url}/oap/memory/grant/request"
    return httpx.post(url, json=body, headers={"DPoP": proof or b.proof("POST", url)})


@requirement("oap:grant.request")
def test_an_agent_asks_and_the_owner_lends(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = a.remember("The deadline is in May.", tags=("website_redesign",))
    task = asked(a, b, trust_level=4, max_items=10)
    assert (task["status"], task["callback_url_supported"]) == ("awaiting_input", False)
    assert task["poll_url"] == f"{a.url}/oap/tasks/{task['task_id']}"
    assert asked(a, b, trust_level=4, max_items=10)["task_id"] == task["task_id"], "the same is the same"
    assert requested(a, b, task)["status"] == "awaiting_input"
    with a.at.client() as owner:
        (one,) = owner.get("/oap/memory/grant/request").json()["output"]["requests"]
        assert (one["grantee"], one["draft"]["trust_level"], one["status"]) == (b.owner, 4, "awaiting_input")
        assert owner.get("/oap/memory/grant").json()["output"]["grants"] == [], "it is no grant"
        where = f"/oap/memory/grant/request/{one['request_id']}"
        for path in ("", "/token"):
            place = f"/oap/memory/grant/{one['request_id']}{path}"
            assert owner.request("POST" if path else "GET", place).status_code in (401, 404)
        assert owner.delete(f"/oap/memory/grant/{one['request_id']}").status_code == 404
        assert owner.get(f"/.well-known/oap-revocation?grant_id={one['request_id']}").status_code == 404
        made = owner.post(f"{where}/approve", json={"max_items": 5})
        assert made.status_code == 201, made.text
        assert owner.post(f"{where}/approve").status_code == 409
        assert owner.delete(where).status_code == 409
    done = requested(a, b, task)
    assert (done["status"], done["grant"]["max_items"]) == ("completed", 5)
    assert done["grant"] == made.json()["output"]["grant"]
    grant_id = done["grant"]["grant_id"]
    assert [item["item_id"] for item in b.ask(a, grant_id).items] == [name]
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []


@requirement("oap:grant.request")
def test_a_refused_request_opens_nothing(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    task = asked(a, b)
    (one,) = a.at.do(a.sharing.requests.list(OWNER))
    for _ in range(2):
        assert a.at.do(a.sharing.requests.refuse(OWNER, one.id)).state == "canceled"
    assert requested(a, b, task)["status"] == "canceled"
    with pytest.raises(ConflictError):
        a.at.do(a.sharing.requests.approve(OWNER, one.id))
    assert a.at.do(a.sharing.grants.list(OWNER)) == []
    assert a.at.do(a.sharing.grants.receipts(OWNER)) == [], "strangers add nothing to the chain"
    assert asked(a, b)["task_id"] != task["task_id"], "it may be asked again"
    assert a.at.do(a.sharing.grants.kill(OWNER)) == 0


@requirement("oap:grant.request")
def test_a_request_lapses(tmp_path: Any) -> None:
    clock = FixedClock(int(time.time() * 1000))
    with pair(tmp_path, clock=clock, at_b={"clock": clock}) as (a, b):
        task = asked(a, b)
        (one,) = a.at.do(a.sharing.requests.list(OWNER))
        clock.now = one.lapses_at - 1
        assert requested(a, b, task)["status"] == "awaiting_input"
        clock.now += 1
        assert requested(a, b, task)["status"] == "expired"
        with pytest.raises(ConflictError):
            a.at.do(a.sharing.requests.approve(OWNER, one.id))


@requirement("oap:grant.request-refused")
def test_who_asks_proves_its_key_and_only_it_learns_what_became_of_it(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    url = f"{a.url}/oap/memory/grant/request"
    body = {"authorization_details": [{"type": "oap_memory_grant", "grantee": b.owner, **draft(a)}]}
    assert httpx.post(url, json=body).status_code == 401
    assert sent(a, a, body).status_code == 401, "another's key"
    proof = b.proof("POST", url)
    assert sent(a, b, body, proof).status_code == 202
    assert sent(a, b, body, proof).status_code == 401, "a proof is good once"
    task = asked(a, b)
    place = task["poll_url"]
    assert httpx.get(place).status_code == 401
    strange = httpx.get(place, headers={"DPoP": a.proof("GET", place)})
    absent = place[:-4] + "0000"
    unknown = httpx.get(absent, headers={"DPoP": a.proof("GET", absent)})
    assert strange.status_code == unknown.status_code == 404
    assert strange.json()["error"] == unknown.json()["error"]
    for method, path in (("GET", url), ("POST", f"{url}/mrq_x/approve"), ("DELETE", f"{url}/mrq_x")):
        assert httpx.request(method, path, headers={"DPoP": b.proof(method, path)}).status_code == 401


@requirement("oap:grant.request-refused")
def test_a_request_that_is_not_understood_or_too_much_is_refused(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    good = {"type": "oap_memory_grant", "grantee": b.owner, **draft(a)}
    bad: list[Any] = [
        {},
        {"authorization_details": []},
        {"authorization_details": [good, good]},
        {"authorization_details": [good], "more": 1},
        {"authorization_details": ["x"]},
        *(
            {"authorization_details": [{**good, **odd}]}
            for odd in (
                {"type": "other"},
                {"oddity": 1},
                {"signature": "x"},
                {"grant_id": "mgr_1"},
                {"filter": {}},
                {"filter": {"oddity": 1}},
                {"max_items": 10**9},
                {"expires_at": "2099-01-01T00:00:00Z"},
                {"redaction_profile": "oap.profile.projection.unknown.v1"},
                {"granter": a.owner},
                {"granter": f"{a.owner}#key-1"},
                {"granter": f"{a.owner}#medical"},
                {"scopes": ["memory.everything"]},
            )
        ),
    ]
    for body in bad:
        assert sent(a, b, body).status_code == 400, body
    nobody = {"authorization_details": [{**good, "granter": f"{a.did}:owners:nobody#personal"}]}
    assert sent(a, b, nobody).status_code == 404
    assert a.at.do(a.sharing.requests.list(OWNER)) == []
    for place in range(5):
        asked(a, b, max_items=place + 1)
    with pytest.raises(QuipuError):
        asked(a, b, max_items=9)
    assert len(a.at.do(a.sharing.requests.list(OWNER))) == 5
    (one, *_) = a.at.do(a.sharing.requests.list(OWNER))
    with pytest.raises(QuipuError):
        a.at.do(a.sharing.requests.approve(OWNER, one.id, {"grantee": a.owner}))


@requirement("oap:grant.request")
def test_what_was_refused_or_has_lapsed_is_deleted_after_a_while(tmp_path: Any) -> None:
    day, clock = 86_400_000, FixedClock(int(time.time() * 1000))
    with pair(tmp_path, oap_request_days=3, clock=clock) as (a, b):
        refused, lapsed = asked(a, b), asked(a, b, trust_level=1)
        approved = asked(a, b, trust_level=2)
        ids = {one.draft.get("trust_level"): one.id for one in a.at.do(a.sharing.requests.list(OWNER))}
        a.at.do(a.sharing.requests.refuse(OWNER, ids[None]))
        a.at.do(a.sharing.requests.approve(OWNER, ids[2]))

        def left() -> set[str]:
            a.at.do(a.at.service.sweep(OWNER))
            return {one.id for one in a.at.do(a.sharing.requests.list(OWNER))}

        clock.move(3 * day - 1)
        assert left() == set(ids.values())
        clock.move(1)
        assert left() == {ids[1], ids[2]}, "the refused one has been told for long enough"
        clock.move(7 * day)
        assert left() == set()
        assert len(a.at.do(a.sharing.grants.list(OWNER))) == 1, "what was lent stays lent"
        for task in (refused, lapsed, approved):
            with pytest.raises(QuipuError):
                requested(a, b, task)
