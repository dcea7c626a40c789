"""Whoever lent something has it back by asking with a signature; nobody else has."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu import jose
from quipu.errors import ConflictError
from quipu.jose import Signatory
from quipu.ledger.canonical import canonical
from quipu.outbound import Answer
from quipu.sharing import operations as ops
from quipu.sharing import receipts
from quipu.sharing.identity import Keyring
from quipu.sharing.model import BORROWED_GRANTS, NO_TENANT
from tests.requirement import requirement
from tests.sharing.network import Host, Network
from tests.sharing.test_borrowed import kept, shared, stands_in_files

GREEN = "The website is green and launches in May."


def by(host: Host, who: str | None = None) -> Signatory:
    return host.sharing.host.keyring.signatory(who)


async def asked_back(
    own: Host, signer: Signatory, item_ids: list[str], grant_id: str, **given: Any
) -> httpx.Response:
    body = {
        "principal_did": "did:web:memory.example",
        "item_ids": item_ids,
        "provenance_tags": [f"grant:{grant_id}"],
        "reason": "gdpr-art-17",
        **given.pop("body", {}),
    }
    header = {"iat": own.clock() // 1000, "jti": own.sharing.host.ulid(), **given}
    signature = jose.detached(canonical(body), signer, header)
    return await own.http(
        "POST",
        f"{own.url}/oap/data/delete",
        content=json.dumps(body).encode(),
        headers={"OAP-Signature": signature, "Content-Type": "application/oap+json"},
    )


@requirement("oap:borrowed.returned")
@pytest.mark.parametrize("who", ["host", "owner"])
async def test_who_lent_something_has_it_back_on_receipt(
    lender: Host, own: Host, tmp_path: Path, who: str
) -> None:
    await lender.remember(GREEN)
    await lender.remember("Something else.")
    found = await own(ops.BORROW, link=await shared(lender, own))
    (item,) = (item for item in found.items if item.text == GREEN)
    signer = by(lender, None if who == "host" else "default")
    answer = await asked_back(own, signer, [item.item_id], found.grant_id)
    assert answer.status_code == 200, answer.text
    receipt = answer.json()["output"]
    assert receipt["scope"]["item_ids_digest"] == receipts.hashed([item.item_id])
    assert receipt["tool_did"] == own.did
    key = own.sharing.host.keyring.key(None, receipt["signature"]["kid"])
    message = canonical(receipts.without(receipt, "signature"))
    assert jose.verify(message, receipt["signature"]["value"], key.jwk)
    assert [one.text for one in await kept(own)] == ["Something else."]
    assert not stands_in_files(tmp_path, GREEN.encode())


@requirement("oap:borrowed.returned")
async def test_nobody_else_makes_us_drop_anything(lender: Host, own: Host) -> None:
    await lender.remember(GREEN)
    found = await own(ops.BORROW, link=await shared(lender, own))
    ids, stranger, theirs = [item.item_id for item in found.items], Keyring(None).signatory(None), by(lender)
    now = own.clock() // 1000
    for status, signer, given in (
        (403, stranger, {}),
        (403, by(own), {}),
        (401, replace(theirs, sign=stranger.sign), {}),
        (401, theirs, {"iat": now - 400}),
        (401, theirs, {"iat": now + 400}),
        (401, theirs, {"jti": "x"}),
        (401, theirs, {"jti": None}),
    ):
        answer = await asked_back(own, signer, ids, found.grant_id, **given)
        assert answer.status_code == status, answer.text
    for pointer, body in (
        ("/principal_did", {"principal_did": None}),
        ("/item_ids", {"item_ids": None}),
        ("/item_ids/1", {"item_ids": [*ids, {"id": ids[0]}]}),
        ("/provenance_tags", {"provenance_tags": []}),
        ("/provenance_tags", {"provenance_tags": [f"grant:{found.grant_id}", "grant:mgr_2"]}),
        ("/surprise", {"surprise": 1}),
    ):
        answer = await asked_back(own, theirs, ids, found.grant_id, body=body)
        assert (answer.status_code, answer.json()["error"]["details"]["pointer"]) == (400, pointer)
    headers = {"OAP-Signature": "none", "Content-Type": "application/oap+json"}
    for odd in (headers, {}):
        assert (await own.http("POST", "/oap/data/delete", json={}, headers=odd)).status_code in (400, 401)
    assert len(await kept(own)) == 1


@requirement("oap:borrowed.returned")
async def test_a_request_is_good_once(lender: Host, own: Host) -> None:
    await lender.remember(GREEN)
    link = await shared(lender, own)
    found = await own(ops.BORROW, link=link)
    ids, jti = [item.item_id for item in found.items], "the-same-one-twice"
    assert (await asked_back(own, by(lender), ids, found.grant_id, jti=jti)).status_code == 200
    await own(ops.BORROW, link=link)
    again = await asked_back(own, by(lender), ids, found.grant_id, jti=jti)
    assert again.status_code == 401
    assert len(await kept(own)) == 1
    assert (await asked_back(own, by(lender), ids, found.grant_id)).status_code == 200, "signed anew it is"


@requirement("oap:borrowed.returned")
async def test_an_answer_that_was_on_its_way_is_not_kept_when_its_items_are_asked_back(
    network: Network, lender: Host, own: Host
) -> None:
    record_id = await lender.remember(GREEN)
    link = await shared(lender, own)
    grant_id, send = link.rpartition("/")[2], network.send

    async def slow(method: str, url: str, **given: Any) -> Answer:
        answer = await send(method, url, **given)
        if url.endswith("/memory/query"):
            assert (await asked_back(own, by(lender), [record_id], grant_id)).status_code == 200
        return answer

    network.send = slow  # type: ignore[method-assign]
    with pytest.raises(ConflictError) as refused:
        await own(ops.BORROW, link=link)
    assert refused.value.reason == "erased_meanwhile"
    assert await kept(own) == []
    network.send = send  # type: ignore[method-assign]
    assert (await own(ops.BORROW, link=link)).items, "it was asked anew"


async def test_a_ledger_that_was_copied_still_gives_back(lender: Host, own: Host) -> None:
    """A copy holds what tenants have, and not whose a grant is."""
    await lender.remember(GREEN)
    found = await own(ops.BORROW, link=await shared(lender, own))
    ledger = own.container.ledger
    rows = await ledger.page(BORROWED_GRANTS, NO_TENANT)
    await ledger.update(
        NO_TENANT, BORROWED_GRANTS, drop=[(row.grant_id, row.source, row.owner) for row in rows]
    )
    ids = [item.item_id for item in found.items]
    assert (await asked_back(own, by(lender), ids, found.grant_id)).status_code == 200
    assert await kept(own) == []
