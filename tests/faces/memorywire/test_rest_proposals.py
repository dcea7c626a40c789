"""Held writes over HTTP: listed, shown, decided once, taken back by who wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from quipu.testing.builders import FixedClock
from tests.faces.memorywire.shapes import problems
from tests.faces.memorywire.test_rest_operations import TEA, held_bodies
from tests.faces.memorywire.wired import ADMIN, READ, REVIEW, WRITE, Caller, Wired, is_problem
from tests.requirement import requirement


async def held(writer: Caller, **fields: Any) -> str:
    """The id of a held write's proposal."""
    answer = await writer.post("/remember", TEA | {"approval_required": True, **fields})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["approval_url"].rpartition("/")[2])


@requirement("memorywire:rest.proposals")
async def test_each_held_operation_is_shown_as_it_was_asked_for(ada: Caller, server: Wired) -> None:
    judge = await server.caller("judge", REVIEW)
    asked = await held_bodies(ada)
    full = asked["remember"] | {
        "type": "episodic",
        "user_id": "mara",
        "metadata": {"n": [1, {"x": None}]},
        "confidence": 0.5,
        "source": "user",
        "session_id": "s",
        "importance": 0.25,
        "privacy_intent": {"retain": "P30D", "share_with": ["bo"], "sensitivity": "internal"},
        "embedding": {"model": "words-64", "vector": [1.0] * 64},
        "tags": ["t"],
        "links": [{"to": asked["merge"]["canonical"], "rel": "about"}],
        "event_time": 5,
        "location": "Lima",
        "participants": ["Bo"],
        "reasoning": "he said so",
        "expires_at": 1_900_000_000_000,
    }
    for name, body in (asked | {"remember": full}).items():
        answer = await ada.post(f"/{name}", body)
        proposal = answer.json()["approval_url"].rpartition("/")[2]
        review = (await judge.get(f"/proposals/{proposal}")).json()
        assert problems("governance/review", review) == [], name
        assert (review["writer"], review["status"], review["held_by"]) == ("ada", "pending", ["caller"])
        if name == "remember":
            assert review["request"] == body
            assert (review["reasoning"], review["record_id"]) == ("he said so", answer.json()["id"])
        elif name == "expire":
            assert review["operation"] == "forget"
            assert len(review["request"]["ids"]) == 3
        else:
            assert body.items() <= review["request"].items()


@requirement("memorywire:rest.proposals")
async def test_an_expiry_that_archives_is_shown_as_such(ada: Caller) -> None:
    body = {
        "agent_id": "ana",
        "policy": {"older_than_days": 3},
        "action": "archive",
        "approval_required": True,
    }
    answer = await ada.post("/expire", body)
    review = (await ada.get(f"/proposals/{answer.json()['approval_url'].rpartition('/')[2]}")).json()
    assert problems("governance/review", review) == []
    assert (review["operation"], review["request"]) == ("expire", body)


@requirement("memorywire:rest.proposals")
async def test_proposals_are_listed_in_pages_by_status_and_agent(ada: Caller, clock: FixedClock) -> None:
    made = []
    for number in range(5):
        clock.move(number % 2)
        made.append(await held(ada, content=f"n {number}", agent_id="ana" if number else "bo"))
    await ada.ask("DELETE", f"/proposals/{made[4]}")
    pages: list[Any] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = await ada.get("/proposals", params={"limit": 2, **cursor})
        assert problems("governance/reviews", answer.json()) == []
        pages.append([review["id"] for review in answer.json()["reviews"]])
        if answer.json()["next_cursor"] is None:
            break
        cursor = {"cursor": answer.json()["next_cursor"]}
    assert pages == [made[:2], made[2:4]]
    one = (await ada.get("/proposals?agent_id=bo")).json()["reviews"]
    assert [review["id"] for review in one] == [made[0]]
    rejected = (await ada.get("/proposals?status=rejected")).json()["reviews"]
    assert [review["id"] for review in rejected] == [made[4]]
    assert rejected[0]["request"] == {}


@requirement("memorywire:rest.proposals")
@pytest.mark.parametrize(
    "query",
    [
        "status=open",
        "limit=0",
        "limit=1001",
        "limit=x",
        "cursor=x",
        "cursor=%FF",
        "colour=1",
        "status=pending&status=approved",
    ],
)
async def test_odd_questions_are_refused(ada: Caller, query: str) -> None:
    is_problem(await ada.get(f"/proposals?{query}"), 400, "validation_error")


