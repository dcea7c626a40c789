"""A memory moves between two running hosts, over HTTP, as a person would do it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu import connect
from quipu.errors import InvalidError, NotFoundError
from quipu.memory import Memory
from tests.exchange.test_round_trip import parts
from tests.faces.serving import Served, served
from tests.requirement import requirement

Q = "/quipu/v1"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Served, Served]]:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with served(tmp_path / "a" / "memory.db") as one, served(tmp_path / "b" / "memory.db") as other:
        yield one, other


def remote(host: Served) -> Memory:
    return connect(host.url, token=host.admin_token, agent_id="ana")


@requirement("moving:moving.hosts")
async def test_everything_moves_from_one_host_to_another(
    hosts: tuple[Served, Served], tmp_path: Path
) -> None:
    file, owner = tmp_path / "all.bundle.zip", "did:web:user.example"
    async with remote(hosts[0]) as one, remote(hosts[1]) as other:
        await one.create_store("shared", scope="team")
        first = await one.remember("Mara is vegetarian", user_id="mara", tags=["food"])
        await one.remember(
            "Moved desks", type="episodic", store="shared", links=[{"to": first.id, "rel": "about"}]
        )
        await one.remember("Mara is vegan", id=first.id, tags=["food"])
        report = await one.export_file(file, all_agents=True, owner=owner)
        assert (report.items, report.size) == (2, file.stat().st_size)
        with pytest.raises(InvalidError) as refused:
            await other.import_file(file)
        assert refused.value.reason == "unknown_key"
        keys = await one.signing_keys()
        tried = await other.import_file(file, keys=keys, dry_run=True)
        assert (tried.accepted, tried.signature, tried.dry_run) == (2, "valid", True)
        assert [store.name for store in await other.list_stores()] == ["main"]
        came = await other.import_file(file, keys=keys)
        assert came.accepted == 2
        assert {store.name for store in await other.list_stores()} == {"main", "shared"}
        back = tmp_path / "back.bundle.zip"
        await other.export_file(back, all_agents=True, owner=owner)
        assert parts(back.read_bytes()) == parts(file.read_bytes())
        undone = await other.roll_back_import(came.import_id)
        assert undone.forgotten == 2
        assert (await other.imports())[0].is_rolled_back
        file.write_bytes(file.read_bytes().replace(b"items.jsonl", b"itemz.jsonl"))
        with pytest.raises(InvalidError) as refused:
            await other.import_file(file, keys=keys)
        assert refused.value.reason == "wrong_digest"
        with pytest.raises(NotFoundError):
            await other.roll_back_import("imp_" + "0" * 26)


async def test_formats_move_through_a_server_and_tell_their_losses(
    hosts: tuple[Served, Served], tmp_path: Path
) -> None:
    async with remote(hosts[0]) as one, remote(hosts[1]) as other:
        await one.remember("Mara is vegetarian", importance=0.5)
        for format in ("pam-1.0", "omi-l1", "markdown", "mem0", "letta-blocks"):
            file = tmp_path / format
            report = await one.export_file(file, format=format)
            assert report.items == 1
            tried = await other.import_file(file, keys=await one.signing_keys(), dry_run=True)
            assert (tried.accepted, tried.format.value) == (1, format)
        report = await one.export_file(tmp_path / "m", format="mem0")
        assert {dropped.field for dropped in report.loss.dropped} == {"importance"}


def test_the_routes_as_a_program_without_our_client_sees_them(hosts: tuple[Served, Served]) -> None:
    host = hosts[0]
    writer = _token(host, "writer", "memory:read", "memory:write")
    reviewer = _token(host, "reviewer", "memory:read", "memory:write", "memory:review")
    headers = {"Authorization": f"Bearer {writer}"}
    with httpx.Client(base_url=host.url, timeout=30) as http:
        answer = http.post(f"{Q}/imports?agent_id=ana", content=b"- Mara likes tea\n", headers=headers)
        tried = _result(answer)
        assert (tried["accepted"], tried["quarantined"], tried["format"]) == (0, 1, "text")
        name = tried["import_id"]
        assert _result(http.post(f"{Q}/imports/{name}/commit", headers=headers))["quarantined"] == 1
        assert http.post(f"{Q}/imports/{name}/commit", headers=headers).status_code == 404
        decision = {"approved": True, "reason": "mine"}
        assert http.post(f"{Q}/imports/{name}/decision", json=decision, headers=headers).status_code == 403
        headers = {"Authorization": f"Bearer {reviewer}"}
        decided = http.post(f"{Q}/imports/{name}/decision", json=decision, headers=headers)
        assert decided.json()["decided"] == 1
        listed = http.get(f"{Q}/imports", headers=headers).json()["imports"]
        assert (listed[0]["import_id"], listed[0]["waiting"]) == (name, 0)
        assert http.post(f"{Q}/imports/{name}/rollback", headers=headers).status_code == 403
        assert http.post(f"{Q}/exports", json={}, headers=headers).status_code == 403
        headers = {"Authorization": f"Bearer {host.admin_token}"}
        out = http.post(f"{Q}/exports", json={"format": "mem0", "agent_id": "ana"}, headers=headers)
        assert out.json()["results"][0]["memory"] == "Mara likes tea"
        assert json.loads(out.headers["quipu-export-report"])["items"] == 1
        for query, status in (
            ("", 400),
            ("?agent_id=ana&format=nonsense", 400),
            ("?agent_id=ana&key=!", 400),
            ("?agent_id=ana&odd=1", 400),
        ):
            answer = http.post(f"{Q}/imports{query}", content=b"- x\n", headers=headers)
            assert answer.status_code == status
        assert http.post(f"{Q}/exports", json={"format": "chatgpt"}, headers=headers).status_code == 400


def _token(host: Served, name: str, *permissions: str) -> str:
    answer = httpx.post(
        f"{host.url}{Q}/tokens",
        json={"name": name, "permissions": list(permissions)},
        headers={"Authorization": f"Bearer {host.admin_token}"},
    )
    return str(answer.json()["text"])


def _result(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text.strip().splitlines()[-1])["result"]
