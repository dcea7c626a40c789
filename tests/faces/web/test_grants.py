"""A grant's page: what was decided about it, newest first, for who runs scripts and for who does not."""

from __future__ import annotations

import asyncio

import pytest

from quipu.model.principal import local
from quipu.rules import grants
from tests.faces.web.conftest import House, Opened, Person
from tests.requirement import requirement

GRANTEE = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"


def disputed(house: House, refusals: int) -> str:
    """A grant under which something was refused so many times; its id."""
    sharing, do = house.served.service.sharing, house.served.do
    draft = {"grantee": GRANTEE, "purpose": "Brief <b>them</b>.", "filter": {"all": True}}
    kept = do(sharing.grants.issue(local(), draft))
    grant = grants.parsed(kept.body, house.served.web.running.parts.canonical)
    for _ in range(refusals):
        do(sharing.doors.refusals.note(kept.tenant, grant, "scope_missing", "memory_export"))
    return kept.id


@requirement("oap:decision.on-the-page")
@pytest.mark.asyncio(loop_scope="module")
async def test_decisions_are_read_and_paged_without_script(house: House, window: Opened) -> None:
    grant_id = await asyncio.to_thread(disputed, house, 52)
    other = await asyncio.to_thread(disputed, house, 1)
    here = await window(java_script_enabled=False)
    await here.sign_in(house.demo.tokens["ana"])
    await here.go(f"/grants/{grant_id}")
    rows = here.page.locator("section[aria-labelledby=decided] tbody tr")
    assert await rows.count() == 50
    cells = [await cell.inner_text() for cell in await rows.first.locator("td").all()]
    assert cells[0].endswith("UTC")
    assert cells[1:] == ["Wanted a copy", "Refused", "Refused: scope_missing."]
    await here.page.click("a[rel=next]")
    told = [await row.inner_text() for row in await rows.all()]
    assert len(told) == 3
    assert "Lent" in told[-1]
    assert "Allowed" in told[-1]
    assert "A grant of the owner's that counts at this moment." in told[-1]
    assert await here.page.locator("a[rel=next]").count() == 0
    await here.go(f"/grants/{other}")
    assert await rows.count() == 2, "those of another grant are not told here"


@requirement("oap:decision.on-the-page")
def test_taking_everything_back_is_told_at_each_grant_it_ended(house: House, ana: Person) -> None:
    ended = disputed(house, 0)
    house.served.do(house.served.service.sharing.grants.kill(local()))
    later = disputed(house, 0)
    text = ana.get(f"/grants/{ended}").text
    assert "<td>Everything taken back</td><td>Done</td>" in text
    assert "Refused" not in text, "who takes back is refused nothing"
    house.served.do(house.served.service.sharing.grants.kill(local()))
    text = ana.get(f"/grants/{later}").text
    assert text.count("Everything taken back") == 1
    assert text.count("<tr>") == 3, "a heading, and two decisions"


@requirement("oap:decision.on-the-page")
@pytest.mark.parametrize("before", ["x", "-1", "9" * 40, "0", "\u0663", "1.5"])
def test_a_place_that_is_none_shows_a_page_all_the_same(house: House, ana: Person, before: str) -> None:
    answer = ana.get(f"/grants/{disputed(house, 0)}", params={"before": before})
    assert answer.status_code == 200
    assert ("Nothing about this grant here." in answer.text) is (before == "0")
