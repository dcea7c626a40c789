"""What a grant may show in all, and that nothing else can be told from what it shows."""

import asyncio
from typing import Any

from quipu.sharing.grants import operations as ops
from tests.requirement import requirement
from tests.sharing.grantee import Grantee


def ids(output: Any) -> list[str]:
    return [item["item_id"] for item in output["items"]]


@requirement("oap:cap.distinct-items")
async def test_no_more_items_are_ever_shown_than_the_grant_allows_however_many_ask_at_once(
    grantee: Grantee,
) -> None:
    lender = grantee.lender
    for number in range(8):
        await lender.remember(f"The word number{number} of the website.")
    shared = await grantee.given(max_items=3)
    await grantee.token()
    asked = [grantee.sees(f"number{number}") for number in range(8)]
    outputs = await asyncio.gather(*asked)
    shown = {name for output in outputs for name in ids(output)}
    assert len(shown) == 3
    found = await lender(ops.GET_GRANT, id=shared.grant_id)
    assert (found.grant.items_disclosed, found.grant.items_remaining) == (3, 0)
    assert {one.item_id for one in found.shown} == shown
    assert set(ids(await grantee.sees("website"))) == shown, "what is known stays readable"
    assert (await lender(ops.LIST_RECEIPTS, verify=True)).faults == ()


@requirement("oap:cap.silence")
async def test_the_last_page_under_a_cap_looks_like_any_last_page(grantee: Grantee) -> None:
    for number in range(5):
        await grantee.lender.remember(f"The website, page {number}.")
    await grantee.given(max_items=3)
    first = await grantee.sees("website", max_results=2)
    assert len(ids(first)) == 2
    last = await grantee.sees("website", max_results=2, cursor=first["next_cursor"])
    assert (len(ids(last)), last["next_cursor"]) == (1, None)
    assert "total" not in str(last)


@requirement("oap:cap.silence")
async def test_an_answer_is_the_same_whatever_else_there_is(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("The website is green.", tags=["website"])
    await lender.remember("The website launches in May.", tags=["website"])
    await grantee.given(label=["website"])

    def told(output: Any) -> Any:
        return ids(output), output["ranking"], output["next_cursor"]

    questions = ("website", "green", "canary", "when does it launch")
    before = [told(await grantee.sees(one)) for one in questions]
    await lender.remember("A canary in the website, green as May.", tags=["own"])
    await lender.remember("A canary at work.", tags=["website"], scope_id="work")
    await lender.remember("A canary that stays here.", tags=["website"], exportable=False)
    private = {"sensitivity": "secret"}
    await lender.remember("A secret canary.", tags=["website"], privacy_intent=private)
    assert [told(await grantee.sees(one)) for one in questions] == before
