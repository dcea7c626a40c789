"""What is seen of a whole server from outside: its numbers, whether it is ready, and how it is."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.access.operations import CREATE_TENANT, CREATE_TOKEN
from quipu.bootstrap import Container, http_app, open_container
from quipu.config import Settings
from quipu.memory.operations import FORGET, REMEMBER
from quipu.model.principal import local
from quipu.operation import AnyOperation, dispatch

HEALTH = ("/v1/health", "/memorywire/v0/health")


@dataclass
class Watched:
    container: Container
    http: httpx.AsyncClient

    async def __call__(self, operation: AnyOperation, tenant: str = "default", /, **fields: Any) -> Any:
        return await dispatch(self.container.context(local(tenant, "a")), operation, fields)

    async def token(self, role: str) -> dict[str, str]:
        made = await self(CREATE_TOKEN, name=role, roles=[role], default_agent="a")
        return {"Authorization": f"Bearer {made.text}"}


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    file = tmp_path / "memory.db"
    container = await open_container(Settings(), stores=[str(file)], embedder="none")
    transport = httpx.ASGITransport(http_app(container))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        yield Watched(container, http)
    await container.close()


async def test_numbers_of_every_tenant_are_shown_to_who_runs_the_server(watched: Watched) -> None:
    operator = await watched.token("operator")

    async def numbers() -> dict[str, float]:
        answer = await watched.http.get("/metrics", headers=operator)
        names = "tenants|live_records|journal_entries|pending_proposals|owed_copies"
        return {
            name: float(value) for name, value in re.findall(rf"^quipu_({names}) (\S+)$", answer.text, re.M)
        }

    before = await numbers()
    assert before.keys() == {
        *("tenants", "live_records", "journal_entries", "pending_proposals", "owed_copies"),
    }
    await watched(CREATE_TENANT, tenant="other")
    first = await watched(REMEMBER, content="one")
    await watched(REMEMBER, "other", content="two")
    await watched(FORGET, ids=[first.id])
    await watched(REMEMBER, content="three", approval_required=True)
    after = await numbers()
    moved = {name: after[name] - before[name] for name in after}
    assert (moved["tenants"], moved["live_records"], moved["pending_proposals"]) == (1, 1, 1)
    assert moved["journal_entries"] >= 4
    assert after["owed_copies"] == 0


@pytest.mark.parametrize("path", HEALTH)
async def test_everybody_is_told_the_status_and_who_reads_memory_the_rest(
    watched: Watched, path: str
) -> None:
    nobody = (await watched.http.get(path)).json()
    operator = (await watched.http.get(path, headers=await watched.token("operator"))).json()
    agent = (await watched.http.get(path, headers=await watched.token("agent"))).json()
    for told in (nobody, operator):
        assert {name for name, value in told.items() if value is not None} == {"status"}
        assert told["status"] == "ok"
    assert (agent["status"], agent["ledger"]["kind"], agent["ledger"]["writable"]) == ("ok", "sqlite", True)
    assert agent["version"]
    bad = await watched.http.get(path, headers={"Authorization": "Bearer qp_default_no"})
    assert bad.status_code == 401, "a credential that is shown must be good"


async def test_a_ledger_that_takes_no_writes_is_told_everywhere_until_it_does(watched: Watched) -> None:
    agent = await watched.token("agent")
    writer: Any = watched.container.ledger._driver
    (pages,) = next(iter(writer._writer.execute("PRAGMA page_count")))
    writer._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
    large = {"content": "one " * 50_000}
    write = await watched.http.post("/v1/memories", json=large, headers=agent)
    assert (write.status_code, write.json()["reason"]) == (503, "disk_full")
    ready = await watched.http.get("/readyz")
    assert (ready.status_code, ready.json()) == (503, {"status": "unavailable", "reason": "ledger"})
    for path in HEALTH:
        told = (await watched.http.get(path, headers=agent)).json()
        assert (told["status"], told["ledger"]["reason"]) == ("degraded", "disk_full")
        assert (await watched.http.get(path)).json()["status"] == "degraded"
    assert (await watched.http.get("/healthz")).json() == {"status": "ok"}, "the process lives"
    writer._writer.execute(f"PRAGMA max_page_count = {pages + 1000}")
    again = await watched.http.post("/v1/memories", json=large, headers=agent)
    assert again.status_code == 200
    assert (await watched.http.get("/readyz")).json() == {"status": "ok"}