@requirement("memorywire:rest.proposals")
async def test_reviewers_see_their_agents_and_writers_their_own(server: Wired, ada: Caller) -> None:
    writer = await server.caller("writer", WRITE)
    mine, other = await held(writer), await held(ada, agent_id="shop")
    assert (await writer.get(f"/proposals/{mine}")).json()["writer"] == "writer"
    is_problem(await writer.get(f"/proposals/{other}"), 404, "not_found", "proposal")
    shopkeeper = await server.caller("keeper", REVIEW, agents=("shop",))
    assert [row["id"] for row in (await shopkeeper.get("/proposals")).json()["reviews"]] == [other]
    is_problem(await shopkeeper.get(f"/proposals/{mine}"), 404, "not_found", "proposal")
    is_problem(
        await shopkeeper.post(f"/proposals/{mine}/decision", {"approved": True}), 404, "not_found", "proposal"
    )
    is_problem(await shopkeeper.get("/proposals?agent_id=ana"), 403, "forbidden", "agent_not_allowed")
    bound = await server.caller("bound", REVIEW, user_id="mara")
    assert (await bound.get("/proposals")).json()["reviews"] == []
    await held(ada, user_id="mara")
    assert len((await bound.get("/proposals")).json()["reviews"]) == 1


@requirement("memorywire:rest.decision")
@pytest.mark.parametrize("approved", [True, False])
async def test_a_decision_is_made_once_by_somebody_else(server: Wired, ada: Caller, approved: bool) -> None:
    judge = await server.caller("judge", REVIEW)
    proposal = await held(ada)
    answer = await judge.post(f"/proposals/{proposal}/decision", {"approved": approved, "reason": "so"})
    assert answer.status_code == 200
    assert problems("governance/decision.response", answer.json()) == []
    assert answer.json() == {
        "approved": approved,
        "reviewer": "judge",
        "reviewed_at": server.clock(),
        "reason": "so",
    }
    assert len(await ada.recalled("tea")) == approved
    again = await judge.post(f"/proposals/{proposal}/decision", {"approved": approved})
    is_problem(again, 409, "conflict", "already_decided")


@requirement("memorywire:rest.decision")
@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({}, 400, "missing_field"),
        ({"approved": "yes"}, 400, "bad_value"),
        ({"approved": True, "reviewer": "eve"}, 400, "unknown_field"),
        ({"approved": False, "edit": {"content": "x"}}, 400, "bad_value"),
        ({"approved": True, "edit": {"colour": 1}}, 400, "unknown_field"),
        ({"approved": True, "edit": {"content": ""}}, 400, "bad_value"),
        ({"approved": True, "merge_into": {"canonical": "mem_1"}}, 404, "canonical"),
        ({"approved": True, "supersedes": ["mem_1"]}, 404, "record"),
        ({"approved": True, "etag": "e"}, 409, "stale_proposal"),
    ],
)
async def test_other_decisions_are_refused_and_decide_nothing(
    server: Wired, ada: Caller, body: dict[str, Any], status: int, reason: str
) -> None:
    judge = await server.caller("judge", REVIEW)
    proposal = await held(ada)
    answer = await judge.post(f"/proposals/{proposal}/decision", body)
    assert (answer.status_code, answer.json()["reason"]) == (status, reason)
    assert (await judge.get(f"/proposals/{proposal}")).json()["status"] == "pending"


@requirement("memorywire:rest.withdraw")
async def test_a_write_is_taken_back_by_who_wrote_it_and_nobody_else(server: Wired, ada: Caller) -> None:
    writer, judge = await server.caller("writer", WRITE), await server.caller("judge", REVIEW, READ)
    proposal = await held(writer, content="zimtstern")
    is_problem(await judge.ask("DELETE", f"/proposals/{proposal}"), 403, "forbidden", "not_the_writer")
    other = await server.caller("other", WRITE)
    is_problem(await other.ask("DELETE", f"/proposals/{proposal}"), 404, "not_found", "proposal")
    answer = await writer.ask("DELETE", f"/proposals/{proposal}")
    assert (answer.status_code, answer.content) == (204, b"")
    is_problem(await writer.ask("DELETE", f"/proposals/{proposal}"), 409, "conflict", "already_decided")
    shown = await judge.get(f"/proposals/{proposal}")
    assert (shown.json()["status"], shown.json()["reviewer"]) == ("rejected", "withdrawn")
    assert "zimtstern" not in shown.text
    decided = await judge.post(f"/proposals/{proposal}/decision", {"approved": True})
    is_problem(decided, 409, "conflict", "already_decided")
    entries = (await judge.get("/audit?operation=decide")).json()["entries"]
    assert entries[-1]["detail"]["closed_by"] == "withdrawn"
    assert entries[-1]["actor"] == "writer"


