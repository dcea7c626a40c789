"""What is left of an item at a level of trust: entities by their tables, text masked, nothing that may not leave."""

import json
from pathlib import Path
from typing import Any

import pytest

from quipu.governance.operations import LIST_REVIEWS
from quipu.memory.operations import FORGET, REMEMBER
from quipu.sharing.grants import operations as ops
from quipu.sharing.grants import profiles
from quipu.sharing.grants.projection import Projected, View, leaves, projected
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, reason

TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "oap-vectors.json").read_text("utf-8"))[
    "projection_contact_v1"
]
CONTACT = "oap.profile.projection.contact.v1"


def item(text: str | None = None, structured: Any = None, **members: Any) -> dict[str, Any]:
    content = {"text": text, "structured": structured}
    return {
        "item_id": "mem_1",
        "owner_did": "did:web:user.example",
        "scope_id": "personal",
        "kind": "fact",
        "content": {name: part for name, part in content.items() if part is not None},
        "embedding": {"model": "m", "dimensions": 3, "dtype": "f32le"},
        "provenance": {"captured_at": "2026-01-01T00:00:00Z", "confidence": 1, "source_receipt": "rec_1"},
        "labels": ["website", "own"],
        "ttl_days": 7,
        "exportable": True,
        "extensions": {"quipu": {"agent_id": "agent"}},
        **members,
    }


def at(level: int, given: dict[str, Any], **view: Any) -> Projected:
    return projected(given, View(**{"profile": profiles.ITEM_PROFILE, "level": level, **view}))


@requirement("oap:projection.profiles")
@pytest.mark.parametrize("profile", [CONTACT, profiles.ITEM_PROFILE])
@pytest.mark.parametrize("level", range(5))
def test_each_level_shows_of_a_contact_what_its_table_says(level: int, profile: str) -> None:
    assert profiles.entity(TABLE["entity"], profile, level) == TABLE["levels"][str(level)]


EVENT = {
    **{"entity_type": "oap.entity.calendar_event", "entity_version": "1.0", "id": "ent_1"},
    **{"start": "s", "end": "e", "transparency": "busy", "title": "Review", "participants_count": 2},
    **{"participant_dids": ["did:web:a.example"], "location_general": "Lisbon", "notes": "n"},
}
TASK = {
    **{"entity_type": "oap.entity.task", "entity_version": "1.0", "id": "ent_2", "status": "open"},
    **{"title": "Call", "due_at": "d", "priority": 1, "assignee_dids": [], "description": "Long."},
}


@requirement("oap:projection.profiles")
@pytest.mark.parametrize("entity", [TABLE["entity"], EVENT, TASK], ids=["contact", "event", "task"])
def test_a_level_shows_no_more_than_the_next_and_the_last_everything(entity: dict[str, Any]) -> None:
    levels = [profiles.entity(entity, profiles.ITEM_PROFILE, level) for level in range(5)]
    assert levels[4] == entity
    shown = [{json.dumps(value) for _, value in leaves(one)} for one in levels]
    for level in range(4):
        assert shown[level] <= shown[level + 1], level


@requirement("oap:projection.profiles")
@pytest.mark.parametrize(
    ("entity", "profile"),
    [
        (EVENT, CONTACT),
        ({**EVENT, "entity_type": "oap.entity.song"}, profiles.ITEM_PROFILE),
        (TASK, "unknown"),
    ],
)
def test_an_entity_that_the_profile_is_not_for_shows_who_it_is_and_no_more(
    entity: dict[str, Any], profile: str
) -> None:
    assert set(profiles.entity(entity, profile, 3)) == set(profiles.IDENTITY)


@requirement("oap:projection.profiles")
def test_a_private_event_keeps_its_title_and_a_free_one_that_it_is_free() -> None:
    shown = profiles.entity({**EVENT, "private": True, "transparency": "free"}, profiles.ITEM_PROFILE, 3)
    assert not {"title", "transparency"} & shown.keys()


MASKED = {
    "Write to mara@home.example.": "Write to [email].",
    "Call +351 912 345 678 now.": "Call [phone] now.",
    "See https://example.org/x?y=1 there.": "See [url] there.",
    "The server is 192.168.1.7 here.": "The server is [ip] here.",
    "Pay with 4111 1111 1111 1111 please.": "Pay with [card] please.",
    "To DE89 3704 0044 0532 0130 00 please.": "To [iban] please.",
    "Ask @mara_home about it.": "Ask [handle] about it.",
}


@requirement("oap:projection.masked")
@pytest.mark.parametrize("text", MASKED)
def test_free_text_is_masked_not_left_out(text: str) -> None:
    for level in (1, 2, 3):
        shown = at(level, item(text))
        assert shown.item["content"] == {"text": MASKED[text], "derived": True}
        assert (shown.redacted[0], "free_text_masked" in shown.warnings) == ("/content/text", True)
    assert at(4, item(text)).item["content"] == {"text": text}
    assert at(0, item(text)).item["content"] == {}
    assert at(1, item(text), free_text="omit").item["content"] == {}
    assert at(1, item("Nothing to hide.")).item["content"] == {"text": "Nothing to hide."}


