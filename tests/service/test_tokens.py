"""Tokens and tenants: what is given, what is refused, what ends at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from quipu.bootstrap import Running, start
from quipu.config import Config
from quipu.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    QuotaExceededError,
    RateLimitedError,
    UnauthenticatedError,
)
from quipu.model.access import Role
from quipu.model.journal import Op
from quipu.model.operations import RecallRequest, RememberRequest
from quipu.model.principal import Permission, Principal, local
from quipu.model.record import MemoryType
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder

OWNER = local()


@pytest.fixture
async def running(clock: FixedClock) -> AsyncIterator[Running]:
    running = await start(Config(store_url="sqlite://:memory:"), embedder=WordEmbedder(), clock=clock)
    await running.parts.ledger.open(OWNER.tenant)
    yield running
    await running.close()


@pytest.fixture
def service(running: Running) -> MemoryService:
    return running.service


async def shown(service: MemoryService, text: str) -> Principal:
    return await service.credentials.principal(text)


async def refusal(awaited: Any) -> tuple[type[QuipuError], str | None]:
    with pytest.raises(QuipuError) as refused:
        await awaited
    return type(refused.value), refused.value.reason


async def test_a_token_stands_for_what_it_was_given(service: MemoryService) -> None:
    issued = await service.tokens.issue(
        OWNER, name="bot", roles=[Role.AGENT], agents=["ana", "bo-*"], user_id="mara", rate=7, recall_budget=9
    )
    who = await shown(service, issued.text)
    assert (who.tenant, who.name, who.agents, who.user_id) == ("default", "bot", ("ana", "bo-*"), "mara")
    assert who.permissions == {Permission.READ, Permission.WRITE, Permission.DELETE}
    assert (who.rate, who.recall_budget, who.is_local) == (7, 9, False)


async def test_the_text_is_long_random_and_told_once(service: MemoryService, running: Running) -> None:
    texts = [(await service.tokens.issue(OWNER, name=f"bot {n}", roles=[Role.AGENT])).text for n in range(20)]
    assert len(set(texts)) == 20
    assert all(re.fullmatch(r"qp_default_[A-Za-z0-9_-]{43}", text) for text in texts)
    listed = repr(await service.tokens.list(OWNER)) + repr(await running.parts.ledger.entries("default"))
    assert not any(text in listed for text in texts)
    assert all(text[: len("qp_default_") + 6] in listed for text in texts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "qp_default_",
        "qp_default_" + "a" * 43,
        "qp_other_" + "a" * 43,
        "a.b.c",
        "qp_DEFAULT_" + "a" * 43,
    ],
)
async def test_anything_else_is_refused_alike(service: MemoryService, text: str) -> None:
    assert await refusal(shown(service, text)) == (UnauthenticatedError, "bad_token")


async def test_a_token_of_one_tenant_is_none_in_another(service: MemoryService) -> None:
    await service.tenancy.create(OWNER, "acme")
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])
    forged = issued.text.replace("qp_default_", "qp_acme_")
    assert await refusal(shown(service, forged)) == (UnauthenticatedError, "bad_token")


async def test_revocation_is_effective_at_once(service: MemoryService) -> None:
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])
    assert (await shown(service, issued.text)).name == "bot"
    ended = await service.tokens.revoke(OWNER, issued.token.id)
    assert await refusal(shown(service, issued.text)) == (UnauthenticatedError, "revoked_token")
    assert await service.tokens.revoke(OWNER, issued.token.id) == ended


async def test_a_token_expires(service: MemoryService, clock: FixedClock) -> None:
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT], expires_at=clock() + 1000)
    assert (await shown(service, issued.text)).expires_at == clock() + 1000
    clock.move(1000)
    assert await refusal(shown(service, issued.text)) == (UnauthenticatedError, "expired_token")
    with pytest.raises(InvalidError):
        await service.tokens.issue(OWNER, name="late", roles=[Role.AGENT], expires_at=clock())


async def test_rotation_gives_a_new_text_and_ends_the_old_one(
    service: MemoryService, clock: FixedClock
) -> None:
    first = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT], agents=["ana"])
    second = await service.tokens.rotate(OWNER, first.token.id, grace_ms=500)
    assert replace(await shown(service, first.text), expires_at=None) == await shown(service, second.text)
    clock.move(500)
    assert await refusal(shown(service, first.text)) == (UnauthenticatedError, "revoked_token")
    third = await service.tokens.rotate(OWNER, second.token.id)
    assert await refusal(shown(service, second.text)) == (UnauthenticatedError, "revoked_token")
    assert (await shown(service, third.text)).name == "bot"
    assert await refusal(service.tokens.rotate(OWNER, first.token.id)) == (ConflictError, "token_ended")


async def test_a_suspended_tenant_is_shut(service: MemoryService) -> None:
    await service.tenancy.create(OWNER, "acme")
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT], tenant="acme")
    assert (await shown(service, issued.text)).tenant == "acme"
    assert (await service.tenancy.suspend(OWNER, "acme")).suspended_at is not None
    assert await refusal(shown(service, issued.text)) == (UnauthenticatedError, "suspended_tenant")
    await service.tenancy.resume(OWNER, "acme")
    assert (await shown(service, issued.text)).tenant == "acme"


async def test_an_operator_does_not_shut_themselves_out(service: MemoryService) -> None:
    issued = await service.tokens.issue(OWNER, name="ops", roles=[Role.OPERATOR])
    ops = await shown(service, issued.text)
    assert await refusal(service.tenancy.suspend(ops, "default")) == (ConflictError, "own_tenant")


async def test_a_name_stands_for_one_good_token(service: MemoryService) -> None:
    first = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])
    again = service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])
    assert await refusal(again) == (ConflictError, "name_taken")
    await service.tokens.revoke(OWNER, first.token.id)
    await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])


async def test_nobody_gives_more_than_they_have(service: MemoryService) -> None:
    await service.tenancy.create(OWNER, "acme")
    admin = await shown(service, (await service.tokens.issue(OWNER, name="boss", roles=[Role.ADMIN])).text)
    await service.tokens.issue(admin, name="bot", roles=[Role.AGENT, Role.REVIEWER])
    for wanted in ({"roles": [Role.OPERATOR]}, {"permissions": [Permission.OPERATE]}):
        asked = service.tokens.issue(admin, name="ops", **wanted)
        assert await refusal(asked) == (ForbiddenError, "missing_scope")
    for call in (
        service.tokens.issue(admin, name="x", roles=[Role.AGENT], tenant="acme"),
        service.tokens.list(admin, "acme"),
        service.tokens.issue(admin, name="x", roles=[Role.AGENT], tenant="nobody"),
    ):
        assert await refusal(call) == (NotFoundError, "tenant")
    bot = await shown(service, (await service.tokens.issue(OWNER, name="b", roles=[Role.AGENT])).text)
    for call in (service.tokens.list(bot), service.tokens.issue(bot, name="y", roles=[Role.AGENT])):
        assert await refusal(call) == (ForbiddenError, "missing_scope")


async def test_a_manager_bound_to_agents_gives_no_wider_reach(service: MemoryService) -> None:
    issued = await service.tokens.issue(
        OWNER,
        name="lead",
        roles=[Role.AGENT],
        permissions=[Permission.MANAGE],
        agents=["ana"],
        user_id="mara",
    )
    lead = await shown(service, issued.text)
    await service.tokens.issue(lead, name="ok", roles=[Role.AGENT], agents=["ana"], user_id="mara")
    for wanted in ({"agents": ["*"], "user_id": "mara"}, {"agents": ["ana"]}):
        asked = service.tokens.issue(lead, name="wide", roles=[Role.AGENT], **wanted)
        assert await refusal(asked) == (ForbiddenError, "missing_scope")


async def test_a_token_beyond_one_s_own_reach_is_not_rotated(service: MemoryService) -> None:
    given = {"roles": [Role.AGENT], "permissions": [Permission.MANAGE]}
    issued = await service.tokens.issue(OWNER, name="lead", agents=["ana"], user_id="mara", **given)
    lead = await shown(service, issued.text)
    wide = await service.tokens.issue(OWNER, name="wide", roles=[Role.AGENT], user_id="mara")
    anybody = await service.tokens.issue(OWNER, name="anybody", roles=[Role.AGENT], agents=["ana"])
    for beyond in (wide, anybody):
        asked = service.tokens.rotate(lead, beyond.token.id)
        assert await refusal(asked) == (ForbiddenError, "missing_scope")
        assert (await shown(service, beyond.text)).name == beyond.token.name, "it goes on"
    own = await service.tokens.issue(lead, name="own", roles=[Role.AGENT], agents=["ana"], user_id="mara")
    await service.tokens.rotate(lead, own.token.id)
    issued = await service.tokens.issue(
        OWNER, name="desk", roles=[Role.REVIEWER], permissions=[Permission.MANAGE], review_stores=["shop-*"]
    )
    desk = await shown(service, issued.text)
    every = await service.tokens.issue(OWNER, name="every", roles=[Role.REVIEWER])
    assert await refusal(service.tokens.rotate(desk, every.token.id)) == (ForbiddenError, "missing_scope")
    await service.tokens.rotate(desk, issued.token.id)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "A", ""])
async def test_a_tenant_that_cannot_be_is_not_asked_for(running: Running, name: str) -> None:
    async def unasked(_name: str) -> object:
        raise AssertionError("no ledger is asked for it")

    object.__setattr__(running.parts.ledger, "tenant", unasked)
    tokens, tenancy = running.service.tokens, running.service.tenancy
    for asked in (tenancy.resume(OWNER, name), tenancy.suspend(OWNER, name), tokens.list(OWNER, name)):
        assert await refusal(asked) == (NotFoundError, "tenant")


async def test_a_grace_beyond_all_time_is_refused(service: MemoryService) -> None:
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])
    asked = service.tokens.rotate(OWNER, issued.token.id, grace_ms=(1 << 63) - 1)
    assert await refusal(asked) == (InvalidError, "bad_value")
    assert (await shown(service, issued.text)).expires_at is None


async def test_an_operator_sees_no_memories(service: MemoryService) -> None:
    issued = await service.tokens.issue(OWNER, name="ops", roles=[Role.OPERATOR])
    ops = await shown(service, issued.text)
    await service.tenancy.create(ops, "acme")
    assert [tenant.id for tenant in await service.tenancy.list(ops)] == ["acme", "default"]
    await service.tokens.issue(ops, name="first", roles=[Role.ADMIN], tenant="acme")
    for call in (
        service.recall(ops, RecallRequest(agent_id="ana", query="x")),
        service.remember(ops, RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="x")),
        service.stores.list(ops),
    ):
        assert await refusal(call) == (ForbiddenError, "missing_scope")


async def test_issuing_and_ending_stand_on_the_journal(service: MemoryService, running: Running) -> None:
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.REVIEWER])
    await service.tokens.revoke(OWNER, issued.token.id)
    told = [
        (entry.op, entry.detail["token"])
        for entry in await running.parts.ledger.entries("default")
        if "token" in entry.detail
    ]
    assert told == [(Op.ISSUE_TOKEN, issued.token.id), (Op.END_TOKEN, issued.token.id)]
    assert (await service.audit.verify(OWNER)).holds


@pytest.mark.parametrize("name", ["", "local", "System", "oidc:mara", "a\nb", "x" * 101])
async def test_bad_names(service: MemoryService, name: str) -> None:
    asked = service.tokens.issue(OWNER, name=name, roles=[Role.AGENT])
    assert await refusal(asked) == (InvalidError, "bad_value")


@pytest.mark.parametrize("tenant", ["", "Acme", "a_b", "-a", "a" * 64, "a/b", "ä"])
async def test_bad_tenants(service: MemoryService, tenant: str) -> None:
    assert await refusal(service.tenancy.create(OWNER, tenant)) == (InvalidError, "bad_value")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"roles": [Role.AGENT], "agents": []},
        {"roles": [Role.AGENT], "agents": [""]},
        {"roles": [Role.AGENT], "rate": 0},
        {"roles": [Role.AGENT], "recall_budget": -1},
        {"roles": [Role.AGENT], "agents": ["shop-*", "\ud800"]},
        {"roles": [Role.AGENT], "agents": ["a\x00"]},
        {"roles": [Role.AGENT], "user_id": "\udfff"},
        {"roles": [Role.AGENT], "user_id": "a\x00"},
        {"roles": [Role.AGENT], "user_id": "x" * 10_000},
        {"roles": [Role.REVIEWER], "review_stores": ["\ud800"]},
    ],
    ids=[
        "nothing", "no agents", "an empty agent", "no rate", "no budget", "an agent that is no text",
        "an agent with a null", "a user that is no text", "a user with a null", "a long user", "a store that is no text",
    ],
)  # fmt: skip
async def test_bad_grants(service: MemoryService, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        await service.tokens.issue(OWNER, name="bot", **given)
    assert await service.tokens.list(OWNER) == ()


async def test_the_first_token_is_told_apart(service: MemoryService) -> None:
    assert await service.tokens.is_first_run()
    await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])
    assert not await service.tokens.is_first_run()


async def test_a_credential_that_is_too_fast_waits(service: MemoryService, clock: FixedClock) -> None:
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT], rate=2)
    other = await service.tokens.issue(OWNER, name="other", roles=[Role.AGENT], rate=2)
    await shown(service, issued.text)
    await shown(service, issued.text)
    with pytest.raises(RateLimitedError) as refused:
        await shown(service, issued.text)
    assert refused.value.retry_after == 30
    await shown(service, other.text)
    clock.move(30_000)
    await shown(service, issued.text)


async def test_a_recall_budget_is_spent_and_comes_back(service: MemoryService, clock: FixedClock) -> None:
    for number in range(3):
        await service.remember(
            OWNER, RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=f"tea number {number}")
        )
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT], recall_budget=4)
    bot = await shown(service, issued.text)
    ask = RecallRequest(agent_id="ana", query="tea number", min_relevance=0.0)
    assert len((await service.recall(bot, ask)).results) == 3
    assert len((await service.recall(bot, ask)).results) == 3
    with pytest.raises(QuotaExceededError) as refused:
        await service.recall(bot, ask)
    assert refused.value.retry_after is not None
    assert refused.value.retry_after <= 3600
    assert len((await service.recall(OWNER, ask)).results) == 3
    clock.move(refused.value.retry_after * 1000)
    assert len((await service.recall(bot, ask)).results) == 3


async def test_two_who_revoke_and_use_at_once(service: MemoryService) -> None:
    """Whatever the order: after the revocation was answered, the token is refused."""
    issued = await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])

    async def use() -> None:
        for _ in range(20):
            try:
                await shown(service, issued.text)
            except UnauthenticatedError:
                return

    async def end() -> None:
        await service.tokens.revoke(OWNER, issued.token.id)
        with pytest.raises(UnauthenticatedError):
            await shown(service, issued.text)

    await asyncio.gather(use(), end(), use())
