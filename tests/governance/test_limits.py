"""What lies beyond a reviewer's limits answers as what does not exist."""

from itertools import count
from typing import Any

import pytest

from quipu.errors import ForbiddenError, NotFoundError
from quipu.governance.operations import DECIDE, LIST_REVIEWS, REVIEW, TEST_RULES, WITHDRAW_PROPOSAL
from quipu.memory.operations import (
    CREATE_STORE,
    DELETE_STORE,
    EXPIRE,
    FORGET,
    MERGE,
    REMEMBER,
    REMEMBER_MANY,
    UPDATE,
)
from quipu.model.principal import Principal
from tests.governance.office import Office

ASKED: dict[str, Any] = {"approval_required": True}


async def answers(office: Office, who: Principal, proposal_id: str) -> list[tuple[str, str | None, str]]:
    """What every operation that names a proposal says of this one."""
    said: list[tuple[str, str | None, str]] = []
    for operation, more in (
        (REVIEW, {}),
        (DECIDE, {"approved": True}),
        (DECIDE, {"approved": False}),
        (WITHDRAW_PROPOSAL, {}),
    ):
        with pytest.raises(NotFoundError) as refused:
            await office(operation, who, id=proposal_id, **more)
        said.append((refused.value.code, refused.value.reason, refused.value.message))
    return said


async def seen(office: Office, who: Principal) -> set[str]:
    return {one.id for one in (await office(LIST_REVIEWS, who, status="all")).reviews}


@pytest.fixture
async def held(office: Office) -> dict[str, str]:
    """What waits, by what it would touch."""
    await office(CREATE_STORE, name="clinic")
    mine = await office(REMEMBER, content="Ana likes tea", user_id="ana", tags=["tea"])
    clinic = await office(REMEMBER, content="Ana is ill", store="clinic", user_id="ana")
    both = [{"content": "a", "approval_required": True}, {"content": "b", "store": "clinic"}]
    agents = [
        {"content": "a", "agent_id": "agent", "approval_required": True},
        {"content": "b", "agent_id": "other"},
    ]
    found = {
        "main": await office(REMEMBER, content="x", user_id="ana", **ASKED),
        "clinic": await office(REMEMBER, content="x", store="clinic", user_id="ana", **ASKED),
        "update": await office(UPDATE, id=mine.id, content="x", **ASKED),
        "update of clinic": await office(UPDATE, id=clinic.id, content="x", **ASKED),
        "forget": await office(FORGET, ids=[mine.id], **ASKED),
        "forget of both": await office(FORGET, ids=[mine.id, clinic.id], **ASKED),
        "forget by filter": await office(FORGET, filter={"tags": "tea"}, **ASKED),
        "expire": await office(EXPIRE, policy={"type": "semantic"}, store="main", **ASKED),
        "expire anywhere": await office(EXPIRE, policy={"type": "semantic"}, **ASKED),
        "other agent": await office(REMEMBER, agent_id="other", content="x", user_id="ana", **ASKED),
        "other user": await office(REMEMBER, content="x", user_id="bo", **ASKED),
        "no user": await office(REMEMBER, content="x", **ASKED),
        "both stores": (await office(REMEMBER_MANY, atomic=True, items=both)).results[0].response,
        "both agents": (await office(REMEMBER_MANY, atomic=True, items=agents)).results[0].response,
    }
    return {name: one.proposal_id for name, one in found.items()}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, None),
        (
            {"review_stores": ["main"]},
            {"main", "update", "forget", "expire", "other agent", "other user", "no user", "both agents"},
        ),
        ({"review_stores": ["clinic"]}, {"clinic", "update of clinic"}),
        ({"review_operations": ["remember"]}, {"main", "clinic", "update", "update of clinic", "other agent", "other user", "no user", "both stores", "both agents"}),
        ({"review_operations": ["expire"]}, {"expire", "expire anywhere"}),
        ({"agents": ["other"]}, {"other agent"}),
        ({"user_id": "ana"}, {"main", "clinic", "update", "update of clinic", "forget", "forget of both", "forget by filter", "expire", "expire anywhere", "other agent"}),
        ({"user_id": "ana", "review_stores": ["main"], "agents": ["agent"]}, {"main", "update", "forget", "expire"}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)  # fmt: skip
