"""Machines that would run code are refused on every way in, and nothing of them is kept (threat model T6b, Q39)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from quipu import sync
from quipu.cli.program import app
from quipu.errors import InvalidError
from quipu.testing.embedders import WordEmbedder
from tests.faces.mcp.hosts import over_http
from tests.faces.serving import Served, served
from tests.faces.web.conftest import Person
from tests.procedures.machines import EVIL, PARCEL
from tests.requirement import requirement

MW, Q = "/memorywire/v0", "/quipu/v1"
AGENT = {"agent_id": "ana", "type": "procedural"}


@dataclass
class Place:
    """A server, and the ways in."""

    server: Served
    api: httpx.Client
    store: Path
    #: Somebody who may decide on what the administrator wrote.
    reviewer_token: str
    #: Procedures that tests share, by what they are for.
    ids: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def reviewer(self) -> httpx.Client:
        return self.server.client(self.reviewer_token)

    def refused(self, answer: httpx.Response) -> None:
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] == "validation_error"

    def held(self) -> str:
        """A proposal with a good machine."""
        answer = self.api.post(
            f"{MW}/remember",
            json={**AGENT, "content": PARCEL, "approval_required": True, "extensions": True},
        )
        return str(answer.json()["extensions"]["quipu"]["proposal_id"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    store = tmp_path_factory.mktemp("attacks") / "memory.db"
    with (
        served(store, embedder=WordEmbedder(), rate_per_minute=0, recall_budget=0) as server,
        server.client() as api,
    ):
        issued = api.post(f"{Q}/tokens", json={"name": "reviewer", "roles": ["admin"]}).json()
        yield Place(server, api, store, issued["text"])


def remember(at: Place, machine: Any) -> None:
    at.refused(at.api.post(f"{MW}/remember", json={**AGENT, "content": machine}))


def remember_text(at: Place, machine: Any) -> None:
    at.refused(at.api.post(f"{MW}/remember", json={**AGENT, "content": json.dumps(machine)}))


def remember_held(at: Place, machine: Any) -> None:
    body = {**AGENT, "content": machine, "approval_required": True}
    at.refused(at.api.post(f"{MW}/remember", json=body))


def batch(at: Place, machine: Any) -> None:
    answer = at.api.post(f"{MW}/remember/batch", json={"items": [{**AGENT, "content": machine}]})
    assert answer.json()["results"][0]["error"]["code"] == "validation_error"


def atomic_batch(at: Place, machine: Any) -> None:
    body = {"items": [{**AGENT, "content": PARCEL}, {**AGENT, "content": machine}], "atomic": True}
    at.refused(at.api.post(f"{MW}/remember/batch", json=body))


def wire_import(at: Place, machine: Any) -> None:
    line = json.dumps({**AGENT, "content": machine})
    answer = at.api.post(f"{MW}/import", content=line, headers={"Content-Type": "application/x-ndjson"})
    last = json.loads(answer.text.splitlines()[-1])["summary"]
    assert (last["stored"], last["held"], last["failed"]) == (0, 0, 1)


def own_import(at: Place, machine: Any) -> None:
    line = json.dumps({"request": {**AGENT, "content": machine}})
    answer = at.api.post(f"{Q}/import", content=line, headers={"Content-Type": "application/x-ndjson"})
    result = json.loads(answer.text.splitlines()[-1])["result"]
    assert (result["stored"], result["held"], result["failed"]) == (0, 0, 1)


def edit_over_rest(at: Place, machine: Any) -> None:
    path = f"{MW}/proposals/{at.held()}/decision"
    with at.reviewer as reviewer:
        at.refused(reviewer.post(path, json={"approved": True, "edit": {"content": machine}}))


def edit_over_own_api(at: Place, machine: Any) -> None:
    path = f"{Q}/proposals/{at.held()}/decision"
    with at.reviewer as reviewer:
        body = {"approved": True, "edit": {"content": json.dumps(machine)}}
        at.refused(reviewer.post(path, json=body))


def edit_on_the_page(at: Place, machine: Any) -> None:
    name = at.held()
    with Person(at.server.url) as person:
        assert person.sign_in(at.reviewer_token).status_code == 303
        answer = person.send(f"/review/{name}", decision="edit", content=json.dumps(machine))
    assert answer.status_code == 400


def change_of_a_good_one(at: Place, machine: Any) -> None:
    name = at.api.post(f"{MW}/remember", json={**AGENT, "content": PARCEL}).json()["id"]
    at.refused(at.api.post(f"{MW}/remember", json={**AGENT, "content": machine, "id": name}))
    assert at.api.get(f"{Q}/records/{name}/procedure").json()["version"] == 1
    at.api.post(f"{MW}/forget", json={"agent_id": "ana", "ids": [name], "hard_delete": True})


def remote_client(at: Place, machine: Any) -> None:
    with sync.connect(at.server.url, token=at.server.admin_token, agent_id="ana") as memory:
        with pytest.raises(InvalidError):
            memory.remember(machine, type="procedural")
        summary = memory.import_records([{"content": machine, "type": "procedural"}])
        assert (summary.stored, summary.failed) == (0, 1)


def command(at: Place, machine: Any) -> None:
    words = ["--server", at.server.url, "--token-file", str(at.store.with_name("token"))]
    at.store.with_name("token").write_text(at.server.admin_token, "utf-8")
    done = CliRunner().invoke(
        app, ["remember", "-", "--type", "procedural", "--agent", "ana", *words], input=json.dumps(machine)
    )
    assert done.exit_code == 1


WAYS: list[Callable[[Place, Any], None]] = [
    remember, remember_text, remember_held, batch, atomic_batch, wire_import, own_import, edit_over_rest,
    edit_over_own_api, edit_on_the_page, change_of_a_good_one, remote_client, command,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_no_way_in_takes_a_machine_that_names_code(
    place: Place, way: Callable[[Place, Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = kept(place)
    some = list(EVIL.values()) if way in (remember, remember_text) else list(EVIL.values())[::4]
    for machine in some:
        way(place, machine)
    assert kept(place) == before
    assert list(tmp_path.iterdir()) == []


@requirement("memorywire:procedures.no-code")
async def test_the_mcp_tool_refuses_them_too(place: Place) -> None:
    before = kept(place)
    async with over_http(place.server) as client:
        for machine in EVIL.values():
            done = await client.call_tool("remember", {**AGENT, "content": json.dumps(machine)})
            assert done.is_error
    assert kept(place) == before


def kept(at: Place) -> list[str]:
    found = at.api.post(f"{Q}/records/query", json={"agent_id": "ana", "limit": 1000}).json()
    return [record["content"] for record in found["records"]]
