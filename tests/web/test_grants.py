"""Grants and what is borrowed, as pages."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quipu.sharing import operations as host_ops
from quipu.sharing.grants import operations as ops
from tests.sharing.network import Host, hosts
from tests.web.conftest import House, open_house
from tests.web.person import Person

TEXT = "The website launches in May; ask Ana at ana@example.org."
SHOWN = "The website launches in May; ask Ana at [email]."


@pytest.fixture
async def lender_and_own(tmp_path: Path) -> AsyncIterator[tuple[Host, Host]]:
    async with hosts(tmp_path, "memory.example", "contractor.example") as (_, [lender, own]):
        yield lender, own


async def owner_of(host: Host) -> Person:
    """Its owner at a browser."""
    house = House(host.container, host.clock, host.app)
    person = house.stranger(host.url)
    seen = await person.sign_in(await house.token("ana", "admin"))
    assert seen.status == 200
    return person


async def test_a_grant_is_tried_shared_looked_at_and_taken_back(lender_and_own: tuple[Host, Host]) -> None:
    lender, own = lender_and_own
    record_id = await lender.remember(TEXT, tags=["website"])
    await lender.remember("The alarm code is with the neighbour.", tags=["home"])
    person = await owner_of(lender)
    page = await person.get("/grants")
    assert "Nothing is shared yet" in page.text
    wanted = {"grantee": own.owner, "purpose": "Brief the contractor", "label": "website, press"}
    tried = await person.send(page, "preview", **wanted)
    assert SHOWN in tried.text
    assert "Nothing is shared yet" in tried.text
    assert "alarm" not in tried.text
    assert (await lender(ops.LIST_GRANTS)).grants == ()
    fields = dict(tried.html.form("share").fields)
    assert (fields["purpose"], fields["label"]) == ("Brief the contractor", "website, press"), (
        "still filled in"
    )

    given = await person.send(tried, "share")
    assert re.fullmatch(r"/grants/mgr_\w+", given.path)
    (link,) = (one["value"] for tag, one in given.html.tags if tag == "input" and "data-select" in one)
    assert SHOWN in given.text, "what it shows now"
    found = await own(host_ops.BORROW, link=link)
    assert [item.text for item in found.items] == [SHOWN]

    seen = await person.get(given.path)
    assert f"/memories/{record_id}" in seen.html.links, "what it has shown"
    assert "1 answer" in seen.text
    ended = await person.send(seen, "revoke")
    assert "From the next request on it shows nothing" in ended.text
    assert not ended.html.has_form("revoke")
    assert "revoked" in (await person.get("/grants")).text
    assert (await lender(ops.GET_GRANT, id=found.grant_id)).grant.status == "revoked"


async def test_what_was_typed_survives_a_refusal(lender_and_own: tuple[Host, Host]) -> None:
    lender, _ = lender_and_own
    person = await owner_of(lender)
    refused = await person.send(
        await person.get("/grants"), "share", grantee="Ana", purpose="A test", label="x"
    )
    assert refused.status == 400
    assert "did:web:HOST" in refused.text
    assert dict(refused.html.form("share").fields)["purpose"] == "A test"


async def test_all_grants_are_taken_back_at_once(lender_and_own: tuple[Host, Host]) -> None:
    lender, own = lender_and_own
    for purpose in ("one", "two"):
        await lender(ops.SHARE, grantee=own.owner, purpose=purpose, all=True)
    person = await owner_of(lender)
    done = await person.send(await person.get("/grants"), "revoke_all")
    assert "Took back 2" in done.text
    assert (
        "one"
        not in (await person.get("/grants?status=active")).text.partition("Given")[2].partition("Share")[0]
    )


async def test_what_others_share_is_asked_for_shown_and_given_up(lender_and_own: tuple[Host, Host]) -> None:
    lender, own = lender_and_own
    await lender.remember(TEXT)
    shared = await lender(ops.SHARE, grantee=own.owner, purpose="A briefing", all=True)
    person = await owner_of(own)
    page = await person.get("/grants")
    assert own.owner in page.text, "what others know one as"
    refused = await person.send(page, "borrow", link="https://nowhere.example/oap/memory/grant/mgr_1")
    assert refused.status == 503
    seen = await person.send(page, "borrow", link=shared.link, query="website")
    assert "Borrowed 1." in seen.text
    assert SHOWN in seen.text
    gone = await person.send(seen, "give_up")
    assert "Dropped 1. The grant has ended." in gone.text
    assert SHOWN not in gone.text


async def test_a_server_that_nobody_can_reach_says_so_instead_of_sharing() -> None:
    house = await open_house()
    person = await house.person("ana", "admin")
    page = await person.get("/grants")
    assert "QUIPU_PUBLIC_URL" in page.text
    assert not page.html.has_form("share")
    assert page.html.has_form("borrow"), "it can borrow all the same"
    await house.close()


@pytest.mark.parametrize("role", ["agent", "reviewer"])
async def test_who_is_no_owner_is_neither_offered_nor_shown_grants(role: str) -> None:
    house = await open_house(public_url="https://memory.example")
    person = await house.person("rui", role)
    assert "/grants" not in (await person.get("/")).html.links
    assert (await person.get("/grants")).status == 403
    await house.close()
