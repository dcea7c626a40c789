"""Exports in OAP's words: the owner's own copy, and what a grant shows."""

import json
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.access.operations import CREATE_TOKEN
from quipu.errors import QuipuError
from quipu.memory.operations import FORGET
from quipu.model.principal import Principal
from quipu.operation import dispatch_stream
from quipu.sharing.grants.operations import LIST_RECEIPTS, REVOKE_GRANT
from quipu.sharing.grants.query import GrantQueries
from quipu.sharing.grants.tokens import GrantContext, Shown
from quipu.sharing.model import ITEM_LOG
from quipu.transfer import grant_exports
from quipu.transfer.operations import EXPORT_GRANT
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, proof, reason
from tests.sharing.network import Host, hosts
from tests.transfer.formats.shelf import good, read, unpacked

_NUMBERS = count(1)
EXPORT = "/oap/memory/export"


@pytest.fixture
async def grantee(tmp_path: Path) -> AsyncIterator[Grantee]:
    async with hosts(tmp_path, "memory.example", "contractor.example") as (_, [lender, own]):
        yield Grantee(lender, own)


async def filled(lender: Host, count: int = 3) -> list[str]:
    return [await lender.remember(f"Deadline {n} is in May.", tags=["website"]) for n in range(count)]


async def by_owner(host: Host, body: Any) -> httpx.Response:
    token = await host(CREATE_TOKEN, name=f"export {next(_NUMBERS)}", roles=["admin"])
    headers = {"Authorization": f"Bearer {token.text}", "Content-Type": "application/json"}
    return await host.http("POST", f"{host.url}{EXPORT}", content=json.dumps(body), headers=headers)


def manifest(data: bytes) -> Any:
    return json.loads(unpacked(data)["manifest.json"])


def items(data: bytes) -> list[Any]:
    return [json.loads(line) for line in unpacked(data)["items.jsonl"].splitlines()]


@requirement("oap:export.grant")
async def test_an_export_under_a_grant_is_projected_counted_and_on_receipt(grantee: Grantee) -> None:
    lender = grantee.lender
    names = await filled(lender)
    await lender.remember("Call Ana on +351 912 345 678.", tags=["website"])
    await lender.remember("Nobody's business.", tags=["private"])
    await grantee.given(label=["website"], export=True)
    answer = await grantee.asks("POST", EXPORT, {})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    found = items(answer.content)
    assert set(names) < {item["item_id"] for item in found}
    texts = {item["content"]["text"] for item in found}
    assert "Nobody's business." not in texts
    assert any("[phone]" in text for text in texts), "what a query masks is masked here too"
    assert all({"integrity", "provenance_tags"} <= item.keys() for item in found)
    assert set(unpacked(answer.content)) == {
        *("items.jsonl", "relations.jsonl", "tombstones.jsonl", "manifest.json", "signature.json")
    }
    receipts = (await lender(LIST_RECEIPTS, verify=True)).receipts
    told = manifest(answer.content)["grant"]
    assert told["receipts"] == [receipts[-1].id]
    assert told["projection_applied"]["trust_level"] == 1
    assert (receipts[-1].agent, receipts[-1].body["action_id"]) == (grantee.did, "memory_export")
    opened = read(answer.content, known=lambda kid: lender.sharing.host.keyring.key("default", kid))
    assert (opened.signature, opened.owner) == ("valid", lender.owner)
    again = await grantee.sees()
    assert again["grant"]["items_disclosed"] == 4, "they count once"


@requirement("oap:export.grant")
async def test_a_file_holds_no_salts_though_nothing_was_taken_away(grantee: Grantee) -> None:
    await filled(grantee.lender, 1)
    await grantee.given(export=True, level=4)
    (shown,) = (await grantee.sees())["items"]
    assert "salt" in shown["integrity"]
    (item,) = items((await grantee.asks("POST", EXPORT, {})).content)
    assert "salt" not in item["integrity"]
    assert item["content"] == shown["content"]


@requirement("oap:export.grant")
async def test_an_export_needs_its_scope_and_room(grantee: Grantee) -> None:
    lender = grantee.lender
    await filled(lender)
    await grantee.given()
    assert reason(await grantee.asks("POST", EXPORT, {})) == (403, "scope_missing")
    await grantee.given(export=True, max_items=2)
    assert reason(await grantee.asks("POST", EXPORT, {"since": "1"})) == (400, "bad_value")
    assert reason(await grantee.asks("POST", EXPORT, {"format": "mem0"})) == (400, "unknown_format")
    assert reason(await grantee.asks("POST", EXPORT, {"include": {"logs": True}})) == (403, "scope_missing")
    assert reason(await grantee.asks("POST", EXPORT, {"planted": 1})) == (400, "unknown_member")
    assert len(items((await grantee.asks("POST", EXPORT, {})).content)) == 2
    assert reason(await grantee.asks("POST", EXPORT, {})) == (403, "cap_reached")
    answer = await lender.http("POST", f"{lender.url}{EXPORT}", content=b"{}")
    assert answer.status_code == 401, "neither owner nor grantee"


