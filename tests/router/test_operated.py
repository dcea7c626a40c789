"""What an operator sees of mirrors and does about them: over HTTP, with a client, on the command line, on the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from quipu import connect
from quipu.errors import NotFoundError
from quipu.model.mirrors import Difference
from quipu.model.principal import local
from quipu.ports.backend import Container, Place
from quipu.service.memory import MemoryService
from tests.faces.serving import Served, served
from tests.faces.web.conftest import Person
from tests.requirement import requirement

API = "/quipu/v1/mirrors"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """One mirror that is there, and one that cannot be."""
    (tmp_path / "file").write_text("not a folder")
    urls = f"sqlite://{tmp_path / 'copy.db'}?name=copy sqlite://{tmp_path / 'file' / 'nowhere.db'}?name=down"
    with served(tmp_path / "memory.db", mirrors=urls, mirror_write_deadline_ms=5000) as running:
        with running.client() as ask:
            for text in ("Mara is vegetarian", "Jonas plays the cello"):
                body = {"agent_id": "ana", "type": "semantic", "content": text}
                assert ask.post("/memorywire/v0/remember", json=body).status_code == 200
        yield running


def _admin(ask: httpx.Client) -> str:
    """A token that may do everything in the tenant, and does not run the server."""
    return ask.post("/quipu/v1/tokens", json={"name": "boss", "roles": ["admin"]}).json()["text"]


async def _lose_one(service: MemoryService) -> None:
    """Behind our back a copy goes."""
    (line,) = [line for line in service.mirrors.lines if line.mirror.name == "copy"]
    (store,) = await service.stores.list(local())
    home = Container(tenant="default", store_id=store.id, agent_id="ana")
    first = await anext(aiter(line.mirror.backend.scan(home)))
    assert await line.mirror.backend.delete([Place(home, str(first.record_id), first.native_id)]) == 1


@requirement("memorywire:router.operated")
async def test_an_operator_sees_verifies_and_mends(server: Served) -> None:
    async with connect(server.url, token=server.admin_token, agent_id="ana") as memory:
        found = {one.name: one for one in await memory.mirrors()}
        assert set(found) == {"copy", "down"}
        assert (found["copy"].waiting, found["copy"].error, found["copy"].place != "") == (0, None, True)
        assert (found["down"].waiting, found["down"].succeeded_at) == (2, None)
        assert found["down"].error
        report = await memory.verify_mirror("copy")
        assert (report.mirror, report.checked, report.faults) == ("copy", 2, ())
        await asyncio.to_thread(server.do, _lose_one(server.service))
        assert [fault.kind for fault in (await memory.verify_mirror("copy")).faults] == [Difference.MISSING]
        assert (await memory.resync_mirror("copy")).mended == 1
        assert (await memory.verify_mirror("copy")).faults == ()
        with pytest.raises(NotFoundError):
            await memory.verify_mirror("nobody")
        with pytest.raises(NotFoundError):
            await memory.resync_mirror("nobody")


@requirement("memorywire:router.operated")
def test_nobody_else_does(server: Served) -> None:
    with server.client() as ask:
        boss = {"Authorization": f"Bearer {_admin(ask)}"}
        for method, path in (("GET", API), ("POST", f"{API}/copy/verify"), ("POST", f"{API}/copy/resync")):
            answer = ask.request(method, path, headers=boss)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert "copy" not in answer.text


@requirement("memorywire:router.operated")
def test_the_page_tells_an_operator_of_lag_and_the_last_error(server: Served) -> None:
    with server.client() as ask:
        boss = _admin(ask)
    for token, sees in ((server.admin_token, True), (boss, False)):
        with Person(server.url) as person:
            person.sign_in(token)
            for path in ("/health", "/dashboard"):
                text = person.get(path).text
                assert ('id="mirrors"' in text) is sees, path
                assert ("2 changes" in text) is sees
                assert ("never" in text) is sees
