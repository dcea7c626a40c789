"""Erasures as a page: looked at first, carried out with a tick, and whom they have reached."""

from pathlib import Path

from quipu.sharing import operations as host_ops
from quipu.sharing.grants import operations as ops
from tests.sharing.network import hosts
from tests.web.conftest import House
from tests.web.test_grants import owner_of


async def test_an_erasure_is_tried_carried_out_and_followed(tmp_path: Path) -> None:
    async with hosts(tmp_path, "memory.example", "contractor.example") as (network, [lender, own]):
        record_id = await lender.remember("The website is green.", tags=["website"])
        stays = await lender.remember("The cat is called Tom.", tags=["home"])
        given = {"grantee": own.owner, "purpose": "A briefing", "all": True}
        await own(host_ops.BORROW, link=(await lender(ops.SHARE, **given)).link)
        person = await owner_of(lender)
        page = await person.get("/erasures")
        assert "Nothing was erased yet" in page.text

        tried = await person.send(page, "try", labels="website", reason="They asked")
        assert "1 memory would go" in tried.text
        assert f"/memories/{record_id}" in tried.html.links
        assert (await lender(host_ops.LIST_ERASURES)).erasures == ()
        fields = dict(tried.html.form("erase").fields)
        assert (fields["labels"], fields["reason"]) == ("website", "They asked"), "still filled in"

        unsure = await person.send(tried, "erase")
        assert unsure.status == 400
        assert (await lender(host_ops.LIST_ERASURES)).erasures == ()

        network.away.add(own.name)
        done = await person.send(tried, "erase", is_sure="1")
        assert "Erased 1 for good." in done.text
        assert "They asked" in done.text
        assert "waiting" in done.text
        assert "somebody does not know yet" in done.text
        network.away.clear()
        lender.clock.now += 120_000
        await lender.sharing.erasures.work("default")
        assert "erased there" in (await person.get("/erasures")).text
        assert [item.item_id for item in (await own(host_ops.LIST_BORROWED)).items] == [stays]


async def test_who_is_no_owner_erases_nothing_here(house: House) -> None:
    person = await house.person("rui", "reviewer")
    assert "/erasures" not in (await person.get("/")).html.links
    assert (await person.get("/erasures")).status == 403
