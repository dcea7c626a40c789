"""What may be read of an item that was shown: its log, its vector; and receipts, incidents, the one public action."""

import array
import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from quipu import jose
from quipu.memory.operations import FORGET, UPDATE
from quipu.sharing import operations as ops
from quipu.sharing import receipts
from quipu.sharing.grants import operations as grant_ops
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, log_faults, reason
from tests.sharing.network import Host


async def owned(host: Host, method: str, path: str, **given: Any) -> Any:
    headers = {"Authorization": f"Bearer {await host.token()}"}
    return await host.http(method, path, headers=headers, **given)


@requirement("oap:log.read")
async def test_a_log_is_read_by_who_was_shown_the_item_and_verifies(grantee: Grantee) -> None:
    lender = grantee.lender
    record_id = await lender.remember("The website is green.")
    unseen = await lender.remember("The cat is called Tom.")
    await grantee.given(level=3)
    await grantee.sees("website")
    await lender(UPDATE, id=record_id, content="The website is blue.")
    (item,) = (await grantee.sees("website"))["items"]
    answer = await grantee.asks("GET", f"/oap/memory/item/{record_id}/log")
    entries = answer.json()["output"]["log"]
    assert [one["op"] for one in entries] == ["captured", "updated"]
    assert log_faults(entries) == []
    assert item["integrity"]["log_head"] == receipts.hashed(entries[-1])
    assert item["integrity"]["log_length"] == 2
    assert "green" not in json.dumps(entries)
    for name in (unseen, "mem_nothing"):
        assert reason(await grantee.asks("GET", f"/oap/memory/item/{name}/log")) == (404, "item")


@requirement("oap:log.read")
async def test_below_level_3_a_log_says_nothing_of_where_a_memory_came_from(grantee: Grantee) -> None:
    record_id = await grantee.lender.remember("The website is green.")
    await grantee.given(level=2)
    (item,) = (await grantee.sees())["items"]
    (entry,) = (await grantee.asks("GET", f"/oap/memory/item/{record_id}/log")).json()["output"]["log"]
    assert set(entry) == {"seq", "op", "at", "state", "hash"}
    assert entry["hash"] == item["integrity"]["log_head"]


@requirement("oap:log.read")
async def test_for_its_owner_a_log_outlives_the_item(grantee: Grantee) -> None:
    lender = grantee.lender
    record_id = await lender.remember("The website is green.", item_id="crm/42")
    assert (await owned(lender, "GET", f"/oap/memory/item/{record_id}/log")).status_code == 404, "never shown"
    await grantee.given()
    await grantee.sees()
    assert (await grantee.asks("GET", "/oap/memory/item/crm%2F42/log")).status_code == 200
    await lender(ops.ERASE, ids=[record_id])
    for name in (record_id, "crm%2F42"):
        answer = await owned(lender, "GET", f"/oap/memory/item/{name}/log")
        assert [one["op"] for one in answer.json()["output"]["log"]] == ["captured", "deleted"], name
    assert (await grantee.asks("GET", "/oap/memory/item/crm%2F42/log")).status_code == 404


