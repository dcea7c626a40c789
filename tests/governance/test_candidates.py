"""Work that the review page finds: what may go, and what belongs together, as ordinary proposals (contract 6.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quipu import ForbiddenError, NotFoundError
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.governance.office import AGENT, REVIEWER, Office, a_rule, person
from tests.service.looks import ids, kept, verifies

DAY = 24 * 3600 * 1000
CARLA = person("carla", REVIEWER)


@pytest.fixture
def office(opened: Any, tmp_path: Path) -> Office:
    def knowing(*given: Any, **more: Any) -> Any:
        return opened(*given, embedder=WordEmbedder(), **more)

    return Office(knowing, tmp_path / "memory.db")


async def found(office: Office, who: Any = CARLA) -> dict[str, list[tuple[str, ...]]]:
    """Ids of the candidates, by finding; of two the one that stays comes first."""
    service: Any = await office.admin._service()
    told: dict[str, list[tuple[str, ...]]] = {}
    for one in (await service.tidying.candidates(who)).candidates:
        told.setdefault(one.finding.value, []).append(tuple(record.id for record in one.records))
    return told


async def test_what_was_never_recalled_is_old_and_doubtful_is_proposed_and_forgotten(
    office: Office, clock: FixedClock
) -> None:
    service: Any = await office.admin._service()
    doubtful = await kept(office.agent, "perhaps a zebra lives here", confidence=0.4)
    await kept(office.agent, "water boils at sea level", confidence=0.9)
    used = await kept(office.agent, "somebody might like cinnamon", confidence=0.4, type="episodic")
    secret = await kept(
        office.agent, "an unsure number", confidence=0.4, privacy_intent={"sensitivity": "secret"}
    )
    clock.move(89 * DAY)
    assert await found(office) == {}
    hits = await office.admin.recall("somebody might like cinnamon", types=["episodic"])
    assert [hit.id for hit in hits] == [used]
    clock.move(2 * DAY)
    young = await kept(office.agent, "perhaps a yak", confidence=0.1)
    told = await found(office)
    assert told == {"unused": [(doubtful,)]}
    name = await service.tidying.propose(CARLA, [doubtful])
    assert await ids(office.admin) >= {doubtful, used, secret, young}, "nothing happens by itself"
    (waits,) = await office.carla.proposals()
    assert (waits.id, waits.writer, waits.operation, waits.held_by) == (
        name, "system", "forget", ("review-page",),
    )  # fmt: skip
    assert await found(office) == {}, "what waits is not offered again"
    await office.carla.decide(name, approved=True)
    assert doubtful not in await ids(office.admin)
    await office.admin.restore(doubtful)
    assert doubtful in await ids(office.admin), "it can be brought back"
    clock.move(90 * DAY)
    assert (await found(office))["stale"] == [(used,)]
    assert await verifies(office.admin)


async def test_what_is_said_twice_is_merged_and_what_is_contradicted_goes_both_after_a_yes(
    office: Office, clock: FixedClock
) -> None:
    service: Any = await office.admin._service()
    first = await kept(office.agent, "Mara lives in the harbour street", confidence=0.8)
    again = await kept(office.agent, "mara lives in the Harbour street", confidence=0.6)
    other = await kept(office.agent, "mara lives in the Harbour street", confidence=0.6, user_id="bo")
    clock.move(1000)
    was = await kept(office.agent, "the alarm in the cellar rings at 7")
    clock.move(1000)
    now = await kept(office.agent, "the alarm in the cellar rings at 9")
    assert await found(office) == {"duplicate": [(first, again)], "conflict": [(now, was)]}
    merge = await service.tidying.propose(CARLA, [first, again])
    forget = await service.tidying.propose(CARLA, [was, now])
    assert {one.operation for one in await office.carla.proposals()} == {"merge", "forget"}
    await office.carla.decide(merge, approved=True)
    await office.carla.decide(forget, approved=True)
    assert await ids(office.admin) == {first, other, now}


async def test_only_candidates_are_proposed_by_those_who_review_them(
    office: Office, clock: FixedClock
) -> None:
    service: Any = await office.admin._service()
    sure = await kept(office.agent, "a sure thing about zebras", confidence=0.9)
    old = await kept(office.agent, "perhaps something else", confidence=0.1)
    clock.move(91 * DAY)
    beyond = [
        (CARLA, [sure]),
        (CARLA, [sure, old]),
        (CARLA, [old, "mem_00000000000000000000000000"]),
        (CARLA, []),
        (person("eve", REVIEWER, agents=("bo",)), [old]),
        (person("eve", REVIEWER, review_stores=("shop-*",)), [old]),
        (person("eve", REVIEWER, review_operations=("merge",)), [old]),
        (person("eve", REVIEWER, user_id="mara"), [old]),
    ]
    for who, named in beyond:
        with pytest.raises(NotFoundError):
            await service.tidying.propose(who, named)
        if who is not CARLA:
            assert await found(office, who) == {}
    with pytest.raises(ForbiddenError):
        await service.tidying.propose(person("agent", AGENT), [old])
    await office.admin.set_rules(a_rule("deny", operations=["forget"]))
    with pytest.raises(ForbiddenError):
        await service.tidying.propose(CARLA, [old])
    assert await office.carla.proposals() == ()
    two = {"id": "two", "when": {"operations": ["forget"]}, "effect": "hold", "approvals": 2}
    await office.admin.set_rules({"rules": [two]})
    name = await service.tidying.propose(CARLA, [old])
    await office.carla.decide(name, approved=True)
    assert old in await ids(office.admin), "a rule that wants two people wants two here"


async def test_coverage_is_told_by_type(office: Office) -> None:
    service: Any = await office.admin._service()
    await kept(office.agent, "one")
    await kept(office.agent, "two", type="episodic")
    told = await service.tidying.candidates(CARLA)
    assert (told.coverage, told.looked_at, told.next_cursor) == ({"episodic": 1, "semantic": 1}, 2, None)


async def test_going_on_from_the_cursor_looks_at_every_memory(office: Office) -> None:
    """A pair that lies far back is found, and a stretch costs a bounded number of searches."""
    service: Any = await office.admin._service()
    first = await kept(office.agent, "Mara lives in the harbour street", confidence=0.8)
    again = await kept(office.agent, "mara lives in the Harbour street", confidence=0.6)
    for number in range(250):
        await kept(
            office.agent, f"item{number} stock{number} shelf{number} row{number}", user_id=f"u{number}"
        )
    looked, pairs, cursor, stretches = 0, [], None, 0
    while True:
        told = await service.tidying.candidates(CARLA, cursor=cursor)
        assert told.looked_at <= 100
        assert bool(told.coverage) is (cursor is None)
        pairs += [tuple(record.id for record in one.records) for one in told.candidates]
        looked, stretches, cursor = looked + told.looked_at, stretches + 1, told.next_cursor
        if cursor is None:
            break
    assert (looked, stretches, pairs) == (252, 3, [(first, again)])
    beyond = person("eve", REVIEWER, review_stores=("shop-*",))
    assert (await service.tidying.candidates(beyond)).looked_at == 0