async def test_a_reviewer_sees_a_held_write_as_a_whole_or_not_at_all(
    office: Office, held: dict[str, str], limits: dict[str, Any], expected: set[str] | None
) -> None:
    who = await office.token("carla", "reviewer", **limits)
    names = {proposal_id: name for name, proposal_id in held.items()}
    wanted = set(held) if expected is None else expected
    assert {names[one] for one in await seen(office, who)} == wanted
    nothing = await answers(office, who, "prop_nowhere")
    for name in set(held) - wanted:
        assert await answers(office, who, held[name]) == nothing, name
    tried = {names[one.proposal_id] for one in (await office(TEST_RULES, who)).pending}
    assert tried == wanted


async def test_what_is_decided_stays_within_the_limits_too(office: Office, held: dict[str, str]) -> None:
    who = await office.token("carla", "reviewer", review_stores=["main"])
    for proposal_id in held.values():
        await office.decide(proposal_id, approved=False)
    assert held["main"] in await seen(office, who)
    assert held["clinic"] not in await seen(office, who)


@pytest.mark.parametrize("limit", [{"review_stores": ["main"]}, {"review_operations": ["remember"]}], ids=str)
async def test_merging_into_and_superseding_reach_no_further_than_the_reviewer(
    office: Office, limit: dict[str, Any]
) -> None:
    """A yes to one memory takes nothing away beyond the limits, nor shows that it is there."""
    await office(CREATE_STORE, name="clinic")
    about = {"metadata": {"entity_name": "ana"}}
    ill = await office(REMEMBER, content="Ana is ill", store="clinic", **about)
    tea = await office(REMEMBER, content="Ana likes tea")
    who = await office.token("carla", "reviewer", **limit)
    held = await office(REMEMBER, content="Ana likes green tea", **ASKED)
    beyond = [tea.id] if "review_operations" in limit else [ill.id, "ana"]
    refused: list[str] = []
    for name in beyond:
        for more in ({"merge_into": {"canonical": name}}, {"supersedes": [name]}):
            with pytest.raises((ForbiddenError, NotFoundError)) as one:
                await office.decide(held.proposal_id, who, **more)
            refused.append(one.value.code)
    assert set(refused) == {"forbidden" if "review_operations" in limit else "not_found"}
    assert (await office.review(held.proposal_id)).status == "pending"
    records = await office.container.ledger.records("default", [ill.id, tea.id])
    assert {(record.version, record.standing) for record in records.values()} == {(1, "live")}
    if "review_stores" in limit:
        await office.decide(held.proposal_id, who, supersedes=[tea.id])


async def test_what_resembles_a_held_memory_is_shown_within_the_limits(office: Office) -> None:
    await office(CREATE_STORE, name="clinic")
    await office(REMEMBER, content="Ana likes green tea", store="clinic")
    held = await office(REMEMBER, content="Ana likes green tea", **ASKED)
    limited = await office.token("carla", "reviewer", review_stores=["main"])
    assert len((await office.review(held.proposal_id)).diff.related) == 1
    assert (await office.review(held.proposal_id, limited)).diff.related == ()


async def test_a_limited_writer_s_write_reaches_no_further_when_it_is_approved(office: Office) -> None:
    """What matches a filter is what its writer could see, whoever approves it."""
    await office(CREATE_STORE, name="clinic")
    await office(REMEMBER, content="Ana is ill", store="clinic")
    await office(REMEMBER, content="Ana likes tea")
    writer = await office.token("writer", "admin", review_stores=["main"])
    held = await office(FORGET, writer, filter={"type": "semantic"}, **ASKED)
    assert [one["content"] for one in (await office.review(held.proposal_id)).diff.removed] == [
        "Ana likes tea"
    ]
    await office.token("carla", "reviewer")
    await office.decide(held.proposal_id, await office.token("dario", "reviewer"))
    assert await office.texts() == ["Ana is ill"]