async def put(caller: Caller, path: str, body: object) -> Any:
    return await caller.ask("PUT", path, json=body)


@requirement("memorywire:rest.decision")
async def test_a_review_shows_its_diff_and_a_decision_may_edit_it(ada: Caller, server: Wired) -> None:
    judge = await server.caller("judge", REVIEW)
    proposal = await held(ada, content="Mara is vegan")
    review = (await judge.get(f"/proposals/{proposal}")).json()
    assert problems("governance/review", review) == []
    assert [one["content"] for one in review["diff"]["added"]] == ["Mara is vegan"]
    body = {
        "approved": True,
        "etag": review["etag"],
        "edit": {"content": "Mara is vegetarian", "tags": ["d"]},
    }
    answer = await judge.post(f"/proposals/{proposal}/decision", body)
    assert answer.status_code == 200, answer.text
    assert problems("governance/decision.response", answer.json()) == []
    (hit,) = await ada.recalled("vegetarian")
    assert (hit["content"], hit["tags"], hit["id"]) == ("Mara is vegetarian", ["d"], review["record_id"])


@requirement("memorywire:rest.decision")
async def test_two_reviewers_agree_over_http(ada: Caller, server: Wired) -> None:
    admin = await server.caller("chief", REVIEW, ADMIN)
    rules = {"rules": [{"id": "two", "effect": "hold", "approvals": 2, "reason": "Two look at it."}]}
    assert (await put(admin, "/rules", rules)).status_code == 200
    answer = await ada.post("/remember", TEA)
    assert answer.status_code == 202
    proposal = answer.json()["approval_url"].rpartition("/")[2]
    names = ("judge", "jury")
    for name in names:
        judge = await server.caller(name, REVIEW)
        said = await judge.post(f"/proposals/{proposal}/decision", {"approved": True})
        assert problems("governance/decision.response", said.json()) == []
        assert (said.json()["approved"], said.json()["reviewer"]) == (True, name)
        review = (await judge.get(f"/proposals/{proposal}")).json()
        assert problems("governance/review", review) == []
        assert (review["because"], review["approvals"]["needed"]) == ("Two look at it.", 2)
    assert review["status"] == "approved"
    assert len(await ada.recalled("tea")) == 1


@requirement("memorywire:rest.rules")
async def test_rules_are_shown_replaced_and_tried_over_http(ada: Caller, server: Wired) -> None:
    admin, judge = await server.caller("chief", REVIEW, ADMIN), await server.caller("judge", REVIEW)
    await ada.post("/remember", TEA | {"source": "web_page"})
    rules = {"rules": [{"id": "web", "when": {"sources": ["web_*"]}, "effect": "deny", "reason": "Not yet."}]}
    tried = await judge.post("/rules/test", rules | {"last": 5})
    assert [(one["effect"], one["rule"], one["actor"]) for one in tried.json()["writes"]] == [
        ("deny", "web", "ada")
    ]
    is_problem(await put(judge, "/rules", rules), 403, "forbidden", "missing_scope")
    writer = await server.caller("hand", READ, WRITE)
    is_problem(await writer.get("/rules"), 403, "forbidden", "missing_scope")
    assert (await put(admin, "/rules", rules)).json()["rules"][0]["id"] == "web"
    shown = (await judge.get("/rules")).json()
    assert problems("governance/rules", shown) == []
    assert [rule["origin"] for rule in shown["rules"]] == ["operator", "shipped", "shipped"]
    assert (await judge.get("/rules?own=true")).json() == {"rules": shown["rules"][:1]}
    refused = await ada.post("/remember", TEA | {"source": "web_page"})
    is_problem(refused, 403, "forbidden", "denied_by_rule")
    assert refused.json()["detail"] == "A rule forbids this: Not yet."
    bad = await put(admin, "/rules", {"rules": [{"id": "x", "effect": "hold", "when": {"typo": 1}}]})
    is_problem(bad, 400, "validation_error", "unknown_field")
    assert bad.json()["errors"][0]["pointer"] == "/rules/0/when/typo"
    is_problem(await judge.post("/rules/test", {"first": 1}), 400, "validation_error", "unknown_field")
