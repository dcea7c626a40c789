"""Taking back what went wrong: what is done is what was shown, and a day is a moment, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from quipu.model.operations import ListRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.testing.builders import FixedClock
from tests.faces.serving import Served, served
from tests.faces.web.conftest import Person

DAY = 86_400_000
#: Noon of the first of March 2026.
NOON = 1_772_366_400_000


def remember(running: Served, text: str, **more: Any) -> str:
    wish = RememberRequest(agent_id="desk", type=MemoryType.SEMANTIC, content=text, **more)
    return running.do(running.service.remember(replace(local(), name="bot"), wish)).id


def there(running: Served) -> set[str]:
    page = running.do(running.service.reading.list(local(), ListRequest(agent_id="desk")))
    return {record.content for record in page.records}


@pytest.fixture
def desk() -> Iterator[tuple[Served, Person]]:
    """Three days, on each of which a bot has written something."""
    clock = FixedClock(NOON)
    with served(clock=clock) as running, Person(running.url) as person:
        for number in range(3):
            remember(running, f"day {number}", source="web")
            clock.move(DAY)
        person.sign_in(running.admin_token)
        yield running, person


def shown(text: str) -> dict[str, str]:
    """The fields of the form that does it."""
    form = text.partition('<form method="post" action="/recover"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form))


def test_what_was_written_since_it_was_shown_is_not_taken_back_unseen(desk: tuple[Served, Person]) -> None:
    running, person = desk
    fields = shown(person.get("/recover?agent=desk&by=bot").text)
    remember(running, "written meanwhile", source="web")
    answer = person.client.post("/recover", data=fields)
    assert answer.status_code == 409
    assert "Nothing was done." in answer.text
    assert "written meanwhile" in answer.text, "this is what would be done now"
    assert there(running) == {"day 0", "day 1", "day 2", "written meanwhile"}
    done = person.client.post("/recover", data=shown(answer.text))
    assert "Done: 4 forget" in done.text
    assert there(running) == set()


def test_the_same_form_sent_twice_is_done_once(desk: tuple[Served, Person]) -> None:
    running, person = desk
    fields = shown(person.get("/recover?agent=desk&source=web").text)
    assert "Done: 3 forget" in person.client.post("/recover", data=fields).text
    again = person.client.post("/recover", data=fields)
    assert again.status_code == 409
    assert "There is nothing to undo" in again.text
    assert there(running) == set()


def test_a_stretch_of_time_is_named_by_its_days(desk: tuple[Served, Person]) -> None:
    _, person = desk
    for query, found in (
        ("since=2026-03-02", {"day 1", "day 2"}),
        ("until=2026-03-01", {"day 0"}),
        ("since=2026-03-02&until=2026-03-02", {"day 1"}),
        ("since=2026-03-03T12:00:00Z", {"day 2"}),
    ):
        text = person.get(f"/recover?agent=desk&{query}").text
        assert set(re.findall(r'<td dir="auto">([^<]+)<', text)) == found, query
        assert all(part.partition("=")[2] in text for part in query.split("&")), "as it was typed"


@pytest.mark.parametrize("given", ["yesterday", "2026-02-31", "2026-03-01 noon"])
@pytest.mark.parametrize("field", ["since", "until"])
def test_a_moment_that_is_none_is_answered_with_what_is_one_and_where(
    desk: tuple[Served, Person], field: str, given: str
) -> None:
    _, person = desk
    answer = person.get("/recover", params={"agent": "desk", field: given})
    assert answer.status_code == 400
    said = f'role="alert"><span id="refused"><b>{field.capitalize()}</b>: [^<]*Accepted: [^<]*2026-'
    assert re.search(said, answer.text)
    assert re.findall(r'<input id="(\w+)"[^>]*aria-invalid', answer.text) == [field]
    assert "snapshot" not in answer.text
    assert "a run id" not in answer.text


def test_a_form_without_a_cause_says_what_is_missing(desk: tuple[Served, Person]) -> None:
    _, person = desk
    assert person.get("/recover?agent=desk").status_code == 200, "somebody led here has asked for nothing yet"
    answer = person.get("/recover?agent=desk&source=&action=undo&detectors=")
    assert answer.status_code == 400
    assert "Name a cause, too." in answer.text
    assert 'name="agent" value="desk"' in answer.text


def test_a_memory_that_was_changed_before_comes_back_as_it_was(desk: tuple[Served, Person]) -> None:
    running, person = desk
    name = remember(running, "as it was", source="chat")
    remember(running, "as it is", id=name, source="web")
    text = person.get("/recover?agent=desk&source=web").text
    assert "1 revert" in text
    assert "3 forget" in text
    person.client.post("/recover", data=shown(text))
    assert there(running) == {"as it was"}
