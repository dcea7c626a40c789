"""A grant's id is one owner's on a host: what is asked by the id alone is answered about that one (contract 5.4, D6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.errors import ConflictError, InvalidError
from quipu.ports.keys import Answer
from quipu.rules import grants_tokens as tokens
from quipu.rules.receipts import Hand
from tests.oap.hosts import OWNER, Host, pair
from tests.requirement import requirement

OTHER = replace(OWNER, tenant="alpha")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        both[0].at.do(both[0].at.service.open(OTHER.tenant))
        yield both


@requirement("oap:grant.refused")
def test_another_owner_s_grant_does_not_take_the_name_of_one(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id = a.grant(b.owner, trust_level=4)
    draft: dict[str, Any] = {
        "grantee": b.owner,
        "purpose": "x",
        "filter": {"all": True},
        "grant_id": grant_id,
    }
    with pytest.raises(ConflictError, match="another grant"):
        a.at.do(a.sharing.grants.issue(OTHER, draft))
    a.at.do(a.sharing.grants.revoke(OWNER, grant_id))
    assert a.at.do(a.sharing.grants.status(grant_id))["status"] == "revoked"


@requirement("oap:revocation.next-request")
def test_what_one_host_says_of_a_grant_is_not_said_of_another_s(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = hosts
    doors, grants = a.sharing.doors, a.sharing.grants
    good, bad = (
        grants.drafted(
            who,
            {
                "grantee": a.did,
                "purpose": "x",
                "filter": {"all": True},
                "grant_id": "mgr_same",
                "revocation_endpoint": f"https://{name}.example/status",
            },
        )
        for who, name in ((OTHER, "good"), (OWNER, "bad"))
    )

    async def said(url: str, headers: Any = None) -> Answer:
        status = "active" if "good.example" in url else "revoked"
        return Answer(status=200, body={"grant_id": "mgr_same", "status": status}, headers={})

    monkeypatch.setattr(a.parts.lending.peers, "get", said)
    now = a.parts.clock()
    a.at.do(doors._check_remote(good, OTHER.tenant, now))
    with pytest.raises(Exception, match="no longer valid"):
        a.at.do(doors._check_remote(bad, OWNER.tenant, now))


@requirement("oap:did.document")
def test_a_stranger_makes_no_keys_for_owners_that_are_none(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    a, b = hosts
    assert a.at.do(a.sharing.document()), "the host's own key is there"
    before = sorted(tmp_path.rglob("*.pem"))
    jose, now = a.parts.lending.jose, a.parts.clock() // 1000
    for number, path in enumerate(("query", "grant", "grant/request")):
        did = f"{a.did}:owners:ghost{number}"
        hand = Hand(f"{did}#key-1", b.parts.lending.keyring.hand("default").sign)
        claims = {"iss": did, "oap_principal": did, "iat": now, "grant_id": "mgr_x"}
        header = {"alg": "EdDSA", "typ": tokens.GRANT_TYPE, "kid": hand.kid}
        headers = {"OAP-Signature": jose.detached(b"{}", {"iat": now}, hand)}
        asked = httpx.post(f"{a.url}/oap/data/delete", json={}, headers=headers)
        assert asked.status_code == 401
        headers = {"Authorization": f"DPoP {jose.token(header, claims, hand)}", "DPoP": "x"}
        body: dict[str, Any] = a.sharing.grants.drafted(
            OWNER, {"grantee": b.owner, "purpose": "x", "filter": {"all": True}}
        ).body
        body = {**body, "granter": f"{did}#personal"}
        assert httpx.post(f"{a.url}/oap/memory/{path}", json=body, headers=headers).status_code in (
            400,
            401,
            403,
        )
    with pytest.raises(InvalidError, match="cannot be resolved"):
        a.grant(f"{a.did}:owners:nobody")
    made = {path.parent.name for path in tmp_path.rglob("*.pem")} - {path.parent.name for path in before}
    assert made <= {"owner-default", "host"}, made
    assert a.grant(f"{a.did}:owners:{OTHER.tenant}"), "one that is here has a key when it is first needed"
