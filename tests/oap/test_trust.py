"""How far a grantee is trusted: requests only lower, evidence is verified, and nobody vouches for themselves (7.1, D12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.grants import Grant, ItemFilter, Trust
from quipu.rules.grants import Limits, level_of
from quipu.rules.grants_times import rfc3339
from tests.oap.hosts import OWNER, Host, pair
from tests.oap.test_moves import bundle, under
from tests.requirement import requirement

LEVELS = st.integers(0, 4)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    """A host that trusts nobody beyond level 1 on a grant alone."""
    with pair(tmp_path_factory.mktemp("trust"), oap_trust_unvouched=1) as both:
        a, _ = both
        a.remember("Meet on Tuesdays.", tags=("website_redesign", "other"), structured={"day": "tue"})
        yield both


@requirement("oap:trust.never-raised")
@given(
    granted=LEVELS | st.none(),
    ceiling=LEVELS,
    unvouched=LEVELS,
    requested=LEVELS | st.none(),
    vouched=LEVELS,
)
def test_no_combination_gives_more_than_grant_ceiling_and_evidence(
    granted: int | None, ceiling: int, unvouched: int, requested: int | None, vouched: int
) -> None:
    grant = Grant(
        id="mgr_1", granter="did:web:a.example", scope_id="personal", grantee="did:web:b.example", purpose="x",
        filter=ItemFilter(), max_items=1, expires_at=1, profile="p", trust_level=granted, body={}, hash="h",
        trust=Trust(requested=requested, vouched=vouched),
    )  # fmt: skip
    level, is_default = level_of(grant, Limits(ceiling=ceiling, unvouched=unvouched))
    most = min(1 if granted is None else granted, ceiling, max(unvouched, vouched))
    assert level == (most if requested is None else min(most, requested))
    assert is_default is (granted is None)


def credential(signer: Host, b: Host, a: Host, **changes: Any) -> dict[str, str]:
    """What somebody says of B's connection to A's owner."""
    own, now = signer.parts.lending, signer.parts.clock()
    hand = own.keyring.hand(changes.pop("who", None))
    claims: dict[str, Any] = {
        "@context": ["https://www.w3.org/ns/credentials/v2"],
        "type": ["VerifiableCredential", "OAPConnectionVouched"],
        "issuer": hand.did,
        "validFrom": rfc3339(now - 60_000),
        "validUntil": rfc3339(now + 60_000),
        "credentialSubject": {"id": b.owner, "connected_to": a.owner, "trust_level": 4},
        **changes.pop("claims", {}),
    }
    header = {"alg": "EdDSA", "typ": "vc+jwt", "kid": hand.kid, **changes.pop("header", {})}
    return {"type": "OAPConnectionVouched", "credential": own.jose.token(header, claims, hand), **changes}


def served(a: Host, b: Host, level: int | None = None, **projection: Any) -> dict[str, Any]:
    members = {} if level is None else {"trust_level": level}
    body = {"projection": projection} if projection else {}
    answer = b.query(a, b.token(a, a.grant(b.owner, **members)), body)
    assert answer.status_code == 200, answer.text
    output = answer.json()["output"]
    labels = {name for item in output["items"] for name in item["labels"]}
    applied = output["projection_applied"]
    assert ("other" in labels) is (applied["trust_level"] >= 3), "what is told is what was done"
    return applied


@requirement("oap:trust.requested")
def test_a_request_lowers_and_never_raises(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    assert served(a, b, 1, requested_trust_level=0)["trust_level"] == 0
    assert served(a, b, 0, requested_trust_level=4)["trust_level"] == 0
    assert served(a, b, 1, requested_trust_level=4)["trust_level"] == 1
    assert served(a, b, None, requested_trust_level=4)["trust_level"] == 1
    assert served(a, b, 4)["trust_level"] == 1, "beyond the owner's word somebody has to vouch"


@requirement("oap:trust.evidence")
def test_the_owners_credential_counts_up_to_the_grant(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    good = credential(a, b, a, who=OWNER.tenant)
    applied = served(a, b, 4, evidence=[good])
    assert (applied["trust_level"], applied["evidence"]) == (
        4,
        [{"type": "OAPConnectionVouched", "outcome": "accepted"}],
    )
    assert served(a, b, 2, evidence=[good])["trust_level"] == 2
    assert served(a, b, None, evidence=[good])["trust_level"] == 1
    assert served(a, b, 4, evidence=[good], requested_trust_level=3)["trust_level"] == 3
    weak = credential(
        a,
        b,
        a,
        who=OWNER.tenant,
        claims={"credentialSubject": {"id": b.owner, "connected_to": a.owner, "trust_level": 3}},
    )
    assert served(a, b, 4, evidence=[weak])["trust_level"] == 3
    with a.at.client() as owner:
        found = owner.get("/oap/audit?decisions=true").json()["output"]["decisions"]
    assert any("evidence=OAPConnectionVouched:accepted" in one.get("conditions", ()) for one in found)


@requirement("oap:trust.export")
def test_evidence_counts_for_a_copy_as_it_does_for_a_query(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id = a.grant(b.owner, scopes=["memory.query", "memory.export"], trust_level=4)
    good, own = credential(a, b, a, who=OWNER.tenant), credential(b, b, a, who=OWNER.tenant)
    token = b.token(a, grant_id)
    for projection, level in (
        (None, 1),
        ({"evidence": [own]}, 1),
        ({"evidence": [good]}, 4),
        ({"evidence": [good], "requested_trust_level": 2}, 2),
        ({"requested_trust_level": 0}, 0),
    ):
        answer = under(a, b, token, None if projection is None else {"projection": projection})
        assert answer.status_code == 200, answer.text
        manifest, items = bundle(answer.content)
        applied = manifest["grant"]["projection_applied"]
        assert applied["trust_level"] == level
        assert ("other" in items[0]["labels"]) is (level >= 3)
        assert ("structured" in items[0]["content"]) is (level >= 1)
        assert (applied["redacted_field_count"] > 0) is (level < 4)
        last = a.at.do(a.sharing.grants.receipts(OWNER))[-1].body
        assert last["policy_decisions"][0]["projection_applied"]["trust_level"] == level
    for wrong in ({"projection": {"requested_trust_level": 5}}, {"projection": []}):
        assert under(a, b, token, wrong).status_code == 400
    with a.at.client() as owner:
        answer = owner.post("/oap/memory/export", json={"projection": {"requested_trust_level": 1}})
    assert (answer.status_code, answer.json()["error"]["details"]["pointer"]) == (400, "/projection")


@requirement("oap:trust.evidence")
@pytest.mark.parametrize(
    ("outcome", "changes"),
    [
        ("unknown_type", {"type": "OAPMutualGroupMembership"}),
        ("unreadable", {"credential": "a.b.c"}),
        ("unreadable", {"header": {"typ": "JWT"}}),
        ("unreadable", {"claims": {"type": ["VerifiableCredential"]}}),
        ("unreadable", {"claims": {"iss": "did:web:other.example"}}),
        ("expired", {"claims": {"validUntil": "2020-01-01T00:00:00Z"}}),
        ("expired", {"claims": {"validUntil": "whenever"}}),
        ("expired", {"claims": {"validFrom": "2999-01-01T00:00:00Z"}}),
        ("expired", {"claims": {"exp": 1}}),
        ("untrusted_issuer", {"claims": {"issuer": "did:web:stranger.example"}}),
        ("unverified", {"header": {"kid": "key-9"}}),
    ],
)
def test_evidence_that_does_not_hold_counts_for_nothing(
    hosts: tuple[Host, Host], outcome: str, changes: dict[str, Any]
) -> None:
    a, b = hosts
    applied = served(a, b, 4, evidence=[credential(a, b, a, who=OWNER.tenant, **changes)])
    assert (applied["trust_level"], applied["evidence"][0]["outcome"]) == (1, outcome)


@requirement("oap:trust.own-word")
def test_nobody_vouches_for_themselves_or_for_another_connection(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    own = credential(b, b, a, who=OWNER.tenant)
    assert served(a, b, 4, evidence=[own])["evidence"][0]["outcome"] == "own_word"
    # In the owner's name, but with a key of the grantee's.
    forged = credential(b, b, a, who=OWNER.tenant, claims={"issuer": a.owner})
    assert served(a, b, 4, evidence=[forged])["evidence"][0]["outcome"] == "unverified"
    host = credential(b, b, a)
    assert served(a, b, 4, evidence=[host])["evidence"][0]["outcome"] == "untrusted_issuer"
    for subject in ({"id": a.owner, "connected_to": a.owner}, {"id": b.owner, "connected_to": b.owner}):
        other = credential(
            a, b, a, who=OWNER.tenant, claims={"credentialSubject": {**subject, "trust_level": 4}}
        )
        applied = served(a, b, 4, evidence=[other])
        assert (applied["trust_level"], applied["evidence"][0]["outcome"]) == (1, "another_connection")


@requirement("oap:trust.evidence")
def test_a_voucher_that_the_host_names_is_believed(tmp_path: Any) -> None:
    with pair(tmp_path, oap_trust_unvouched=1) as (a, b):
        a.remember("Meet.", tags=("website_redesign", "other"), structured={"day": "tue"})
        spoken = credential(b, b, a)  # B's host speaks for an owner of its own
        assert served(a, b, 4, evidence=[spoken])["trust_level"] == 1
        object.__setattr__(a.parts.lending, "vouchers", frozenset({b.did}))
        assert served(a, b, 4, evidence=[spoken])["trust_level"] == 4


@requirement("oap:trust.requested")
@pytest.mark.parametrize(
    "projection",
    [
        [],
        {"requested_trust_level": 5},
        {"requested_trust_level": True},
        {"level": 1},
        {"evidence": {}},
        {"evidence": [{"type": "x"}]},
        {"evidence": [{"credential": "x"}]},
        {"evidence": [{"type": "x", "credential": "x"}] * 9},
    ],
)
def test_what_is_not_understood_is_refused(hosts: tuple[Host, Host], projection: Any) -> None:
    a, b = hosts
    answer = b.query(a, b.token(a, a.grant(b.owner)), {"projection": projection})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
    assert answer.json()["error"]["details"]["pointer"].startswith("/projection")


@requirement("oap:trust.requested")
def test_a_lower_level_has_pages_of_its_own(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.remember("Meet again.", tags=("website_redesign", "other"), structured={"day": "wed"})
    token = b.token(a, a.grant(b.owner, trust_level=1))
    first = b.query(a, token, {"max_results": 1, "projection": {"requested_trust_level": 0}}).json()["output"]
    assert "structured" not in first["items"][0]["content"]
    cursor = first["next_cursor"]
    other = b.query(a, token, {"max_results": 1, "cursor": cursor})
    assert other.status_code == 400, "a page goes on as it began"
    whole = b.query(a, token, {}).json()["output"]
    assert "structured" in whole["items"][0]["content"]
