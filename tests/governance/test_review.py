"""Held, shown, decided: effect and decision are one."""

import asyncio
from dataclasses import replace

import pytest

from quipu.config import Settings
from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, UnsupportedError
from quipu.governance.model import PROPOSAL_SUBJECTS, PROPOSALS
from quipu.governance.operations import LIST_REVIEWS, PREVIEW_WRITE, REVIEW, WITHDRAW_PROPOSAL
from quipu.governance.proposals import LIFE_MS
from quipu.memory.operations import (
    CREATE_STORE,
    DELETE_STORE,
    EXPIRE,
    FORGET,
    GET,
    HISTORY,
    MERGE,
    REMEMBER,
    REMEMBER_MANY,
    RESTORE,
    UPDATE,
)
from quipu.model.principal import Principal, local
from quipu.secrets.operations import ADD_SECRET
from tests.governance.office import HOLD_ALL, Office, altered, open_office

SECRET = "correct-horse-battery-staple"


# -- the story ---------------------------------------------------------------------------------------------------------


async def test_a_held_write_is_a_proposal_and_nothing_else_until_it_is_approved(any_office: Office) -> None:
    office = any_office
    held = await office(REMEMBER, content="Ana lives in Lisbon", tags=["home"], approval_required=True)
    assert (held.outcome, held.pending_approval, held.stores, held.seq) == ("held", True, (), None)
    assert held.approval_url == f"/review/{held.proposal_id}"
    assert await office.texts() == []
    with pytest.raises(NotFoundError):
        await office(GET, id=held.id)

    shown = await office.review(held.proposal_id)
    assert (shown.operation, shown.status, shown.writer, shown.held_by) == (
        "remember",
        "pending",
        "local",
        ("caller",),
    )
    assert [one["content"] for one in shown.diff.added] == ["Ana lives in Lisbon"]
    done = await office.decide(held.proposal_id, etag=shown.etag, reason="I know her")
    assert (done.approved, done.reviewer, done.reason, done.approvals_left) == (
        True,
        "local",
        "I know her",
        0,
    )
    assert (await office(GET, id=held.id)).tags == ("home",)
    assert await office.texts() == ["Ana lives in Lisbon"]

    decided, effect = (await office.entries("approve", "remember"))[-2:]
    assert (decided.seq + 1, decided.op, effect.op) == (effect.seq, "approve", "remember")
    assert effect.detail["proposal"] == decided.detail["proposal"] == held.proposal_id
    (kept,) = await office.container.ledger.page(PROPOSALS, "default")
    assert (kept.status, kept.request, kept.reviewer) == ("approved", None, "local")
    (about,) = await office.container.ledger.page(PROPOSAL_SUBJECTS, "default")
    assert (about.record_id, about.proposal_id) == (held.id, held.proposal_id)
    with pytest.raises(ConflictError) as refused:
        await office.decide(held.proposal_id, approved=False)
    assert refused.value.reason == "already_decided"


async def test_every_kind_of_write_is_held_and_carried_out_as_it_was_shown(office: Office) -> None:
    first = await office(REMEMBER, content="Ana lives in Lisbon")
    second = await office(REMEMBER, content="Ana is in Lisbon")
    gone = await office(REMEMBER, content="Ana had a cat")
    await office(FORGET, ids=[gone.id])
    await office.rules(HOLD_ALL)
    held = {
        "update": await office(UPDATE, id=first.id, content="Ana lives in Porto"),
        "merge": await office(MERGE, canonical=first.id, duplicates=[second.id]),
        "restore": await office(RESTORE, id=gone.id),
        "forget": await office(FORGET, ids=[gone.id, first.id]),
        "remember_many": (
            await office(
                REMEMBER_MANY, atomic=True, items=[{"content": "Bo"}, {"id": second.id, "content": "Cy"}]
            )
        )
        .results[0]
        .response,
    }
    shown = {name: (await office.review(one.proposal_id)).diff for name, one in held.items()}
    assert [(one.id, one.after) for one in shown["update"].modified] == [
        (first.id, {"content": "Ana lives in Porto"})
    ]
    assert [one["id"] for one in shown["merge"].removed] == [second.id]
    assert [one["id"] for one in shown["merge"].stays] == [first.id]
    assert shown["restore"].modified[0].after == {"state": "live"}
    assert [one["id"] for one in shown["forget"].removed] == [first.id]  # the other one is gone already
    assert (
        [one["content"] for one in shown["remember_many"].added],
        len(shown["remember_many"].modified),
    ) == (["Bo"], 1)
    for name in ("remember_many", "restore", "merge", "update", "forget"):
        await office.decide(held[name].proposal_id)
    assert await office.texts("Ana Bo") == ["Bo"]
    versions = (await office(HISTORY, id=first.id)).versions
    assert [one.content for one in versions] == ["Ana lives in Lisbon", "Ana lives in Porto"]
    assert (await office(HISTORY, id=gone.id)).versions[-1].ending == "forgotten"


