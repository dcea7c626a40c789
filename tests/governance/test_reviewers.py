"""Reviewers who decide on some stores and some operations alone (contract 6.6)."""

from __future__ import annotations

from typing import Any

import pytest

from quipu import ForbiddenError, InvalidError, Memory, NotFoundError
from quipu.model.access import Role
from quipu.model.operations import RememberRequest
from quipu.model.principal import Permission, local
from quipu.model.record import MemoryType
from quipu.testing.builders import FixedClock
from tests.governance.office import REVIEWER, Office, a_rule, person, proposal_of
from tests.requirement import requirement
from tests.service.looks import ids, kept


@pytest.fixture
async def stocked(office: Office) -> Office:
    """The same office with two more stores, and a rule that holds whatever is not a read."""
    for name in ("shop-a", "private"):
        await office.admin.create_store(name)
    return office


def limited(office: Office, **limits: Any) -> Memory:
    return office.joined_by("nils", REVIEWER, **limits)


async def held_everywhere(office: Office) -> dict[str, str]:
    """One held write of each kind, by what it touches; all wait."""
    inside = await kept(office.admin, "inside", store="shop-a")
    twin = await kept(office.admin, "inside too", store="shop-a")
    outside = await kept(office.admin, "outside", store="private")
    gone = await kept(office.admin, "gone", store="private")
    await office.admin.forget(ids=[gone])
    await office.admin.set_rules(a_rule("hold"))
    agent = office.agent
    answers: dict[str, Any] = {
        "new in": await agent.remember("new", store="shop-a"),
        "new out": await agent.remember("new", store="private"),
        "new main": await agent.remember("new"),
        "change in": await agent.remember("changed", id=inside),
        "change out, named in": await agent.remember("changed", id=outside, store="shop-a"),
        "batch in": (await agent.remember_many([{"content": "b", "store": "shop-a"}], atomic=True))[0],
        "batch both": (
            await agent.remember_many([{"content": "b", "store": "shop-a"}, {"content": "c"}], atomic=True)
        )[0],
        "forget in": await agent.forget(ids=[inside]),
        "forget both": await agent.forget(ids=[inside, outside]),
        "forget any": await agent.forget(filter={"confidence": {"$gte": 0}}),
        "merge in": await agent.merge(inside, [twin]),
        "merge both": await agent.merge(inside, [outside]),
        "restore out": await agent.restore(gone),
    }
    return {name: proposal_of(answer) for name, answer in answers.items()}


async def names(who: Memory, held: dict[str, str]) -> set[str]:
    seen = {proposal.id for proposal in await who.proposals()}
    for name, proposal_id in held.items():
        if proposal_id not in seen:
            with pytest.raises(NotFoundError):
                await who.review(proposal_id)
            with pytest.raises(NotFoundError):
                await who.decide(proposal_id, approved=False)
        else:
            assert (await who.review(proposal_id)).proposal.id == proposal_id, name
    return {name for name, proposal_id in held.items() if proposal_id in seen}


@requirement("memorywire:rest.proposals")
async def test_a_reviewer_of_some_stores_sees_and_decides_nothing_that_reaches_beyond_them(
    stocked: Office,
) -> None:
    held = await held_everywhere(stocked)
    assert await names(stocked.carla, held) == set(held)
    inside = {"new in", "change in", "batch in", "forget in", "merge in"}
    nils = limited(stocked, review_stores=("shop-*",))
    assert await names(nils, held) == inside
    await nils.decide(held["new in"], approved=True)
    assert (await nils.review(held["new in"])).proposal.status == "approved", "who decided still sees it"
    assert await names(stocked.joined_by("olga", REVIEWER, review_stores=("nothing",)), held) == set()


@requirement("memorywire:rest.proposals")
async def test_a_reviewer_of_some_operations_sees_those_alone(stocked: Office) -> None:
    held = await held_everywhere(stocked)
    writes = {name for name in held if name.startswith(("new", "change", "batch"))}
    assert await names(limited(stocked, review_operations=("remember",)), held) == writes
    both = limited(stocked, review_operations=("merge", "restore"), review_stores=("private", "shop-a"))
    assert await names(both, held) == {"merge in", "merge both", "restore out"}


