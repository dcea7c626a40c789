"""Asking a host that answers nonsense: it is told as such, and nothing of it is held (contract 8.5)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import QuipuError, TamperedError
from quipu.ports.keys import Answer
from quipu.rules import dids, receipts
from tests.oap.hosts import OWNER, Host, pair


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("odd")) as both:
        yield both


def answers(
    monkeypatch: pytest.MonkeyPatch, a: Host, b: Host, part: str, change: Any, *, signs: bool = True
) -> None:
    """B's peers see of A's answers at an address what `change` makes of them; A signs that, too."""
    peers = b.parts.lending.peers
    for name in ("get", "post"):
        sent = getattr(peers, name)

        async def changed(url: str, *given: Any, sent: Any = sent) -> Answer:
            answer: Answer = await sent(url, *given)
            if part not in url:
                return answer
            body = change(answer.members)
            if signs and isinstance(body, dict):
                hand = a.parts.lending.keyring.hand(None)
                rest = receipts.without(body, "signature")
                body = {**rest, "signature": receipts.signature(rest, hand, a.parts.canonical)}
            return replace(answer, body=body)

        monkeypatch.setattr(peers, name, changed)


def lent(a: Host, b: Host) -> str:
    a.remember("Anything.", tags=("website_redesign",))
    return a.grant(b.owner, trust_level=4)


ODD: dict[str, Any] = {
    "no output": lambda body: {**body, "output": 7},
    "no items": lambda body: {**body, "output": {"items": 7}},
    "an item that is none": lambda body: {**body, "output": {"items": ["x", None]}},
    "a ranking that is none": lambda body: {**body, "output": {**body["output"], "items": [], "ranking": 5}},
    "a receipt that is none": lambda body: {**body, "output": {"items": []}, "receipt": [1], "warnings": 3},
    "an item without an id": lambda body: {
        **body,
        "output": {"items": [{**body["output"]["items"][0], "item_id": None}]},
    },
    "nothing": lambda body: [],
}


@pytest.mark.parametrize("name", ODD)
def test_an_answer_that_is_none_is_refused_or_empty(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    a, b = hosts
    grant_id = lent(a, b)
    before = len(b.at.do(b.sharing.borrowing.held(OWNER)))
    answers(monkeypatch, a, b, "/memory/query", ODD[name])
    with contextlib.suppress(TamperedError):
        assert b.ask(a, grant_id).items == ()
    assert len(b.at.do(b.sharing.borrowing.held(OWNER))) == before


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("oap-memory.json", {"endpoints": [1]}),
        ("oap-memory.json", {"endpoints": {"query": "http://[::1", "grant": "http://[::1"}}),
        ("/token", {"token_type": "DPoP", "access_token": "x", "expires_in": "soon"}),
        ("/token", {"token_type": "DPoP", "access_token": "x", "expires_in": 10**400}),
        ("/memory/query", {"output": "\ud800", "signature": {"kid": "key-1", "value": "x"}}),
    ],
    ids=["no endpoints", "no address", "no time", "no end", "no Unicode"],
)
def test_a_document_or_a_token_that_is_none_is_an_error_of_theirs(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, part: str, body: dict[str, Any]
) -> None:
    a, b = hosts
    grant_id = lent(a, b)
    answers(monkeypatch, a, b, part, lambda _: body, signs=False)
    with pytest.raises(QuipuError) as refused:
        b.ask(a, grant_id)
    assert refused.value.code != "internal_error"


def test_what_a_revoked_key_of_a_host_has_signed_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pair(tmp_path) as (a, b):
        grant_id = lent(a, b)
        stolen = a.parts.lending.keyring.hand(None)
        assert b.ask(a, grant_id).items
        a.sharing.rotate(OWNER, host=True, is_compromised=True)
        b.sharing.borrowing._tokens.clear()
        assert b.ask(a, grant_id).items, "the new key is good"

        def by_thief(body: dict[str, Any]) -> dict[str, Any]:
            rest = {**receipts.without(body, "signature"), "warnings": ["all is well"]}
            return {**rest, "signature": receipts.signature(rest, stolen, a.parts.canonical)}

        answers(monkeypatch, a, b, "/memory/query", by_thief, signs=False)
        with pytest.raises(TamperedError):
            b.ask(a, grant_id)


def test_a_token_of_one_host_is_shown_to_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pair(tmp_path) as (a, b):
        grant_id = lent(a, b)
        b.ask(a, grant_id)
        place = b.at.do(b.sharing.borrowing._host(a.url))
        asked: list[str] = []
        peers = b.parts.lending.peers
        post = peers.post

        async def noted(url: str, *given: Any) -> Answer:
            asked.append(url)
            return await post(url, *given)

        monkeypatch.setattr(peers, "post", noted)
        b.at.do(b.sharing.borrowing._token("default", place, grant_id))
        assert asked == []
        elsewhere = replace(place, grant=place.grant.replace("/oap/", "/oap//"))
        with pytest.raises(QuipuError):
            b.at.do(b.sharing.borrowing._token("default", elsewhere, grant_id))
        assert len(asked) == 1, "the other one is asked for a token of its own"


def named(host: Host, change: Any) -> Any:
    """An answer whose one item is called something else, by a host that signs that, too."""

    def changed(body: dict[str, Any]) -> dict[str, Any]:
        (item,) = body["output"]["items"]
        item = {**item, "item_id": change}
        found = receipts.integrity_signed(item)
        assert found is not None
        hand = host.parts.lending.keyring.hand(None)
        block = {**item["integrity"]}
        block["state_hash"] = receipts.state_hash(item, block["salt"], host.parts.canonical)
        covered = {**found[0], "state_hash": block["state_hash"]}
        block["signature"] = receipts.signature(covered, hand, host.parts.canonical)
        return {**body, "output": {**body["output"], "items": [{**item, "integrity": block}]}}

    return changed


@pytest.mark.parametrize("name", ["", "mem_\0", "m" * 5000], ids=["nothing", "U+0000", "long"])
def test_an_item_of_a_name_that_not_every_ledger_keeps_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pair(tmp_path) as (a, b):
        grant_id = lent(a, b)
        with monkeypatch.context() as patch:
            answers(patch, a, b, "/memory/query", named(a, "mem_other"))
            assert b.ask(a, grant_id).items[0]["item_id"] == "mem_other"
        answers(monkeypatch, a, b, "/memory/query", named(a, name))
        with pytest.raises(TamperedError) as refused:
            b.ask(a, grant_id)
        assert refused.value.reason == "bad_proof"
        assert len(b.at.do(b.sharing.borrowing.held(OWNER))) == 1


def test_a_receipt_of_such_a_name_is_held_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pair(tmp_path) as (a, b):
        grant_id = lent(a, b)
        answers(monkeypatch, a, b, "/memory/query", lambda body: {**body, "receipt": {"receipt_id": "\0"}})
        assert b.ask(a, grant_id).items
        (held,) = b.at.do(b.sharing.borrowing.held(OWNER))
        assert held.receipt_id == ""


def test_a_host_does_not_go_by_a_key_that_it_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pair(tmp_path) as (a, b):
        grant_id = lent(a, b)
        somebody = dids.key_did(b"\1" * 32)
        said = json.dumps(a.parts.lending.keyring.document(None)).replace(f'"{a.did}', f'"{somebody}')

        def renamed(body: dict[str, Any]) -> dict[str, Any]:
            rest = {**receipts.without(body, "signature"), "output": {"items": []}}
            hand = a.parts.lending.keyring.hand(None)
            signature = receipts.signature(rest, hand, a.parts.canonical)
            return {**rest, "signature": {**signature, "kid": f"{somebody}#key-1"}}

        answers(monkeypatch, a, b, "did.json", lambda _: json.loads(said), signs=False)
        answers(monkeypatch, a, b, "/memory/query", renamed, signs=False)
        with pytest.raises(TamperedError) as refused:
            b.ask(a, grant_id)
        assert refused.value.reason == "bad_signature"
