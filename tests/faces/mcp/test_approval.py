"""Approval in place: who is asked, and what each answer does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult

from quipu.model.principal import Permission, local
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import Person, body, fault, over_http, text
from tests.faces.serving import Served
from tests.requirement import requirement

FACT = {"type": "semantic", "content": "Mara is allergic to nuts", "approval_required": True}
DELETERS = (Permission.READ, Permission.WRITE, Permission.DELETE)
Held = Callable[..., Any]


@contextlib.asynccontextmanager
async def client_of(
    at: Served, mode: str, person: Person | None, token: str | None = None
) -> AsyncIterator[Client]:
    given = {} if person is None else {"elicitation_callback": person}
    async with over_http(at, mode, token, **given) as client:
        yield client


def decisions(at: Served, proposals_of: str) -> list[tuple[str, str | None, str | None]]:
    found = at.do(at.service.governance.proposals(local()))
    return [(p.status, p.reviewer, p.reason) for p in found if p.agent_id == proposals_of]


async def recalled(client: Client, agent: str) -> list[str]:
    found = await client.call_tool("recall", {"query": "Mara nuts", "agent_id": agent})
    return [hit["id"] for hit in body(found)["results"]]


@requirement("mcp:approval.accept")
async def test_a_yes_carries_the_write_out_and_is_in_the_journal(at: Served, mode: str, agent: str) -> None:
    person = Person(reason="she said so")
    async with client_of(at, mode, person) as client:
        kept = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))
        assert await recalled(client, agent) == [kept["id"]]
    assert (kept["pending_approval"], kept["approval_url"], kept["stores"]) == (False, None, ["sqlite"])
    assert len(person.asked) == 1
    assert "Mara is allergic to nuts" in person.asked[0]
    assert decisions(at, agent) == [("approved", "admin", "she said so")]


@requirement("mcp:approval.reject")
@pytest.mark.parametrize("person", [Person(approve=False), Person("decline")], ids=["unticked", "declined"])
async def test_a_no_is_an_error_and_nothing_is_kept(
    at: Served, mode: str, agent: str, person: Person
) -> None:
    async with client_of(at, mode, person) as client:
        refused = await client.call_tool("remember", {**FACT, "agent_id": agent})
        assert await recalled(client, agent) == []
    assert fault(refused) == "approval_rejected"
    assert [row[0] for row in decisions(at, agent)] == ["rejected"]


@requirement("mcp:approval.cancel")
async def test_an_answer_that_is_put_off_leaves_the_write_in_the_queue(
    at: Served, mode: str, agent: str
) -> None:
    async with client_of(at, mode, Person("cancel")) as client:
        held = await client.call_tool("remember", {**FACT, "agent_id": agent})
        assert await recalled(client, agent) == []
    assert_held(held, at)
    assert [row[0] for row in decisions(at, agent)] == ["pending"]


def assert_held(result: CallToolResult, at: Served) -> None:
    told = body(result)
    assert told["pending_approval"] is True
    assert told["approval_url"].startswith(f"{at.url}/review/prp_")
    assert "Do not repeat" in text(result, 1)


@requirement("mcp:approval.nobody-there")
async def test_a_client_that_cannot_be_asked_gets_the_queue(at: Served, mode: str, agent: str) -> None:
    async with client_of(at, mode, None) as client:
        held = await client.call_tool("remember", {**FACT, "agent_id": agent})
        assert await recalled(client, agent) == []
    assert_held(held, at)


@requirement("mcp:approval.scope")
async def test_an_agents_own_client_does_not_approve_for_it(
    at: Served, mode: str, agent: str, mint: Mint
) -> None:
    person = Person()
    async with client_of(at, mode, person, mint(*DELETERS)) as client:
        held = await client.call_tool("remember", {**FACT, "agent_id": agent})
    assert_held(held, at)
    assert person.asked == []


@requirement("mcp:approval.reviewer")
async def test_a_reviewers_token_decides_in_place(at: Served, mode: str, agent: str, mint: Mint) -> None:
    person = Person()
    async with client_of(at, mode, person, mint(*DELETERS, Permission.REVIEW)) as client:
        kept = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))
    assert kept["pending_approval"] is False
    assert len(person.asked) == 1


@requirement("mcp:approval.bulk")
async def test_many_deletes_at_once_wait_for_a_person(at: Served, mode: str, agent: str, mint: Mint) -> None:
    async with client_of(at, mode, None, mint(*DELETERS)) as client:
        for count in range(11):
            fact = {
                "type": "semantic",
                "content": f"fact {count}",
                "metadata": {"pile": True},
                "agent_id": agent,
            }
            body(await client.call_tool("remember", fact))
        held = await client.call_tool("forget", {"filter": {"pile": True}, "agent_id": agent})
        expiring = await client.call_tool(
            "expire", {"policy": {"type": "semantic"}, "action": "forget", "agent_id": agent}
        )
        few = await client.call_tool("forget", {"filter": {"pile": False}, "agent_id": agent})
    assert_held(held, at)
    assert_held(expiring, at)
    assert body(few)["pending_approval"] is False


@requirement("mcp:approval.bulk-asked")
async def test_a_bulk_delete_that_somebody_agrees_to_is_carried_out(
    at: Served, mode: str, agent: str, mint: Mint
) -> None:
    person = Person()
    async with client_of(at, mode, person, mint(*DELETERS, Permission.REVIEW)) as client:
        for count in range(11):
            body(
                await client.call_tool(
                    "remember", {"type": "semantic", "content": f"n {count}", "agent_id": agent}
                )
            )
        done = body(await client.call_tool("expire", {"policy": {"type": "semantic"}, "agent_id": agent}))
    assert len(person.asked) == 1
    assert (done["matched_count"], done["action_taken"], done["pending_approval"]) == (11, "forget", False)


@requirement("mcp:approval.state-is-bound")
async def test_an_answer_counts_only_for_whom_was_asked(at: Served, agent: str, mint: Mint) -> None:
    from mcp.shared.exceptions import MCPError

    given = {**FACT, "agent_id": agent}
    mine, theirs = mint(*DELETERS, Permission.REVIEW), mint(*DELETERS, Permission.REVIEW)
    async with client_of(at, "2026-07-28", Person(), mine) as client:
        asked = await client.session.call_tool("remember", given, allow_input_required=True)
        (key,) = asked.input_requests
    answer = {key: await Person()(None, type("Asked", (), {"message": ""}))}
    async with client_of(at, "2026-07-28", Person(), theirs) as client:
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool(
                "remember",
                given,
                input_responses=answer,
                request_state=asked.request_state,
                allow_input_required=True,
            )
    assert decisions(at, agent) == []


@requirement("mcp:approval.rules")
async def test_a_write_that_a_rule_holds_is_asked_about_too(
    at: Served, mode: str, agent: str, mint: Mint
) -> None:
    rules = {"rules": [{"id": agent, "when": {"agents": [agent]}, "effect": "hold"}]}
    at.do(at.service.policies.set(local(), rules))
    fact = {"type": "semantic", "content": "Mara is allergic to nuts", "agent_id": agent}
    person = Person()
    try:
        async with client_of(at, mode, person) as client:
            kept = body(await client.call_tool("remember", fact))
        async with client_of(at, mode, None) as client:
            held = await client.call_tool("remember", fact)
    finally:
        at.do(at.service.policies.set(local(), {"rules": []}))
    assert (kept["pending_approval"], len(person.asked)) == (False, 1)
    assert_held(held, at)


@requirement("mcp:approval.profiles")
async def test_a_profile_tells_that_its_delete_waits(at: Served, mode: str, agent: str, mint: Mint) -> None:
    token = mint(*DELETERS, agents=(agent,))
    names = [f"n{count}" for count in range(11)]
    async with over_http(at, mode, token, "/mcp?profile=graph") as client:
        entities = [{"name": name, "entityType": "x", "observations": []} for name in names]
        body(await client.call_tool("create_entities", {"entities": entities}))
        waiting = await client.call_tool("delete_entities", {"entityNames": names})
        assert len(body(await client.call_tool("read_graph", {}))["entities"]) == 11
    assert "Do not repeat" in text(waiting)
    assert fault(waiting) == "conflict"