async def test_memories_get_the_ids_that_were_promised(office: Office) -> None:
    held = await office(
        REMEMBER_MANY,
        atomic=True,
        items=[
            {"content": "one", "key": "k", "approval_required": True},
            {"content": "two"},
            {"content": "three"},
        ],
    )
    ids = [item.response.id for item in held.results]
    await office.decide(held.results[0].response.proposal_id)
    assert [(await office(GET, id=one)).content for one in ids] == ["one", "two", "three"]


async def test_an_expiry_of_nothing_is_answered_and_not_queued(office: Office) -> None:
    await office.rules(HOLD_ALL)
    answer = await office(EXPIRE, policy={"older_than_days": 30})
    assert (answer.is_held, answer.matched_count) == (False, 0)
    assert (await office(FORGET, ids=["mem_nowhere"])).is_held is False
    assert (await office(LIST_REVIEWS)).reviews == ()


async def test_a_repeated_key_waits_once_and_a_dry_run_never(office: Office) -> None:
    await office.rules(HOLD_ALL)
    first = await office(REMEMBER, content="one", idempotency_key="k")
    again = await office(REMEMBER, content="one", idempotency_key="k")
    assert (again.proposal_id, again.replayed, again.is_held) == (first.proposal_id, True, True)
    assert (await office(REMEMBER, content="one", dry_run=True)).outcome == "planned"
    assert len((await office(LIST_REVIEWS)).reviews) == 1


# -- traps -------------------------------------------------------------------------------------------------------------


async def test_a_held_write_is_redacted_again_when_it_is_approved(office: Office) -> None:
    held = await office(REMEMBER, content=f"the pass is {SECRET}", approval_required=True)
    in_name = await office(REMEMBER, content="x", session_id=SECRET, approval_required=True)
    await office(ADD_SECRET, label="pass", value=SECRET)
    assert SECRET not in str((await office.review(held.proposal_id)).diff)
    await office.decide(held.proposal_id)
    assert SECRET not in (await office(GET, id=held.id)).content
    with pytest.raises(InvalidError):
        await office.decide(in_name.proposal_id)
    await office.decide(in_name.proposal_id, approved=False)


async def test_a_run_s_own_secret_is_kept_out_of_what_it_wrote(office: Office) -> None:
    held = await office(REMEMBER, content=f"the pass is {SECRET}", run_id="r1", approval_required=True)
    await office(ADD_SECRET, label="pass", value=SECRET, run_id="r1")
    await office.decide(held.proposal_id)
    assert SECRET not in (await office(GET, id=held.id)).content


async def test_an_altered_proposal_cannot_be_approved_only_rejected(any_office: Office) -> None:
    office = any_office
    held = await office(REMEMBER, content="Ana lives in Lisbon", approval_required=True)
    await altered(office.container, held.proposal_id)
    shown = await office.review(held.proposal_id)
    assert (shown.problem, shown.diff, shown.etag) == ("What waits here is not what was held.", None, None)
    with pytest.raises(ConflictError) as refused:
        await office.decide(held.proposal_id)
    assert refused.value.reason == "altered_proposal"
    await office.decide(held.proposal_id, approved=False)
    assert await office.texts() == []


