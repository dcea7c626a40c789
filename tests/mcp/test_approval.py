"""Approval in place: who is asked, what they are shown, and what each answer does."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult

from quipu.bootstrap import open_container
from quipu.config import Settings
from quipu.governance.model import Diff, PreviewWriteResponse
from quipu.governance.operations import LIST_REVIEWS
from quipu.ledger.ledger import JournalQuery
from quipu.mcp import approval
from quipu.mcp.approval import question
from quipu.memory.operations import RECALL, REMEMBER
from quipu.model.journal import Entry
from quipu.model.principal import Permission, local
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock
from tests.mcp.clients import FACT, MEMORY, Person, World, body, fault, text
from tests.requirement import requirement

HELD = {**FACT, "approval_required": True}
REVIEWER = MEMORY | {Permission.REVIEW}


async def proposals(world: World, *statuses: str) -> list[Any]:
    wanted = statuses or ("pending", "approved", "rejected")
    return [one for status in wanted for one in (await world(LIST_REVIEWS, status=status)).reviews]


async def entries(world: World) -> list[Entry]:
    return [*await world.container.ledger.entries("default", JournalQuery())]


async def found(world: World, query: str = "bees") -> list[str]:
    return [hit.id for hit in await world(RECALL, query=query, min_relevance="off", k=100)]


# -- what an answer does ----------------------------------------------------------------------------------------------


@requirement("mcp:approval.answers")
async def test_a_yes_carries_the_write_out_and_the_entry_says_that_it_was_given_in_place(
    world: World,
) -> None:
    person = Person(reason="she said so")
    async with world.client(elicitation_callback=person) as client:
        done = await client.call_tool("remember", HELD)
    kept = body(done)
    assert (kept["pending_approval"], kept["stores"]) == (False, ["sqlite"])
    assert text(done) == f"Kept {kept['id']}."
    assert await found(world) == [kept["id"]]
    (asked,) = person.asked
    assert "Mara keeps bees" in asked
    (decided,) = await proposals(world, "approved")
    assert (decided.reviewer, decided.reason) == ("local", "she said so")
    (approved,) = [entry for entry in await entries(world) if entry.op == "approve"]
    assert approved.detail["in_place"] is True
    assert "self_approved" not in approved.detail


@requirement("mcp:approval.answers")
@pytest.mark.parametrize("person", [Person(approve=False), Person("decline")], ids=["unticked", "declined"])
async def test_a_no_is_an_error_and_nothing_is_kept(world: World, person: Person) -> None:
    async with world.client(elicitation_callback=person) as client:
        assert fault(await client.call_tool("remember", HELD)) == "approval_rejected"
    assert await found(world) == []
    assert [one.status for one in await proposals(world)] == ["rejected"]


@requirement("mcp:approval.answers")
async def test_a_no_stops_the_write_though_nothing_would_hold_it_by_now(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.rules({"id": "all", "effect": "hold"})
    dispatch = approval.dispatch

    async def late(ctx: Any, operation: Any, given: Any) -> Any:
        if operation is REMEMBER:
            await world.rules()
        return await dispatch(ctx, operation, given)

    monkeypatch.setattr(approval, "dispatch", late)
    async with world.client(elicitation_callback=Person(approve=False)) as client:
        assert fault(await client.call_tool("remember", FACT)) == "approval_rejected"
    assert await found(world) == []


@requirement("mcp:approval.answers")
async def test_an_answer_that_is_put_off_leaves_the_write_in_the_queue(world: World) -> None:
    async with world.client(elicitation_callback=Person("cancel")) as client:
        held = await client.call_tool("remember", HELD)
    assert body(held)["pending_approval"] is True
    assert "Do not repeat" in text(held)
    assert await found(world) == []
    assert [one.status for one in await proposals(world)] == ["pending"]


@requirement("mcp:approval.answers")
async def test_each_kind_of_write_is_carried_out_and_answers_as_it_would_have(world: World) -> None:
    person = Person()
    async with world.client(elicitation_callback=person) as client:
        ids = [body(await client.call_tool("remember", FACT))["id"] for _ in range(4)]
        await world.rules({"id": "all", "effect": "hold"})
        given = {"canonical": ids[0], "duplicates": [ids[1]]}
        merged = body(await client.call_tool("merge", given))
        expired = body(
            await client.call_tool("expire", {"policy": {"type": "semantic"}, "action": "archive"})
        )
        changed = await client.call_tool("remember", {**FACT, "id": ids[2], "content": "Mara keeps ants"})
        gone = body(await client.call_tool("forget", {"ids": [ids[3]]}))
    assert (merged["merged_count"], merged["pending_approval"]) == (1, False)
    assert (expired["matched_count"], expired["pending_approval"]) == (3, False)
    assert body(changed)["id"] == ids[2]
    assert (gone["forgotten_ids"], gone["pending_approval"]) == ([ids[3]], False)
    assert len(person.asked) == 4


# -- who is asked -----------------------------------------------------------------------------------------------------


@requirement("mcp:approval.who")
@pytest.mark.parametrize(
    ("permissions", "is_asked"), [(MEMORY, False), (REVIEWER, True)], ids=["an agent", "a reviewer"]
)
async def test_only_a_credential_that_may_review_is_asked(
    world: World, permissions: frozenset[Permission], is_asked: bool
) -> None:
    person = Person()
    caller = world.caller(world.named(permissions=permissions))
    async with world.client(caller, elicitation_callback=person) as client:
        answer = body(await client.call_tool("remember", HELD))
    assert (len(person.asked) == 1) is is_asked
    assert answer["pending_approval"] is not is_asked


@requirement("mcp:approval.who")
async def test_who_does_not_decide_on_such_writes_is_not_asked(world: World) -> None:
    person = Person()
    caller = world.caller(world.named(permissions=REVIEWER, review_operations=("merge",)))
    async with world.client(caller, elicitation_callback=person) as client:
        assert body(await client.call_tool("remember", HELD))["pending_approval"] is True
    assert person.asked == []


@requirement("mcp:approval.who")
async def test_a_client_that_cannot_be_asked_gets_the_queue(world: World) -> None:
    async with world.client() as client:
        held = body(await client.call_tool("remember", HELD))
    assert held["pending_approval"] is True
    assert held["approval_url"].startswith("http")


@requirement("mcp:approval.who")
async def test_a_write_that_several_must_agree_to_is_queued(world: World) -> None:
    await world.rules({"id": "two", "effect": "hold", "approvals": 2})
    person = Person()
    async with world.client(elicitation_callback=person) as client:
        assert body(await client.call_tool("remember", FACT))["pending_approval"] is True
    assert person.asked == []


@requirement("mcp:approval.rules")
async def test_a_write_that_a_rule_holds_is_asked_about_and_one_that_it_forbids_is_not(world: World) -> None:
    person = Person()
    async with world.client(elicitation_callback=person) as client:
        await world.rules({"id": "bees", "effect": "hold", "reason": "bees sting"})
        assert body(await client.call_tool("remember", FACT))["pending_approval"] is False
        await world.rules({"id": "none", "effect": "deny"})
        assert fault(await client.call_tool("remember", FACT)) == "forbidden"
    (asked,) = person.asked
    assert "bees sting" in asked
    assert "deny" in [entry.op for entry in await entries(world)]


# -- what they are shown ----------------------------------------------------------------------------------------------


@requirement("mcp:approval.question")
async def test_the_question_shows_what_will_change(world: World) -> None:
    person = Person()
    async with world.client(elicitation_callback=person) as client:
        kept = body(await client.call_tool("remember", FACT))["id"]
        other = body(await client.call_tool("remember", {**FACT, "content": "Luis sings\nloudly"}))["id"]
        await world.rules({"id": "all", "effect": "hold"})
        await client.call_tool("remember", {**FACT, "id": kept, "content": "Mara keeps wasps"})
        await client.call_tool(
            "merge", {"canonical": kept, "duplicates": [other], "strategy": "merge_content"}
        )
        await client.call_tool("forget", {"ids": [kept]})
    change, merge, forget = person.asked
    assert change.startswith("Remember for agent agent")
    assert f"~ [{kept}] Mara keeps [-bees-][+wasps+]" in change
    assert f"- [{other}] Luis sings" in merge
    assert "Luis sings\nloudly" in merge  # as part of the text that stays
    assert forget.splitlines()[1] == f"- [{kept}] Mara keeps wasps"


@requirement("mcp:approval.question")
async def test_what_is_too_long_to_show_as_a_whole_is_queued_and_not_asked(world: World) -> None:
    person = Person()
    async with world.client(elicitation_callback=person) as client:
        long = await client.call_tool("remember", {**HELD, "content": "word " * 500})
        for number in range(120):
            await world(REMEMBER, content=f"note {number} of many", tags=["pile"])
        many = await client.call_tool("forget", {"filter": {"tags": "pile"}, "approval_required": True})
    assert body(long)["pending_approval"] is body(many)["pending_approval"] is True
    assert person.asked == []


# -- what an answer counts for ----------------------------------------------------------------------------------------


@requirement("mcp:approval.question")
def test_a_diff_that_had_to_be_cut_makes_no_question() -> None:
    preview = PreviewWriteResponse(would_hold=True, diff=Diff(counts={"removed": 101}), etag="00-11")
    assert question("forget", local(agent_id="agent"), {}, preview) is None


class Looking(Person):
    """Somebody who, before they answer, sees what the server has done so far."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.seen: list[tuple[int, list[str]]] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        done = [entry.op for entry in await entries(self._world) if entry.op != "create_store"]
        self.seen.append((len(await proposals(self._world)), done))
        return await super().__call__(context, params)