async def test_secret_memories_are_masked_where_they_are_only_there_to_be_known(office: Office) -> None:
    secret = await office(REMEMBER, content="Ana is ill", privacy_intent={"sensitivity": "secret"})
    held = await office(FORGET, ids=[secret.id], **ASKED)
    carla = await office.token("carla", "reviewer")
    masked = await office.review(held.proposal_id, carla)
    assert [one["content"] for one in masked.diff.removed] == ["[redacted]"]
    plain = await office.review(held.proposal_id)
    assert ([one["content"] for one in plain.diff.removed], plain.etag) == (["Ana is ill"], masked.etag)


async def test_an_ordinary_merge_is_held_for_who_sees_both(office: Office) -> None:
    await office(CREATE_STORE, name="clinic")
    one = await office(REMEMBER, content="Ana is ill", store="clinic")
    two = await office(REMEMBER, content="Ana is very ill", store="clinic")
    held = await office(MERGE, canonical=one.id, duplicates=[two.id], **ASKED)
    main = await office.token("main", "reviewer", review_stores=["main"])
    clinic = await office.token("clinic", "reviewer", review_stores=["clin*"])
    assert (await seen(office, main), await seen(office, clinic)) == (set(), {held.proposal_id})


async def test_past_writes_are_tried_within_the_limits(office: Office) -> None:
    """Of the journal a limited reviewer learns what lies within the limits for certain."""
    await office(CREATE_STORE, name="clinic")
    tea = await office(REMEMBER, content="Ana likes tea")
    ill = await office(REMEMBER, content="Ana is ill", store="clinic")
    theirs = await office(REMEMBER, agent_id="other", content="Bo likes tea")
    gone = await office(REMEMBER, content="Ana likes rain")
    for ids in ([tea.id, ill.id], [gone.id]):
        await office(FORGET, ids=ids, hard_delete=len(ids) == 1)

    async def tried(**limits: Any) -> list[tuple[str, int | None]]:
        who = await office.token(f"carla {next(numbers)}", "reviewer", **limits)
        return [(one.operation, one.seq) for one in (await office(TEST_RULES, who)).replayed]

    numbers = count()
    wrote = [("remember", one.seq) for one in (tea, ill, theirs, gone)]
    everything = await tried()
    assert [one for one in reversed(everything) if one[0] == "remember"] == wrote
    assert await tried(review_stores=["main"]) == [
        one for one in everything if one[0] == "erase" or one in (wrote[0], wrote[2], wrote[3])
    ]
    assert await tried(agents=["other"]) == [wrote[2]]
    items = [{"content": "rain", **ASKED}, {"content": "pain", "store": "clinic"}]
    both = (await office(REMEMBER_MANY, atomic=True, items=items)).results[0].response
    await office.decide(both.proposal_id, await office.token("mara", "reviewer"))
    assert len(await tried()) == len(everything) + 2
    assert len(await tried(review_stores=["main"])) == 4, "what was decided as a whole is seen as a whole"


async def test_what_waits_for_a_store_that_is_gone_is_for_reviewers_of_every_store(office: Office) -> None:
    await office(CREATE_STORE, name="clinic")
    held = await office(REMEMBER, content="x", store="clinic", **ASKED)
    own, every = (
        await office.token("own", "reviewer", review_stores=["clinic"]),
        await office.token("every", "reviewer"),
    )
    assert await seen(office, own) == await seen(office, every) == {held.proposal_id}
    await office(DELETE_STORE, name="clinic", confirm="clinic")
    assert (await seen(office, own), await seen(office, every)) == (set(), {held.proposal_id})
