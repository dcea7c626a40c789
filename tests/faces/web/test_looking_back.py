"""An auditor's questions to the page: who saw which version, what was done on which day, and how to point a colleague to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from quipu.faces.web import dashboard
from quipu.model.operations import ListRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.testing.builders import FixedClock
from tests.faces.serving import Served, served
from tests.faces.web.conftest import House, Person

DAY = 86_400_000
#: Noon of the first of March 2026.
NOON = 1_772_366_400_000


def remember(running: Served, text: str, **more: Any) -> str:
    wish = RememberRequest(agent_id="desk", type=MemoryType.SEMANTIC, content=text, **more)
    return running.do(running.service.remember(local(), wish)).id


def entries(text: str) -> list[str]:
    return re.findall(r'<li class="entry .*?</li>', text, re.S)


def places(text: str) -> list[int]:
    return [int(place.replace(",", "")) for place in re.findall(r'class="seq">([\d,]+)<', text)]


# -- one entry ---------------------------------------------------------------------------------------------------


def test_who_saw_a_memory_names_it_and_the_version_they_saw(house: House, ana: Person) -> None:
    first = remember(house.served, "The kiln is fired on Fridays.")
    remember(house.served, "The kiln is fired on Sundays.", id=first)
    for number in range(9):
        remember(house.served, f"Glaze number {number}")
    reader = replace(local(), name="somebody", is_local=False)
    house.served.do(house.served.service.reading.list(reader, ListRequest(agent_id="desk", limit=100)))
    text = ana.get(f"/journal?record={first}&actor=somebody").text
    (entry,) = entries(text)
    assert "read 10 memories" in entry
    shown, _, folded = entry.partition("<details")
    assert f'href="/memories/{first}?version=2"' in shown, "the one that was asked for comes first"
    assert "and 4 more" in folded
    assert entry.count('href="/memories/') == 10, "all of them can be seen"


def test_versions_of_one_memory_are_one_memory(house: House, ana: Person) -> None:
    name = remember(house.served, "The door is green.")
    remember(house.served, "The door is blue.", id=name)
    reader = replace(local(), name="historian", is_local=False)
    house.served.do(house.served.service.reading.history(reader, None, name))
    (entry,) = entries(ana.get("/journal?actor=historian").text)
    assert "read 1 memory " in entry
    assert f"/memories/{name}?version=1" in entry
    assert f"/memories/{name}?version=2" in entry


def test_who_is_only_told_how_many_there_are_has_read_none_of_them() -> None:
    with served() as running, Person(running.url) as person:
        names = [remember(running, f"note {number}") for number in range(9)]
        person.sign_in(running.admin_token)
        for path in ("/dashboard", "/memories?agent=nobody"):
            assert person.get(path).status_code == 200
            assert entries(person.get("/journal?op=read").text) == [], path
        shown = person.get("/").text
        assert "note 8" in shown
        assert "note 2" not in shown
        (read,) = entries(person.get("/journal?op=read").text)
        assert [name in read for name in names] == [False] * 3 + [True] * 6, "those that were shown"


def test_who_sees_only_some_agents_has_read_what_the_first_page_shows(house: House) -> None:
    reader = house.person("reader")
    shown = set(re.findall(r'href="/memories/(mem_\w+)"', reader.get("/").text))
    assert shown
    told = entries(reader.get("/journal?op=read&actor=reader").text)
    read = {name for entry in told for name in re.findall(r"/memories/(mem_\w+)", entry)}
    assert read == shown


def test_an_entry_has_an_address_to_be_sent_to_a_colleague(ana: Person) -> None:
    found = re.search(
        r'href="(/journal\?before=(\d+)#e(\d+))" title="A link to this entry"', ana.get("/journal").text
    )
    assert found is not None
    page, _, place = found.group(1).partition("#")
    text = ana.get(page).text
    assert places(text)[0] == int(found.group(3)) == int(found.group(2)) - 1
    assert f'id="{place}"' in text


# -- days --------------------------------------------------------------------------------------------------------


@pytest.fixture
def three_days() -> Iterator[tuple[Served, Person]]:
    """Three days, on each of which something was remembered."""
    clock = FixedClock(NOON)
    with served(clock=clock) as running, Person(running.url) as person:
        for number in range(3):
            remember(running, f"day {number}")
            clock.move(DAY)
        clock.move(-DAY)
        person.sign_in(running.admin_token)
        yield running, person


def day(number: int) -> str:
    return f"2026-03-0{1 + number}"


def test_the_journal_is_read_back_from_the_end_of_a_day(three_days: tuple[Served, Person]) -> None:
    _, person = three_days
    head = places(person.get("/journal").text)
    assert places(person.get(f"/journal?until={day(2)}").text) == head, "the last day is all of it"
    second = person.get(f"/journal?until={day(1)}").text
    assert re.findall(r'class="day">([^<]+)<', second) == ["2 Mar 2026", "1 Mar 2026"]
    assert f'value="{day(1)}"' in second
    assert len(entries(second)) < len(head)
    for long_ago in ("2026-02-01", "0001-01-01"):
        assert "No entry passes these filters." in person.get(f"/journal?until={long_ago}").text
    assert person.get("/journal?until=someday").status_code == 400


def test_who_sees_only_some_agents_can_name_a_day_too(house: House) -> None:
    reader = house.person("reader")
    assert places(reader.get("/journal?until=2999-01-01").text) == places(reader.get("/journal").text)
    assert entries(reader.get("/journal?until=2000-01-01").text) == []


def test_a_day_that_was_not_looked_at_is_not_said_to_have_had_nothing(
    three_days: tuple[Served, Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, person = three_days
    whole = person.get("/dashboard").text
    assert "<div><dt>2 Mar 2026</dt><dd>1</dd></div>" in whole
    assert "<div><dt>18 Feb 2026</dt><dd>0</dd></div>" in whole, "two weeks"
    assert "may not be whole" not in whole
    monkeypatch.setattr(dashboard, "_ENTRIES", 1)
    part = person.get("/dashboard").text
    assert "<dt>3 Mar 2026</dt>" in part
    assert "<dt>2 Mar 2026</dt>" not in part, "nobody has looked"
    assert "may not be whole" in part


# -- one memory --------------------------------------------------------------------------------------------------


def test_metadata_that_is_cut_says_so_and_can_be_seen_whole(house: House, ana: Person) -> None:
    wish = RememberRequest(
        agent_id="desk",
        type=MemoryType.SEMANTIC,
        content="much beside it",
        metadata={"note": "n" * 9_000 + "END"},
    )
    name = house.served.do(house.served.service.remember(local(), wish)).id
    text = ana.get(f"/memories/{name}").text
    assert "nEND" not in text
    assert "more characters." in text
    assert "nEND" in ana.get(f"/memories/{name}?whole=1").text