async def test_a_decision_on_a_diff_that_has_changed_is_refused_and_can_be_repeated(office: Office) -> None:
    kept = await office(REMEMBER, content="Ana lives in Lisbon")
    held = await office(UPDATE, id=kept.id, tags=["home"], approval_required=True)
    seen = (await office.review(held.proposal_id)).etag
    await office(UPDATE, id=kept.id, content="Ana lives in Porto")
    with pytest.raises(ConflictError) as refused:
        await office.decide(held.proposal_id, etag=seen)
    assert refused.value.reason == "stale_proposal"
    shown = await office.review(held.proposal_id)
    assert shown.etag != seen
    office.clock.now += 5_000  # time alone changes nothing
    await office.decide(held.proposal_id, etag=shown.etag)
    assert (await office(GET, id=kept.id)).tags == ("home",)


async def test_what_cannot_be_carried_out_says_why_and_the_proposal_stays(office: Office) -> None:
    kept = await office(REMEMBER, content="Ana lives in Lisbon")
    held = await office(
        UPDATE, id=kept.id, content="Ana lives in Porto", if_version=1, approval_required=True
    )
    await office(UPDATE, id=kept.id, content="Ana lives in Faro")
    shown = await office.review(held.proposal_id)
    assert (shown.diff, shown.problem is not None) == (None, True)
    with pytest.raises(ConflictError) as refused:
        await office.decide(held.proposal_id, etag=shown.etag)
    assert refused.value.reason == "version_mismatch"
    assert (await office.review(held.proposal_id)).status == "pending"


@pytest.mark.parametrize("answers", [(True, True), (True, False), (False, False)])
async def test_of_two_who_decide_at_once_one_wins(any_office: Office, answers: tuple[bool, bool]) -> None:
    office = any_office
    people = [await office.token(name, "reviewer") for name in ("carla", "dario")]
    agent = await office.token("bot")
    held = await office(REMEMBER, agent, content="Ana lives in Lisbon", approval_required=True)
    done = await asyncio.gather(
        *(
            office.decide(held.proposal_id, who, approved)
            for who, approved in zip(people, answers, strict=True)
        ),
        return_exceptions=True,
    )
    lost = [one for one in done if isinstance(one, ConflictError)]
    (won,) = [one for one in done if not isinstance(one, BaseException)]
    assert [one.reason for one in lost] == ["already_decided"]
    assert len(await office.entries("approve", "reject")) == 1
    assert len(await office.entries("remember")) == int(won.approved)


# -- editing, merging, superseding -----------------------------------------------------------------------------------


async def test_an_approval_with_an_edit_keeps_what_the_reviewer_says(office: Office) -> None:
    held = await office(
        REMEMBER, content="Ana lives in Lisbon", tags=["x"], confidence=0.5, approval_required=True
    )
    with pytest.raises(InvalidError) as refused:
        await office.decide(held.proposal_id, edit={"type": "emotional", "content": {"a": 1}})
    assert refused.value.faults[0].pointer.startswith("/edit/content")
    await office(ADD_SECRET, label="pass", value=SECRET)
    await office.decide(held.proposal_id, edit={"content": f"Ana lives in Porto, {SECRET}", "tags": ["home"]})
    shown = await office(GET, id=held.id)
    assert (shown.tags, shown.confidence, SECRET in shown.content) == (("home",), 0.5, False)
    assert shown.content.startswith("Ana lives in Porto")
    assert (await office.entries("approve"))[-1].detail["edited"] == ["content", "tags"]


async def test_a_held_change_is_edited_too_and_may_supersede_but_goes_into_no_other(office: Office) -> None:
    kept, old = (
        await office(REMEMBER, content="Ana likes tea"),
        await office(REMEMBER, content="Ana likes rain"),
    )
    held = await office(UPDATE, id=kept.id, content="Ana likes milk", approval_required=True)
    with pytest.raises(InvalidError):
        await office.decide(held.proposal_id, merge_into={"canonical": old.id})
    with pytest.raises(InvalidError):  # its type is fixed
        await office.decide(held.proposal_id, edit={"type": "emotional"})
    await office.decide(held.proposal_id, edit={"content": "Ana likes oat milk"}, supersedes=[old.id])
    assert await office.texts() == ["Ana likes oat milk"]


