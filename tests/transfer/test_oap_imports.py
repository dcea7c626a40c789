"""Imports in OAP's words: tried, carried out, taken back."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.access.operations import CREATE_TOKEN
from quipu.memory.operations import LIST
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, reason
from tests.sharing.network import Host, hosts
from tests.transfer.formats.shelf import packed, unpacked
from tests.transfer.test_grant_exports import by_owner

IMPORT = "/oap/memory/import"


@pytest.fixture
async def grantee(tmp_path: Path) -> AsyncIterator[Grantee]:
    async with hosts(tmp_path, "memory.example", "contractor.example") as (_, [lender, own]):
        yield Grantee(lender, own)


class Owner:
    """Somebody who is signed in at a host."""

    def __init__(self, host: Host, token: str) -> None:
        self.host, self._token = host, token

    async def sends(self, path: str, content: bytes = b"") -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/octet-stream"}
        return await self.host.http("POST", f"{self.host.url}{path}", content=content, headers=headers)

    async def ids(self) -> set[str]:
        return {one.id for one in (await self.host(LIST, all_agents=True)).records}


async def owner(host: Host, *roles: str) -> Owner:
    issued: Any = await host(CREATE_TOKEN, name=f"{'-'.join(roles)}", roles=list(roles))
    return Owner(host, issued.text)


@requirement("oap:import.owner")
async def test_a_file_is_tried_carried_out_and_taken_back(grantee: Grantee) -> None:
    lender, mine = grantee.lender, await owner(grantee.own, "admin")
    kept = {await lender.remember("Ana lives in Lisbon"), await lender.remember("Mara is vegetarian")}
    data = (await by_owner(lender, {})).content
    tried = await mine.sends(f"{IMPORT}?agent_id=assistant&wait_s=60", data)
    assert tried.status_code == 200, tried.text
    report = tried.json()["output"]
    assert (report["status"], report["signature"], report["counts"]["accepted"]) == ("checked", "valid", 2)
    assert await mine.ids() == set(), "nothing was written"
    path = f"{IMPORT}/{report['import_id']}"
    done = (await mine.sends(f"{path}/commit")).json()["output"]
    assert (done["status"], await mine.ids()) == ("done", kept)
    again = (await mine.sends(f"{path}/commit")).json()
    assert again["output"]["counts"] == done["counts"]
    undone = (await mine.sends(f"{path}/undo")).json()["output"]
    assert {one["id"] for one in undone["findings"]} == kept
    assert await mine.ids() == set()


@requirement("oap:import.trust")
@requirement("oap:import.owner")
async def test_what_is_not_good_is_refused_in_an_envelope(grantee: Grantee) -> None:
    lender, mine = grantee.lender, await owner(grantee.own, "admin")
    await lender.remember("Ana lives in Lisbon")
    files = unpacked((await by_owner(lender, {})).content)
    forged = packed({**files, "items.jsonl": files["items.jsonl"].replace(b"Lisbon", b"London")})
    assert reason(await mine.sends(f"{IMPORT}?agent_id=assistant", forged)) == (400, "wrong_digest")
    assert reason(await mine.sends(f"{IMPORT}?agent_id=assistant&planted=1", forged)) == (
        400,
        "unknown_member",
    )
    assert (await mine.sends(f"{IMPORT}/imp_none/commit")).status_code == 404
    answer = await grantee.own.http("POST", f"{grantee.own.url}{IMPORT}", content=forged)
    assert answer.status_code == 401
    other = await owner(grantee.own, "operator")
    assert (await other.sends(f"{IMPORT}?agent_id=assistant", forged)).status_code == 403
    assert await mine.ids() == set()
