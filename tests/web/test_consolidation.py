"""Consolidation as a page: what a pass would do, doing it, and what passes have done."""

import pytest

from quipu.consolidation.operations import CONSOLIDATE
from quipu.errors import NotFoundError
from quipu.memory.operations import CREATE_STORE, GET
from tests.web.conftest import House

DAY = 86_400_000


async def window(house: House) -> dict[str, str]:
    """Something for each outcome that a pass has without asking anybody."""
    await house(CREATE_STORE, name="window", tier="short_term")
    ids = {"light": await house.remember("Ana said hello", store="window", importance=0.0, confidence=0.1)}
    house.clock.now += DAY
    ids["heavy"] = await house.remember("Ana moved to Porto", store="window", importance=1.0)
    ids["young"] = await house.remember("It rains", store="window", importance=0.0, confidence=0.1)
    return ids


async def test_what_a_pass_would_do_is_shown_and_nothing_is_done(house: House) -> None:
    ids = await window(house)
    person = await house.person("ana", "admin")
    seen = await person.get("/consolidation?agent=agent")
    assert seen.status == 200
    for text in (
        "Ana moved to Porto",
        "promoted",
        "Ana said hello",
        "evicted",
        "1 evicted, 1 kept, 1 promoted",
    ):
        assert text in seen.text
    assert "It rains" not in seen.text, "what stays is only counted"
    assert "No pass has changed anything yet" in seen.text
    for record in ids.values():
        assert (await house(GET, id=record)).state == "live"


async def test_a_pass_is_made_shown_among_the_last_and_undone(house: House) -> None:
    ids = await window(house)
    person = await house.person("ana", "admin")
    page = await person.get("/consolidation?agent=agent")
    seen = await person.send(page, "consolidate")
    assert "Done: 1 evicted, 1 kept, 1 promoted" in seen.text
    assert "Nothing would change" in seen.text
    with pytest.raises(NotFoundError):
        await house(GET, id=ids["light"])
    last = await person.get("/consolidation?agent=agent")
    link = next(link for link in last.html.links if link.startswith("/undo?pass="))
    trial = await person.get(link)
    assert "Ana moved to Porto" in trial.text
    assert "Undo" in (await person.send(trial, "undo", reason="too soon")).text
    for record in ids.values():
        assert (await house(GET, id=record)).state == "live"


async def test_a_pass_goes_no_further_than_who_looks(house: House) -> None:
    await window(house)
    limited = await house.person("shop", "agent", agents=("shop",))
    seen = await limited.get("/consolidation?agent=agent")
    assert "Ana moved" not in seen.html.source
    assert "all agents" not in seen.text
    everybody = await limited.get("/consolidation?all=1")
    assert "Ana moved" not in everybody.html.source
    assert not everybody.html.has_form("consolidate")
    reader = await house.person("ruth", permissions=("memory:read",))
    assert (await reader.get("/consolidation")).status == 403
    admin = await house.person("ana", "admin")
    assert "Ana moved to Porto" in (await admin.get("/consolidation?all=1")).text
    assert (await house(CONSOLIDATE, dry_run=True)).counts == {"evicted": 1, "kept": 1, "promoted": 1}