async def test_a_vector_that_the_writer_computed_goes_with_the_words_that_are_masked_later(
    office: Office,
) -> None:
    await office(REMEMBER, content="anything")
    space = await office.container.ledger.space("default")
    assert space is not None
    given = {"model": space.model, "vector": [1.0] + [0.0] * (space.dimensions - 1)}
    texts = {"plain": "nothing to hide", "secret": f"the pass is {SECRET}"}
    held = {
        name: await office(REMEMBER, content=text, embedding=given, approval_required=True)
        for name, text in texts.items()
    }
    await office(ADD_SECRET, label="pass", value=SECRET)
    for one in held.values():
        await office.decide(one.proposal_id)
    keys = {name: (one.id, 1) for name, one in held.items()}
    kept = await office.container.ledger.vectors("default", list(keys.values()))
    assert kept[keys["plain"]] != kept[keys["secret"]]


async def test_a_new_memory_goes_into_another_one(office: Office) -> None:
    old = await office(REMEMBER, content="Ana likes tea", metadata={"entity_name": "ana"})
    held = await office(REMEMBER, content="Ana likes green tea", approval_required=True)
    shown = await office.review(held.proposal_id)
    assert [one.id for one in shown.diff.related] == [old.id]
    with pytest.raises(NotFoundError):
        await office.decide(held.proposal_id, merge_into={"canonical": "nobody"})
    await office.decide(held.proposal_id, merge_into={"canonical": "ana", "strategy": "merge_content"})
    assert await office.texts() == ["Ana likes tea\nAna likes green tea"]
    with pytest.raises(NotFoundError):
        await office(GET, id=held.id)


async def test_what_it_supersedes_is_forgotten_in_the_same_transaction(office: Office) -> None:
    old = await office(REMEMBER, content="Ana likes tea")
    held = await office(REMEMBER, content="Ana likes coffee", approval_required=True)
    with pytest.raises(NotFoundError):
        await office.decide(held.proposal_id, supersedes=[old.id, "mem_nowhere"])
    await office.decide(held.proposal_id, supersedes=[old.id])
    assert await office.texts() == ["Ana likes coffee"]
    decided, forgot, wrote = (await office.entries())[-3:]
    assert (decided.op, forgot.op, wrote.op) == ("approve", "forget", "remember")


async def test_only_a_memory_is_edited_merged_or_supersedes(office: Office) -> None:
    old = await office(REMEMBER, content="Ana likes tea")
    held = await office(FORGET, ids=[old.id], approval_required=True)
    for more in ({"edit": {"content": "x"}}, {"supersedes": [old.id]}, {"merge_into": {"canonical": old.id}}):
        with pytest.raises(InvalidError):
            await office.decide(held.proposal_id, **more)
        with pytest.raises(InvalidError):  # a no does nothing of what a yes could have done
            await office.decide(held.proposal_id, approved=False, **more)


# -- several who must agree --------------------------------------------------------------------------------------------


async def test_two_different_people_must_agree_to_the_same(any_office: Office) -> None:
    office = any_office
    await office.rules({**HOLD_ALL, "approvals": 2})
    agent = await office.token("bot")
    carla, dario = [await office.token(name, "reviewer") for name in ("carla", "dario")]
    held = await office(REMEMBER, agent, content="Ana lives in Lisbon")
    for _ in range(2):  # of one person two are one
        first = await office.decide(held.proposal_id, carla)
        assert (first.is_held, first.approvals_left) == (True, 1)
    shown = await office.review(held.proposal_id)
    assert ([one.reviewer for one in shown.given], shown.status) == (["carla"], "pending")
    with pytest.raises(UnsupportedError):
        await office.decide(held.proposal_id, dario, edit={"content": "x"})
    last = await office.decide(held.proposal_id, dario)
    assert (last.is_held, await office.texts()) == (False, ["Ana lives in Lisbon"])
    assert (await office.entries("approve"))[-1].detail["with"] == ["carla"]


