"""What is erased while memories go out is not in what is written afterwards, and a file that is whole still verifies."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import ConflictError
from quipu.model.operations import ListRequest
from tests.exchange.conftest import ADMIN, Host
from tests.faces.serving import served
from tests.requirement import requirement

CANARY = "the canary sings"


async def filled(host: Host, count: int) -> str:
    """Many memories; the first goes out last, and is the one that will be erased."""
    first = await host.memory.remember(CANARY)
    await host.memory.import_records({"content": f"Fact {number}"} for number in range(count))
    return first.id


@requirement("moving:export.erased")
@pytest.mark.parametrize("count", [3, 250])
async def test_lines_that_go_out_later_do_not_have_it(host: Host, count: int) -> None:
    gone = await filled(host, count)
    found = host.service.exchange.export(ADMIN, ListRequest(agent_id="ana"))
    texts = [(await anext(found)).content]
    await host.memory.forget(ids=[gone], hard_delete=True)
    await asyncio.sleep(0.06)
    texts += [record.content async for record in found]
    assert CANARY not in texts
    assert len(texts) == count
    assert [record["content"] for record in await host.contents()] == texts


@requirement("moving:export.erased")
async def test_a_stretch_is_looked_at_again_before_it_is_handed_out(host: Host) -> None:
    gone = await filled(host, 250)
    stretches = host.service.exchange.export_stretches(ADMIN, ListRequest(agent_id="ana"))
    found = list(await anext(stretches))
    await host.memory.forget(ids=[gone], hard_delete=True)
    async for stretch in stretches:
        found += stretch
    assert len(found) == 250
    assert CANARY not in {record.content for record in found}


@requirement("moving:export.erased")
@pytest.mark.slow
def test_a_reader_over_http_gets_nothing_of_it_any_more(tmp_path: Path) -> None:
    with served(tmp_path / "memory.db") as host, host.client() as http:
        body = {"agent_id": "ana", "type": "semantic", "content": CANARY}
        gone = http.post("/memorywire/v0/remember", json=body).json()["id"]
        # More than what lies between a server and a reader who does not read.
        lines = [json.dumps({**body, "content": f"{number} " + "x" * 30_000}) for number in range(300)]
        answer = http.post(
            "/memorywire/v0/import",
            content="\n".join(lines),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert answer.status_code == 200
        with host.client() as reader, reader.stream("GET", "/memorywire/v0/export?agent_id=ana") as export:
            pieces = export.iter_lines()
            told = [next(pieces)]
            erased = http.post(
                "/memorywire/v0/forget", json={"agent_id": "ana", "ids": [gone], "hard_delete": True}
            )
            assert erased.json()["forgotten_ids"] == [gone]
            told += list(pieces)
        assert len(told) == 300
        assert all(CANARY not in line for line in told)


@requirement("moving:export.erased")
async def test_a_file_that_is_being_written_is_given_up_and_made_anew_without_it(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = await filled(host, 30)
    target = tmp_path / "all.bundle.zip"
    made = host.service.exporting.made

    async def interrupted(*given: Any) -> Any:
        file = await made(*given)
        await host.memory.forget(ids=[gone], hard_delete=True)
        return file

    monkeypatch.setattr(host.service.exporting, "made", interrupted)
    with pytest.raises(ConflictError) as refused:
        await host.memory.export_file(target)
    assert refused.value.reason == "erased_meanwhile"
    assert os.listdir(tmp_path) == [], "nothing half-written stays"
    monkeypatch.setattr(host.service.exporting, "made", made)
    report = await host.memory.export_file(target)
    assert report.items == 30
    tried = await host.memory.import_file(target, dry_run=True)
    assert (tried.signature, tried.duplicate) == ("valid", 30)
