"""The explorer keeps what was chosen: an agent beyond those that can be ticked, a state, weak matches."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from quipu.model.operations import RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from tests.faces.web.conftest import House, Opened, Person
from tests.faces.web.demo import HOME, TRAVEL

CROWD = [f"crowd-{number:02}" for number in range(20)]


@pytest.fixture(scope="module")
def crowd(house: House) -> list[str]:
    for name in CROWD:
        wish = RememberRequest(agent_id=name, type=MemoryType.SEMANTIC, content=f"{name} keeps a blue lamp")
        house.served.do(house.served.service.remember(local(), wish))
    return CROWD


def ticked(text: str) -> list[str]:
    return re.findall(r'name="agent" value="([^"]*)" checked', text)


@pytest.mark.parametrize("name", [CROWD[0], CROWD[19], "nobody-yet"])
def test_the_agent_that_was_chosen_is_ticked_however_many_there_are(
    ana: Person, crowd: list[str], name: str
) -> None:
    text = ana.get(f"/memories?agent={name}").text
    assert ticked(text) == [name]
    assert len(re.findall(r'type="radio" name="agent"', text)) <= 15


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("has_script", [True, False])
async def test_an_agent_that_cannot_be_ticked_can_be_typed(
    house: House, window: Opened, crowd: list[str], has_script: bool
) -> None:
    here = await window(java_script_enabled=has_script)
    await here.sign_in(house.demo.tokens["ana"])
    await here.go("/memories")
    await here.page.get_by_label("Another agent").fill(CROWD[3])
    await here.page.get_by_label("Another agent").press("Enter")
    await expect(here.page.locator("#results")).to_contain_text(f"in {CROWD[3]}’s memory")
    await here.page.fill("#q", "lamp")
    await here.page.press("#q", "Enter")
    await expect(here.page.locator("#results")).to_contain_text(f"in {CROWD[3]}’s memory")
    await expect(here.page.locator(".hit").first).to_contain_text(f"{CROWD[3]} keeps a blue lamp")


def test_who_may_see_two_agents_ticks_them(house: House) -> None:
    text = house.person("only-mara").get("/memories").text
    assert "Another agent" not in text


def test_looking_back_keeps_the_state_and_the_weak_matches(ana: Person) -> None:
    text = ana.get(f"/memories?agent={HOME}&state=forgotten&weak=1").text
    slider = text.partition('data-slider="moment"')[2].partition("</form>")[0]
    assert '<input type="hidden" name="state" value="forgotten">' in slider
    assert '<input type="hidden" name="weak" value="1">' in slider


def test_a_question_says_that_it_is_not_asked_of_forgotten_memories(ana: Person) -> None:
    said = "A question is asked of live memories only."
    assert said in ana.get(f"/memories?agent={TRAVEL}&q=Jonas&state=forgotten").text
    assert said not in ana.get(f"/memories?agent={TRAVEL}&q=Jonas").text
    assert said not in ana.get(f"/memories?agent={TRAVEL}&state=forgotten").text