async def test_a_yes_to_what_has_changed_since_does_not_count_nor_of_who_was_shut_out(office: Office) -> None:
    from quipu.access.operations import REVOKE_TOKEN

    kept = await office(REMEMBER, content="Ana lives in Lisbon")
    await office.rules({**HOLD_ALL, "approvals": 2, "when": {"admin": False}})
    agent = await office.token("bot")
    carla, dario, elsa = [await office.token(name, "reviewer") for name in ("carla", "dario", "elsa")]
    held = await office(UPDATE, agent, id=kept.id, tags=["home"])
    await office.decide(held.proposal_id, carla)
    await office(UPDATE, id=kept.id, content="Ana lives in Porto")
    assert (await office.decide(held.proposal_id, dario)).approvals_left == 1
    office.clock.now += 1
    await office(REVOKE_TOKEN, id=dario.token_id)
    office.clock.now += 1
    assert (await office.decide(held.proposal_id, carla)).approvals_left == 1
    assert (await office.decide(held.proposal_id, elsa)).approvals_left == 0


async def test_the_yes_of_who_signs_in_elsewhere_counts_as_long_as_the_provider_vouches_for_them(
    office: Office,
) -> None:
    await office.rules({**HOLD_ALL, "approvals": 2})
    agent, dario = await office.token("bot"), await office.token("dario", "reviewer")
    held = await office(REMEMBER, agent, content="Ana lives in Lisbon")

    def mara() -> Principal:
        """With a fresh token of an hour."""
        until = office.clock.now + 3_600_000
        return replace(dario, name="oidc:mara", token_id=None, expires_at=until)

    assert (await office.decide(held.proposal_id, mara())).approvals_left == 1
    office.clock.now += 3_600_001
    assert (await office.decide(held.proposal_id, dario)).approvals_left == 1, "hers has to be given again"
    again = mara()
    office.clock.now += 3_600_000
    assert (await office.decide(held.proposal_id, again)).approvals_left == 0


async def test_two_who_agree_at_once_carry_it_out_once(any_office: Office) -> None:
    office = any_office
    await office.rules({**HOLD_ALL, "approvals": 2})
    agent = await office.token("bot")
    people = [await office.token(name, "reviewer") for name in ("carla", "dario")]
    held = await office(REMEMBER, agent, content="Ana lives in Lisbon")
    done = await asyncio.gather(*(office.decide(held.proposal_id, who) for who in people))
    assert sorted(one.approvals_left for one in done) == [0, 1]
    assert len(await office.entries("remember")) == 1


async def test_one_no_is_enough(office: Office) -> None:
    await office.rules({**HOLD_ALL, "approvals": 3})
    held = await office(REMEMBER, content="Ana lives in Lisbon")
    await office.decide(held.proposal_id, approved=False, reason="no")
    assert (await office.review(held.proposal_id)).status == "rejected"


# -- who decides -------------------------------------------------------------------------------------------------------


async def test_in_place_needs_the_review_permission_and_the_diff_that_was_shown(office: Office) -> None:
    await office.token("carla", "reviewer")
    host, agent = await office.token("host", "admin"), await office.token("bot")
    reviews = office.container.governance.reviews
    from quipu.governance.model import DecideRequest

    await office.rules(HOLD_ALL)
    request = {"content": "Ana lives in Lisbon", "expires_at": "30d"}
    preview = await office(PREVIEW_WRITE, host, operation="remember", request=request)
    assert (preview.would_hold, preview.held_by, (await office(LIST_REVIEWS)).reviews) == (True, ("all",), ())
    other = await office(
        PREVIEW_WRITE, host, operation="remember", request={**request, "content": "Ana owes me"}
    )
    office.clock.now += 1000
    held = await office(REMEMBER, host, **request)

    def said(etag: str | None) -> DecideRequest:
        return DecideRequest(id=held.proposal_id, approved=True, etag=etag)

    with pytest.raises(ForbiddenError):
        await reviews.decide_in_place(office.context(agent), said(preview.etag))
    with pytest.raises(InvalidError):
        await reviews.decide_in_place(office.context(host), said(None))
    with pytest.raises(ConflictError):
        await reviews.decide_in_place(office.context(host), said(other.etag))
    await reviews.decide_in_place(office.context(host), said(preview.etag))
    assert (await office.entries("approve"))[-1].detail["in_place"] is True


