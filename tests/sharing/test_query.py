"""From a grant to an answer: shared, traded for a token, asked, on receipt."""

from typing import Any

from quipu import jose
from quipu.ledger.canonical import canonical
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import FORGET
from quipu.sharing import receipts
from quipu.sharing.grants import operations as ops
from quipu.sharing.model import RECEIPTS
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, reason


@requirement("oap:query.answer")
async def test_a_grant_is_traded_for_a_token_and_the_token_for_an_answer(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("The website is green and launches in May.", tags=["website"])
    await lender.remember("The cat is called Tom.", tags=["home"])
    shared = await grantee.given(label=["website"], purpose="Brief the contractor.")
    assert shared.status == "active"
    assert shared.link == f"https://memory.example/oap/memory/grant/{shared.grant_id}"
    assert [one.text for one in shared.items] == ["The website is green and launches in May."]
    answer = await grantee.query("when does the website launch?")
    assert answer.headers["content-type"] == "application/oap+json"
    body = answer.json()
    output = body["output"]
    (item,) = output["items"]
    assert item["content"] == {"text": "The website is green and launches in May."}
    assert item["labels"] == ["website"]
    assert item["provenance_tags"][0]["received_under"] == f"grant:{shared.grant_id}"
    assert item["provenance_tags"][0]["purpose_limitation"] == "Brief the contractor."
    assert output["ranking"] == [{"item_id": item["item_id"], "score": 1}]
    assert output["grant"]["items_disclosed"] == 1
    assert output["next_cursor"] is None
    assert output["projection_applied"]["trust_level"] == 1
    signature = body.pop("signature")
    key = lender.container.sharing.host.keyring.key(None, signature["kid"])
    assert jose.verify(canonical(body), signature["value"], key.jwk)


@requirement("oap:query.one-transaction")
async def test_an_answer_its_receipt_the_log_the_count_and_the_journal_are_one_commit(
    grantee: Grantee,
) -> None:
    lender = grantee.lender
    record_id = await lender.remember("The website is green.")
    await grantee.given()
    before = (await lender.container.ledger.head("default")).seq
    answer = (await grantee.query("website")).json()
    entries = await lender.container.ledger.entries("default", JournalQuery(after=before))
    assert [entry.op for entry in entries] == ["disclose"]
    (entry,) = entries
    assert entry.actor == grantee.did
    assert [mention.id for mention in entry.records] == [record_id]
    side: Any = entry.detail["side"]
    assert sorted(table for table, _, _ in side) == ["item_log", "receipt", "share_grant", "shared_item"]
    (last,) = await lender.container.ledger.page(RECEIPTS, "default", newest_first=True, limit=1)
    assert last.id == answer["receipt"]["receipt_id"] == entry.detail["receipt_id"]
    asked = {"query": "website"}
    assert last.body["input_hash"] == receipts.salted("input", asked, answer["receipt"]["input_salt"])
    told = receipts.salted("output", answer["output"], answer["receipt"]["output_salt"])
    assert last.body["output_hash"] == told
    listed = await lender(ops.LIST_RECEIPTS, verify=True)
    assert [one.type for one in listed.receipts] == ["consent", "invocation"]
    assert listed.faults == ()


async def test_the_owner_sees_who_saw_what(grantee: Grantee) -> None:
    lender = grantee.lender
    record_id = await lender.remember("The website is green.")
    unseen = await lender.remember("The cat is called Tom.")
    shared = await grantee.given()
    await grantee.sees("website")
    await grantee.sees("website")
    seen = (await lender(ops.WHO_SAW, id=record_id)).entries
    assert [(one.grantee, one.grant_id) for one in seen] == [(grantee.did, shared.grant_id)] * 2
    assert (await lender(ops.WHO_SAW, id=unseen)).entries == ()
    found = await lender(ops.GET_GRANT, id=shared.grant_id)
    assert [one.record_id for one in found.shown] == [record_id]
    assert (found.grant.uses, found.grant.items_disclosed) == (2, 1)


@requirement("oap:revocation.next-request")
async def test_a_grant_that_is_taken_back_shows_nothing_from_the_next_request_on(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("The website is green.")
    shared = await grantee.given()
    assert await grantee.texts() == ["The website is green."]
    ended = await lender(ops.REVOKE_GRANT, id=shared.grant_id)
    assert ended.status == "revoked"
    assert reason(await grantee.query()) == (401, "grant_revoked")
    assert reason(await grantee.exchange()) == (401, "grant_revoked")
    again = await lender(ops.REVOKE_GRANT, id=shared.grant_id)
    assert again.revoked_at == ended.revoked_at
    types = [one.body["action_id"] for one in (await lender(ops.LIST_RECEIPTS)).receipts]
    assert types == ["memory_grant_create", "memory_query", "memory_grant_revoke"]


async def test_an_erasure_leaves_nothing_of_it_in_memory(grantee: Grantee) -> None:
    lender = grantee.lender
    record_id = await lender.remember("The website is green.")
    await grantee.given()
    await grantee.sees()
    views = lender.container.sharing.views
    assert [one.items for one in views._kept.values()] != [{}]
    await lender(FORGET, ids=[record_id], hard_delete=True, reason="gone")
    assert not views._kept
    assert await grantee.texts() == []
