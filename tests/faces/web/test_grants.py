"""A grant's page: what was decided about it, newest first, for who runs scripts and for who does not."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from quipu.model.disclosure import Question, Writes
from quipu.model.grants import GrantStatus, KeptGrant
from quipu.model.principal import local
from quipu.rules import grants, receipts
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


@pytest.mark.parametrize("level", ["0", "1", "2", "3", "4"])
def test_what_somebody_would_see_is_shown_at_every_trust(ana: Person, level: str) -> None:
    """Little trust leaves the text of a memory out, and more."""
    asked = {"grantee": GRANTEE, "purpose": "Brief them.", "everything": "1", "level": level, "most": "50"}
    answer = ana.get("/grants", params={**asked, "days": "3", "scope": "personal"})
    assert answer.status_code == 200
    assert re.search(r"They would see \d+ items", answer.text)
    assert "Sign and lend" in answer.text
    assert ("left out" in answer.text) is (level != "4")
    assert ("walnuts" in answer.text) is (level == "4")


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"grantee": "bob"}, "grantee", "<b>Lend to</b>: This is no DID"),
        ({"days": "soon"}, "days", "<b>Days</b>: This is a whole number."),
        ({"days": "0"}, "days", "<b>Days</b>: It is lent for a day at least."),
        ({"most": "0"}, "most", "<b>Items at most</b>: This is a whole number. Accepted: 1 … "),
        ({"kinds": "nonsense"}, "kinds", "<b>Kinds</b>: There is no such kind. Accepted: "),
        ({"everything": ""}, "everything", "<b>Which</b>: Name tags, kinds or subjects"),
        ({"scope": "no such"}, "scope", "<b>Scope</b>: "),
    ],
)
def test_a_draft_that_is_refused_names_the_field_before_anything_is_signed(
    ana: Person, changes: dict[str, str], field: str, said: str
) -> None:
    asked = {"grantee": GRANTEE, "purpose": "Brief them.", "everything": "1", "level": "4", "most": "50"}
    given = {**asked, "days": "3", "scope": "personal", **changes}
    for answer in (ana.get("/grants", params=given), ana.send("/grants", **given)):
        assert answer.status_code == 400
        assert said in answer.text
        assert re.findall(r'<(?:input|select) id="(\w+)"[^>]*aria-invalid="true"', answer.text) == [field]
        assert "Sign and lend" not in answer.text
        assert f'name="purpose" value="{asked["purpose"]}"' in answer.text, "what was typed stays"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_double_click_lends_once(
    house: House, window: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two grants would be made of it, and taking one back would leave the other."""
    lending = house.served.service.sharing.grants
    issue_for = lending.issue_for

    async def slowly(*given: Any) -> Any:
        await asyncio.sleep(0.6)
        return await issue_for(*given)

    monkeypatch.setattr(lending, "issue_for", slowly)
    here = await window()
    await here.sign_in(house.demo.tokens["ana"])
    await here.go(f"/grants?grantee={GRANTEE}&purpose=clicked+twice&everything=1&level=4&days=3&most=5")
    button = here.page.locator("text=Sign and lend")
    await button.scroll_into_view_if_needed()
    box = await button.bounding_box()
    assert box is not None
    await here.page.mouse.click(box["x"] + 9, box["y"] + 9)
    await asyncio.sleep(0.15)
    await here.page.mouse.click(box["x"] + 9, box["y"] + 9)
    await here.page.wait_for_url("**/grants/mgr_*")
    await here.page.wait_for_timeout(700)
    await here.go("/grants")
    assert await here.page.locator("section[aria-labelledby=lent] td:text-is('clicked twice')").count() == 1


LENDING = {"grantee": GRANTEE, "everything": "1", "level": "4", "days": "3", "most": "5", "scope": "personal"}


def lent(house: House, purpose: str) -> list[str]:
    found = house.served.do(house.served.service.sharing.grants.list(local()))
    return [one.id for one in found if one.body["purpose"] == purpose]


def named(ana: Person, asked: dict[str, str]) -> str:
    """What the page that shows a preview calls the grant that would come of it."""
    found = re.search(r'name="grant" value="([^"]+)"', ana.get("/grants", params=asked).text)
    assert found is not None
    return found.group(1)


def test_the_same_form_sent_twice_lends_once(house: House, ana: Person) -> None:
    """Without a script nothing stops the second half of a double click."""
    asked = {**LENDING, "purpose": "sent twice"}
    name = named(ana, asked)
    first = ana.send("/grants", **asked, grant=name)
    again = ana.send("/grants", **{**asked, "days": "4"}, grant=name)
    assert first.headers["location"] == again.headers["location"] == f"/grants/{name}"
    assert "Nothing was lent anew." in ana.get(f"/grants/{name}").text
    assert lent(house, "sent twice") == [name]


def test_whoever_looks_again_may_lend_the_same_once_more(house: House, ana: Person) -> None:
    asked = {**LENDING, "purpose": "lent anew"}
    for _ in range(2):
        ana.send("/grants", **asked, grant=named(ana, asked))
    assert len(lent(house, "lent anew")) == 2


def test_a_name_that_another_grant_has_is_refused(house: House, ana: Person) -> None:
    taken = disputed(house, 0)
    answer = ana.send("/grants", **LENDING, purpose="under another's name", grant=taken)
    assert answer.status_code == 400
    assert "There is another grant of this name." in answer.text
    assert lent(house, "under another's name") == []


def test_an_id_that_leads_to_nothing_is_told_when_something_is_erased(ana: Person) -> None:
    """A receipt for nothing would look as if it were done."""
    ana.send("/erasures", ids="mem_mistyped mem_mistyped", sure="yes")
    page = ana.get("/erasures").text
    assert "Nothing was erased. 1 of 1 id led to nothing: check them." in page


def asked_for(house: House, purpose: str) -> str:
    """A request of somebody's, as it waits once its proof was checked; its id."""
    parts = house.served.web.running.parts
    draft = {"grantee": GRANTEE, "purpose": purpose, "filter": {"all": True}}
    now, tenant = parts.clock(), local().tenant
    wanted = KeptGrant(
        tenant=tenant,
        id=parts.mint_id("mrq"),
        body=draft,
        hash=receipts.hashed(draft, parts.canonical),
        grantee=GRANTEE,
        status=GrantStatus.SUSPENDED,
        registered_at=now,
        expires_at=now + 86_400_000,
    )
    question = Question(now=now)
    house.served.do(parts.ledger.lending.decide(tenant, question, lambda _: Writes(grants=[wanted])))
    return wanted.id


def test_a_yes_to_a_request_that_is_sent_twice_lends_once(house: House, ana: Person) -> None:
    path = f"/grants/requests/{asked_for(house, 'asked for')}"
    assert "Waits for your answer" in ana.get(path).text
    said = {"answer": "approve", "level": "1", "days": "3", "most": "5"}
    first = ana.send(path, **said)
    again = ana.send(path, **said)
    assert (first.status_code, again.status_code) == (303, 303)
    assert first.headers["location"] == again.headers["location"]
    assert "Nothing was lent anew." in ana.get(again.headers["location"]).text
    assert len(lent(house, "asked for")) == 1
