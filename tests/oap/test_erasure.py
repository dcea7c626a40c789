"""Erasure: gone here, gone there, with receipts, and the chain still whole (contract 9)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.crypto.canonical import canonical
from quipu.model.disclosure import CascadeStatus, ErasureStep, LogKind, Question, Writes
from quipu.model.operations import CreateStoreRequest, ForgetRequest
from quipu.rules import receipts
from tests.faces.serving import served
from tests.oap.hosts import OWNER, Host, embedder, free_port, pair
from tests.requirement import requirement

SECRET = "zyxwvutsrq"  # noqa: S105  a word to look for, no password


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path, embedder=embedder()) as both:
        yield both


def lent(a: Host, b: Host, text: str = f"The word is {SECRET}.", **given: Any) -> tuple[str, str]:
    item_id = a.remember(text, tags=("website_redesign",), **given)
    grant_id = a.grant(b.owner, trust_level=4)
    assert SECRET in str(b.ask(a, grant_id).items)
    return item_id, grant_id


def erase(a: Host, **members: Any) -> httpx.Response:
    with a.at.client() as owner:
        return owner.post("/oap/data/delete", json={"principal_did": a.owner, **members})


def in_file(path: Path, text: str) -> bool:
    return any(
        text.encode() in file.read_bytes() for file in path.parent.glob(f"{path.name}*") if file.is_file()
    )


@requirement("oap:erasure.everywhere")
def test_an_item_is_gone_here_and_at_who_was_shown_it(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    a, b = hosts
    item_id, grant_id = lent(a, b)
    token = b.token(a, grant_id)
    answer = erase(a, item_ids=[item_id], reason="gdpr-art-17")
    assert answer.status_code == 200, answer.text
    receipt, report = (answer.json()["output"][name] for name in ("receipt", "report"))
    assert receipt["scope"]["items_deleted"] == 1
    assert receipt["scope"]["item_ids_digest"] == receipts.hashed([item_id], canonical)
    assert receipt["scope"]["subprocessors_propagated_to"] == [b.owner]
    assert receipt["scope"]["grants_affected"] == [grant_id]
    assert report["steps"][0]["receipt"]["tool_did"] == b.did
    assert b.at.do(b.sharing.borrowing.held(OWNER)) == []
    assert b.query(a, token).json()["output"]["items"] == []
    for path in (f"/oap/memory/item/{item_id}/log", f"/oap/memory/vec/{item_id}.bin"):
        url = f"{a.url}{path}"
        gone = httpx.get(url, headers={"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", url, token)})
        assert gone.status_code in (403, 404)
    versions = a.at.do(a.parts.ledger.versions("default", item_id))
    assert [version.is_emptied for version in versions] == [True]
    log = a.at.do(a.parts.ledger.lending.log("default", item_id, LogKind.STATE))
    assert [line.entry["op"] for line in log] == ["captured", "deleted"]
    assert receipts.log_faults([line.entry for line in log], canonical) == []
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []
    assert not a.at.do(a.at.service.audit.verify(OWNER)).faults
    chain = a.at.do(a.sharing.grants.receipts(OWNER))
    (deletion,) = [one for one in chain if one.type == "deletion"]
    assert deletion.body["output_hash"] == receipts.hashed(receipt, canonical)
    for host in ("a.db", "b.db"):
        assert not in_file(tmp_path / host, SECRET), host


@requirement("oap:erasure.hard-forget")
def test_a_hard_forget_reaches_grantees_too(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    item_id, _ = lent(a, b)
    request = ForgetRequest(agent_id="assistant", ids=(item_id,), hard_delete=True)
    a.at.do(a.at.service.forget(OWNER, request))
    assert b.at.do(b.sharing.borrowing.held(OWNER)) == []
    (erasure,) = a.at.do(a.sharing.erasing.list(OWNER))
    assert erasure.step is ErasureStep.DONE


def test_a_store_that_is_deleted_for_good_is_taken_back_from_grantees_too(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.at.do(a.at.service.stores.create(OWNER, CreateStoreRequest(name="attic")))
    lent(a, b, store="attic")
    assert a.at.do(a.at.service.stores.delete(OWNER, "attic", "attic", hard_delete=True)) == 1
    assert b.at.do(b.sharing.borrowing.held(OWNER)) == []
    (erasure,) = a.at.do(a.sharing.erasing.list(OWNER))
    assert erasure.step is ErasureStep.DONE


@requirement("oap:erasure.retried")
def test_a_grantee_that_is_away_is_told_when_it_is_back(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    moment = [1_800_000_000_000]
    common = {"oap_allowed_hosts": ",".join(urls), "clock": lambda: moment[0]}
    with served(tmp_path / "a.db", port=ports[0], public_url=urls[0], **common) as first:
        a = Host(first)
        with served(tmp_path / "b.db", port=ports[1], public_url=urls[1], **common) as second:
            b = Host(second)
            item_id, _ = lent(a, b)
            owner = b.owner
        answer = erase(a, item_ids=[item_id])
        assert answer.status_code == 202
        assert answer.json()["output"]["receipt"]["scope"]["subprocessors_propagated_to"] == []
        assert answer.json()["output"]["report"]["steps"][0]["status"] == "waiting"
        (step,) = first.do(a.parts.ledger.lending.cascade("default"))
        assert (step.attempts, step.next_at) == (1, moment[0] + 60_000)
        with served(tmp_path / "b.db", port=ports[1], public_url=urls[1], **common) as second:
            b = Host(second)
            assert b.owner == owner
            assert len(second.do(b.sharing.borrowing.held(OWNER))) == 1
            first.do(a.sharing.erasing.resume("default"))
            assert len(second.do(b.sharing.borrowing.held(OWNER))) == 1, "not before its time"
            moment[0] += 60_000
            first.do(a.sharing.erasing.resume("default"))
            assert second.do(b.sharing.borrowing.held(OWNER)) == []
        (step,) = first.do(a.parts.ledger.lending.cascade("default"))
        assert step.status is CascadeStatus.DONE
        (erasure,) = first.do(a.sharing.erasing.list(OWNER))
        assert erasure.step is ErasureStep.DONE
        kinds = [one.type for one in first.do(a.sharing.grants.receipts(OWNER))]
        assert kinds.count("deletion") == 1, "one receipt, however often it was tried"


@requirement("oap:erasure.resumed")
@pytest.mark.parametrize("crash", ["noted", "purged", "logged"])
def test_an_erasure_goes_on_after_a_crash_wherever_it_stopped(hosts: tuple[Host, Host], crash: str) -> None:
    a, b = hosts
    item_id, _ = lent(a, b)
    erasing = a.sharing.erasing
    request = {"ids": [item_id], "reason": "gdpr-art-17", "scope_id": None, "cascade": True, "actor": "local"}
    from quipu.model.disclosure import Erasure

    begun = Erasure(
        tenant="default", id="era_1", step=ErasureStep.ACCEPTED, requested_at=a.parts.clock(), request=request
    )

    async def stop_there() -> None:
        await a.parts.ledger.lending.decide("default", Question(), lambda _: Writes(erasure=begun))
        if crash in ("purged", "logged"):
            await erasing._purge(begun, (await a.parts.ledger.head("default")).seq)
        if crash == "logged":
            await erasing._log_deleted("default", [item_id])

    a.at.do(stop_there())
    a.at.do(erasing.resume("default"))
    (done,) = a.at.do(erasing.list(OWNER))
    assert done.step is ErasureStep.DONE
    assert b.at.do(b.sharing.borrowing.held(OWNER)) == []
    log = a.at.do(a.parts.ledger.lending.log("default", item_id, LogKind.STATE))
    assert [line.entry["op"] for line in log] == ["captured", "deleted"]


@requirement("oap:erasure.only-what-was-lent")
def test_nobody_is_made_to_delete_what_they_did_not_lend(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    item_id, grant_id = lent(a, b)
    url = f"{b.url}/oap/data/delete"
    body = {"principal_did": a.owner, "item_ids": [item_id], "provenance_tags": [f"grant:{grant_id}"]}
    assert httpx.post(url, json=body).status_code == 401
    keyring, jose = b.parts.lending.keyring, b.parts.lending.jose
    now = b.parts.clock() // 1000

    def sent(hand: receipts.Hand, **header: Any) -> int:
        text = jose.detached(canonical(body), {"iat": now, **header}, hand)
        return httpx.post(url, json=body, headers={"OAP-Signature": text}).status_code

    assert sent(keyring.hand(None)) == 403, "signed, but by a host that lent nothing: it gets no receipt"
    assert len(b.at.do(b.sharing.borrowing.held(OWNER))) == 1
    theirs = a.parts.lending.keyring.hand(None)
    assert sent(theirs, iat=now - 400) == 401, "too old"
    assert sent(replace(theirs, sign=keyring.hand(None).sign)) == 401, "signed with another key"
    assert len(b.at.do(b.sharing.borrowing.held(OWNER))) == 1
    assert sent(theirs) == 200
    assert b.at.do(b.sharing.borrowing.held(OWNER)) == []
    assert sent(theirs) == 200, "once more, where the answer got lost"


@requirement("oap:erasure.only-what-was-lent")
def test_an_owner_wants_back_by_themselves_what_their_host_has_lent(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    item_id, grant_id = lent(a, b)
    hand, now = a.parts.lending.keyring.hand(OWNER.tenant), b.parts.clock() // 1000
    whole = {"principal_did": a.owner, "item_ids": [item_id], "provenance_tags": [f"grant:{grant_id}"]}

    def sent(body: dict[str, Any]) -> httpx.Response:
        text = a.parts.lending.jose.detached(canonical(body), {"iat": now}, hand)
        return httpx.post(f"{b.url}/oap/data/delete", json=body, headers={"OAP-Signature": text})

    for odd in (
        {name: part for name, part in whole.items() if name != "principal_did"},
        {**whole, "principal_did": None},
        {**whole, "item_ids": [item_id, {"id": item_id}]},
    ):
        assert sent(odd).status_code == 400, odd
    assert len(b.at.do(b.sharing.borrowing.held(OWNER))) == 1
    receipt = sent({**whole, "reason": ["odd"]}).json()["output"]
    assert b.at.do(b.sharing.borrowing.held(OWNER)) == [], "what is put on receipt is true"
    assert (receipt["principal_did"], receipt["scope"]["provenance_tags"][0]) == (a.owner, "erased")


@requirement("oap:erasure.selectors")
def test_what_to_erase_is_chosen_in_one_way(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    kept = a.remember("Stays.", tags=("keep",))
    first = a.remember("By label.", tags=("drop",))
    a.remember("By scope.", scope_id="work")
    assert (
        erase(a, filter={"labels_any": ["drop"]}).json()["output"]["receipt"]["scope"]["items_deleted"] == 1
    )
    assert a.at.do(a.parts.ledger.read("default", [first]))[first].is_emptied
    assert erase(a, scope_id="work").json()["output"]["receipt"]["scope"]["items_deleted"] == 1
    assert not a.at.do(a.parts.ledger.read("default", [kept]))[kept].is_emptied
    for bad in (
        {"filter": {}},
        {"filter": {"labels_any": ["x"]}, "item_ids": ["y"]},
        {"item_ids": "x"},
        {"surprise": 1},
    ):
        assert erase(a, **bad).status_code == 400, bad
    with a.at.client() as owner:
        assert owner.post("/oap/data/delete", json={}).status_code == 400
        wrong = owner.post("/oap/data/delete", json={"principal_did": "did:web:somebody.example"})
        assert wrong.status_code == 404
    assert httpx.post(f"{a.url}/oap/data/delete", json={"principal_did": a.owner}).status_code == 401
    assert erase(a).json()["output"]["receipt"]["scope"]["items_deleted"] == 1, "everything that is left"


def test_receipts_cannot_be_taken_out_of_the_file(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    lent(*hosts)
    connection = sqlite3.connect(tmp_path / "a.db")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("DELETE FROM receipt")
    connection.close()