@requirement("mcp:approval.nothing-before")
async def test_nothing_is_staged_while_the_person_is_asked(world: World) -> None:
    person = Looking(world)
    async with world.client(elicitation_callback=person) as client:
        body(await client.call_tool("remember", HELD))
    assert person.seen == [(0, [])]
    assert [one.status for one in await proposals(world)] == ["approved"]


@requirement("mcp:approval.bound")
async def test_where_the_diff_changes_meanwhile_the_person_is_asked_again(world: World) -> None:
    kept = (await world(REMEMBER, content="Mara keeps bees")).id
    await world.rules({"id": "mcp", "effect": "hold", "when": {"principals": ["somebody"]}})

    class Meanwhile(Person):
        async def __call__(self, context: Any, params: Any) -> ElicitResult:
            if len(self.asked) == 0:
                await world(REMEMBER, id=kept, content="Mara keeps wasps")
            return await super().__call__(context, params)

    person = Meanwhile()
    caller = world.caller(world.named(permissions=REVIEWER))
    async with world.client(caller, elicitation_callback=person) as client:
        done = body(await client.call_tool("remember", {**FACT, "id": kept, "content": "Mara keeps ants"}))
    assert done["pending_approval"] is False
    assert ["bees-]" in one for one in person.asked] == [True, False]
    assert "[-wasps-]" in person.asked[1]