@requirement("oap:export.grant")
async def test_a_large_slice_is_shown_stretch_by_stretch_and_each_is_on_receipt(
    grantee: Grantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grant_exports, "_STRETCH", 2)
    names = await filled(grantee.lender, 5)
    await grantee.given(export=True)
    answer = await grantee.asks("POST", EXPORT, {})
    assert [item["item_id"] for item in items(answer.content)] == sorted(names)
    told = manifest(answer.content)["grant"]["receipts"]
    listed = await grantee.lender(LIST_RECEIPTS, verify=True)
    assert told == [one.id for one in listed.receipts if one.type == "invocation"]
    assert (len(told), listed.faults) == (3, ())
    logs = await grantee.lender.container.ledger.page(ITEM_LOG, "default")
    assert sorted(one.record_id for one in logs) == sorted(names)


@requirement("oap:export.grant")
async def test_what_is_erased_while_it_is_shown_is_not_in_the_file(
    grantee: Grantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grant_exports, "_STRETCH", 1)
    lender = grantee.lender
    names = await filled(lender, 2)
    await grantee.given(export=True)
    disclosed, shown = GrantQueries.disclosed, 0

    async def erasing(self: GrantQueries, page: Any) -> Any:
        nonlocal shown
        answer = await disclosed(self, page)
        shown += 1
        assert answer is not None
        if shown == 1:
            (item,) = answer.output["items"]
            await lender(FORGET, ids=[item["item_id"]], hard_delete=True)
        return answer

    monkeypatch.setattr(GrantQueries, "disclosed", erasing)
    answer = await grantee.asks("POST", EXPORT, {})
    assert answer.status_code == 200, answer.text
    assert len(items(answer.content)) == 1
    assert len(names) == 2


@requirement("oap:export.grant")
async def test_a_file_that_is_being_sent_breaks_off_when_the_grant_is_taken_back(
    grantee: Grantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quipu.transfer.exports._PIECE", 64)
    lender = grantee.lender
    await filled(lender)
    shared = await grantee.given(export=True)
    use = await lender.sharing.admission.admit(await _shown(grantee), is_used_later=True)
    ctx = lender.container.context(_nobody(grantee.did))
    parts = dispatch_stream(
        GrantContext(ctx.principal, ctx.clock, ctx.services, use=use), EXPORT_GRANT, {"body": {}}
    )
    await anext(parts)
    assert (await anext(parts)).data
    await lender(REVOKE_GRANT, id=shared.grant_id)
    with pytest.raises(QuipuError) as refused:
        await anext(parts)
    assert refused.value.reason == "grant_revoked"


async def _shown(grantee: Grantee) -> Any:
    token, url = await grantee.token(), f"{grantee.lender.url}{EXPORT}"
    made = proof(grantee.by, "POST", url, grantee.lender.clock(), token)
    return Shown(scheme="dpop", token=token, proof=made, method="POST", url=url)


def _nobody(name: str) -> Any:
    return Principal(tenant="default", name=name, permissions=frozenset(), agents=())


# -- the owner --------------------------------------------------------------------------------------------------------


@requirement("oap:export.owner")
async def test_an_owner_takes_a_part_of_memory_along_in_oap_s_words(grantee: Grantee) -> None:
    lender = grantee.lender
    names = await filled(lender)
    await lender.remember("The cat is called Tom.", tags=["home"])
    answer = await by_owner(lender, {"filter": {"labels_any": ["website"]}})
    assert answer.status_code == 200, answer.text
    found = read(answer.content, known=lambda kid: lender.sharing.host.keyring.key("default", kid))
    assert found.signature == "valid"
    assert [item["item_id"] for item in good(found.items())] == sorted(names)
    assert json.loads(answer.headers["quipu-report"])["items"] == 3
    whole = await by_owner(lender, {"include": {"receipts": True}})
    assert len(items(whole.content)) == 4
    (receipt,) = [json.loads(line) for line in unpacked(whole.content)["receipts.jsonl"].splitlines()]
    assert (receipt["action_id"], receipt["agent_did"]) == ("memory_export", lender.owner)
    mem0 = await by_owner(lender, {"format": "mem0"})
    assert len(mem0.json()["results"]) == 4
    assert reason(await by_owner(lender, {"format": "pam"})) == (400, "unknown_format")
    assert reason(await by_owner(lender, {"filter": {"planted": 1}})) == (400, "unknown_member")


@requirement("oap:export.owner")
async def test_the_memory_manifest_names_the_formats(grantee: Grantee) -> None:
    answer = await grantee.lender.http("GET", f"{grantee.lender.url}/.well-known/oap-memory.json")
    assert answer.json()["export_formats"] == ["quipu-bundle-v1", "mem0", "letta-blocks"]
    assert answer.json()["endpoints"]["export"] == f"{grantee.lender.url}{EXPORT}"
