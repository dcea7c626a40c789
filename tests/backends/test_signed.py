"""Signed hits: good, missing, by another key, replayed, altered, moved, old."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from quipu.backends.guarded import Patience
from quipu.backends.remote import make
from quipu.bootstrap import now_ms
from quipu.crypto.canonical import canonical
from quipu.crypto.keys import Ed25519Signer, verify
from quipu.ports.backend import Answer, NativeHit, Query, Routing, Setup
from quipu.rules import signed_hits
from quipu.testing.backend.shelf import ShelfBackend
from quipu.testing.embedders import WordEmbedder
from tests.backends.rig import mirror, rig
from tests.faces.serving import served
from tests.requirement import requirement


class Signing(ShelfBackend):
    """Signs what it finds, and may then change it."""

    def __init__(self, signer: Ed25519Signer) -> None:
        super().__init__()
        self.signer = signer
        self.twist: Callable[[tuple[NativeHit, ...]], tuple[NativeHit, ...]] = lambda hits: hits
        self.at: Callable[[], int] = now_ms
        self.last: tuple[NativeHit, ...] = ()

    async def search(self, query: Query, limit: int) -> Answer:
        answer = await super().search(query, limit)
        asked = signed_hits.Asked(audience=query.audience or "", query=query.text, nonce=query.nonce or "")
        hits = tuple(
            replace(hit, signature=self._signed(asked, rank, hit)) for rank, hit in enumerate(answer.hits)
        )
        twisted, self.last = self.twist(hits), hits
        return replace(answer, hits=twisted)

    def _signed(self, asked: signed_hits.Asked, rank: int, hit: NativeHit) -> str:
        stated = signed_hits.statement(
            asked, backend="shelf", rank=rank, id=hit.native_id, text=hit.text, at=self.at()
        )
        return signed_hits.signed(stated, self.signer.key_id, self.signer.sign, canonical)


@requirement("memorywire:router.signed")
async def test_only_what_was_signed_for_this_question_counts() -> None:
    signer = Ed25519Signer.fresh()
    shelf = Signing(signer)
    async with rig(mirror("shelf", shelf, keys=dict(signer.known_keys))) as rigged:
        for text in ("tea at noon", "tea at four"):
            await rigged.memory.remember(text)
        good = await rigged.memory.recall("tea", min_relevance=0)
        assert good.stores_queried == ("sqlite", "shelf")
        before = shelf.last
        for twist in (
            lambda hits: tuple(replace(hit, signature=None) for hit in hits),
            lambda hits: tuple(replace(hit, signature="x.y.z") for hit in hits),
            lambda hits: tuple(replace(hit, text=hit.text + "!") for hit in hits),
            lambda hits: hits[::-1],
            lambda hits: before,
        ):
            shelf.twist = twist
            answer = await rigged.memory.recall("tea", min_relevance=0)
            assert answer.extensions["stores_failed"] == [{"store": "shelf", "reason": "bad_signature"}]
            assert len(answer) == 2, "the ledger still answers"
        shelf.twist = lambda hits: hits
        shelf.at = lambda: now_ms() - 61_000
        assert (await rigged.memory.recall("tea")).stores_queried == ("sqlite",)
        shelf.at = now_ms
        shelf.signer = Ed25519Signer.fresh()
        assert (await rigged.memory.recall("tea")).stores_queried == ("sqlite",)


@requirement("memorywire:router.signed")
@pytest.mark.parametrize("token", [None, "", "a.b", "a.b.c.d", "e30.e30.e30", "e30.W10.x", "é.é.é"])
def test_what_is_no_signature_is_no_failure(token: str | None) -> None:
    asked = signed_hits.Asked(audience="a", query="q", nonce="n")
    assert not signed_hits.is_signed(
        token, asked, rank=0, id="i", text="t", now=0, verify=lambda message, signature: True
    )


MACHINE = {
    "name": "tea round",
    "states": ["open", "sent"],
    "initial": "open",
    "transitions": [{"trigger": "send", "source": "open", "dest": "sent"}],
}


@requirement("memorywire:router.signs")
@pytest.mark.parametrize(("signs", "is_right_key"), [(True, True), (True, False), (False, True)])
async def test_a_quipu_signs_its_hits_for_the_quipu_above_it(
    signs: bool, is_right_key: bool, tmp_path: Path
) -> None:
    patience = Patience(open_s=20.0, search_s=20.0, effect_s=20.0, health_s=20.0)
    store = tmp_path / "other.db"
    with served(store, embedder=WordEmbedder(), rate_per_minute=0, recall_sign_hits=signs) as server:
        with server.client() as ask:
            keys = ask.get("/quipu/v1/keys").json()
        url = server.url.replace("http://", f"quipu+http://:{server.admin_token}@")
        other = make(Setup(name="other", url=url, scheme="quipu+http", folder=tmp_path))
        known = keys if is_right_key else dict(Ed25519Signer.fresh().known_keys)
        async with rig(
            mirror("other", other, patience=patience, keys=known),
            routing=Routing(write_deadline_ms=20_000, deadline_ms=20_000),
        ) as rigged:
            await rigged.memory.create_store("work")
            for place in (
                "main",
                "work",
            ):  # each is an agent of its own over there, so two answers are joined
                for text in ("tea at noon", "tea at four"):
                    await rigged.memory.remember(text, store=place)
            await rigged.memory.remember(MACHINE, type="procedural")
            answer = await rigged.memory.recall("tea open", min_relevance=0, k=10)
            believed = ("sqlite", "other") if signs and is_right_key else ("sqlite",)
            assert answer.stores_queried == believed, answer.extensions["stores_failed"]
            assert len(answer) == 5
            if not (signs and is_right_key):
                assert answer.extensions["stores_failed"] == [{"store": "other", "reason": "bad_signature"}]


@requirement("memorywire:router.signs")
def test_only_who_sends_a_nonce_gets_signatures(tmp_path: Path) -> None:
    def recalled(ask: httpx.Client, **headers: str) -> httpx.Response:
        asked = {"agent_id": "ana", "query": "tea", "min_relevance": 0}
        return ask.post("/memorywire/v0/recall", json=asked, headers=headers)

    with served(tmp_path / "a.db", recall_sign_hits=True) as server, server.client() as ask:
        ask.post("/memorywire/v0/remember", json={"agent_id": "ana", "type": "semantic", "content": "tea"})
        assert "signature" not in recalled(ask).json()["results"][0]
        nonce = {"Quipu-Nonce": "n1", "Quipu-Audience": "above"}
        (hit,) = recalled(ask, **nonce).json()["results"]
        (key_id, _), *_ = keys = list(ask.get("/quipu/v1/keys").json().items())
        for asked, is_good in (("above", True), ("elsewhere", False)):
            assert is_good == signed_hits.is_signed(
                hit["signature"],
                signed_hits.Asked(audience=asked, query="tea", nonce="n1"),
                rank=0,
                id=hit["id"],
                text="tea",
                now=now_ms(),
                verify=lambda message, signature: verify(message, key_id, signature, dict(keys)),
            )
        assert recalled(ask, **{"Quipu-Nonce": "n" * 129}).status_code == 400
