"""What waits for a person: decided one by one and in a list, and rules that are edited on the page."""

import json
from typing import Any

import pytest

from quipu.governance.operations import GET_RULES, REVIEW, SET_RULES
from quipu.memory.operations import FORGET, HISTORY, LIST, REMEMBER, REMEMBER_MANY, UPDATE
from tests.governance.office import altered
from tests.web.conftest import House
from tests.web.person import Person

LONG = "A long story. " * 60


async def held(house: House, content: str = "Ana drinks tea", **fields: Any) -> str:
    """The id of a new memory that waits."""
    return (await house(REMEMBER, content=content, approval_required=True, **fields)).proposal_id


async def status(house: House, *ids: str) -> list[str]:
    return [(await house(REVIEW, id=one)).status for one in ids]


async def contents(house: House) -> set[str]:
    return {record.content for record in (await house(LIST)).records}


async def picks(person: Person, path: str = "/review") -> dict[str, str]:
    """What a list has to tick, by id."""
    boxes = (await person.get(path)).html.form("approve").boxes
    return {value.partition(":")[0]: value for name, value in boxes if name == "pick"}


# -- lists ------------------------------------------------------------------------------------------------------------


async def test_a_list_approves_what_it_has_shown(house: House) -> None:
    ids = [await held(house, text) for text in ("Ana drinks tea", "Bo drinks milk", "Cy drinks")]
    ruth = await house.person("ruth", "reviewer")
    page = await ruth.get("/review")
    ticks = await picks(ruth)
    said = (await ruth.send(page, "approve", action="approve", pick=[ticks[one] for one in ids[:2]])).text
    assert "Approved 2 of 2" in said
    said = (await ruth.send(page, "approve", action="reject", pick=[ticks[ids[2]]])).text
    assert "Rejected 1 of 1" in said
    assert await contents(house) == {"Ana drinks tea", "Bo drinks milk"}
    again = await ruth.send(page, "approve", action="approve", pick=[ticks[one] for one in ids[:2]])
    assert "Approved 2 of 2" in again.text, "the second half of a double click"
    assert len(await house.entries("approve")) == 2


@pytest.mark.parametrize("case", ["text", "field", "batch", "filter"])
async def test_a_list_approves_nothing_that_it_has_no_room_to_show(house: House, case: str) -> None:
    match case:
        case "text":
            proposal = await held(house, LONG)
        case "field":
            proposal = await held(house, metadata={"story": LONG})
        case "batch":
            items = [{"content": f"n{number}", "approval_required": True} for number in range(7)]
            answer = await house(REMEMBER_MANY, items=items, atomic=True)
            proposal = answer.results[0].response.proposal_id
        case _:
            for number in range(7):
                await house.remember(f"n{number}", tags=["x"])
            answer = await house(FORGET, filter={"tags": "x"}, approval_required=True)
            proposal = answer.proposal_id
    before = await contents(house)
    ruth = await house.person("ruth", "reviewer")
    page = await ruth.get("/review")
    assert "Not all of it is shown here" in page.text
    ticks = await picks(ruth)
    assert ticks == {proposal: f"{proposal}:"}
    said = (await ruth.send(page, "approve", action="approve", pick=[*ticks.values()])).text
    assert "Approved 0 of 1" in said
    assert "can only be approved on its own page" in said
    assert (await status(house, proposal), await contents(house)) == (["pending"], before)
    own = await ruth.get(f"/review/{proposal}")
    assert "Approved" in (await ruth.send(own, "approve", action="approve")).text
    assert await status(house, proposal) == ["approved"]


async def test_what_changed_since_it_was_shown_is_not_approved(house: House) -> None:
    record = await house.remember("Ana drinks tea")
    proposal = (await house(UPDATE, id=record, content="Ana drinks milk", approval_required=True)).proposal_id
    ruth = await house.person("ruth", "reviewer")
    listed, own, ticks = await ruth.get("/review"), await ruth.get(f"/review/{proposal}"), await picks(ruth)
    await house(UPDATE, id=record, content="Ana drinks nothing")
    said = (await ruth.send(listed, "approve", action="approve", pick=[*ticks.values()])).text
    assert "1 would now do something else than was shown" in said
    refused = await ruth.send(own, "approve", action="approve", reason="she said so")
    assert refused.status == 409
    assert dict(refused.html.form("approve").fields)["reason"] == "she said so"
    assert await status(house, proposal) == ["pending"]
    assert await contents(house) == {"Ana drinks nothing"}
    assert (
        "Approved"
        in (await ruth.send(await ruth.get(f"/review/{proposal}"), "approve", action="approve")).text
    )
    assert await contents(house) == {"Ana drinks milk"}


