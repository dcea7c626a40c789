"""A check that takes long runs on while its page shows how far it is; counts are taken now and then."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from quipu.errors import BackendUnavailableError
from quipu.faces.web import proofs
from quipu.faces.web.lately import KEPT_MS, Lately
from quipu.faces.web.proofs import Progress, Proof
from quipu.model.outcomes import Fault, Verification
from quipu.testing.builders import FixedClock
from tests.faces.web.conftest import House, Person

FOUND = Verification(entries=9, records=3, checkpoints=1, head_seq=9, head_hash="0" * 64, faults=())


async def test_a_check_tells_how_far_it_is_and_then_what_it_found() -> None:
    clock, gate = FixedClock(), asyncio.Event()

    async def verify(told: Progress) -> Verification:
        told(4, 9)
        await gate.wait()
        clock.move(1500)
        return FOUND

    proof = Proof(verify, clock)
    await proof.wait(0.01)
    assert proof.is_running
    assert (proof.done, proof.total, proof.ended_at) == (4, 9, None)
    gate.set()
    await proof.wait(5)
    assert not proof.is_running
    assert proof.found() is FOUND
    assert proof.ended_at is not None
    assert proof.ended_at - proof.began_at == 1500


async def test_what_stops_a_check_is_raised_when_its_result_is_asked_for() -> None:
    async def verify(_told: Progress) -> Verification:
        raise BackendUnavailableError

    proof = Proof(verify, FixedClock())
    await proof.wait(5)
    with pytest.raises(BackendUnavailableError):
        proof.found()


async def test_a_check_ends_with_its_session() -> None:
    never = asyncio.Event()

    async def verify(_told: Progress) -> Verification:
        await never.wait()
        return FOUND

    proof = Proof(verify, FixedClock())
    await proof.wait(0.01)
    proof.stop()
    await proof.wait(5)
    assert not proof.is_running


def test_a_long_check_has_a_page_that_comes_back_by_itself(
    house: House, ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = house.served.service.audit
    real, gate = audit.verify, asyncio.Event()

    async def slow(principal: object, told: Progress) -> Verification:
        told(40, 60)
        await gate.wait()
        return await real(principal, told)  # pyright: ignore[reportArgumentType]  handed on as it came

    monkeypatch.setattr(audit, "verify", slow)
    monkeypatch.setattr(proofs, "PATIENCE_S", 0.01)
    ana.send("/journal/verify")
    running = ana.get("/journal/proof").text
    assert '<meta http-equiv="refresh" content="1">' in running
    assert re.search(r'<progress[^>]* value="40" max="60"', running)
    assert "40 of 60 knots" in running
    assert ana.get("/stores").status_code == 200, "the rest of the page goes on"
    house.served.do(_set(gate))
    text = running
    for _ in range(100):
        text = ana.get("/journal/proof").text
        if "Checking" not in text:
            break
    assert "Nothing was altered" in text
    assert 'http-equiv="refresh"' not in text


def test_a_check_that_came_to_no_result_is_told_and_can_be_repeated(
    ana: Person, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_principal: object, _told: Progress) -> Verification:
        raise BackendUnavailableError

    with monkeypatch.context() as patch:
        patch.setattr(house.served.service.audit, "verify", fails)
        ana.send("/journal/verify")
    first_page = ana.get("/")
    assert first_page.status_code == 200
    assert "The check came to no result" in first_page.text
    assert ana.get("/journal/proof").status_code == 503
    assert "Verify now" in ana.get("/journal/proof").text
    ana.send("/journal/verify")
    assert "Nothing was altered" in ana.get("/").text


def test_what_could_not_be_checked_is_not_called_whole(
    ana: Person, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def doubts(_principal: object, _told: Progress) -> Verification:
        return replace(FOUND, unverifiable=("a key is missing",))

    with monkeypatch.context() as patch:
        patch.setattr(house.served.service.audit, "verify", doubts)
        ana.send("/journal/verify")
    for path in ("/", "/journal/proof"):
        text = ana.get(path).text
        assert "No fault found, but not all could be checked" in text
        assert "Nothing was altered" not in text


def test_a_proof_says_of_what_when_and_for_whom(ana: Person) -> None:
    """Also on paper, where the side is not printed."""
    ana.send("/journal/verify")
    text = ana.get("/journal/proof").text.partition("<main")[2]
    assert "<dt>Of</dt><dd>default</dd>" in text
    assert "<dt>Asked for by</dt><dd>ana</dd>" in text
    assert re.search(r"<dt>Checked</dt><dd><time[^>]*>\d+ \w+ \d{4}, \d\d:\d\d<abbr[^>]*>&nbsp;UTC", text)


def test_more_faults_than_are_told_are_said_to_be_more(
    ana: Person, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def many(_principal: object, _told: Progress) -> Verification:
        faults = tuple(
            Fault(kind="altered_record", detail="it differs", seq=seq, id=f"mem_{seq}")
            for seq in range(1, 70)
        )
        return replace(FOUND, faults=faults)

    with monkeypatch.context() as patch:
        patch.setattr(house.served.service.audit, "verify", many)
        ana.send("/journal/verify")
    text = ana.get("/journal/proof").text
    assert "68 further faults" in text
    assert "The first 50 are told here" in text
    assert 'href="/memories/mem_50"' in text


async def _set(gate: asyncio.Event) -> None:
    gate.set()


async def test_counts_are_taken_anew_after_half_a_minute_and_for_each_tenant() -> None:
    clock, asked = FixedClock(), []
    lately = Lately(clock)

    def counting(tenant: str):
        async def count() -> Mapping[str, int]:
            asked.append(tenant)
            return {"live": len(asked)}

        return count

    assert (await lately.counts("a", counting("a")))["live"] == 1
    clock.move(KEPT_MS - 1)
    assert (await lately.counts("a", counting("a")))["live"] == 1
    assert (await lately.counts("b", counting("b")))["live"] == 2
    clock.move(1)
    assert (await lately.counts("a", counting("a")))["live"] == 3
