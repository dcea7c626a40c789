"""Lending from the command line and on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tests.cli.conftest import Cli
from tests.oap.hosts import OWNER, Host, pair
from tests.requirement import requirement

GRANTEE = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
STRUCTURE = '{"structured": {"days": ["tue"], "secret": "two words"}}'


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("QUIPU_STORE", f"sqlite://{tmp_path / 'memory.db'}")
    monkeypatch.setenv("QUIPU_EMBEDDER", "none")
    return Cli(CliRunner())


def test_lending_from_the_shell(cli: Cli) -> None:
    cli.said("remember", "Dana meets on Tuesdays", "--tag", "web", "--metadata", STRUCTURE)
    name = cli.json("list")["records"][0]["id"]
    words = ("share", GRANTEE, "--label", "web", "--purpose", "Brief them")
    (item,) = cli.json(*words, "--dry-run")["items"]
    assert item["content"] == {"structured": {"days": ["tue"]}, "text": "days: tue", "derived": True}
    assert cli.json("grant", "list")["grants"] == []
    made = cli.json(*words, "--level", "2", "--days", "3")
    grant_id = made["grant"]["grant_id"]
    assert made["grant"]["trust_level"] == 2
    (listed,) = cli.json("grant", "list")["grants"]
    assert (listed["grant"], listed["status"]) == (made["grant"], "active")
    assert grant_id in cli.said("grant", "list")
    assert cli.json("grant", "show", grant_id)["shown"] == []
    assert cli.json("grant", "seen", name) == {"seen": []}
    assert "The chain is whole." in cli.said("grant", "receipts")
    assert cli.json("grant", "revoke", grant_id)["status"] == "revoked"
    assert cli.json("grant", "list")["grants"][0]["status"] == "revoked"
    assert cli.json("grant", "revoke-all", "--yes") == {"revoked": 0}
    erased = cli.json("erase", name, "--yes")
    assert erased["receipt"]["scope"]["items_deleted"] == 1
    assert cli.json("list")["records"] == []
    known = cli.json("did", "show")
    assert known["document"]["id"] == known["owner"]
    assert cli.json("did", "resolve", known["owner"]) == known["document"]
    assert cli("did", "rotate").exit_code == 1, "a did:key cannot"
    assert cli("share", GRANTEE, "--purpose", "x").exit_code == 1, "nothing chosen"
    assert cli("share", "nobody", "--everything", "--purpose", "x").exit_code == 1
    assert cli("erase", "--yes").exit_code == 1


def test_keys_stay_the_same_from_one_run_to_the_next(cli: Cli, tmp_path: Path) -> None:
    cli("init")
    assert cli.json("did", "show") == cli.json("did", "show")
    keys = sorted((tmp_path / "memory.db.dids").rglob("*.pem"))
    assert [key.stat().st_mode & 0o077 for key in keys] == [0] * len(keys)
    assert keys


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


def test_lending_on_the_page(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = a.remember("Hidden words of Dana.", tags=("web",), structured={"day": "tue"})
    with httpx.Client(base_url=a.url, follow_redirects=True, timeout=30) as browser:

        def secret(path: str) -> str:
            found = re.search(r'name="csrf" value="([^"]+)"', browser.get(path).text)
            assert found is not None
            return found.group(1)

        def sent(path: str, **fields: str) -> httpx.Response:
            return browser.post(path, data=fields, headers={"Origin": a.url})

        sent("/signin", csrf=secret("/signin"), token=a.at.admin_token)
        fields = {
            "grantee": b.owner,
            "purpose": "Brief",
            "labels": "web",
            "level": "1",
            "days": "3",
            "most": "5",
        }
        preview = browser.get("/grants", params=fields)
        assert "day: tue" in preview.text
        assert "Hidden words" not in preview.text
        assert a.at.do(a.sharing.grants.list(OWNER)) == []
        assert browser.get("/grants", params={**fields, "grantee": "nobody"}).status_code == 400
        assert sent("/grants", **fields).status_code == 403, "without the form's secret"
        shown = sent("/grants", csrf=secret("/grants"), **fields)
        assert "Take it back" in shown.text
        (kept,) = a.at.do(a.sharing.grants.list(OWNER))
        assert b.ask(a, kept.id).items
        seen = browser.get(f"/grants/{kept.id}").text
        assert name in seen
        sent(f"/grants/{kept.id}/revoke", csrf=secret(f"/grants/{kept.id}"))
        assert a.at.do(a.sharing.grants.get(OWNER, kept.id)).status == "revoked"
        unsure = sent("/erasures", csrf=secret("/erasures"), ids=name, reason="")
        assert unsure.status_code == 400
        assert "Tick that you mean it" in unsure.text
        assert browser.get(f"/memories/{name}").status_code == 200, "still there"
        done = sent("/erasures", csrf=secret("/erasures"), ids=name, reason="", sure="yes")
        assert "urn:oap:deletion:" in done.text
        assert "has let go of it" in done.text
        assert sent("/erasures", csrf=secret("/erasures"), ids=" ", sure="yes").status_code == 400


@requirement("oap:grant.request")
def test_a_request_is_answered_on_the_page(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.remember("Hidden words of Dana.", tags=("web",), structured={"day": "tue"})
    draft = {"granter": f"{a.owner}#personal", "filter": {"labels_any": ["web"]}, "trust_level": 4}
    tasks = [
        b.at.do(b.sharing.borrowing.request(OWNER, a.url, {**draft, "purpose": purpose}))
        for purpose in ("One", "Two <b>")
    ]
    with httpx.Client(base_url=a.url, follow_redirects=True, timeout=30) as browser:

        def secret(path: str) -> str:
            found = re.search(r'name="csrf" value="([^"]+)"', browser.get(path).text)
            assert found is not None
            return found.group(1)

        def sent(path: str, **fields: str) -> httpx.Response:
            return browser.post(path, data=fields, headers={"Origin": a.url})

        sent("/signin", csrf=secret("/signin"), token=a.at.admin_token)
        listed = browser.get("/grants").text
        assert b.owner in listed
        assert "Two <b>" not in listed, "a stranger's words are text"
        two, one = (f"/grants/requests/{found.id}" for found in a.at.do(a.sharing.requests.list(OWNER)))
        assert "Hidden words" in browser.get(one).text, "as it was asked for"
        lower = browser.get(one, params={"level": "1"}).text
        assert "day: tue" in lower
        assert "Hidden words" not in lower
        fields = {"level": "1", "days": "3", "most": "5"}
        assert sent(one, answer="approve", **fields).status_code == 403, "without the form's secret"
        assert sent(one, csrf=secret(one), answer="approve", **{**fields, "days": "x"}).status_code == 400
        assert sent(one, csrf=secret(one), answer="perhaps", **fields).status_code == 400
        assert a.at.do(a.sharing.grants.list(OWNER)) == []
        assert "Take it back" in sent(one, csrf=secret(one), answer="approve", **fields).text
        sent(two, csrf=secret(two), answer="refuse", **fields)
        assert "Refused" in browser.get(two).text
        assert "Asked for" not in browser.get("/grants").text
    states = [b.at.do(b.sharing.borrowing.requested(OWNER, a.url, task["task_id"])) for task in tasks]
    assert [state["status"] for state in states] == ["completed", "canceled"]
    (item,) = b.ask(a, states[0]["grant"]["grant_id"]).items
    assert item["content"]["text"] == "day: tue"


@requirement("oap:shell.server")
def test_lending_of_a_server_from_the_shell(
    hosts: tuple[Host, Host], cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a, b = hosts
    monkeypatch.setenv("QUIPU_SERVER", a.url)
    monkeypatch.setenv("QUIPU_TOKEN", a.at.admin_token)
    monkeypatch.setenv("QUIPU_STORE", f"sqlite://{tmp_path / 'untouched.db'}")
    name = a.remember("Hidden words of Dana.", tags=("web",), structured={"day": "tue"})
    words = ("share", b.owner, "--label", "web", "--purpose", "Brief")
    (item,) = cli.json(*words, "--dry-run")["items"]
    assert item["content"]["text"] == "day: tue"
    assert cli.json("grant", "list") == {"grants": []}
    lent = cli.json(*words, "--days", "3")["grant"]
    assert cli.json("grant", "seen", name) == {"seen": []}
    assert b.ask(a, lent["grant_id"]).items
    shown = cli.json("grant", "show", lent["grant_id"])
    assert (shown["status"], shown["shown"], shown["uses"]) == ("active", [name], 1)
    assert [entry["actor"] for entry in cli.json("grant", "seen", name)["seen"]] == [b.owner]
    told = cli.json("grant", "receipts")
    assert ([one["type"] for one in told["receipts"]], told["faults"]) == (["consent", "invocation"], [])
    draft = {"granter": f"{a.owner}#personal", "filter": {"labels_any": ["web"]}, "purpose": "More"}
    tasks = [
        b.at.do(b.sharing.borrowing.request(OWNER, a.url, {**draft, "max_items": most})) for most in (1, 2)
    ]
    two, one = cli.json("grant", "requests")["requests"]
    assert (one["grantee"], one["status"]) == (b.owner, "awaiting_input")
    assert cli.json("grant", "approve", one["id"], "--level", "0", "--days", "2")["status"] == "active"
    assert cli.json("grant", "refuse", two["id"])["status"] == "canceled"
    assert cli("grant", "approve", two["id"]).exit_code == 1
    state = b.at.do(b.sharing.borrowing.requested(OWNER, a.url, tasks[0]["task_id"]))
    assert (state["status"], state["grant"]["trust_level"]) == ("completed", 0)
    assert cli.json("grant", "revoke", lent["grant_id"])["status"] == "revoked"
    assert cli.json("grant", "revoke-all", "--yes") == {"revoked": 1}
    assert {grant["status"] for grant in cli.json("grant", "list")["grants"]} == {"revoked"}
    erased = cli.json("erase", name, "--yes")
    assert erased["receipt"]["scope"]["items_deleted"] == 1
    for local in (["did", "show"], ["grant", "held"], ["grant", "ask", b.url, "mgr_1"]):
        assert cli.problem(*local)["reason"] == "usage", "keys are with the memory"
    assert not (tmp_path / "untouched.db").exists()


@requirement("oap:grant.request")
def test_asking_from_the_shell(hosts: tuple[Host, Host], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = hosts
    monkeypatch.setenv("QUIPU_OAP_ALLOWED_HOSTS", a.url)
    words = ("--label", "web", "--purpose", "Redesign", "--level", "2")
    task = cli.json("grant", "request", a.url, a.owner, *words)
    assert task["status"] == "awaiting_input"
    (one,) = a.at.do(a.sharing.requests.list(OWNER))
    assert one.draft["trust_level"] == 2
    kept = a.at.do(a.sharing.requests.approve(OWNER, one.id))
    assert kept.id in cli.said("grant", "requested", a.url, task["task_id"])
