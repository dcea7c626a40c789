"""Whole memories over memory exchange: out for the owner and under a grant, in again, and what erasing does to it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from safetensors.numpy import load

from quipu.bootstrap.envelopes import envelope, new_identity
from quipu.errors import ConflictError
from quipu.model.access import Role
from quipu.model.moving import FileExport
from quipu.model.operations import Embedding
from quipu.rules.grants_times import rfc3339
from quipu.service.exporting import Exporting
from quipu.testing.builders import FixedClock
from tests.exchange.test_schemas import check_archive
from tests.oap.hosts import BRIEFING, OWNER, Host, pair
from tests.requirement import requirement

SCOPES = ["memory.query", "memory.export"]


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


def filled(a: Host, count: int = 3) -> list[str]:
    return [
        a.remember(f"Deadline {n} is in May.", tags=("website_redesign",), structured={"number": n})
        for n in range(count)
    ]


def under(a: Host, b: Host, token: str, body: dict[str, Any] | None = None) -> httpx.Response:
    url = f"{a.url}/oap/memory/export"
    headers = {"Authorization": f"DPoP {token}", "DPoP": b.proof("POST", url, token)}
    return httpx.post(url, json=body or {}, headers=headers, timeout=30)


def bundle(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        lines = archive.read("items.jsonl").splitlines()
        return json.loads(archive.read("manifest.json")), [json.loads(line) for line in lines]


def reason(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["details"]["reason"]


@requirement("oap:export.grant")
def test_an_export_under_a_grant_is_projected_logged_and_on_receipts(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    names = filled(a)
    a.remember("Nobody's business.", tags=("private",))
    grant = a.grant(b.owner, scopes=SCOPES, trust_level=1)
    answer = under(a, b, b.token(a, grant))
    assert answer.status_code == 200, answer.text
    manifest, items = bundle(answer.content)
    assert [item["item_id"] for item in items] == sorted(names)
    assert all("Deadline" not in json.dumps(item) for item in items), "level 1 shows no free text"
    assert all({"integrity", "provenance_tags"} <= item.keys() for item in items)
    chain = a.at.do(a.sharing.grants.receipts(OWNER))
    shown = manifest["grant"]["receipts"]
    assert [one["receipt_id"] for one in shown] == [chain[-1].id]
    assert chain[-1].body["action_id"] == "memory_export"
    for name in names:
        log = a.at.do(a.sharing.disclosing.own_log(OWNER, name))["disclosed"]
        assert [line["receipt_id"] for line in log] == [chain[-1].id]


@requirement("oap:export.grant")
def test_an_export_needs_its_scope_a_good_proof_and_room(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    filled(a)
    assert reason(under(a, b, b.token(a, a.grant(b.owner)))) == (403, "scope_missing")
    token = b.token(a, a.grant(b.owner, scopes=SCOPES, max_items=2))
    assert reason(under(a, b, token, {"since": "2026-01-01T00:00:00Z"})) == (400, "bad_value")
    assert reason(under(a, b, token, {"format": "mem0"})) == (400, "unknown_format")
    assert len(bundle(under(a, b, token).content)[1]) == 2
    assert reason(under(a, b, token)) == (403, "cap_reached")
    assert httpx.post(f"{a.url}/oap/memory/export", json={}).status_code == 401, "neither owner nor grantee"
    bound = a.at.do(a.at.service.tokens.issue(OWNER, name="bound", roles=(Role.ADMIN,), user_id="u1"))
    with a.at.client(bound.text) as client:
        assert client.post("/oap/memory/export", json={}).status_code == 403
        assert client.post("/oap/memory/import?agent_id=x", content=b"x").status_code == 403


@requirement("oap:export.owner")
@requirement("oap:import.migration")
def test_a_memory_moves_from_host_to_host_and_back_out(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    names = filled(a)
    a.remember("Of work.", scope_id="work")
    with a.at.client() as owner:
        taken = owner.post("/oap/memory/export", json={"scope_ids": ["personal"]})
    assert taken.status_code == 200, taken.text
    assert [item["item_id"] for item in bundle(taken.content)[1]] == sorted(names)
    assert a.at.do(a.sharing.grants.receipts(OWNER))[-1].body["action_id"] == "memory_export"
    with b.at.client() as owner:
        fields = {"agent_id": "assistant", "foreign_owner": "true"}
        where = "/oap/memory/import"
        tried = owner.post(where, files={"file": ("a.zip", taken.content)}, data=fields)
        assert tried.status_code == 200, tried.text
        report = tried.json()["output"]
        assert (report["dry_run"], report["read"], report["rejected"]) == (True, 3, [])
        again = owner.post(where, content=taken.content, params=fields).json()["output"]
        assert again["import_id"] == report["import_id"], "a form and a bare body say the same"
        done = owner.post(f"{where}/{report['import_id']}/commit").json()["output"]
        assert done["accepted"] + done["quarantined"] == 3
        last = b.at.do(b.sharing.grants.receipts(OWNER))[-1].body
        assert last["action_id"] == "memory_import"
        assert last["provenance_tags_out"][0].startswith("import:exp_")
        assert last["policy_decisions"][0]["old_head"] != last["policy_decisions"][0]["new_head"]
        undone = owner.post(f"{where}/{report['import_id']}/rollback", json={}).json()["output"]
        assert undone["forgotten"] + undone["withdrawn"] == 3


@requirement("oap:export.erased")
def test_what_is_erased_while_a_file_is_made_is_not_in_it(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    names = filled(a)
    token = b.token(a, a.grant(b.owner, scopes=SCOPES, trust_level=4))
    walked = Exporting.finished
    erased: list[str] = []

    async def interrupted(self: Exporting, *given: Any) -> Any:
        made = await walked(self, *given)
        if not erased:
            erased.append(names[0])
            request = {"principal_did": a.owner, "item_ids": [names[0]], "cascade": False}
            await a.sharing.erasing.erase(OWNER, request)
        return made

    monkeypatch.setattr(Exporting, "finished", interrupted)
    made = a.at.do(a.at.service.exporting.made(OWNER, FileExport()))
    found = [item["item_id"] for item in bundle(made.file.read())[1]]
    assert found == sorted(names[1:])
    made.close()
    monkeypatch.setattr(Exporting, "finished", walked)
    assert [item["item_id"] for item in bundle(under(a, b, token).content)[1]] == sorted(names[1:])


@requirement("oap:export.erased")
def test_a_file_that_is_being_sent_is_cut_off_by_an_erasure(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    names = filled(a)
    token = b.token(a, a.grant(b.owner, scopes=SCOPES))
    made = a.at.do(a.at.service.exporting.made(OWNER, FileExport()))
    a.at.do(made.check())
    request = {"principal_did": a.owner, "item_ids": [names[0]], "cascade": False}
    a.at.do(a.sharing.erasing.erase(OWNER, request))
    with pytest.raises(ConflictError):
        a.at.do(made.check())
    made.close()
    assert len(bundle(under(a, b, token).content)[1]) == 2


@requirement("moving:bundle.proofs")
def test_an_owner_takes_receipts_and_logs_along_and_a_grantee_does_not(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    names = filled(a)
    token = b.token(a, a.grant(b.owner, scopes=SCOPES, trust_level=4))
    assert under(a, b, token).status_code == 200
    with a.at.client() as owner:
        where = f"{a.url}/oap/memory/export"
        answer = owner.post(where, json={"include": {"receipts": True, "logs": True}})
        assert answer.status_code == 200, answer.text
        check_archive(answer.content)
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            receipts = [json.loads(line) for line in archive.read("receipts.jsonl").splitlines()]
            logs = [json.loads(line) for line in archive.read("logs.jsonl").splitlines()]
            told = json.loads(archive.read("manifest.json"))
        chain = a.at.do(a.sharing.grants.receipts(OWNER))
        assert receipts == [one.body for one in chain[: len(receipts)]], "in the order of the chain"
        assert len(chain) == len(receipts) + 1, "the export itself is on a receipt of its own"
        assert told["receipts_head"] == chain[-2].hash
        assert {line["item_id"] for line in logs} == set(names)
        for name in names:
            mine = [line for line in logs if line["item_id"] == name]
            assert [line["log"] for line in mine if line["op"] == "disclosed"] == ["disclosed"]
            assert [line["seq"] for line in mine if line["log"] == "state"] == sorted(
                line["seq"] for line in mine if line["log"] == "state"
            )
        assert b"Deadline" not in json.dumps([receipts, logs]).encode(), "neither has a word of content"
        plain = owner.post(where, json={})
        with zipfile.ZipFile(io.BytesIO(plain.content)) as archive:
            assert "logs.jsonl" not in archive.namelist()
        for wrong, pointer in (
            ({"include": {"embeddings": 1}}, "/include/embeddings"),
            ({"include": {"salts": True}}, "/include/salts"),
            ({"since": 5}, "/since"),
            ({"encrypt_to": 5}, "/encrypt_to"),
            ({"encrypt_to": "mara"}, "/encrypt_to"),
        ):
            answer = owner.post(where, json=wrong)
            assert answer.status_code == 400, answer.text
            assert pointer in answer.text
    for wrong, status in (
        ({"include": {"receipts": True}}, 403),
        ({"include": {"logs": True}}, 403),
        ({"include": {"grants": True}}, 403),
        ({"include": {"embeddings": True}}, 403),
        ({"since": "1"}, 400),
    ):
        assert under(a, b, token, wrong).status_code == status


@requirement("moving:bundle.grants")
@requirement("moving:bundle.vectors")
def test_grants_and_vectors_are_in_the_owner_s_copy_only(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = a.remember("Mara rows.", tags=("website_redesign",), embedding=Embedding("letters", [0.6, 0.8]))
    filled(a)
    grant, other = (a.grant(b.owner, scopes=SCOPES, trust_level=4) for _ in range(2))
    a.at.do(a.sharing.grants.revoke(OWNER, other))
    asked_for = {"granter": f"{a.owner}#personal", "purpose": "Redesign.", "filter": BRIEFING}
    b.at.do(b.sharing.borrowing.request(OWNER, a.url, asked_for))  # what was only asked for is no grant
    lent = under(a, b, b.token(a, grant))
    with zipfile.ZipFile(io.BytesIO(lent.content)) as archive:
        assert set(archive.namelist()) == {
            "items.jsonl", "relations.jsonl", "tombstones.jsonl", "manifest.json", "signature.json",
        }  # fmt: skip
    with a.at.client() as owner:
        for asked, has_grants in (
            ({"receipts": True}, True),
            ({"grants": True, "embeddings": True}, True),
            ({"receipts": True, "grants": False}, False),
            ({}, False),
        ):
            answer = owner.post(f"{a.url}/oap/memory/export", json={"include": asked})
            assert answer.status_code == 200, answer.text
            check_archive(answer.content)
            with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
                files = {name: archive.read(name) for name in archive.namelist()}
            assert ("grants.jsonl" in files) is has_grants
            assert ("vectors.safetensors" in files) is ("embeddings" in asked)
            if "embeddings" in asked:
                found = load(files["vectors.safetensors"])
                assert found.keys() == {name}
                assert found[name].tolist() == pytest.approx([0.6, 0.8])
            if has_grants:
                lines = [json.loads(line) for line in files["grants.jsonl"].splitlines()]
                told = {line["grant"]["grant_id"]: line["status"] for line in lines}
                assert told == {grant: "active", other: "revoked"}
                kept = {one.id: one for one in a.at.do(a.sharing.grants.list(OWNER))}
                assert all(line["grant"] == kept[line["grant"]["grant_id"]].body for line in lines)
                assert b"salt" not in files["grants.jsonl"]


@requirement("moving:bundle.sealed")
def test_what_is_lent_can_be_sealed_to_the_grantee(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    names = filled(a)
    token = b.token(a, a.grant(b.owner, scopes=SCOPES, trust_level=4))
    identity, recipient = new_identity()
    answer = under(a, b, token, {"encrypt_to": recipient})
    assert answer.status_code == 200, answer.text
    plain = io.BytesIO()
    envelope().open(io.BytesIO(answer.content), plain, identities=[identity])
    assert [item["item_id"] for item in bundle(plain.getvalue())[1]] == sorted(names)


@requirement("oap:export.owner")
def test_an_owner_s_copy_of_a_moment_holds_what_there_was_then(tmp_path: Any) -> None:
    clock = FixedClock(1_800_000_000_000)
    with pair(tmp_path, clock=clock) as (a, _):
        first = a.remember("Known then.")
        clock.move(10_000)
        a.remember("Known later.")
        with a.at.client() as owner:
            answer = owner.post("/oap/memory/export", json={"filter": {"as_of": rfc3339(clock() - 5_000)}})
            assert [item["item_id"] for item in bundle(answer.content)[1]] == [first]
            both = {"as_of": rfc3339(clock() - 5_000), "captured_after": rfc3339(clock())}
            assert bundle(owner.post("/oap/memory/export", json={"filter": both}).content)[1] == []
