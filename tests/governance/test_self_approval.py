"""Nobody approves what they wrote, nor what was written by who made their token, whichever way they come in.

The command is asked the same in `tests/cli/test_serve.py`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from quipu.access.operations import CREATE_TOKEN, WHOAMI
from quipu.errors import ForbiddenError
from quipu.governance.operations import DECIDE, REVIEW
from quipu.memory.operations import REMEMBER
from quipu.model.principal import Principal, local
from tests.mcp.clients import FACT, Person, World
from tests.mcp.test_extension import ask, known
from tests.web.conftest import House, open_house

#: Approves a held write with a token; None, or how it was refused.
Way: TypeAlias = Callable[[House, str, str], Awaitable[str | None]]
COMMAND = "quipu token create NAME --roles reviewer"


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = await open_house()
    yield made
    await made.close()


async def on_the_page(house: House, token: str, proposal_id: str) -> str | None:
    """Also where the page offers no such button."""
    person = house.stranger()
    await person.sign_in(token)
    page = await person.get(f"/review/{proposal_id}")
    fields = page.html.form("reject").fields
    answer = await person.post(page.path, [*fields, ("action", "approve")])
    return None if "Approved, and carried out" in answer.text else answer.text


async def over_http(house: House, token: str, proposal_id: str) -> str | None:
    transport = httpx.ASGITransport(house.app)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        answer = await client.post(f"/v1/proposals/{proposal_id}/decision", json={"approved": True})
    if answer.status_code == 200:
        return None
    assert (answer.status_code, answer.json()["reason"]) == (403, "self_approval")
    return answer.text


async def over_mcp(house: House, token: str, proposal_id: str) -> str | None:
    world = World(house.container, house.clock, "2026-07-28")
    async with known(world, world.caller(await house.principal(token))) as client:
        try:
            await ask(client, "review", id=proposal_id, approved=True)
        except MCPError as error:
            return str(error)
    return None


@pytest.fixture(params=[on_the_page, over_http, over_mcp], ids=["page", "http", "mcp"])
def approve(request: pytest.FixtureRequest) -> Way:
    return request.param


async def held(house: House, writer: Principal) -> str:
    asked = {"agent_id": "agent", "content": "Ana lives in Lisbon", "approval_required": True}
    return (await house(REMEMBER, writer, **asked)).proposal_id


async def minted(house: House, name: str, maker: Principal, role: str = "admin") -> str:
    return (await house(CREATE_TOKEN, maker, name=name, roles=[role])).text


async def test_who_alone_may_review_approves_their_own_write_and_the_entry_says_so(
    house: House, approve: Way
) -> None:
    token = await house.token("ada", "admin")
    ada = await house.principal(token)
    assert (await house(WHOAMI, ada)).solo
    assert await approve(house, token, await held(house, ada)) is None
    (entry,) = await house.entries("approve")
    assert (entry.actor, entry.detail["self_approved"]) == ("ada", True)


async def test_with_a_second_reviewer_only_that_one_approves(house: House, approve: Way) -> None:
    token, carla = await house.token("ada", "admin"), await house.token("carla", "reviewer")
    ada = await house.principal(token)
    assert not (await house(WHOAMI, ada)).solo
    proposal = await held(house, ada)
    refused = await approve(house, token, proposal)
    assert refused is not None
    assert COMMAND in refused, "what to do about it is said"
    assert await approve(house, carla, proposal) is None
    (entry,) = await house.entries("approve")
    assert (entry.actor, "self_approved" in entry.detail) == ("carla", False)


async def test_what_a_principal_minted_does_not_approve_for_it(house: House, approve: Way) -> None:
    token = await house.token("ada", "admin")
    ada = await house.principal(token)
    deputy = await minted(house, "deputy", ada)
    child = await minted(house, "child", await house.principal(deputy))
    proposal = await held(house, ada)
    for made in (deputy, child):
        refused = await approve(house, made, proposal)
        assert refused is not None
        assert COMMAND in refused
    assert (await house(REVIEW, id=proposal)).status == "pending"
    renamed = replace(await house.principal(deputy), name="renamed")
    with pytest.raises(ForbiddenError, match="who made their credential"):  # names do not decide who made it
        await house(DECIDE, renamed, id=proposal, approved=True)
    with pytest.raises(ForbiddenError, match="their own write"):  # nor is whoever is at the machine alone
        await house(DECIDE, id=await held(house, local(agent_id="agent")), approved=True)
    bot = await house.principal(await minted(house, "bot", ada, "agent"))
    assert await approve(house, token, await held(house, bot)) is None  # who made the writer's token may
    await house(DECIDE, ada, id=await held(house, ada), approved=False)  # a no is always one's own


async def test_a_yes_in_place_says_that_it_was_given_there(house: House) -> None:
    """By a person at the client that wrote it; the same credential, so the entry does not call it anybody else's."""
    ada = await house.principal(await house.token("ada", "admin"))
    await house.token("carla", "reviewer")
    world = World(house.container, house.clock, "2026-07-28")
    async with world.client(world.caller(ada), elicitation_callback=Person()) as client:
        kept = await client.call_tool("remember", {**FACT, "agent_id": "agent", "approval_required": True})
    assert not kept.is_error
    (entry,) = await house.entries("approve")
    assert (entry.actor, entry.detail["in_place"]) == ("ada", True)


async def test_the_page_offers_what_can_be_done_and_the_command_for_the_rest(house: House) -> None:
    token = await house.token("ada", "admin")
    ada = await house.principal(token)
    person = house.stranger()
    await person.sign_in(token)
    proposal = await held(house, ada)

    async def seen(who: Any, path: str) -> str:
        page = await who.get(path)
        assert page.status == 200
        return page.text

    for path in ("/", "/review", f"/review/{proposal}", "/access"):
        said = await seen(person, path)
        assert "Solo mode" in said
        assert path == "/" or COMMAND in said
    assert {"approve"} <= (await person.get(f"/review/{proposal}")).html.form("approve").actions

    deputy = house.stranger()
    await deputy.sign_in(await minted(house, "deputy", ada))
    for who, why in ((person, "somebody else has to approve it"), (deputy, "made your token")):
        page = await who.get(f"/review/{proposal}")
        assert why in page.text
        assert COMMAND in page.text
        assert "approve" not in page.html.form("reject").actions
        assert "Solo mode" not in await seen(who, "/review")
    assert "Written by who made your token" in await seen(deputy, "/review")
    assert (await house(WHOAMI, await house.principal(await minted(house, "two", ada)))).makers == ("ada",)
