"""Pages of a large memory: they read what they show, and do not unpack the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from quipu.ledger import rows
from quipu.model.operations import RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from tests.faces.serving import Served, served
from tests.faces.web.conftest import Person

MANY, FEW = 700, 60


def wish(text: str, **more: Any) -> RememberRequest:
    return RememberRequest(agent_id="desk", type=MemoryType.SEMANTIC, content=text, **more)


@pytest.fixture(scope="module")
def large() -> Iterator[tuple[Served, Person]]:
    """Many memories, and many writes that wait."""
    with served() as running, Person(running.url) as person:
        bot, service = replace(local(), name="bot"), running.service
        items = tuple(wish(f"note {number}", tags=("all",)) for number in range(MANY))
        for start in range(0, MANY, 100):
            running.do(service.remember_many(bot, items[start : start + 100]))
        for number in range(MANY):
            running.do(service.remember(bot, wish(f"held {number}", approval_required=True)))
        person.sign_in(running.admin_token)
        yield running, person


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many rows of each kind were unpacked."""
    count: dict[str, int] = {"record_of": 0, "proposal_of": 0, "entry_of": 0}

    def counting(name: str) -> Callable[[rows.Row], Any]:
        made = getattr(rows, name)

        def one(row: rows.Row) -> Any:
            count[name] += 1
            return made(row)

        return one

    for name in count:
        monkeypatch.setattr(rows, name, counting(name))
    return count


@pytest.mark.parametrize(
    "path",
    [
        "/review?writer=nobody",
        "/review?rule=nothing",
        "/review/next?writer=nobody",
        "/imports",
        "/memories?agent=desk&state=archived",
        "/memories?agent=desk&state=forgotten",
        "/recover?agent=desk&by=nobody",
        "/recover?agent=desk&import=imp_nothing",
        "/journal?record=mem_nothing",
        "/grants?grantee=did:web:x.example&purpose=help&labels=none&scope=personal&level=1&days=3&most=500",
    ],
)
def test_what_finds_nothing_unpacks_next_to_nothing(
    large: tuple[Served, Person], unpacked: dict[str, int], path: str
) -> None:
    _, person = large
    person.get("/health")
    unpacked.update(dict.fromkeys(unpacked, 0))
    assert person.client.get(path, follow_redirects=True).status_code == 200
    # The explorer offers the agents of the newest records, a page of the walk, and of the newest entries.
    looked_at = 750 if path.startswith("/memories") else FEW
    assert sum(unpacked.values()) <= looked_at, unpacked


def test_a_draft_about_everything_unpacks_what_is_shown(
    large: tuple[Served, Person], unpacked: dict[str, int]
) -> None:
    _, person = large
    query = "grantee=did:web:x.example&purpose=help&everything=1&scope=personal&level=1&days=3&most=500"
    text = person.get(f"/grants?{query}").text
    assert unpacked["record_of"] <= 510, "a page of the walk"
    assert "They would see more than 100 items" in text
    assert "They would see 100 items" not in text
    assert text.count("<tr><td>") == 100
    assert "They would see 60 items" in person.get(f"/grants?{query.replace('500', '60')}").text


def test_an_entry_far_back_is_found_at_once(large: tuple[Served, Person]) -> None:
    running, person = large
    name = running.do(running.service.remember(local(), wish("the needle"))).id
    reader = replace(local(), name="reader", is_local=False)
    other = running.do(running.service.remember(local(), wish("the hay"))).id

    async def read() -> None:
        for _ in range(2_100):
            await running.service.reading.get(reader, None, other, None)
        await running.service.flush()

    running.do(read())
    text = person.get(f"/journal?record={name}").text
    assert re.findall(r'<li class="entry ', text), "two thousand knots back"
    assert "Look further back" not in text


def test_walks_over_what_waits_are_as_long_as_the_page(large: tuple[Served, Person]) -> None:
    """Every page of the queue is read from where the last one ended."""
    _, person = large
    seen: list[str] = []
    path: str | None = "/review"
    while path is not None:
        text = person.get(path).text
        seen += re.findall(r'name="pick-(prp_\w+)"', text)
        more = re.search(r'rel="next" href="([^"]+)"', text)
        path = None if more is None else more.group(1).replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == MANY
    assert seen == sorted(seen, reverse=True)