async def test_a_filtered_list_is_worked_through_and_what_was_left_comes_last(house: House) -> None:
    ids = [await held(house, f"n{number}", agent_id="bot") for number in range(3)]
    other = await held(house, "of another agent")
    ruth = await house.person("ruth", "reviewer")
    seen = await ruth.get(f"/review/{ids[0]}?queue=1&agent=bot")
    seen = await ruth.send(seen, "later", action="later")
    assert seen.path.startswith(f"/review/{ids[1]}?")
    seen = await ruth.send(seen, "approve", action="approve")
    assert seen.path.startswith(f"/review/{ids[2]}?")
    seen = await ruth.send(seen, "approve", action="reject")
    assert seen.path.startswith(f"/review/{ids[0]}?")
    seen = await ruth.send(seen, "approve", action="approve")
    assert seen.path.startswith("/review?"), "nothing of the filter is left"
    assert await status(house, *ids, other) == ["approved", "approved", "rejected", "pending"]


# -- one by one -------------------------------------------------------------------------------------------------------


async def test_the_same_decision_sent_twice_is_one_and_who_is_second_is_told(house: House) -> None:
    proposal = await held(house)
    ruth, sam = await house.person("ruth", "reviewer"), await house.person("sam", "reviewer")
    page, other = await ruth.get(f"/review/{proposal}"), await sam.get(f"/review/{proposal}")
    for _ in range(2):
        assert "Approved by ruth" in (await ruth.send(page, "approve", action="approve")).text
    for action in ("approve", "reject"):
        late = await sam.send(other, "approve", action=action)
        assert late.status == 409
        assert "decided already" in late.text
    assert len(await house.entries("approve", "reject")) == 1


async def test_nobody_is_offered_to_approve_their_own_write_and_may_take_it_back(house: House) -> None:
    ruth, text = await house.person("ruth", "reviewer"), await house.token("ada", "admin")
    ada = house.stranger()
    await ada.sign_in(text)
    writer = await house.principal(text)
    answer = await house(REMEMBER, writer, agent_id="agent", content="mine", approval_required=True)
    proposal = answer.proposal_id
    assert "somebody else decides" in (await ada.get("/review")).text
    assert await picks(ada) == {}
    page = await ada.get(f"/review/{proposal}")
    assert page.html.form("withdraw").actions == {"reject", "withdraw"}
    theirs = (await ruth.get(f"/review/{proposal}")).html.form("approve").fields
    etag = [field for field in theirs if field[0] == "etag"]
    refused = await ada.post(page.path, [*page.html.form("reject").fields, *etag, ("action", "approve")])
    assert (refused.status, await status(house, proposal)) == (403, ["pending"])
    assert "Taken back" in (await ada.send(page, "withdraw", action="withdraw")).text
    assert (await status(house, proposal), await contents(house)) == (["rejected"], set())


async def test_an_edit_is_what_is_approved(house: House) -> None:
    proposal = await held(house)
    ruth = await house.person("ruth", "reviewer")
    page = await ruth.get(f"/review/{proposal}")
    refused = await ruth.send(page, "edit", content="")
    assert refused.status == 400
    assert await status(house, proposal) == ["pending"]
    assert "Approved" in (await ruth.send(page, "edit", content="Ana drinks water")).text
    assert await contents(house) == {"Ana drinks water"}