@requirement("memorywire:rest.proposals")
async def test_a_yes_to_one_memory_takes_nothing_away_beyond_the_reviewers_reach(stocked: Office) -> None:
    outside = await kept(stocked.admin, "tea is green", store="private")
    near = await kept(stocked.admin, "tea is hot", store="shop-a")
    held = await stocked.agent.remember("tea is black", store="shop-a", approval_required=True)
    nils = limited(stocked, review_stores=("shop-a",))
    modest = limited(stocked, review_operations=("remember",))
    for who, said in (
        (nils, {"supersedes": [outside]}),
        (nils, {"merge_into": outside}),
        (modest, {"supersedes": [near]}),
        (modest, {"merge_into": near}),
    ):
        with pytest.raises(ForbiddenError) as refused:
            await who.decide(proposal_of(held), approved=True, **said)
        assert refused.value.reason == "review_reach"
    assert await ids(stocked.admin) == {outside, near}
    await nils.decide(proposal_of(held), approved=True, supersedes=[near])
    assert await ids(stocked.admin) == {outside, held.id}


@requirement("memorywire:rest.proposals")
async def test_a_token_carries_the_limits_and_nobody_gives_more_than_they_have(stocked: Office) -> None:
    issued = await stocked.admin.create_token(
        "nils", roles=["reviewer"], review_stores=["shop-*"], review_operations=["remember", "remember"]
    )
    assert issued.token.review_operations == ("remember",)
    (known,) = await stocked.admin.list_tokens()
    assert (known.review_stores, known.review_operations) == (("shop-*",), ("remember",))
    service: Any = await stocked.admin._service()
    who = await service.credentials.principal(issued.text)
    assert (who.review_stores, who.review_operations) == (("shop-*",), ("remember",))
    rotated = await stocked.admin.rotate_token(issued.token.id)
    assert rotated.token.review_stores == ("shop-*",)
    for wrong in ({"review_operations": ["read"]}, {"review_stores": []}, {"review_operations": []}):
        with pytest.raises(InvalidError):
            await stocked.admin.create_token("x", roles=["reviewer"], **wrong)
    manager = person(
        "manager", REVIEWER | {Permission.MANAGE}, review_stores=("shop-a",), review_operations=("remember",)
    )
    within = {"review_stores": ["shop-a"], "review_operations": ["remember"]}
    for more in (
        {"review_stores": ["*"]},
        {"review_stores": ["shop-*"]},
        {"review_operations": ["remember", "merge"]},
    ):
        with pytest.raises(ForbiddenError):
            await service.tokens.issue(manager, name="y", roles=[Role.REVIEWER], **{**within, **more})
    assert (await service.tokens.issue(manager, name="y", roles=[Role.REVIEWER], **within)).text


async def test_suggestions_come_from_decisions_in_reach(stocked: Office) -> None:
    service: Any = await stocked.admin._service()
    agent = person("agent")
    for number in range(6):
        request = RememberRequest(
            agent_id="ana", type=MemoryType.SEMANTIC, content=f"x{number}", store="private", source="chat",
            approval_required=True,
        )  # fmt: skip
        held = await service.remember(agent, request)
        await service.decide(person("carla", REVIEWER), proposal_of(held), approved=True)
    assert len(await service.learning.suggested(local())) == 1
    assert await service.learning.suggested(person("nils", REVIEWER, review_stores=("shop-*",))) == ()


@pytest.mark.parametrize(
    ("happens", "counts"),
    [("nothing", True), ("revoked", False), ("replaced", False), ("rotated", True), ("expired", True)],
)
async def test_a_yes_of_who_was_shut_out_before_the_other_came_does_not_count(
    office: Office, clock: FixedClock, happens: str, counts: bool
) -> None:
    admin = office.admin
    service: Any = await admin._service()

    async def reviewer(name: str, **more: Any) -> tuple[Any, Any]:
        issued = await admin.create_token(name, roles=["reviewer"], **more)
        return issued.token, await service.credentials.principal(issued.text)

    token, nina = await reviewer("nina", expires_at=clock() + 60_000)
    (_, omar), (_, pia) = await reviewer("omar"), await reviewer("pia")
    await admin.set_rules({"rules": [{"id": "two", "when": {}, "effect": "hold", "approvals": 2}]})
    waits = proposal_of(await office.agent.remember("The door code changed"))
    await service.decide(nina, waits, approved=True)
    if happens in ("revoked", "replaced"):
        await admin.revoke_token(token.id)
    if happens == "rotated":
        await admin.rotate_token(token.id)
    clock.move(60_000 if happens == "expired" else 1)
    if happens == "replaced":
        await reviewer("nina")
    await service.decide(omar, waits, approved=True)
    one = await service.governance.proposal(omar, waits)
    if not counts:
        assert (one.status, [each.reviewer for each in one.given]) == ("pending", ["omar"])
        assert (await office.admin.list()).records == ()
        await service.decide(pia, waits, approved=True)
    assert (await service.governance.proposal(omar, waits)).status == "approved"
    (entry,) = [each for each in await admin.journal(limit=1_000) if each.op == "decide"]
    assert entry.detail["with"] == (["nina"] if counts else ["omar"])
