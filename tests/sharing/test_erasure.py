"""An erasure here: chosen in one way, gone with all that came of it, in one transaction, on receipt."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import InvalidError, NotFoundError
from quipu.governance.operations import LIST_REVIEWS
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import CREATE_STORE, DELETE_STORE, FORGET, MERGE, REMEMBER
from quipu.sharing import operations as ops
from quipu.sharing import receipts
from quipu.sharing.erasures import Erasures
from quipu.sharing.grants import operations as grant_ops
from quipu.sharing.grants.query import GrantQueries
from quipu.sharing.model import ERASURES, GRANTS, ITEM_LOG, RECEIPTS
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, log_faults
from tests.sharing.network import Host

WORD = "zyxwvutsrq"


async def is_there(host: Host, record_id: str) -> bool:
    newest = await host.container.ledger.newest_versions("default", [record_id])
    return not newest[record_id].is_emptied


async def there(host: Host, *record_ids: str) -> list[bool]:
    return [await is_there(host, name) for name in record_ids]


async def log_of(host: Host, record_id: str) -> list[str]:
    rows = await host.container.ledger.page(ITEM_LOG, "default", {"record_id": record_id})
    assert log_faults([row.entry for row in rows]) == []
    return [row.entry["op"] for row in rows]


def holds(folder: Path, name: str, text: str) -> bool:
    return any(text.encode() in file.read_bytes() for file in folder.glob(f"{name}*") if file.is_file())


@requirement("oap:erasure.everywhere")
async def test_what_is_erased_is_gone_with_its_log_ended_and_a_receipt(
    grantee: Grantee, tmp_path: Path
) -> None:
    lender = grantee.lender
    record_id = await lender.remember(f"The word is {WORD}.")
    shared = await grantee.given(level=4)
    assert WORD in str(await grantee.sees("word"))
    done = await lender(ops.ERASE, ids=[record_id], reason="gdpr-art-17")
    assert done.ids == (record_id,)
    assert (await grantee.sees("word"))["items"] == []
    assert not await is_there(lender, record_id)
    assert await log_of(lender, record_id) == ["captured", "deleted"]
    receipt = done.erasure.receipt
    assert receipt["scope"]["items_deleted"] == 1
    assert receipt["scope"]["item_ids_digest"] == receipts.hashed([record_id])
    assert receipt["scope"]["grants_affected"] == [shared.grant_id]
    assert receipt["principal_did"] == lender.owner
    (chained,) = [
        row for row in await lender.container.ledger.page(RECEIPTS, "default") if row.type == "deletion"
    ]
    assert chained.body["output_hash"] == receipts.hashed(receipt)
    assert (await lender(grant_ops.LIST_RECEIPTS, verify=True)).faults == ()
    assert not holds(tmp_path, "memory.example.db", WORD)
    again = await lender(ops.ERASE, ids=[record_id])
    assert (again.ids, again.erasure.step) == ((), "done"), "once more, where the answer got lost"
    _, listed = (await lender(ops.LIST_ERASURES)).erasures
    assert (listed.id, listed.receipt, listed.erased) == (done.erasure.id, receipt, 1)


@requirement("oap:erasure.one-transaction")
async def test_erasing_ending_logs_and_noting_whom_to_tell_are_one_commit(grantee: Grantee) -> None:
    lender = grantee.lender
    record_id = await lender.remember("The website is green.")
    await grantee.given()
    await grantee.sees()
    before = (await lender.container.ledger.head("default")).seq
    await lender(ops.ERASE, ids=[record_id])
    first, second = await lender.container.ledger.entries("default", JournalQuery(after=before))
    assert (first.op, first.detail["erased"]) == ("erase", [record_id])
    side: Any = first.detail["side"]
    assert sorted(table for table, _, _ in side) == ["cascade_step", "erasure", "item_log"]
    assert second.op == "cascade"


async def test_a_dry_run_names_what_would_go_and_changes_nothing(host: Host) -> None:
    kept, gone = await host.remember("Stays."), await host.remember("Goes.", tags=["drop"])
    before = await host.container.ledger.head("default")
    tried = await host(ops.ERASE, filter={"labels_any": ["drop"]}, dry_run=True)
    assert (tried.ids, tried.dry_run, tried.erasure) == ((gone,), True, None)
    assert await there(host, kept, gone) == [True, True]
    assert await host.container.ledger.head("default") == before


@requirement("oap:erasure.selectors")
async def test_what_to_erase_is_chosen_in_one_way(host: Host) -> None:
    kept = await host.remember("Stays.", tags=["keep"])
    by_label = await host.remember("By label.", tags=["drop"])
    at_work = await host.remember("At work.", scope_id="work", tags=["drop"])
    other = await host.remember("At work too.", scope_id="work")
    chosen = await host(ops.ERASE, filter={"labels_any": ["drop"]}, scope_id="work")
    assert chosen.ids == (at_work,)
    assert (await host(ops.ERASE, filter={"labels_any": ["drop"]})).ids == (by_label,)
    assert (await host(ops.ERASE, scope_id="work")).ids == (other,)
    for bad in (
        {},
        {"filter": {}},
        {"filter": {"as_of": "2026-01-01T00:00:00Z"}},
        {"filter": {"labels_any": ["x"]}, "ids": ["y"]},
        {"all": True, "scope_id": "work"},
        {"grant_id": "mgr_1", "all": True},
        {"ids": []},
    ):
        with pytest.raises(InvalidError):
            await host(ops.ERASE, **bad)
    assert await is_there(host, kept)
    assert (await host(ops.ERASE, all=True)).ids == (kept,)


@requirement("oap:erasure.selectors")
async def test_a_grant_chooses_what_it_has_shown_and_nothing_else(grantee: Grantee) -> None:
    lender = grantee.lender
    kept = await lender.remember("Nobody was shown this.", tags=["own"])
    shown = await lender.remember("This was shown.", tags=["website"])
    shared = await grantee.given(label=["website"])
    await grantee.sees()
    for nothing in ({"grant_id": "mgr_unknown"}, {"ids": ["mem_unknown"]}):
        with pytest.raises(NotFoundError):
            await lender(ops.ERASE, **nothing)
    assert (await lender(ops.ERASE, grant_id=shared.grant_id)).ids == (shown,)
    assert await there(lender, kept, shown) == [True, False]


async def test_memories_are_erased_by_the_ids_that_others_know(grantee: Grantee) -> None:
    lender = grantee.lender
    record_id = await lender.remember("It came from elsewhere.", item_id="crm-42")
    await grantee.given()
    assert [item["item_id"] for item in (await grantee.sees())["items"]] == ["crm-42"]
    done = await lender(ops.ERASE, ids=["crm-42", "mem_nothing"])
    assert done.ids == (record_id,)
    assert done.erasure.receipt["scope"]["item_ids_digest"] == receipts.hashed(["crm-42"])


async def test_what_has_expired_or_was_forgotten_is_erased_too(host: Host) -> None:
    expired = await host.remember("Soon over.", expires_at="1d")
    forgotten = await host.remember("Not wanted.")
    await host(FORGET, ids=[forgotten])
    host.clock.now += 2 * 86_400_000
    assert sorted((await host(ops.ERASE, all=True)).ids) == sorted([expired, forgotten])
    assert await there(host, expired, forgotten) == [False, False]


@requirement("oap:erasure.derived")
async def test_what_was_made_of_a_memory_goes_with_it(host: Host) -> None:
    first = await host.remember("The word.")
    second = await host.remember("In short.", links=[{"to": first, "rel": "compacted_from"}])
    third = await host.remember("Shorter still.", links=[{"to": second, "rel": "derived_from"}])
    other = await host.remember("Something else.", links=[{"to": first, "rel": "related_to"}])
    await host(ops.ERASE, ids=[first])
    assert await there(host, first, second, third, other) == [False, False, False, True]


@requirement("oap:erasure.derived")
async def test_what_took_words_in_a_merge_goes_and_what_took_none_stays(host: Host) -> None:
    joined, left = await host.remember("The door is green."), await host.remember("The gate is red.")
    words, others = await host.remember("The word is blue."), await host.remember("The wall is white.")
    await host(MERGE, canonical=joined, duplicates=[words], strategy="merge_content")
    await host(MERGE, canonical=left, duplicates=[others], strategy="keep_canonical")
    done = await host(ops.ERASE, ids=[words, others])
    assert sorted(done.ids) == sorted([words, others, joined])
    assert await there(host, joined, left) == [False, True]


@requirement("oap:erasure.derived")
async def test_writes_that_wait_lose_their_words_with_the_memory_or_the_scope(
    host: Host, tmp_path: Path
) -> None:
    async def held(text: str, **fields: Any) -> str:
        answer = await host(REMEMBER, content=text, approval_required=True, **fields)
        return answer.approval_url.rpartition("/")[2]

    record_id = await host.remember("Something.")
    links = [{"to": record_id, "rel": "derived_from"}]
    made = await held("made-of-it", source="consolidation", links=links)
    at_work = await held("at-work", metadata={"scope_id": "work"})
    at_home = await held("at-home")

    async def waiting() -> set[str]:
        return {one.id for one in (await host(LIST_REVIEWS)).reviews}

    await host(ops.ERASE, ids=[record_id])
    assert await waiting() == {at_work, at_home}, made
    await host(ops.ERASE, scope_id="work")
    assert await waiting() == {at_home}
    await host(ops.ERASE, all=True)
    assert await waiting() == set()
    for text in ("made-of-it", "at-work", "at-home"):
        assert not holds(tmp_path, "memory.example.db", text)


@requirement("oap:erasure.derived")
async def test_what_is_made_of_it_between_the_look_and_the_erasure_goes_with_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_id = await host.remember("The word.")
    made: list[str] = []
    chosen = Erasures._chosen

    async def interrupted(self: Erasures, *given: Any) -> Any:
        found = await chosen(self, *given)
        if not made:
            links = [{"to": record_id, "rel": "derived_from"}]
            made.append(await host.remember("Made of the word.", source="consolidation", links=links))
        return found

    monkeypatch.setattr(Erasures, "_chosen", interrupted)
    done = await host(ops.ERASE, ids=[record_id])
    assert sorted(done.ids) == sorted([record_id, *made])
    assert done.erasure.receipt["scope"]["items_deleted"] == 2


@requirement("oap:erasure.one-transaction")
@pytest.mark.parametrize("times", [1, 9], ids=["once", "as often as it is looked for"])
async def test_an_answer_that_is_being_made_meanwhile_leaves_out_what_is_erased(
    grantee: Grantee, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    lender = grantee.lender
    gone = [await lender.remember(f"The word is number {number}.") for number in range(times)]
    kept = await lender.remember("The word that stays.")
    await grantee.given()
    disclosed, left = GrantQueries.disclosed, list(gone)

    async def interrupted(self: GrantQueries, page: Any) -> Any:
        if left:
            await lender(ops.ERASE, ids=[left.pop()])
        return await disclosed(self, page)

    monkeypatch.setattr(GrantQueries, "disclosed", interrupted)
    answer = await grantee.sees("word")
    erased = {name for name in gone if name not in left}
    assert kept in {item["item_id"] for item in answer["items"]}
    assert not erased & {item["item_id"] for item in answer["items"]}


async def test_erasures_at_once_of_the_same_memory_write_one_receipt_each_and_end_its_log_once(
    grantee: Grantee,
) -> None:
    lender = grantee.lender
    record_id = await lender.remember("The word.")
    await grantee.given()
    await grantee.sees()
    done = await asyncio.gather(*(lender(ops.ERASE, ids=[record_id]) for _ in range(4)))
    assert len({one.erasure.receipt["receipt_id"] for one in done}) == 4
    assert await log_of(lender, record_id) == ["captured", "deleted"]
    assert (await lender(grant_ops.LIST_RECEIPTS, verify=True)).faults == ()
    assert sum(len(one.erasure.grantees) for one in done) == 1, "told once"


@requirement("oap:erasure.followed")
async def test_a_hard_forget_and_a_deleted_store_are_followed(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender(CREATE_STORE, name="attic")
    forgotten = await lender.remember("Forgotten.")
    stored = await lender.remember("In the attic.", store="attic")
    unseen = await lender.remember("Nobody saw this.", scope_id="work")
    shared = await grantee.given()
    assert len((await grantee.sees())["items"]) == 2
    work = lender.sharing.erasures.work
    await work("default")
    assert (await lender(ops.LIST_ERASURES)).erasures == ()
    await lender(FORGET, ids=[forgotten, unseen], hard_delete=True)
    await work("default")
    (first,) = (await lender(ops.LIST_ERASURES)).erasures
    assert (first.erased, [one.grant_id for one in first.grantees]) == (1, [shared.grant_id])
    assert await log_of(lender, forgotten) == ["captured", "deleted"]
    await lender(DELETE_STORE, name="attic", confirm="attic", hard_delete=True)
    await work("default")
    assert len((await lender(ops.LIST_ERASURES)).erasures) == 2
    assert await log_of(lender, stored) == ["captured", "deleted"]
    await work("default")
    assert len((await lender(ops.LIST_ERASURES)).erasures) == 2, "once"
    assert (await lender(grant_ops.LIST_RECEIPTS, verify=True)).faults == ()


@requirement("oap:erasure.followed")
async def test_what_was_erased_while_no_server_ran_is_followed_by_the_next(
    grantee: Grantee,
) -> None:
    lender = grantee.lender
    record_id = await lender.remember("Forgotten.")
    await grantee.given()
    await grantee.sees()
    await lender(FORGET, ids=[record_id], hard_delete=True)
    await lender.sharing.erasures.work("default")  # its first look
    (erasure,) = (await lender(ops.LIST_ERASURES)).erasures
    assert erasure.reason == "erased"
    assert await log_of(lender, record_id) == ["captured", "deleted"]


async def test_who_shares_nothing_is_not_looked_at(host: Host) -> None:
    await host(FORGET, ids=[await host.remember("Forgotten.")], hard_delete=True)
    await host.sharing.erasures.work("default")
    assert await host.container.ledger.page(GRANTS, "default") == []
    assert await host.container.ledger.page(ERASURES, "default") == []


@requirement("oap:erasure.selectors")
async def test_the_owner_asks_at_oaps_address_too(grantee: Grantee) -> None:
    lender = grantee.lender
    token = await lender.token()
    asked = {"headers": {"Authorization": f"Bearer {token}", "Content-Type": "application/oap+json"}}

    async def delete(**body: Any) -> Any:
        return await lender.http("POST", "/oap/data/delete", json=body, **asked)

    record_id = await lender.remember("The word.")
    kept = await lender.remember("Stays.", scope_id="work")
    for bad, status, why, pointer in (
        ({"principal_did": None}, 400, "required", "/principal_did"),
        ({"principal_did": 7}, 400, "bad_value", "/principal_did"),
        ({"surprise": 1}, 400, "unknown_member", "/surprise"),
        ({"filter": None}, 400, "bad_value", "/filter"),
        ({"filter": {}}, 400, "required", "/filter"),
        ({"filter": {"as_of": "2026-01-01T00:00:00Z"}}, 400, "unknown_member", "/filter/as_of"),
        ({"item_ids": "x"}, 400, "bad_value", "/item_ids"),
        ({"item_ids": []}, 400, "bad_value", "/item_ids"),
        ({"item_ids": ["x", 7]}, 400, "bad_value", "/item_ids/1"),
        ({"item_ids": ["x"], "grant_id": "mgr_1"}, 400, "bad_value", "/grant_id"),
        ({"scope_id": ""}, 400, "bad_value", "/scope_id"),
        ({"reason": "x" * 300}, 413, "too_large", "/reason"),
        ({"cascade": "yes"}, 400, "bad_value", "/cascade"),
        ({"principal_did": "did:web:somebody.example"}, 404, "owner", "/principal_did"),
    ):
        answer = await delete(**{"principal_did": lender.owner, **bad})
        assert answer.status_code == status, (bad, answer.text)
        assert answer.json()["error"]["details"] == {"reason": why, "pointer": pointer}, bad
    done = await delete(principal_did=lender.owner, item_ids=[record_id], reason="gone")
    assert done.status_code == 200, done.text
    output = done.json()["output"]
    assert output["receipt"]["scope"]["items_deleted"] == 1
    assert output["report"]["root_receipt"] == output["receipt"]["receipt_id"]
    assert await there(lender, record_id, kept) == [False, True]
    whole = await delete(principal_did=lender.owner)
    assert whole.json()["output"]["receipt"]["scope"]["items_deleted"] == 1, "everything that is left"
    assert (await lender.http("POST", "/oap/data/delete", json={})).status_code == 401
