"""What lending keeps between two queries outlives no revocation, no change of keys or of trust, and no erasure."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quipu import bootstrap
from quipu.config import Config
from quipu.errors import QuipuError, UnauthenticatedError
from quipu.model.disclosure import LogKind
from quipu.model.operations import RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.rules import receipts
from quipu.rules.grants import parsed_query
from quipu.service.disclosing_answers import Answered
from quipu.service.lending_callers import Shown
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement

HOST = "https://memory.example"
OWNER = local()
GRANTEE = "grantee"


class Lender:
    """A host that lends, in this process, and the one who borrows from it."""

    def __init__(self, running: Any) -> None:
        self.running, self.service, self.parts = running, running.service, running.parts
        self.sharing = running.service.sharing

    async def remember(self, text: str, **members: Any) -> str:
        given = {"agent_id": "ana", "type": MemoryType.SEMANTIC, "tags": ("lent",), **members}
        return (await self.service.remember(OWNER, RememberRequest(content=text, **given))).id

    async def grant(self, **members: Any) -> tuple[str, str]:
        """A grant and a token for it."""
        grantee = self.parts.lending.keyring.did(GRANTEE)
        draft = {"grantee": grantee, "purpose": "test", "filter": {"labels_any": ["lent"]}, "trust_level": 4}
        kept = await self.sharing.grants.issue(OWNER, {**draft, **members})
        url = f"{HOST}/oap/memory/grant/{kept.id}/token"
        proof = self.sharing.borrowing.proof(GRANTEE, "POST", url, None)
        shown = Shown(scheme="", token="", proof=proof, method="POST", url=url)
        return kept.id, (await self.sharing.doors.mint(kept.id, shown))["access_token"]

    def shown(self, token: str) -> Shown:
        url = f"{HOST}/oap/memory/query"
        proof = self.sharing.borrowing.proof(GRANTEE, "POST", url, token)
        return Shown(scheme="DPoP", token=token, proof=proof, method="POST", url=url)

    async def query(self, token: str, text: str = "deadline", **members: Any) -> Answered:
        return await self.asked(self.shown(token), text, **members)

    async def asked(self, shown: Shown, text: str = "deadline", **members: Any) -> Answered:
        lent = await self.sharing.doors.lent(shown, is_read_later=True)
        return await self.sharing.disclosing.query(lent, parsed_query({"query": text, **members}))

    async def refusal(self, token: str) -> str | None:
        with pytest.raises(QuipuError) as caught:
            await self.query(token)
        return caught.value.reason


@pytest.fixture
async def lender(tmp_path: Path) -> AsyncIterator[Lender]:
    config = Config(store_url=f"sqlite://{tmp_path}/a.db", public_url=HOST, oap_queries_per_minute=100_000)
    running = await bootstrap.start(config, embedder=WordEmbedder())
    for tenant in ("default", GRANTEE):
        await running.parts.ledger.open(tenant)
    yield Lender(running)
    await running.close()


def texts(answer: Answered) -> list[str | None]:
    return [item["content"].get("text") for item in answer.output["items"]]


def signers(answer: Answered) -> set[str]:
    return {item["integrity"]["signature"]["kid"] for item in answer.output["items"]}


@requirement("oap:query.cost")
async def test_a_token_that_was_good_is_not_after_its_grant_was_revoked(lender: Lender) -> None:
    await lender.remember("The deadline is in May.")
    grant, token = await lender.grant()
    _, other = await lender.grant()
    for _ in range(2):
        assert texts(await lender.query(token)) == ["The deadline is in May."]
    await lender.query(other)
    await lender.sharing.grants.revoke(OWNER, grant)
    assert await lender.refusal(token) == "grant_revoked"
    assert texts(await lender.query(other)) == ["The deadline is in May."]


@requirement("oap:query.cost")
async def test_a_proof_is_good_once_though_all_it_says_is_known(lender: Lender) -> None:
    _, token = await lender.grant()
    shown = lender.shown(token)
    await lender.asked(shown)
    with pytest.raises(UnauthenticatedError) as caught:
        await lender.asked(shown)
    assert caught.value.reason == "binding_failed"
    fresh = lender.shown(token)
    head, _, _ = str(fresh.proof).rpartition(".")
    with pytest.raises(UnauthenticatedError):
        await lender.asked(dataclasses.replace(fresh, proof=f"{head}.{'A' * 86}"))
    await lender.asked(fresh)


@requirement("oap:query.cost")
@pytest.mark.parametrize("is_compromised", [False, True])
async def test_a_new_key_of_the_host_signs_at_once_and_a_stolen_one_counts_no_more(
    lender: Lender, is_compromised: bool
) -> None:
    await lender.remember("The deadline is in May.")
    _, token = await lender.grant()
    before = await lender.query(token)
    fresh = lender.sharing.rotate(OWNER, host=True, is_compromised=is_compromised)
    if is_compromised:
        assert await lender.refusal(token) == "bad_token"
        _, token = await lender.grant()
    after = await lender.query(token)
    assert signers(after) == {fresh} != signers(before)
    (*_, last) = await lender.sharing.grants.receipts(OWNER)
    assert [one["by"] for one in last.body["signatures"]] == [fresh]


@requirement("oap:query.cost")
async def test_a_stolen_key_of_the_owner_suspends_what_it_signed(lender: Lender) -> None:
    _, token = await lender.grant()
    await lender.query(token)
    lender.sharing.rotate(OWNER, is_compromised=True)
    assert await lender.refusal(token) == "grant_suspended"


@requirement("oap:query.cost")
async def test_less_is_shown_at_once_where_the_host_trusts_less(lender: Lender) -> None:
    await lender.remember("The deadline is in May.", metadata={"structured": {"topic": "deadline"}})
    _, token = await lender.grant()
    assert texts(await lender.query(token)) == ["The deadline is in May."]
    own = lender.parts.lending
    # Frozen, and the same for as long as a host runs: what is kept must not rely on that.
    object.__setattr__(own, "limits", dataclasses.replace(own.limits, ceiling=1))
    answer = await lender.query(token)
    assert texts(answer) == ["topic: deadline"]
    assert "May" not in str(answer.output)
    assert answer.output["projection_applied"]["trust_level"] == 1


@requirement("oap:query.cost")
async def test_nothing_of_what_was_erased_stays_in_memory(lender: Lender) -> None:
    gone = await lender.remember("The deadline is in May, says Zebulon.")
    await lender.remember("The other deadline is in June.")
    _, token = await lender.grant()
    assert len(texts(await lender.query(token))) == 2
    owner = lender.sharing.identity(OWNER)["owner"]
    await lender.sharing.erasing.erase(OWNER, {"principal_did": owner, "item_ids": [gone], "cascade": False})
    disclosing = lender.sharing.disclosing
    assert not disclosing.views._grants
    assert not disclosing.views._views
    assert not disclosing._proofs._blocks
    assert texts(await lender.query(token)) == ["The other deadline is in June."]


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "nothing found": {"query": "zebra"},
    "listing": {"query": ""},
    "with vectors": {"include_embeddings": True},
    "with proofs": {"include_proofs": True},
    "a page": {"max_results": 1},
}


@requirement("oap:query.cost")
@pytest.mark.parametrize("level", [0, 1, 3, 4])
@pytest.mark.parametrize("case", CASES)
async def test_a_receipt_hashes_the_very_output(lender: Lender, case: str, level: int) -> None:
    await lender.remember("The deadline é 日本 \U0001f600 \u2028 is in May.", confidence=0.3)
    await lender.remember(
        "A deadline.",
        metadata={"structured": {"topic": "deadline", "größe": 1.5, "n": 1e22}, "own": [1.0, None]},
    )
    scopes = ["memory.query", "memory.embeddings"]
    _, token = await lender.grant(trust_level=level, scopes=scopes)
    canonical = lender.parts.canonical
    for asked in (CASES[case], CASES[case], {}):  # spelt anew, then as kept, then without what was added
        given = {"query": "deadline", **asked}
        answer = await lender.query(token, given.pop("query"), **given)
        (*_, last) = await lender.sharing.grants.receipts(OWNER)
        hashed = receipts.hashed({"output": answer.output, "salt": answer.receipt["output_salt"]}, canonical)
        assert last.body["output_hash"] == hashed
        for item in answer.output["items"]:
            for line in await lender.parts.ledger.lending.log("default", item["item_id"], LogKind.DISCLOSED):
                assert line.hash == receipts.hashed(line.entry, canonical)
    assert await lender.sharing.grants.verify(OWNER) == []
