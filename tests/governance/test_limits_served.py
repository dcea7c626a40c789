"""The limits of a reviewer over HTTP: every page, the REST interface and the change feed; and how they are given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.faces.serving import Served, served
from tests.faces.web.conftest import Person
from tests.requirement import requirement

WIRE, API = "/memorywire/v0", "/quipu/v1"
#: A word that stands in everything beyond the limits, and one in everything within.
FAR, NEAR = "zanzibar", "harbour"


@dataclass
class Office:
    """A server with a past on both sides of the limit."""

    served: Served
    limited: str
    free: str
    #: Ids, names and words that the limited one must not learn, and one id that it may.
    far: dict[str, str]
    inside: str
    held_inside: str


def _made(admin: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    answer = admin.post(path, json=body)
    assert answer.status_code in (200, 201, 202), answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    with served() as running, running.client() as admin:
        admin.headers["Quipu-Extensions"] = "true"
        for name in ("shop-a", "zanzibar-files"):
            _made(admin, f"{API}/stores", name=name)

        def said(store: str, text: str, **more: Any) -> dict[str, Any]:
            body = {"agent_id": "ana", "type": "semantic", "content": text, "store": store, **more}
            return _made(admin, f"{WIRE}/remember", **body)

        inside = said("shop-a", f"{NEAR} one is open")["id"]
        outside = said("zanzibar-files", f"{FAR} one is open")["id"]
        held = said("zanzibar-files", f"{FAR} waits", approval_required=True)
        within = said("shop-a", f"{NEAR} waits", approval_required=True)
        _made(admin, f"{WIRE}/recall", agent_id="ana", query=f"{NEAR} {FAR}", min_relevance=0)
        tokens = {}
        for name, more in (("limited", {"review_stores": ["shop-*"]}), ("free", {})):
            issued = _made(admin, f"{API}/tokens", name=name, roles=["reviewer"], **more)
            tokens[name] = issued["text"]
        far = {
            "outside": outside,
            "held": held["extensions"]["quipu"]["proposal_id"],
            "held record": held["id"],
            "text": FAR,
        }
        own = within["extensions"]["quipu"]["proposal_id"]
        yield Office(running, tokens["limited"], tokens["free"], far, inside, own)


PAGES = ["/", "/review", "/candidates", "/dashboard", "/journal", "/memories?agent=ana", "/stores", "/rules",
    "/patterns", "/imports", "/recover?agent=ana&trusted=chat", f"/memories?agent=ana&q={NEAR}+{FAR}"]  # fmt: skip
REST = [
    f"{WIRE}/audit?limit=500",
    f"{WIRE}/audit?format=ndjson",
    f"{WIRE}/audit?format=csv",
    f"{WIRE}/proposals",
    f"{API}/journal?limit=1000",
    f"{API}/stores",
    f"{API}/records?agent_id=ana",
]


def _leaks(office: Office, text: str) -> list[str]:
    return [name for name, what in office.far.items() if what in text]


@pytest.mark.parametrize("path", PAGES)
def test_no_page_shows_what_is_beyond(office: Office, path: str) -> None:
    with Person(office.served.url) as nils, Person(office.served.url) as free:
        assert nils.sign_in(office.limited).status_code == 303
        assert free.sign_in(office.free).status_code == 303
        asked = path.replace(FAR, "door") if "q=" in path else path
        shown = nils.get(asked)
        assert shown.status_code in (200, 403), shown.text
        assert _leaks(office, shown.text) == []
        if path in ("/review", "/journal", "/memories?agent=ana", "/stores"):
            assert _leaks(office, free.get(path).text), "without limits it is there"


@requirement("memorywire:rest.proposals")
@pytest.mark.parametrize("path", REST)
def test_no_answer_of_the_interface_tells_what_is_beyond(office: Office, path: str) -> None:
    with office.served.client(office.limited) as nils, office.served.client(office.free) as free:
        shown = nils.get(path)
        assert shown.status_code == 200, shown.text
        assert _leaks(office, shown.text) == []
        assert NEAR in shown.text or office.inside in shown.text or "shop-a" in shown.text
        assert _leaks(office, free.get(path).text)


@pytest.mark.parametrize("path", [
    f"{WIRE}/records/{{}}", f"{WIRE}/records/{{}}/history", f"{WIRE}/proposals/{{}}", "/memories/{}", "/review/{}",
    f"{WIRE}/records/{{}}?as_of=5",
])  # fmt: skip
def test_what_is_beyond_is_answered_as_what_does_not_exist(office: Office, path: str) -> None:
    with office.served.client(office.limited) as nils:
        answers = set()
        for name in (office.far["outside"], office.far["held"], "mem_00000000000000000000000000"):
            answer = nils.get(path.format(name), headers={"Accept": "application/json"})
            body = {**answer.json(), "request_id": ""} if "json" in answer.headers["content-type"] else {}
            answers.add((answer.status_code, json.dumps(body, sort_keys=True)))
        assert len(answers) == 1
        assert answers.pop()[0] == 404


def _followed(office: Office, token: str) -> str:
    """What the feed tells of the past, until a second brings nothing more."""
    told = ""
    with office.served.client(token) as reader:
        reader.timeout = httpx.Timeout(5, read=1)
        try:
            with reader.stream("GET", f"{WIRE}/changes?since=0") as feed:
                for piece in feed.iter_text():
                    told += piece
        except httpx.ReadTimeout:
            pass
    return told


def test_the_change_feed_tells_nothing_of_what_is_beyond(office: Office) -> None:
    told = _followed(office, office.limited)
    assert _leaks(office, told) == []
    assert office.inside in told
    assert office.held_inside in told
    assert {"outside", "held"} <= set(_leaks(office, _followed(office, office.free)))


def test_webhooks_belong_to_the_tenant_and_need_somebody_without_limits(office: Office) -> None:
    with office.served.client() as admin:
        body = {"name": "most", "roles": ["admin"], "review_stores": ["shop-*"]}
        most = admin.post(f"{API}/tokens", json=body).json()["text"]
    hook = {"url": "https://example.org/hook"}
    for token in (office.limited, most):
        with office.served.client(token) as who:
            assert who.post(f"{API}/webhooks", json=hook).status_code == 403
            assert who.get(f"{API}/webhooks").status_code == 403


def test_a_token_is_made_with_its_limits_and_shows_them(office: Office) -> None:
    limits = {"review_stores": ["shop-*", "main"], "review_operations": ["remember", "merge"]}
    with office.served.client() as admin:
        made = admin.post(f"{API}/tokens", json={"name": "both", "roles": ["reviewer"], **limits})
        assert made.status_code == 201, made.text
        about = made.json()["token"]
        assert {name: about[name] for name in limits} == limits
        (listed,) = [one for one in admin.get(f"{API}/tokens").json()["tokens"] if one["name"] == "both"]
        assert {name: listed[name] for name in limits} == limits
        for name, wrong in (
            ("review_stores", []),
            ("review_operations", ["read"]),
            ("review_operations", []),
        ):
            refused = admin.post(f"{API}/tokens", json={"name": "no", "roles": ["reviewer"], name: wrong})
            assert refused.status_code == 400
            assert refused.json()["errors"][0]["pointer"] == f"/{name}"
    with office.served.client(made.json()["text"]) as both:
        seen = both.get(f"{WIRE}/proposals").text
        assert office.held_inside in seen
        assert office.far["held"] not in seen