async def test_an_agent_sees_its_own_held_writes_and_takes_them_back(office: Office) -> None:
    bot, other = await office.token("bot"), await office.token("other")
    carla = await office.token("carla", "reviewer")
    held = await office(REMEMBER, bot, content="Ana", approval_required=True)
    assert (await office.review(held.proposal_id, bot)).diff is not None
    for nobody in (other, local("elsewhere")):
        with pytest.raises(NotFoundError):
            await office.review(held.proposal_id, nobody)
        with pytest.raises(NotFoundError):
            await office(WITHDRAW_PROPOSAL, nobody, id=held.proposal_id)
    with pytest.raises(ForbiddenError):
        await office.decide(held.proposal_id, bot)
    with pytest.raises(ForbiddenError):
        await office(WITHDRAW_PROPOSAL, carla, id=held.proposal_id)
    await office(WITHDRAW_PROPOSAL, bot, id=held.proposal_id)
    shown = await office.review(held.proposal_id, bot)
    assert (shown.status, shown.reviewer, shown.request) == ("rejected", "withdrawn", None)


# -- what becomes of the text ------------------------------------------------------------------------------------------


async def test_what_nobody_decides_lapses_and_its_text_goes(office: Office) -> None:
    held = await office(REMEMBER, content="Ana lives in Lisbon", approval_required=True)
    office.clock.now += LIFE_MS - 1
    assert await office.container.governance.proposals.lapse("default", office.clock.now) == 0
    office.clock.now += 1
    with pytest.raises(ConflictError):
        await office.decide(held.proposal_id)
    assert await office.container.governance.proposals.lapse("default", office.clock.now) == 1
    shown = await office.review(held.proposal_id)
    assert (shown.status, shown.reviewer, shown.request) == ("rejected", "lapsed", None)


async def test_the_text_of_what_was_rejected_goes_unless_it_is_to_be_kept() -> None:
    for on_reject in ("erase", "keep"):
        office = await open_office(settings=Settings(on_reject=on_reject))
        held = await office(REMEMBER, content="Ana lives in Lisbon", approval_required=True)
        await office.decide(held.proposal_id, approved=False)
        shown = await office.review(held.proposal_id)
        assert (shown.request is not None) is (on_reject == "keep")
        await office(FORGET, ids=[held.id], hard_delete=True)  # an erasure reaches it there, too
        assert (await office.review(held.proposal_id)).request is None
        await office.container.close()


