"""No page is a dead end: what is gone, refused or decided leads on to where a person wanted to go."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from quipu.model.operations import RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.service.runs import OpenRequest
from tests.faces.web.conftest import House, Person
from tests.faces.web.test_deciding import clear, held
from tests.faces.web.test_grants import disputed


@pytest.mark.parametrize(
    ("path", "onward"),
    [
        ("/memories/mem_nothing", "/memories"),
        ("/memories/mem_nothing/graph", "/memories"),
        ("/review/prp_nothing", "/review"),
        ("/grants/mgr_nothing", "/grants"),
        ("/grants/requests/nothing", "/grants"),
        ("/runs/run_nothing", "/runs"),
        ("/imports/imp_nothing", "/imports"),
        ("/nowhere", "/memories"),
    ],
)
def test_what_is_not_there_leads_to_what_is(ana: Person, path: str, onward: str) -> None:
    answer = ana.get(path)
    assert answer.status_code == 404
    assert f'<a class="button quiet" href="{onward}">' in answer.text


def test_who_may_not_is_told_what_they_may(house: House) -> None:
    answer = house.person("ruth").get("/grants")
    assert answer.status_code == 403
    assert "Your token does not have it." in answer.text
    assert '<a class="button quiet" href="/health">See what you may do</a>' in answer.text


def test_pages_beneath_others_lead_back_to_them(house: House, ana: Person) -> None:
    run = house.served.do(
        house.served.service.runs.open(local(), OpenRequest(workflow_id="w", is_external=True))
    ).run.id
    for path, above, name in (
        ("/candidates", "/review", "Review"),
        (f"/grants/{disputed(house, 0)}", "/grants", "Lending"),
        ("/erasures", "/grants", "Lending"),
        (f"/runs/{run}", "/runs", "Runs"),
        (f"/runs/{run}/diff?with={run}", "/runs", "Runs"),
    ):
        text = ana.get(path).text
        assert f'aria-label="Where you are"><a href="{above}">' in text, path
        assert re.search(f'<a href="{above}" aria-current="page"><span[^>]*></span>{name}</a>', text), path


def test_a_decision_leads_to_the_memory_and_to_the_journal(house: House) -> None:
    clear(house)
    ruth, name = house.person("ruth"), held(house, "The bridge is open.")
    ruth.send(f"/review/{name}", decision="approve", reason="seen")
    page = ruth.get(f"/review/{name}").text
    assert "<h1>Approved: remember</h1>" in page
    memory = re.search(r'<a href="(/memories/[^"]+)">The memory that it is about</a>', page)
    assert memory is not None
    assert "The bridge is open." in ruth.get(memory.group(1)).text
    assert f'<a href="{memory.group(1)}">the memory</a>' in ruth.get("/review?status=approved").text
    said = ruth.get(f"/journal?about={name}").text
    assert len(re.findall('<li class="entry ', said)) == 3, "proposed, decided, remembered"
    assert f'href="/journal?about={name}"' in page
    assert f'name="about" value="{name}"' in said
    assert "No entry" in ruth.get("/journal?about=prp_nothing").text


def test_a_no_leads_to_the_journal_alone(house: House) -> None:
    clear(house)
    ruth, name = house.person("ruth"), held(house, "The bridge is closed.")
    ruth.send(f"/review/{name}", decision="reject")
    page = ruth.get(f"/review/{name}").text
    assert "<h1>Rejected: remember</h1>" in page
    assert "The memory that it is about" not in page
    assert len(re.findall('<li class="entry ', ruth.get(f"/journal?about={name}").text)) == 2


def test_what_waits_says_until_when_and_why(house: House) -> None:
    clear(house)
    name = held(house, "The well is dry.")
    page = house.person("ruth").get(f"/review/{name}").text
    assert "<span>waits until <time" in page
    assert "Why it waits: who wrote it asked for a decision." in page


def test_a_list_says_which_are_ones_own_and_names_keys_that_do_something(house: House) -> None:
    clear(house)
    ruth = house.person("ruth")
    said = "your own: somebody else decides"
    held(house, "of a bot")
    assert said not in ruth.get("/review").text
    wish = RememberRequest(
        agent_id="desk", type=MemoryType.SEMANTIC, content="of Ruth", approval_required=True
    )
    house.served.do(house.served.service.remember(replace(local(), name="ruth"), wish))
    assert ruth.get("/review").text.count(said) == 1
    assert "<kbd>x</kbd> ticks" in ruth.get("/review").text
    decided = ruth.get("/review?status=rejected").text
    assert "<kbd>j</kbd>" in decided
    assert "<kbd>x</kbd>" not in decided


def test_a_tag_leads_to_its_memories_whatever_is_in_it(house: House, ana: Person) -> None:
    tags = ("a,b", 'c"&d', "e f")
    wish = RememberRequest(agent_id="tagged", type=MemoryType.SEMANTIC, content="tagged thrice", tags=tags)
    name = house.served.do(house.served.service.remember(local(), wish)).id
    links = re.findall(r'<a class="tag" href="([^"]+)"', ana.get(f"/memories/{name}").text)
    assert len(links) == len(tags)
    for link in links:
        assert "tagged thrice" in ana.get(unescape(link)).text, link
