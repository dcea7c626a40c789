"""Hits that are signed for whoever asks: by a memory, and checked by the mirror that asks it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.audit.keys import KeySigner
from quipu.errors import InvalidError
from quipu.memory.model import SignFor
from quipu.memory.recall.signed_hits import are_signed
from quipu.mirrors.memory_store import MemoryBackend
from quipu.mirrors.registry import adapter_at, addresses
from quipu.model.ids import now
from quipu.testing.embedders import WordEmbedder
from tests.conformance.conftest import opened
from tests.mirrors.rig import mirror, rig

FOR = SignFor(audience="above", nonce="n1")
MACHINE = {
    "name": "tea round",
    "states": ["open", "sent"],
    "initial": "open",
    "transitions": [{"trigger": "send", "source": "open", "dest": "sent"}],
}


async def hits_and_key() -> tuple[list[dict[str, Any]], str]:
    async with rig() as here:
        for text in ("tea at noon", "tea at four"):
            await here.memory.remember(text)
        await here.memory.remember(MACHINE, type="procedural")
        answer = await here.memory.recall("tea", min_relevance=0, sign_for=FOR)
        unasked = await here.memory.recall("tea", min_relevance=0)
        assert all(hit.signature is None for hit in unasked), "only who asks for signatures gets them"
        keys = (await here.memory.call("list_checkpoints")).keys
        (key,) = keys.values()
        return [hit.to_dict() for hit in answer], key


async def test_only_what_was_signed_for_this_question_counts() -> None:
    hits, key = await hits_and_key()
    assert len(hits) == 3

    def good(
        some: list[dict[str, Any]] = hits,
        asked: SignFor = FOR,
        query: str = "tea",
        at: int = 0,
        by: str = key,
    ) -> bool:
        return are_signed(some, asked, query, by, now() + at)

    assert good()
    assert good([])
    assert not good(query="gin")
    assert not good(asked=SignFor(audience="above", nonce="n2"))
    assert not good(asked=SignFor(audience="somebody else", nonce="n1"))
    assert not good(at=61_000)
    assert not good(at=-62_000)
    assert not good(by=KeySigner.fresh().public_key)
    assert not good(hits[::-1])
    assert not good(hits[1:])
    for change in ({"content": "gin"}, {"id": "mem_x"}, {"signature": None}, {"signature": "x.y.z"}):
        assert not good([{**hits[0], **change}, *hits[1:]])


@pytest.mark.parametrize("token", [None, 7, "", "a.b", "a.b.c.d", "e30.e30.e30", "e30.W10.x", "é.é.é"])
def test_what_is_no_signature_is_no_failure(token: Any) -> None:
    hit = {"id": "i", "content": "t", "signature": token}
    assert not are_signed([hit], FOR, "q", KeySigner.fresh().public_key, 0)


@pytest.mark.parametrize("is_right_key", [True, False])
async def test_a_quipu_signs_its_hits_for_the_quipu_above_it(is_right_key: bool, tmp_path: Path) -> None:
    async with opened(WordEmbedder(), str(tmp_path / "other.db")) as other:
        (key,) = (await _keys(other.memory())).values()
        known = key if is_right_key else KeySigner.fresh().public_key
        backend = MemoryBackend(other.remote(), is_ours=False, signed_by=known, clock=other.clock)
        async with rig(mirror("other", backend)) as here:
            await here.memory.create_store("work")
            for store in (
                "main",
                "work",
            ):  # each is an agent of its own over there, so two answers are joined
                await here.memory.remember("tea at noon", store=store)
                await here.memory.remember("tea at four", store=store)
            await here.memory.remember(MACHINE, type="procedural")
            answer = await here.memory.recall("tea open", min_relevance=0, k=10)
            assert len(answer) == 5, "the ledger answers in any case"
            failed = [(one.store, one.reason) for one in answer.stores_failed]
            assert failed == ([] if is_right_key else [("other", "bad_signature")])
            assert answer.stores_queried == (("sqlite", "other") if is_right_key else ("sqlite",))


async def _keys(memory: Any) -> dict[str, str]:
    await memory.remember("something", agent_id="somebody")
    await memory.call("sign_checkpoint")
    return (await memory.call("list_checkpoints")).keys


def test_a_key_stands_in_the_address_of_another_memory_and_nowhere_else(tmp_path: Path) -> None:
    key = KeySigner.fresh().public_key
    (place,) = addresses([f"https://h.example?signed_by={key}"])
    assert (place.signed_by, place.url) == (key, "https://h.example")
    for wrong in ("https://h.example?signed_by=hunter2", "https://h.example?signed_by="):
        with pytest.raises(InvalidError, match="no public key"):
            addresses([wrong])
    vendor = replace(place, scheme="shelf")
    with pytest.raises(InvalidError, match="another memory"):
        adapter_at(vendor, folder=tmp_path, open_memory=lambda *_, **__: None)  # type: ignore[arg-type]