@pytest.mark.parametrize("action", ["merge", "replace"])
async def test_a_new_memory_goes_into_one_like_it_or_takes_its_place(house: House, action: str) -> None:
    old = await house.remember("Ana drinks tea every morning")
    proposal = await held(house, "Ana drinks tea every evening")
    ruth = await house.person("ruth", "reviewer")
    page = await ruth.get(f"/review/{proposal}")
    assert "Similar memories" in page.text
    assert "Approved" in (await ruth.send(page, action, action=action)).text
    (left,) = (await house(LIST)).records
    assert (left.id == old) is (action == "merge")
    assert "every evening" in left.content


async def test_an_erasure_is_called_one_and_warns(house: House) -> None:
    record = await house.remember("Ana drinks tea")
    answer = await house(FORGET, ids=[record], hard_delete=True, approval_required=True)
    admin = await house.person("ada", "admin")
    page = await admin.get(f"/review/{answer.proposal_id}")
    assert "Erase this for good?" in page.text
    assert "Nothing brings back what is erased" in page.text
    assert "erase for good" in (await admin.get("/review")).text
    await admin.send(page, "approve", action="approve")
    assert (await house(HISTORY, id=record)).versions[0].content == ""


async def test_a_write_that_was_altered_behind_us_can_only_be_rejected(house: House) -> None:
    proposal = await held(house)
    await altered(house.container, proposal)
    ruth = await house.person("ruth", "reviewer")
    page = await ruth.get(f"/review/{proposal}")
    assert "It cannot be carried out as things stand" in page.text
    assert page.html.form("reject").actions == {"reject"}
    assert "Rejected" in (await ruth.send(page, "reject", action="reject")).text


# -- rules ------------------------------------------------------------------------------------------------------------


async def test_rules_are_edited_tried_and_saved(house: House) -> None:
    await house.remember("Ana drinks gin")
    ada = await house.person("ada", "admin")
    page = await ada.get("/rules")
    rules = json.dumps([{"id": "gin", "when": {"content_any": ["gin"]}, "effect": "hold"}])
    broken = await ada.send(page, "save", action="save", rules=rules[:-1])
    assert broken.status == 400
    assert dict(broken.html.form("save").fields)["rules"].strip() == rules[:-1]
    tried = await ada.send(page, "test", action="test", rules=rules)
    assert "1 held" in tried.text
    assert not (await house(GET_RULES)).rules, "trying changes nothing"
    assert (
        "1 rules of your own are in force" in (await ada.send(page, "save", action="save", rules=rules)).text
    )
    assert (await house(REMEMBER, content="more gin")).pending_approval
    stale = await ada.send(page, "save", action="save", rules="[]")
    assert stale.status == 409, "somebody else has saved meanwhile"
    assert len((await house(GET_RULES)).rules) == 1


async def test_a_rule_is_added_in_plain_fields_and_removed(house: House) -> None:
    await house(SET_RULES, rules=[{"id": "gin", "when": {"content_any": ["gin"]}, "effect": "deny"}])
    ada = await house.person("ada", "admin")
    page = await ada.get("/rules")
    given = {
        "rule_name": "web",
        "sources": "web*, mail",
        "found": "pii",
        "effect": "hold",
        "reason": "Pages lie",
    }
    added = await ada.send(page, "add", action="add", **given)
    assert "The rule web is in force now" in added.text
    gin, web = (await house(GET_RULES)).rules
    assert (gin.id, web.effect, web.reason) == ("gin", "hold", "Pages lie")
    assert web.when.model_dump() == {"sources": ("web*", "mail"), "found": ("pii",)}
    assert "text holds personal data" in " ".join(added.text.split())
    again = await ada.send(added, "add", action="add", **given)
    assert (again.status, dict(again.html.form("add").fields)["rule_name"]) == (400, "web"), (
        "the name is taken"
    )
    stale = await ada.send(page, "remove", action="remove", rule="gin")
    assert stale.status == 409, "somebody else has changed them meanwhile"
    await ada.send(added, "remove", action="remove", rule="gin")
    assert [one.id for one in (await house(GET_RULES)).rules] == ["web"]


async def test_rules_are_read_by_reviewers_and_set_by_admins(house: House) -> None:
    await house(SET_RULES, rules=[{"id": "all", "effect": "hold"}])
    ruth = await house.person("ruth", "reviewer")
    page = await ruth.get("/rules")
    assert "all" in page.text
    assert not page.html.has_form("save")
