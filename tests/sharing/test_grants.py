"""A grant in OAP's words: signed or drafted, refused where a member is not understood, asked within limits."""

from typing import Any

import httpx
import pytest

from quipu.sharing import operations as ops
from quipu.sharing import receipts
from quipu.sharing.grants import operations as grant_ops
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, reason
from tests.sharing.network import Host

DAY_MS = 86_400_000


async def created(host: Host, body: Any, *, is_owner: bool = False, path: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {await host.token()}"} if is_owner else {}
    return await host.http("POST", f"/oap/memory/grant{path}", json=body, headers=headers)


def signed(grantee: Grantee, /, **members: Any) -> dict[str, Any]:
    """A grant that the lender's owner has signed elsewhere; a member that is None is left out."""
    by = grantee.lender.sharing.host.keyring.signatory("default")
    whole = {
        "grant_id": "mgr_elsewhere",
        "granter": f"{grantee.lender.owner}#personal",
        "grantee": grantee.did,
        "purpose": "a test",
        "filter": {"all": True},
        "max_items": 5,
        "expires_at": receipts.rfc3339(grantee.lender.clock() + DAY_MS),
        "revocable": True,
        "redaction_profile": "oap.profile.projection.x_quipu.memory_item.v1",
        "binding": "dpop",
        **members,
    }
    return receipts.signed({name: part for name, part in whole.items() if part is not None}, by)


@requirement("oap:grant.registered")
async def test_a_grant_that_its_owner_signed_is_brought_by_anybody_and_used(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("The website is green.")
    body = signed(grantee)
    answer = await created(lender, body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["output"]["grant"] == body
    grantee.grant_id = "mgr_elsewhere"
    answer = await grantee.query()
    assert [one["content"]["text"] for one in answer.json()["output"]["items"]] == ["The website is green."]
    assert "trust_level_defaulted" in answer.json()["warnings"], "no level is level 1"
    assert answer.json()["output"]["projection_applied"]["trust_level"] == 1
    assert (await created(lender, body)).status_code == 201, "the same once more changes nothing"
    assert reason(await created(lender, signed(grantee, max_items=6))) == (409, "grant_taken")


@requirement("oap:grant.registered")
async def test_what_its_owner_did_not_sign_as_it_is_is_no_grant(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("An owner who is here.")
    body = signed(grantee)
    others = grantee.own.sharing.host.keyring.signatory("default")
    for odd in (
        {**body, "max_items": 6},
        receipts.signed(receipts.without(body, "signature"), others),
        {**body, "granter": f"{grantee.did}#personal"},
        {**body, "signature": "x"},
    ):
        assert reason(await created(lender, odd)) == (403, "bad_signature")
    await lender(ops.ROTATE_KEY, compromised=True)
    assert reason(await created(lender, body)) == (403, "bad_signature"), "by a key that counts no more"
    assert (await lender(grant_ops.LIST_GRANTS)).grants == ()


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a member that is not known": ({"as_of": "x"}, "unknown_member", "/as_of"),
    "a filter that says nothing": ({"filter": {}}, "required", "/filter"),
    "a condition that is not known": ({"filter": {"min_score": 1}}, "unknown_member", "/filter/min_score"),
    "another's scope": ({"filter": {"scope_ids": ["work"]}}, "bad_value", "/filter/scope_ids"),
    "too many items": ({"max_items": 10_001}, "cap_reached", "/max_items"),
    "no items": ({"max_items": 0}, "bad_value", "/max_items"),
    "what cannot be taken back": ({"revocable": False}, "bad_value", "/revocable"),
    "a profile that is not known": ({"redaction_profile": "x"}, "profile_unsupported", "/redaction_profile"),
    "a level beyond the last": ({"trust_level": 5}, "bad_value", "/trust_level"),
    "no DID": ({"grantee": "somebody"}, "bad_value", "/grantee"),
    "a DID that nobody answers for": ({"grantee": "did:web:nobody.example"}, "did_unresolved", "/grantee"),
    "a scope that is the name of a key": ({"granter": "OWNER#key-1"}, "bad_value", "/granter"),
    "a scope of a token that is not known": ({"scopes": ["memory.all"]}, "bad_value", "/scopes/0"),
    "another binding": ({"binding": "mtls"}, "bad_value", "/binding"),
    "a ground that is none": ({"lawful_basis": "because"}, "bad_value", "/lawful_basis"),
    "no purpose": ({"purpose": None}, "required", "/purpose"),
    "no end": ({"expires_at": None}, "required", "/expires_at"),
    "an end that is no time": ({"expires_at": "tomorrow"}, "bad_value", "/expires_at"),
    "an end that is past": ({"expires_at": "2020-01-01T00:00:00Z"}, "grant_expired", "/expires_at"),
    "an end too far ahead": ({"expires_at": "2999-01-01T00:00:00Z"}, "bad_value", "/expires_at"),
    "a beginning to come": ({"issued_at": "2999-01-01T00:00:00Z"}, "bad_value", "/issued_at"),
}


@requirement("oap:grant.refused")
@pytest.mark.parametrize("name", REFUSED)
async def test_a_member_that_is_not_understood_is_refused_where_it_stands(
    grantee: Grantee, name: str
) -> None:
    changes, why, pointer = REFUSED[name]
    if "granter" in changes:
        changes = {"granter": changes["granter"].replace("OWNER", grantee.lender.owner)}
    await grantee.lender.remember("An owner who is here.")
    answer = await created(grantee.lender, signed(grantee, **changes))
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["details"]) == ("invalid_input", {"reason": why, "pointer": pointer})


@requirement("oap:grant.refused")
async def test_an_owner_drafts_a_grant_or_looks_first_and_a_grantee_does_neither(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("Write to mara@home.example.")
    draft = {"grantee": grantee.did, "purpose": "a test", "filter": {"all": True}, "trust_level": 2}
    before = await lender.container.ledger.head("default")
    seen = await created(lender, draft, is_owner=True, path="/preview")
    assert [one["content"]["text"] for one in seen.json()["output"]["items"]] == ["Write to [email]."]
    assert (await lender(grant_ops.LIST_GRANTS)).grants == ()
    made = await created(lender, {**draft, "granter": f"{lender.owner}#personal"}, is_owner=True)
    assert made.status_code == 201, made.text
    assert made.json()["output"]["grant"]["binding"] == "dpop"
    assert before.seq < (await lender.container.ledger.head("default")).seq
    for bad, pointer in (
        ({"granter": f"{grantee.did}#personal"}, "/granter"),
        ({"revocable": False}, "/revocable"),
        ({"expires_at": "tomorrow"}, "/expires_at"),
        ({"binding": "mtls"}, "/binding"),
        ({"scopes": ["memory.export"]}, "/scopes"),
    ):
        refused = await created(lender, {**draft, **bad}, is_owner=True)
        assert refused.json()["error"]["details"] == {"reason": "bad_value", "pointer": pointer}
    assert (await created(lender, draft)).status_code == 401
    assert (await grantee.own.http("DELETE", "/oap/memory/grant")).status_code == 401


@requirement("oap:grant.own")
async def test_a_grantee_reads_and_gives_up_its_own_grant_and_no_other(grantee: Grantee) -> None:
    other = (await grantee.given()).grant_id
    await grantee.given(purpose="this one")
    answer = await grantee.asks("GET", f"/oap/memory/grant/{grantee.grant_id}")
    output = answer.json()["output"]
    assert (output["status"], output["grant"]["purpose"]) == ("active", "this one")
    assert not output.keys() & {"shown", "uses", "registered_at"}, "which are the owner's"
    for method in ("GET", "DELETE"):
        assert reason(await grantee.asks(method, f"/oap/memory/grant/{other}")) == (404, "grant")
    ended = await grantee.asks("DELETE", f"/oap/memory/grant/{grantee.grant_id}")
    assert ended.json()["output"]["status"] == "revoked"
    assert reason(await grantee.query()) == (401, "grant_revoked")
    listed = {one.id: one.status for one in (await grantee.lender(grant_ops.LIST_GRANTS)).grants}
    assert listed == {other: "active", grantee.grant_id: "revoked"}


@requirement("oap:query.narrowed")
async def test_filters_of_a_query_narrow_and_are_judged_on_what_is_shown(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("The website is green.", tags=["website", "own"])
    await lender.remember("It rained.", type="episodic", tags=["website"])
    await grantee.given(label=["website"])
    assert await grantee.texts(kinds=["observation"]) == ["It rained."]
    assert await grantee.texts(filter={"labels_any": ["own"]}) == [], (
        "a label that is not shown finds nothing"
    )
    assert len(await grantee.texts(filter={"labels_any": ["website"]})) == 2
    assert len(await grantee.texts(filter={})) == 2
    for bad, pointer in (
        ({"kinds": ["song"]}, "/kinds/0"),
        ({"filter": {"min_score": 1}}, "/filter/min_score"),
        ({"max_results": 101}, "/max_results"),
        ({"max_results": 2**53}, "/max_results"),
        ({"query": "x" * 4097}, "/query"),
        ({"surprise": 1}, "/surprise"),
    ):
        answer = await grantee.query(**{"query": "", **bad})
        assert answer.status_code in (400, 413), bad
        assert answer.json()["error"]["details"]["pointer"] == pointer


@requirement("oap:query.cursor")
async def test_a_cursor_is_good_for_its_grant_and_its_query_for_a_quarter_of_an_hour(
    grantee: Grantee,
) -> None:
    for number in range(3):
        await grantee.lender.remember(f"The website, page {number}.")
    await grantee.given()
    cursor = (await grantee.sees("website", max_results=1))["next_cursor"]
    assert "website" not in cursor
    more = await grantee.sees("website", max_results=2, cursor=cursor)
    assert (len(more["items"]), more["next_cursor"]) == (2, None)

    async def pointer(query: str, text: str) -> str:
        answer = await grantee.query(query, cursor=text)
        assert answer.status_code == 400
        return str(answer.json()["error"]["details"]["pointer"])

    assert await pointer("page", cursor) == "/cursor"
    assert await pointer("website", f"{cursor[:-4]}AAAA") == "/cursor"
    first = grantee.grant_id
    await grantee.given()
    assert await pointer("website", cursor) == "/cursor", "another grant"
    grantee.grant_id, grantee._token = first, None
    grantee.lender.clock.now += 900_001
    assert await pointer("website", cursor) == "/cursor"


@requirement("oap:query.rate")
async def test_a_grant_is_asked_sixty_times_a_minute(grantee: Grantee) -> None:
    await grantee.given()
    for _ in range(60):
        assert (await grantee.query()).status_code == 200
    answer = await grantee.query()
    assert reason(answer) == (429, "request_rate")
    assert answer.json()["error"]["code"] == "rate_limited"
    assert int(answer.headers["retry-after"]) == 1
    grantee.lender.clock.now += 1000
    assert (await grantee.query()).status_code == 200
