"""Erasing and odd names on a database: the same as on a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quipu.model.operations import RememberRequest
from quipu.model.record import Link, MemoryType
from quipu.testing.builders import FixedClock
from tests.faces.serving import served
from tests.oap.hosts import OWNER, Host, free_port
from tests.requirement import requirement


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(1_800_000_000_000)


@pytest.fixture
def host(fresh_url: str, clock: FixedClock) -> Iterator[Host]:
    with served(store_url=fresh_url, port=free_port(), is_open=True, clock=clock) as one:
        yield Host(one)


@requirement("oap:erasure.everywhere")
def test_what_was_made_of_it_what_waits_and_who_saw_it_are_reached(host: Host, clock: FixedClock) -> None:
    first = host.remember("The word is zyxwv.", tags=("website_redesign",))
    second = host.remember("In short: zyxwv.", links=(Link(first, "compacted_from"),))
    request = RememberRequest(
        agent_id="assistant", type=MemoryType.SEMANTIC, content="Held: zyxwv.", approval_required=True
    )
    assert host.at.do(host.at.service.remember(OWNER, request)).pending_approval
    (held,) = host.at.do(host.parts.ledger.proposals("default", "pending"))
    host.at.do(host.sharing.erasing.resume("default"))

    def erase(**members: Any) -> httpx.Response:
        with host.at.client() as owner:
            return owner.post("/oap/data/delete", json={"principal_did": host.owner, **members})

    assert erase(item_ids=[first, "crm-42"]).json()["output"]["receipt"]["scope"]["items_deleted"] == 2
    assert host.at.do(host.parts.ledger.read("default", [second]))[second].is_emptied
    assert host.at.do(host.parts.ledger.proposal("default", held.id)).request
    assert erase().status_code == 200
    assert not host.at.do(host.parts.ledger.proposal("default", held.id)).request
    clock.move(60_000)
    host.at.do(host.sharing.erasing.resume("default"))
    assert host.at.do(host.at.service.audit.verify(OWNER)).holds


@pytest.mark.parametrize(
    "path",
    [
        "/oap/memory/item/%00/log",
        "/oap/memory/grant/%00",
        "/oap/tasks/%00",
        "/oap/tasks/%00/file/%00",
        "/.well-known/oap-revocation?grant_id=%00",
        "/oap/audit?after=%00",
    ],
)
def test_a_name_that_a_database_cannot_hold_is_nobody_s(host: Host, path: str) -> None:
    with host.at.client() as owner:
        assert owner.get(path).status_code in (400, 404)
