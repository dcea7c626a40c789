"""What other hosts said is asked again when a clock that was ahead has been set right: nobody believes it for longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quipu.crypto.dids import FetchedDocuments, FileKeyring
from quipu.errors import BackendUnavailableError, UnauthenticatedError
from quipu.ports.keys import Answer
from quipu.testing.builders import FixedClock
from tests.oap.hosts import OWNER, Host, pair
from tests.requirement import requirement

DAY_MS = 24 * 3600 * 1000
DID = "did:web:peer.example"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


class Peer:
    """Another host, which answers with what it is told to."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}

    async def get(self, url: str, headers: Any = None) -> Answer:
        return Answer(status=200, body=self.said, headers={})


@requirement("oap:revocation.next-request")
def test_that_a_grant_counts_elsewhere_is_asked_again(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = hosts
    doors, peer, now = a.sharing.doors, Peer(), a.parts.clock()
    monkeypatch.setattr(a.parts.lending.peers, "get", peer.get)
    wanted = {
        "grantee": a.did,
        "purpose": "x",
        "filter": {"all": True},
        "grant_id": "mgr_there",
        "revocation_endpoint": "https://peer.example/status",
    }
    grant = a.sharing.grants.drafted(OWNER, wanted)
    peer.said = {"grant_id": "mgr_there", "status": "active"}
    a.at.do(doors._check_remote(grant, OWNER.tenant, now + DAY_MS))
    peer.said = {"grant_id": "mgr_there", "status": "revoked"}
    with pytest.raises(UnauthenticatedError, match="no longer valid"):
        a.at.do(doors._check_remote(grant, OWNER.tenant, now))


@requirement("oap:did.document")
async def test_a_document_is_fetched_again() -> None:
    peer, clock = Peer(), FixedClock()
    keyring = FileKeyring(None, "https://here.example")
    told: Any = peer
    documents = FetchedDocuments(keyring, told, clock, lambda host, path: f"https://{host}{path}")
    clock.move(DAY_MS)
    peer.said = {"id": DID, "verificationMethod": ["old"]}
    assert (await documents.document(DID))["verificationMethod"] == ["old"]
    peer.said = {"id": DID, "verificationMethod": ["new"]}
    assert (await documents.document(DID))["verificationMethod"] == ["old"], "it is kept for a while"
    clock.move(-DAY_MS)
    assert (await documents.document(DID))["verificationMethod"] == ["new"]


@requirement("oap:erasure.retried")
def test_who_is_to_be_told_of_an_erasure_does_not_wait_for_a_time_that_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FixedClock(1_800_000_000_000)
    with pair(tmp_path, clock=clock) as (a, b):
        name = a.remember("The word is zyxwv.", tags=("website_redesign",))
        assert b.ask(a, a.grant(b.owner, trust_level=4)).items
        clock.move(30 * DAY_MS)

        async def away(url: str, *given: Any) -> Answer:
            raise BackendUnavailableError("The other host does not answer.", reason="peer_unreachable")

        with monkeypatch.context() as patch:
            patch.setattr(a.parts.lending.peers, "post", away)
            a.at.do(a.sharing.erasing.erase(OWNER, {"principal_did": a.owner, "item_ids": [name]}))
        clock.move(-30 * DAY_MS)
        assert len(b.at.do(b.sharing.borrowing.held(OWNER))) == 1
        a.at.do(a.sharing.erasing.resume(OWNER.tenant))
        assert b.at.do(b.sharing.borrowing.held(OWNER)) == []


@requirement("oap:token.accepted")
def test_a_token_of_a_time_that_never_was_is_asked_for_again(tmp_path: Path) -> None:
    clock = FixedClock(1_800_000_000_000)
    with pair(tmp_path, clock=clock) as (a, b):
        a.remember("Anything.", tags=("website_redesign",))
        grant_id = a.grant(b.owner, trust_level=4)
        clock.move(DAY_MS)
        assert b.ask(a, grant_id).items
        clock.move(-DAY_MS)
        assert b.ask(a, grant_id).items
        a.at.do(a.sharing.grants.revoke(OWNER, grant_id))
        with pytest.raises(UnauthenticatedError) as refused:
            b.ask(a, grant_id)
        assert refused.value.reason == "grant_revoked"
