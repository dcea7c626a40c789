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
        done = sent("/erasures", csrf=secret("/erasures"), ids=name, reason="")
        assert "urn:oap:deletion:" in done.text
        assert "has let go of it" in done.text
        assert sent("/erasures", csrf=secret("/erasures"), ids=" ").status_code == 400