@requirement("mcp:approval.bound")
async def test_the_decision_is_bound_to_the_diff_that_was_shown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The etag is the last word: what changes between the second look and the decision is not carried out."""
    kept = (await world(REMEMBER, content="Mara keeps bees")).id
    await world.rules({"id": "mcp", "effect": "hold", "when": {"principals": ["somebody"]}})
    dispatch = approval.dispatch

    async def late(ctx: Any, operation: Any, given: Any) -> Any:
        answer = await dispatch(ctx, operation, given)
        if operation is REMEMBER:
            await world(REMEMBER, id=kept, content="Mara keeps wasps")
        return answer

    monkeypatch.setattr(approval, "dispatch", late)
    caller = world.caller(world.named(permissions=REVIEWER))
    async with world.client(caller, elicitation_callback=Person()) as client:
        held = body(await client.call_tool("remember", {**FACT, "id": kept, "content": "Mara keeps ants"}))
    assert held["pending_approval"] is True
    assert [one.status for one in await proposals(world)] == ["pending"]


# -- the modern generation's sealed state -----------------------------------------------------------------------------

ANSWER = {"approval": ElicitResult(action="accept", content={"approve": True})}


async def asked(client: Client, **given: Any) -> Any:
    return await client.session.call_tool("remember", {**HELD, **given}, allow_input_required=True)


async def answered(client: Client, state: str | None, **given: Any) -> Any:
    return await client.session.call_tool(
        "remember",
        {**HELD, **given},
        input_responses=ANSWER,
        request_state=state,
        allow_input_required=True,
    )


@requirement("mcp:running.sealed-state")
@pytest.mark.parametrize("mode", ["2026-07-28"])
async def test_an_answer_counts_only_for_whom_was_asked_and_for_what(world: World) -> None:
    mine = world.caller(world.named(permissions=REVIEWER))
    async with world.client(mine, elicitation_callback=Person()) as client:
        state = (await asked(client)).request_state
        with pytest.raises(MCPError, match="requestState"):
            await answered(client, state, content="something else")
        with pytest.raises(MCPError, match="requestState"):
            await answered(client, state[:-4] + "AAAA")
        for altered in (f"{state}-TAMPERED", f"{state}=", f"{state[:8]}.{state[8:]}", f" {state}"):
            with pytest.raises(MCPError, match="requestState"):
                await answered(client, altered)
        # An answer to nothing is a question.
        again = await answered(client, None)
        assert again.input_requests.keys() == {"approval"}
    async with world.client(elicitation_callback=Person()) as client:
        with pytest.raises(MCPError, match="requestState"):
            await answered(client, state)
    assert await proposals(world) == []
    # Any server of this memory takes it: here another one.
    async with world.client(mine, elicitation_callback=Person()) as client:
        assert body(await answered(client, state))["pending_approval"] is False


@requirement("mcp:approval.nothing-before")
@pytest.mark.parametrize("mode", ["2026-07-28"])
async def test_a_question_that_is_never_answered_leaves_nothing(world: World) -> None:
    async with world.client(elicitation_callback=Person()) as client:
        first, second = [await asked(client) for _ in range(2)]
    texts: list[Mapping[str, Any]] = [
        one.input_requests["approval"].params.message for one in (first, second)
    ]
    assert texts[0] == texts[1]
    assert await proposals(world) == []


@requirement("mcp:running.sealed-state")
@pytest.mark.parametrize("mode", ["2026-07-28"])
async def test_any_server_takes_the_answer_to_a_question_of_another(tmp_path: Path, mode: str) -> None:
    """Two servers of one file, as two processes would open it."""
    async with AsyncExitStack() as stack:
        servers: list[World] = []
        for _ in range(2):
            clock = Clock()
            container = await open_container(
                Settings(agent="agent"),
                stores=[str(tmp_path / "memory.db")],
                embedder=WordEmbedder(),
                clock=clock,
            )
            stack.push_async_callback(container.close)
            servers.append(World(container, clock, mode))
        first, second = (one.caller(one.named(permissions=REVIEWER)) for one in servers)
        async with servers[0].client(first, elicitation_callback=Person()) as client:
            state = (await asked(client)).request_state
        async with servers[1].client(second, elicitation_callback=Person()) as client:
            kept = body(await answered(client, state))
        assert kept["pending_approval"] is False
        for one in servers:
            assert await found(one) == [kept["id"]]
