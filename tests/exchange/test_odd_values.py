"""What a ledger keeps and a format has no plain word for: it goes out in every format, and comes back where it can."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quipu.model.moving_formats import WRITTEN, Format
from quipu.model.operations import Line, RememberRequest
from quipu.model.record import MemoryType, PrivacyIntent
from tests.exchange.conftest import ADMIN, Host, Hosted
from tests.requirement import requirement

LAST = 2**63 - 1
#: Whole doubles that canonical JSON writes as digits, integers that it cannot hold, others that it can.
NUMBERS = [
    1e17,
    -1e17,
    123456789012345680.0,
    1e20,
    1e21,
    1e300,
    5e-324,
    2**53,
    -(2**53),
    LAST,
    -LAST - 1,
    0.5,
    7,
]
FIRST_DAY, LAST_DAY = -62_135_596_800_000, 253_402_300_799_999


async def lines(*given: Line) -> AsyncIterator[Line]:
    for line in given:
        yield line


def asked(content: str, **more: Any) -> RememberRequest:
    return RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=content, **more)


async def brought(host: Host, *given: Line) -> None:
    told = await host.service.exchange.import_lines(ADMIN, lines(*given))
    assert told.stored == len(given), told.errors


@pytest.mark.parametrize("format", WRITTEN)
@requirement("moving:formats.losses")
async def test_every_number_that_is_kept_goes_out(host: Host, format: Format) -> None:
    await host.memory.remember("numbers", metadata={"plain": NUMBERS, "structured": {"deep": {"n": NUMBERS}}})
    data, report = await host.out(format)
    assert report.items == 1
    too_large = {one.origin for one in report.loss.mapped} & {"a number beyond 2^53"}
    assert too_large, "what becomes text is told"
    if format in (Format.PAM, Format.OMI, Format.MEM0):
        assert b"1e+300" in data
        assert f'"{LAST}"'.encode() in data


@pytest.mark.parametrize("format", [Format.BUNDLE, Format.PAM, Format.OMI])
async def test_large_doubles_come_back_as_they_were(hosted: Hosted, format: Format) -> None:
    one, other = await hosted(), await hosted()
    kept = {"n": [1e17, -1e20, 1e21, 2.5]}
    await one.memory.remember("numbers", metadata=kept)
    data, _ = await one.out(format)
    assert (await other.into(data, keys=await one.keys())).refused == 0
    for waiting in await other.memory.proposals():
        await other.memory.decide(waiting.id, approved=True)
    (came,) = await other.contents()
    assert came["metadata"] == kept


@pytest.mark.parametrize("format", WRITTEN)
async def test_every_time_that_is_kept_goes_out(host: Host, format: Format) -> None:
    early, late = (FIRST_DAY - 1, -LAST - 1, FIRST_DAY), (LAST_DAY, LAST_DAY + 1, 2**53 - 1, 2**53, LAST)
    await brought(
        host,
        *(Line(asked("born then"), created_at=at, updated_at=at) for at in (*early, *late)),
        *(Line(asked("changed then"), created_at=0, updated_at=at) for at in (*early, *late)),
        *(Line(asked("ends then", expires_at=at), created_at=0) for at in late),
    )
    data, report = await host.out(format)
    assert report.items == 21
    if format is Format.OMI:
        told = Counter(memory["created"][:19] for memory in json.loads(data)["memories"])
        assert told["0001-01-01T00:00:00"] == len(early), "the nearest that can be written"
        assert told["9999-12-31T23:59:59"] == len(late)


@pytest.mark.parametrize("format", [Format.BUNDLE, Format.PAM, Format.OMI])
async def test_an_end_that_hardly_ever_comes_is_the_same_after_a_move(hosted: Hosted, format: Format) -> None:
    one, other = await hosted(), await hosted()
    ends = {LAST_DAY, LAST_DAY + 1, 2**53 - 1, 2**53 + 1, LAST}
    for end in ends:
        await one.memory.remember(f"for long, until {end}", expires_at=end)
    data, _ = await one.out(format)
    told = await other.into(data, keys=await one.keys())
    assert told.refused == 0, told.rejected
    for waiting in await other.memory.proposals():
        await other.memory.decide(waiting.id, approved=True)
    assert {came["expires_at"] for came in await other.contents()} == ends


async def test_what_is_kept_for_so_long_from_the_last_day_on_is_kept(host: Host) -> None:
    await brought(
        host,
        Line(asked("late", privacy_intent=PrivacyIntent(retain="30d")), created_at=LAST, updated_at=LAST),
        Line(asked("session", privacy_intent=PrivacyIntent(retain="session")), created_at=LAST),
    )
    assert {record["expires_at"] for record in await host.contents()} == {LAST}


@pytest.mark.parametrize("format", [Format.BUNDLE, Format.PAM, Format.OMI, Format.MARKDOWN])
async def test_ids_that_came_from_elsewhere_keep_no_file_from_coming_back(
    hosted: Hosted, format: Format
) -> None:
    """They stand in any order, and need not differ."""
    one, other = await hosted(), await hosted()
    names = ("z", "a", "b", "b", "B", "../b", "../b", "mem_1", "a")
    for number, name in enumerate(names):
        await one.memory.remember(f"fact {number}", metadata={"item_id": name})
    data, report = await one.out(format)
    assert report.items == len(names)
    told = await other.tried(data, keys=await one.keys())
    assert (told.read, told.refused) == (len(names), 0), told.rejected
