"""An auditor's way: from a memory to its entry, to the proof, and to a check elsewhere, by what the page says alone."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import zipfile
from html import unescape
from pathlib import Path

import pytest

from quipu.faces.web import cord
from quipu.model.journal import Op
from quipu.model.operations import MergeRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.service.runs import OpenRequest
from tests.conventions import command
from tests.faces.web.conftest import House, Opened, Person
from tests.faces.web.test_deciding import held

INES = "Inês lives in Lisbon and flies from Humberto Delgado."


def test_every_operation_is_told_as_a_sentence() -> None:
    assert [op for op in Op if op not in cord.VERBS] == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_memory_leads_to_its_entry_and_the_entry_shows_all_of_it(
    house: House, window: Opened
) -> None:
    service, record = house.served.service, house.demo.ids[INES]
    history = await asyncio.to_thread(house.served.do, service.reading.history(local(), None, record))
    newest = history[-1].record
    head = await asyncio.to_thread(house.served.do, service.audit.entries(local(), newest.born - 1, 1))
    here = await window(java_script_enabled=False, viewport={"width": 380, "height": 800})
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go(f"/memories/{record}")
    assert newest.digest in await here.text()
    await here.page.click(".reader-head a")
    entry = here.page.locator(f"#e{newest.born}")
    shown = await entry.inner_text()
    assert head[0].hash in shown
    assert head[0].prev in shown
    other = here.page.locator(".entry:not(:target) .entry-whole")
    assert await other.count() > 0
    assert not await other.first.is_visible()
    assert await here.page.evaluate("document.documentElement.scrollWidth") <= 380


def test_entries_say_what_they_are_about(house: House, ana: Person) -> None:
    service, do = house.served.service, house.served.do
    run = do(service.runs.open(local(), OpenRequest(workflow_id="nightly", is_external=True))).run
    wish = RememberRequest(agent_id="audited", type=MemoryType.SEMANTIC, content="The bell rings.")
    stays, goes = (do(service.remember(local(), wish)).id for _ in range(2))
    do(service.merge(local(), MergeRequest(agent_id="audited", canonical=stays, duplicates=(goes,))))
    page = ana.get("/journal").text
    assert "began a run" in page
    assert f'href="/runs/{run.id}"' in page
    assert f'href="/memories/{stays}" title="{stays}">into <code>' in page
    assert "proposed to forget" in ana.get("/journal?op=hold").text
    assert "issued a token for <b>ruth</b>" in ana.get("/journal?op=issue_token").text


@pytest.mark.asyncio(loop_scope="module")
async def test_links_of_an_entry_stand_apart_enough_for_a_finger(house: House, window: Opened) -> None:
    """WCAG 2.5.8: what is smaller than 24 points has that much room around its middle."""
    name = await asyncio.to_thread(held, house, "The ferry runs at noon.")
    await asyncio.to_thread(house.served.do, house.served.service.decide(local(), name, approved=True))
    here = await window(viewport={"width": 380, "height": 800})
    await here.sign_in(house.demo.tokens["ruth"])
    await here.go(f"/journal?about={name}&op=remember")
    middles = await here.page.evaluate(
        "[...document.querySelectorAll('.entry .entry-records a')].map((link) => { const box = link.getBoundingClientRect(); return box.y + box.height / 2; })"
    )
    assert len(middles) == 2, "the memory, and the proposal that it was"
    assert middles[1] - middles[0] >= 24


@pytest.mark.asyncio(loop_scope="module")
async def test_the_proof_is_checked_elsewhere_by_what_the_page_says(
    house: House, window: Opened, tmp_path: Path
) -> None:
    here = await window(java_script_enabled=False)
    await here.sign_in(house.demo.tokens["ana"])
    await here.go("/journal")
    await here.page.click("text=How to check it elsewhere")
    keys, unpacking, checking = await here.page.locator("#elsewhere ~ ol pre").all_inner_texts()
    (tmp_path / "trusted.json").write_text(keys)
    async with here.page.expect_download() as coming:
        await here.page.click("#elsewhere ~ ol button")
    came = await coming.value
    await came.save_as(tmp_path / came.suggested_filename)
    assert shlex.split(unpacking) == ["unzip", came.suggested_filename, "-d", "proof"]
    with zipfile.ZipFile(tmp_path / came.suggested_filename) as archive:
        archive.extractall(tmp_path / "proof")
    nothing = {name: str(tmp_path / "nothing") for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUIPU_")}
    done = subprocess.run(  # noqa: ASYNC221  nothing else waits for this loop
        command(*shlex.split(checking)[1:]),
        cwd=tmp_path,
        env={**kept, **nothing},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"Holds" in done.stdout


def test_who_may_not_download_is_told_who_may(house: House) -> None:
    ruth = house.person("ruth")
    page = ruth.get("/journal/proof").text
    assert "Have somebody with <code>memory:admin</code> download the proof" in page
    assert "/journal/download" not in page
    ruth.send("/journal/verify")
    page = ruth.get("/journal/proof").text
    assert "Nothing was altered" in page
    assert "Check it elsewhere" in page
    told = re.search(r"<pre><code>(\{.*?\})</code>", page, re.DOTALL)
    assert told is not None
    known = house.served.do(house.served.service.audit.keys(local()))
    assert json.loads(unescape(told.group(1))) == dict(known)