async def test_an_erasure_reaches_what_waits(any_office: Office) -> None:
    office = any_office
    kept = await office(REMEMBER, content="Ana lives in Lisbon")
    other = await office(REMEMBER, content="Bo")
    new = await office(REMEMBER, content="Ana is ill", approval_required=True)
    change = await office(UPDATE, id=kept.id, content="Ana is very ill", approval_required=True)
    removal = await office(FORGET, ids=[kept.id, other.id], reasoning="Ana is dead", approval_required=True)
    batch = await office(
        REMEMBER_MANY,
        atomic=True,
        items=[{"content": "Cy", "approval_required": True}, {"content": "Ana again"}],
    )
    in_batch = batch.results[1].response
    foreign = await office(REMEMBER, agent_id="stranger", content="theirs", approval_required=True)
    items = [{"content": "Ana of ours", "approval_required": True}, {"content": "b", "agent_id": "stranger"}]
    shared = (await office(REMEMBER_MANY, atomic=True, items=items)).results
    answer = await office(
        FORGET, ids=[kept.id, new.id, in_batch.id, foreign.id, shared[0].response.id], hard_delete=True
    )
    assert set(answer.forgotten_ids) >= {kept.id, new.id, in_batch.id}
    assert foreign.id in answer.not_found
    for one in (new, change, in_batch, shared[0].response):
        shown = await office.review(one.proposal_id)
        assert (shown.status, shown.reviewer, shown.request) == ("rejected", "erased", None)
    shown = await office.review(removal.proposal_id)
    assert (shown.status, shown.reasoning) == ("pending", None)
    assert (await office.review(foreign.proposal_id)).request is not None
    rows = [row async for row in office.container.ledger.side_rows("default", PROPOSALS)]
    assert "Ana" not in repr([row for row in rows if row[0].id != foreign.proposal_id])
    await office.decide(removal.proposal_id)
    with pytest.raises(NotFoundError):
        await office(GET, id=other.id)


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_what_was_said_of_a_rejected_batch_goes_with_each_of_its_memories(
    office: Office, place: int
) -> None:
    """Its text is gone by then, and whoever erases one of them reaches no further than that one."""
    owners = [{"user_id": "ana"}, {"user_id": "bo"}, {"agent_id": "stranger"}]
    items = [{"content": "x", "approval_required": True, **owner} for owner in owners]
    one = (await office(REMEMBER_MANY, atomic=True, items=items)).results[place].response
    await office.decide(one.proposal_id, approved=False, reason="Ana is dead")
    for elsewhere in ({"user_id": "cy"}, {"agent_id": "nobody"}):
        answer = await office(FORGET, ids=[one.id], hard_delete=True, **{**owners[place], **elsewhere})
        assert answer.not_found == (one.id,)
    assert (await office.review(one.proposal_id)).reason == "Ana is dead"
    answer = await office(FORGET, ids=[one.id], hard_delete=True, **owners[place])
    assert answer.forgotten_ids == (one.id,)
    assert (await office.review(one.proposal_id)).reason is None
    rows = [row async for row in office.container.ledger.side_rows("default", PROPOSALS)]
    assert "Ana is" not in repr(rows)


async def test_a_store_that_is_deleted_for_good_takes_what_waits_for_it_along(office: Office) -> None:
    await office(CREATE_STORE, name="crew", scope="team")
    kept = await office(REMEMBER, content="Ana was here", store="crew")
    await office(REMEMBER, content="Bo was here", store="crew", tags=["none"])
    waiting = [
        await office(REMEMBER, content="Ana is ill", store="crew", approval_required=True),
        await office(UPDATE, id=kept.id, content="Ana is very ill", approval_required=True),
    ]
    elsewhere = await office(REMEMBER, content="Bo", approval_required=True)
    await office(FORGET, filter={"tags": "none"}, store="crew", hard_delete=True)  # not the store itself
    assert (await office.review(waiting[0].proposal_id)).status == "pending"
    await office(DELETE_STORE, name="crew", confirm="crew", hard_delete=True)
    for one in waiting:
        shown = await office.review(one.proposal_id)
        assert (shown.status, shown.reviewer, shown.request) == ("rejected", "erased", None)
    (left,) = await office.container.ledger.page(PROPOSAL_SUBJECTS, "default")
    assert left.proposal_id == elsewhere.proposal_id


# -- lists -------------------------------------------------------------------------------------------------------------


async def test_pages_of_what_waits_hold_what_was_asked_for(office: Office) -> None:
    bot = await office.token("bot")
    await office.rules({"id": "notes", "effect": "hold", "when": {"tags": ["note"]}})
    mine = [await office(REMEMBER, bot, content=f"note {n}", tags=["note"]) for n in range(5)]
    asked = await office(REMEMBER, content="asked", approval_required=True)
    ids = [one.proposal_id for one in mine]
    found: list[str] = []
    cursor = None
    while True:
        page = await office(LIST_REVIEWS, writer="bot", rule="notes", limit=2, cursor=cursor)
        found += [one.id for one in page.reviews]
        if (cursor := page.next_cursor) is None:
            break
    assert found == ids
    newest = await office(LIST_REVIEWS, newest_first=True, limit=1)
    assert [one.id for one in newest.reviews] == [asked.proposal_id]
    await office.decide(ids[0], approved=False)
    assert len((await office(LIST_REVIEWS, status="rejected")).reviews) == 1
    assert len((await office(LIST_REVIEWS, operation="forget")).reviews) == 0
    with pytest.raises(ForbiddenError):
        await office(LIST_REVIEWS, bot)
    with pytest.raises(NotFoundError):
        await office(REVIEW, id="prop_nowhere")
