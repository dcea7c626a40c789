"""Borrowing from the command line, from a real host, and checking what an owner takes along."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quipu.crypto.canonical import canonical
from quipu.formats import bundle_proofs
from quipu.model.grants import GrantStatus
from quipu.testing.embedders import WordEmbedder
from tests.cli.conftest import Cli
from tests.oap.hosts import OWNER, Host, pair


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path, embedder=WordEmbedder()) as both:
        yield both


@pytest.fixture
def cli(tmp_path: Path, hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A memory of its own, with the keys that a grant is for; it may reach the hosts."""
    monkeypatch.setenv("QUIPU_STORE", f"sqlite://{tmp_path / 'mine.db'}")
    monkeypatch.setenv("QUIPU_EMBEDDER", "none")
    monkeypatch.setenv("QUIPU_OAP_ALLOWED_HOSTS", hosts[0].url)
    cli = Cli(CliRunner())
    cli.said("init")
    return cli


def _lent(a: Host, cli: Cli) -> str:
    a.remember("Dana meets on Tuesdays.", tags=("website_redesign",), structured={"day": "tue"})
    scopes = ["memory.query", "memory.embeddings"]
    return a.grant(cli.json("did", "show")["owner"], scopes=scopes, trust_level=2)


def test_what_is_lent_is_asked_for_fetched_and_given_up(
    hosts: tuple[Host, Host], cli: Cli, tmp_path: Path
) -> None:
    a, _ = hosts
    grant_id = _lent(a, cli)
    (item,) = cli.json("grant", "ask", a.url, grant_id, "--vectors")["items"]
    assert item["content"]["structured"] == {"day": "tue"}
    file = tmp_path / "one.bin"
    where = ("grant", "vector", a.url, grant_id, item["embedding"]["vector_url"], str(file))
    told = cli.json(*where)
    assert told == {"file": str(file), "bytes": file.stat().st_size}
    assert file.read_bytes() == a.at.do(a.parts.embedder.embed([item["content"]["text"]]))[0]
    assert cli.problem(*where)["reason"] == "exists"
    assert len(cli.json("grant", "held")["items"]) == 1
    assert cli.json("grant", "give-up", a.url, grant_id) == {"grant_id": grant_id, "dropped": 1}
    assert cli.json("grant", "held") == {"items": []}
    assert a.at.do(a.sharing.grants.get(OWNER, grant_id)).status is GrantStatus.REVOKED
    assert cli("grant", "ask", a.url, grant_id).exit_code == 1


def test_what_was_taken_back_is_let_go_of_all_the_same(hosts: tuple[Host, Host], cli: Cli) -> None:
    a, _ = hosts
    grant_id = _lent(a, cli)
    cli.json("grant", "ask", a.url, grant_id)
    a.at.do(a.sharing.grants.revoke(OWNER, grant_id))
    assert cli.problem("grant", "give-up", a.url, grant_id)["reason"] == "grant_revoked"
    assert cli.json("grant", "held") == {"items": []}


def test_receipts_and_logs_of_a_bundle_are_checked(
    hosts: tuple[Host, Host], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = hosts
    grant_id = _lent(a, cli)
    cli.json("grant", "ask", a.url, grant_id)
    monkeypatch.setenv("QUIPU_STORE", f"sqlite://{tmp_path / 'a.db'}")
    file, lines = tmp_path / "all.bundle.zip", tmp_path / "all.bundle.jsonl"
    cli.said("export", str(file), "--all-agents", "--receipts")
    cli.said("export", str(lines), "--all-agents", "--receipts")
    told = cli.json("bundle", "verify", str(file))
    assert (told["receipts"], told["faults"]) == (2, []), "of the grant and of the answer"
    assert told["logged"] == 2, "it was captured, and shown"
    streamed = cli.json("bundle", "verify", str(lines))
    assert [streamed[name] for name in ("receipts", "logged", "faults")] == [2, 2, []]
    assert "each tied to the one before it" in cli.said("bundle", "verify", str(file))
    with zipfile.ZipFile(file) as archive:
        kept = {name: archive.read(name).splitlines() for name in archive.namelist()}
    chain = [json.loads(line) for line in kept["receipts.jsonl"]]
    logs = [json.loads(line) for line in kept["logs.jsonl"]]
    head = json.loads(kept["manifest.json"][0])["receipts_head"]
    assert _kinds(logs, chain, head) == []
    assert _kinds(logs, chain[:-1], head) == ["broken_chain"], "cut off at the end"
    assert _kinds(logs, chain[1:], head) == ["broken_chain"], "and at the beginning"
    assert _kinds(logs, [{**chain[0], "action_id": "nothing"}, *chain[1:]], head) == ["broken_chain"]
    assert _kinds([{**logs[0], "seq": 2}, *logs[1:]], chain, head) == ["broken_log"]
    assert _kinds([{**logs[0], "prev": logs[0]["at"]}, *logs[1:]], chain, head) == ["broken_log"]


def _kinds(logs: list[dict[str, object]], chain: list[dict[str, object]], head: str) -> list[str]:
    found = bundle_proofs.checked(iter(enumerate(logs)), iter(enumerate(chain)), head, canonical)
    return [fault.kind for fault in found.faults]


def test_trusting_an_agent_that_cannot_be_found_is_no_matter_of_ones_own_token(cli: Cli) -> None:
    told = cli.problem("did", "trust", "did:web:127.0.0.1%3A1", "--may", "memory_export")
    assert told["reason"] == "did_unresolved", told
