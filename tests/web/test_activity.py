"""The journal, its verification, and undoing what a cause did, as pages."""

import asyncio
import io
import re
import zipfile
from pathlib import Path

import apsw

from quipu.audit.offline import verified
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import GET, LIST
from quipu.web import text
from tests.web.conftest import House, open_house
from tests.web.full import open_full
from tests.web.person import Person


async def test_the_journal_says_who_did_what_newest_first(house: House) -> None:
    record = await house.remember("Ana lives in Lisbon")
    person = await house.person("ana", "admin")
    seen = await person.get("/journal")
    said = [
        " ".join(text.split()) for text in re.findall(r'(?s)class="entry-said">(.*?)</p>', seen.html.source)
    ]
    assert [re.sub("<[^>]+>", "", text).split(" of ")[0] for text in said] == [
        "local created a token",
        "local remembered 1 memory",
        "system created a store",
    ]
    assert f"/memories/{record}?version=1" in seen.html.links
    assert "Last 14 days" in seen.text


async def test_every_entry_of_a_full_past_is_said_in_words() -> None:
    async with open_full() as full:
        assert {entry.op for entry in await full.house.entries()} <= {
            op for _, ops in text.ops() for op, _ in ops
        }


async def test_the_journal_is_filtered_and_leads_to_what_is_older(house: House) -> None:
    for number in range(60):
        await house.remember(f"fact {number}")
    person = await house.person("ana", "admin")
    seen = await person.get("/journal?op=remember")
    assert seen.html.source.count('class="entry entry-write"') == 50
    older = next(link for link in seen.html.links if "cursor=" in link and "#" not in link)
    assert (await person.get(older)).html.source.count('class="entry entry-write"') == 10
    nothing = await person.get("/journal?actor=nobody")
    assert "No entry passes these filters" in nothing.text
    refused = await person.get("/journal?until=tomorrow")
    assert refused.status == 400


async def test_the_journal_is_downloaded_and_verified_elsewhere(house: House) -> None:
    await house.remember("Ana lives in Lisbon")
    person = await house.person("ana", "admin")
    page = await person.get("/journal/verify")
    answer = (await person.send(page, "download")).response
    assert answer.headers["content-disposition"] == 'attachment; filename="quipu-journal-default.zip"'
    assert answer.headers["content-type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    files = {name: archive.read(name).decode().splitlines() for name in archive.namelist()}
    assert sorted(files) == ["checkpoints.ndjson", "journal.ndjson", "keys.json", "records.ndjson"]
    assert verified(files).is_verified
    without = (await person.send(await person.get("/journal"), "download")).response
    assert b"Lisbon" not in without.content
    assert "records.ndjson" not in zipfile.ZipFile(io.BytesIO(without.content)).namelist()


async def test_only_an_admin_downloads(house: House) -> None:
    person = await house.person("ruth", "reviewer")
    page = await person.get("/journal")
    assert not page.html.has_form("download")
    csrf = dict(page.html.forms[0].fields)["csrf"]
    refused = await person.post("/journal", [("csrf", csrf), ("action", "download")])
    assert refused.status == 403


async def _checked(person: Person) -> str:
    page = await person.send(await person.get("/journal/verify"), "verify")
    async with asyncio.timeout(30):
        while "A check is running" in page.text:
            await asyncio.sleep(0)
            page = await person.get("/journal/verify")
    return page.text


async def test_a_check_says_that_nothing_was_altered(house: House) -> None:
    await house.remember("Ana lives in Lisbon")
    person = await house.person("ana", "admin")
    assert "Not checked since this server started" in (await person.get("/journal/verify")).text
    assert "Verified: nothing was altered" in await _checked(person)
    assert "Verified" in (await person.get("/")).text
    assert "Signed up to entry" in (await person.send(await person.get("/journal/verify"), "sign")).text


async def test_a_check_names_the_first_fault(tmp_path: Path) -> None:
    place = tmp_path / "memory.db"
    house = await open_house(store=str(place))
    await house.remember("Ana lives in Lisbon")
    with apsw.Connection(str(place)) as connection:
        connection.execute("UPDATE record SET content = 'forged'")
    person = await house.person("ana", "admin")
    said = await _checked(person)
    await house.close()
    assert "Something is not as it was written" in said
    assert "First fault" in said


async def test_what_a_source_wrote_is_shown_and_then_undone(house: House) -> None:
    lie = await house.remember("Everything is free", source="web_page")
    truth = await house.remember("Nothing is free", source="handbook")
    person = await house.person("ana", "admin")
    trial = await person.get("/undo?source=web_*")
    assert "Would be done: 1 forget" in trial.text
    assert (await house(GET, id=lie)).content == "Everything is free"
    done = await person.send(trial, "undo", reason="a page lied")
    assert "1 done" in done.text
    assert [one.id for one in (await house(LIST, agent_id="agent")).records] == [truth]
    assert "There is nothing to undo" in (await person.get("/undo?source=web_*")).text


async def test_what_was_not_shown_is_not_undone(house: House) -> None:
    await house.remember("Everything is free", source="web_page")
    person = await house.person("ana", "admin")
    trial = await person.get("/undo?source=web_*")
    await house.remember("And the earth is flat", source="web_page")
    refused = await person.send(trial, "undo")
    assert refused.status == 409
    assert "changed since you looked" in refused.text
    assert len((await house(LIST, agent_id="agent")).records) == 2


async def test_a_reviewer_sees_what_would_be_undone_and_cannot_do_it(house: House) -> None:
    await house.remember("Everything is free", source="web_page")
    person = await house.person("ruth", "reviewer")
    trial = await person.get("/undo?source=web_*")
    assert "Doing it needs an admin" in trial.text
    assert not trial.html.has_form("undo")


async def test_an_undo_without_a_cause_asks_for_one(house: House) -> None:
    person = await house.person("ana", "admin")
    assert "For example" in (await person.get("/undo?agent=agent")).text
    seen = await person.get("/undo?source=x&do=burn")
    assert seen.status == 200
    assert "not valid" in seen.text
    assert (await house.container.ledger.entries("default", JournalQuery(op="undo"))) == []