@requirement("oap:projection.masked")
def test_strings_in_a_structure_are_masked_and_members_of_a_hidden_name_go() -> None:
    whole = {
        "note": "to mara@home.example",
        "homePhone": "x",
        "e-mail": "y",
        "door": {"password": "z", "n": 1},
    }
    shown = at(1, item("A note.", whole))
    assert shown.item["content"]["structured"] == {"note": "to [email]", "door": {"n": 1}}
    assert shown.redacted[:1] == ("/content/structured",), "the names in a free structure are told to nobody"


@requirement("oap:projection.masked")
async def test_names_of_the_owners_contacts_are_masked_but_of_whom_an_item_is_about(grantee: Grantee) -> None:
    lender = grantee.lender
    await lender.remember("A contact.", structured=TABLE["entity"], scope_id="private")
    await lender.remember("Alice Schmidt likes green.", tags=["one"])
    await lender.remember("Alice likes blue.", tags=["two"], subject_entity_id=TABLE["entity"]["id"])
    await grantee.given()
    assert sorted(await grantee.texts()) == ["Alice likes blue.", "[name] [name] likes green."]
    assert await grantee.texts("Schmidt") == [], "nothing is found by what is not shown"


@requirement("oap:projection.masked")
def test_the_text_of_an_item_with_an_entity_is_what_is_left_of_it_in_words() -> None:
    shown = at(1, item("Alice, alice@example.com, +49301234567", TABLE["entity"]))
    text = shown.item["content"]["text"]
    assert shown.item["content"]["derived"] is True
    assert "Product Lead" in text
    assert "alice@" not in text
    assert "/content/structured/channels" in shown.redacted


@requirement("oap:projection.envelope")
def test_the_envelope_shows_more_from_level_to_level() -> None:
    beside = {"ttl_days": 3, "embedding": 4, "extensions": 4}
    for level in range(5):
        shown = at(level, item("Text."), labels=frozenset({"website"}))
        assert {name for name in beside if name in shown.item} == {
            n for n, least in beside.items() if level >= least
        }
        assert shown.item["labels"] == (["website", "own"] if level >= 3 else ["website"])
        assert ("source_receipt" in shown.item["provenance"]) is (level >= 3)
        assert shown.is_altered is (level < 4)


@requirement("oap:projection.stated")
@pytest.mark.parametrize("level", [0, 2, 4])
async def test_level_profile_and_lawful_basis_stand_in_answer_and_receipt(
    grantee: Grantee, level: int
) -> None:
    await grantee.lender.remember("Write to mara@home.example.")
    await grantee.given(level=level, lawful_basis="contract")
    told = (await grantee.sees())["projection_applied"]
    assert told["trust_level"] == level
    assert told["profile"] == profiles.ITEM_PROFILE
    assert told["lawful_basis"] == "contract"
    assert (told["redacted_field_count"] > 0) is (level < 4)
    last = (await grantee.lender(ops.LIST_RECEIPTS)).receipts[-1]
    assert last.body["policy_decisions"][0]["projection_applied"] == told


@requirement("oap:sharing.never")
async def test_what_may_not_leave_is_in_no_answer_whatever_a_grant_says(grantee: Grantee) -> None:
    lender = grantee.lender
    shown = await lender.remember("The canary that may leave.")
    await lender.remember("A canary that stays.", exportable=False)
    await lender.remember("A canary at work.", scope_id="work")
    await lender.remember("A secret canary.", privacy_intent={"sensitivity": "secret"})
    await lender.remember("A canary for others.", privacy_intent={"share_with": ["did:web:other.example"]})
    await lender(REMEMBER, content="A canary that waits.", approval_required=True)
    await lender(FORGET, ids=[await lender.remember("A forgotten canary.")])
    await lender.remember("A canary of yesterday.", expires_at="1d")
    lender.clock.now += 86_400_000
    await grantee.given(level=4)
    for query in ("", "canary"):
        assert [one["item_id"] for one in (await grantee.sees(query))["items"]] == [shown]
    assert len((await lender(LIST_REVIEWS)).reviews) == 1


@requirement("oap:sharing.never")
@pytest.mark.parametrize("scope_id", ["attorney-client", "medical", "source-protection", "confessional"])
async def test_nothing_is_shared_from_a_scope_under_a_duty_of_silence(
    grantee: Grantee, scope_id: str
) -> None:
    lender = grantee.lender
    headers = {"Authorization": f"Bearer {await lender.token()}"}
    draft = {"grantee": grantee.did, "purpose": "a test", "filter": {"all": True}, "scope_id": scope_id}
    answer = await lender.http("POST", "/oap/memory/grant", json=draft, headers=headers)
    assert reason(answer) == (400, "bad_value")
    assert answer.json()["error"]["details"]["pointer"] == "/granter"