@requirement("oap:vector.scope")
async def test_a_vector_is_of_the_text_as_it_is_shown_on_receipt(grantee: Grantee) -> None:
    lender = grantee.lender
    record_id = await lender.remember("Write to mara@home.example about the website.")
    await grantee.given(embeddings=True)
    output = await grantee.sees("website", include_embeddings=True)
    (item,) = output["items"]
    assert item["content"]["text"] == "Write to [email] about the website."
    path = item["embedding"]["vector_url"].removeprefix(lender.url)
    answer = await grantee.asks("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["cache-control"] == "no-store"
    digest = base64.b64encode(hashlib.sha256(answer.content).digest()).decode()
    assert answer.headers["content-digest"] == f"sha-256=:{digest}:"
    assert item["embedding"]["digest"] == f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    (wanted,) = await WordEmbedder().embed([item["content"]["text"]])
    assert answer.content == bytes(wanted)
    assert len(array.array("f", answer.content)) == item["embedding"]["dimensions"]
    last = (await lender(grant_ops.LIST_RECEIPTS, verify=True)).receipts[-1]
    assert last.body["action_id"] == "memory_vector_read"
    assert len((await lender(grant_ops.WHO_SAW, id=record_id)).entries) == 2
    assert (await lender(grant_ops.LIST_RECEIPTS, verify=True)).faults == ()


@requirement("oap:vector.scope")
async def test_without_the_scope_vectors_are_refused_not_left_out(grantee: Grantee) -> None:
    record_id = await grantee.lender.remember("The website is green.")
    await grantee.given()
    await grantee.sees()
    assert reason(await grantee.query(include_embeddings=True)) == (403, "scope_missing")
    assert reason(await grantee.asks("GET", f"/oap/memory/vec/{record_id}.bin")) == (403, "scope_missing")


@requirement("oap:vector.scope")
async def test_there_is_no_vector_of_what_was_not_shown_has_no_text_or_is_gone(grantee: Grantee) -> None:
    lender = grantee.lender
    shown, unseen = await lender.remember("The website is green."), await lender.remember("A cat.")
    await grantee.given(embeddings=True)
    await grantee.sees("website")
    assert reason(await grantee.asks("GET", f"/oap/memory/vec/{unseen}.bin")) == (404, "item")
    await lender(FORGET, ids=[shown])
    assert reason(await grantee.asks("GET", f"/oap/memory/vec/{shown}.bin")) == (404, "item")
    await grantee.given(embeddings=True, level=0)
    await grantee.sees()
    assert reason(await grantee.asks("GET", f"/oap/memory/vec/{unseen}.bin")) == (404, "item"), "no text"


@requirement("oap:incident.receipt")
async def test_incidents_are_reported_on_receipt_and_nothing_of_them_is_kept(
    grantee: Grantee, tmp_path: Path
) -> None:
    lender = grantee.lender
    shared = await grantee.given()
    said = {"what": "zyxwvutsrq"}
    answer = await grantee.asks("POST", "/oap/incident", said)
    assert answer.status_code == 202
    by_owner = await owned(lender, "POST", "/oap/incident", json=said)
    assert by_owner.status_code == 202
    assert (await lender.http("POST", "/oap/incident", json=said)).status_code == 401
    listed = (await lender(grant_ops.LIST_RECEIPTS, verify=True)).receipts[-2:]
    for row, told, agent in zip(listed, (answer, by_owner), (grantee.did, lender.owner), strict=True):
        output = told.json()["output"]
        assert (row.type, row.id, row.agent) == ("incident", output["receipt_id"], agent)
        assert row.body["input_hash"] == receipts.salted("input", said, output["input_salt"])
    assert [row.grant_id for row in listed] == [shared.grant_id, None]
    files = [file for file in tmp_path.glob("memory.example.db*") if file.is_file()]  # noqa: ASYNC240
    assert not any(b"zyxwvutsrq" in file.read_bytes() for file in files)


@requirement("oap:audit.receipts")
async def test_a_grantee_reads_its_own_receipts_and_the_owner_all_of_them(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("The website is green.")
    await grantee.given()
    other = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
    await lender(grant_ops.SHARE, grantee=other, purpose="another", all=True)
    await grantee.sees()
    mine = (await grantee.asks("GET", "/oap/audit")).json()
    assert {one["agent_did"] for one in mine["receipts"]} == {grantee.did}
    assert [one["type"] for one in mine["receipts"]] == ["consent", "invocation"]
    first = mine["receipts"][0]["receipt_id"]
    token = await grantee.token()
    assert token
    page = await grantee.asks("GET", "/oap/audit")
    assert page.json()["next"] is None
    whole = (await owned(lender, "GET", "/oap/audit")).json()
    assert [one["agent_did"] for one in whole["receipts"]] == [grantee.did, other, grantee.did]
    assert whole["receipts"][0]["receipt_id"] == first
    rest = (await owned(lender, "GET", "/oap/audit?after=2")).json()
    assert rest["receipts"] == whole["receipts"][2:]
    assert (await owned(lender, "GET", "/oap/audit?after=x")).status_code == 400


@requirement("oap:audit.receipts")
async def test_anybody_may_call_the_one_public_action_on_a_receipt_in_no_owners_chain(
    grantee: Grantee,
) -> None:
    lender = grantee.lender
    assert (await lender.http("POST", "/oap/invoke", json={})).status_code == 400
    assert (await lender.http("POST", "/oap/invoke", json={"action": "memory_query"})).status_code == 404
    answers = [
        (await lender.http("POST", "/oap/invoke", json={"action": "describe_service", "input": {}})).json()
        for _ in range(2)
    ]
    assert answers[0]["output"]["did"] == lender.did
    assert answers[0]["receipt_id"] == answers[0]["receipt"]["id"]
    public = (await lender.http("GET", "/oap/audit")).json()
    assert [one["receipt_id"] for one in public["receipts"]] == [one["receipt_id"] for one in answers]
    key = lender.sharing.host.keyring.key(None, public["receipts"][0]["signatures"][0]["by"])
    check = lambda message, _, value: jose.verify(message, value, key.jwk)  # noqa: E731
    assert receipts.receipt_faults(public["receipts"], check) == []
    assert (await lender(grant_ops.LIST_RECEIPTS)).receipts == ()
