"""A reviewer with limits learns nothing of what lies beyond them, by whatever it reads (contract 6.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from quipu import ForbiddenError, NotFoundError, QuipuError
from quipu.model.access import Role
from quipu.model.change import Commit
from quipu.model.feed import FeedRequest
from quipu.model.graph import GraphRequest
from quipu.model.journal import Draft, Op
from quipu.model.notices import Event
from quipu.model.operations import ListRequest, ProposalsRequest, RecallRequest, RememberRequest
from quipu.model.principal import Permission, Principal, local
from quipu.model.record import MemoryType
from quipu.model.recovery import RecoverRequest
from quipu.model.trail import TrailRequest
from tests.governance.office import REVIEWER, Office, person, proposal_of
from tests.requirement import requirement
from tests.service.looks import kept

#: A word that stands in everything beyond the limits, and one in everything within.
FAR, NEAR = "zanzibar", "harbour"
NILS = person("nils", REVIEWER, review_stores=("shop-*",))
MODEST = person("modest", REVIEWER, review_operations=("remember",))
FREE = person("free", REVIEWER)


@dataclass
class World:
    """An office with a past on both sides of the limit, and the names that must not be told."""

    office: Office
    service: Any
    inside: str
    outside: str
    head: int
    #: Ids of records, proposals and stores beyond the limit on stores, and of proposals beyond that on operations.
    far: dict[str, str] = field(default_factory=dict[str, str])
    forgets: dict[str, str] = field(default_factory=dict[str, str])
    held_inside: str = ""


@pytest.fixture
async def world(office: Office) -> World:
    admin, agent = office.admin, office.agent
    stores = {name: await admin.create_store(name) for name in ("shop-a", "zanzibar-files")}
    far, near = {"store": "zanzibar-files", "source": "web_far"}, {"store": "shop-a", "source": "web_near"}
    inside = await kept(agent, f"{NEAR} one is open", **near)
    outside = await kept(agent, f"{NEAR} {FAR} one is open", **far)
    await agent.remember(f"{FAR} two was changed", id=outside)
    gone = await kept(agent, f"{FAR} gone", **far)
    await agent.forget(ids=[gone])
    erased = await kept(agent, f"{FAR} erased", **far)
    await admin.forget(ids=[erased], hard_delete=True)
    await kept(agent, f"{FAR} linked", links=[{"to": inside, "rel": "about"}], **far)
    like = await kept(agent, f"{NEAR} one is shut {FAR}", **far)  # which resembles what waits within
    await agent.recall(f"{NEAR} open", min_relevance=0)
    holds = {
        "held": await agent.remember(f"{FAR} waits", approval_required=True, **far),
        "rejected": await agent.remember(f"{FAR} no", approval_required=True, **far),
        "approved": await agent.remember(f"{FAR} yes", approval_required=True, **far),
        "forget held": await agent.forget(ids=[outside], approval_required=True),
    }
    names = {name: proposal_of(answer) for name, answer in holds.items()}
    await office.carla.decide(names["rejected"], approved=False)
    await office.carla.decide(names["approved"], approved=True)
    superseding = await agent.remember(f"{NEAR} in place of another", approval_required=True, **near)
    await office.carla.decide(proposal_of(superseding), approved=True, supersedes=[holds["approved"].id])
    own_forget = await agent.forget(ids=[inside], approval_required=True)
    held_inside = await agent.remember(f"{NEAR} one is shut", approval_required=True, **near)
    service: Any = await admin._service()
    await service.flush()
    return World(
        office, service, inside, outside, (await service.audit.head(FREE)).seq,
        {
            **names, "outside": outside, "like": like, "gone": gone, "erased": erased,
            **{f"{name} record": answer.id for name, answer in holds.items() if name != "forget held"},
            "store": stores["zanzibar-files"].id, "store name": "zanzibar-files", "text": FAR,
        },
        {"forget held": names["forget held"], "own forget": proposal_of(own_forget)},
        proposal_of(held_inside),
    )  # fmt: skip


async def followed(world: World, who: Principal, **asked: Any) -> list[Any]:
    """Everything that the feed tells from the beginning on, until nothing more comes."""

    async def renewed() -> Principal:
        return who

    told: list[Any] = []
    feed = await world.service.changes.follow(who, FeedRequest(since=0, **asked), renewed, idle_s=0.3)
    async for events in feed:
        if not events:
            break
        told += events
    await feed.aclose()
    return told


Read = Callable[[World, Principal], Awaitable[Any]]


def _recall(**more: Any) -> RecallRequest:
    return RecallRequest(agent_id="ana", query=f"{NEAR} {FAR} open", min_relevance=0, k=20, **more)


async def _reviewed(w: World, p: Principal) -> Any:
    seen = await w.service.reviewing.review(p, w.held_inside)
    return seen, await w.service.previewing.shown(p, seen)


#: Everything that a reviewer reads, over and beside memories; each also tells something from within the limits.
READS: dict[str, Read] = {
    "journal": lambda w, p: w.service.audit.entries(p, 0, 1_000),
    "audit": lambda w, p: w.service.trail.page(p, TrailRequest(limit=500)),
    "change feed": followed,
    "recover by source": lambda w, p: w.service.recovery.recover(
        p, RecoverRequest(agent_id="ana", sources=("web_*",))
    ),
    "recover by suspicion": lambda w, p: w.service.recovery.recover(
        p, RecoverRequest(agent_id="ana", trusted=("chat",))
    ),
    "candidates": lambda w, p: w.service.tidying.candidates(p),
    "queue": lambda w, p: w.service.governance.proposals(p),
    "queue by page": lambda w, p: w.service.governance.page(p, ProposalsRequest(status=None, limit=100)),
    "one held write, what is like it, and recall before and after": _reviewed,
    "rules tried out": lambda w, p: w.service.policies.tried(p, None, 1_000),
    "list": lambda w, p: w.service.reading.list(p, ListRequest(agent_id="ana")),
    "list as of": lambda w, p: w.service.reading.list(p, ListRequest(agent_id="ana", as_of=str(w.head))),
    "recall": lambda w, p: w.service.recall(p, _recall()),
    "recall as of": lambda w, p: w.service.recall(p, _recall(as_of=str(w.head))),
    "graph": lambda w, p: w.service.graphs.around(p, GraphRequest(id=w.inside, hops=2)),
    "stores": lambda w, p: w.service.stores.list(p),
}  # fmt: skip


def _leaks(told: str, names: dict[str, str]) -> list[str]:
    return [name for name, text in names.items() if text in told]


@pytest.mark.parametrize("read", READS)
@requirement("memorywire:rest.proposals")
async def test_a_reviewer_of_some_stores_learns_nothing_of_the_others(world: World, read: str) -> None:
    told = repr(await READS[read](world, NILS))
    assert _leaks(told, world.far) == []
    if read not in ("candidates", "rules tried out"):  # which tell nothing of the memories themselves here
        assert any(name in told for name in (world.inside, NEAR, "shop-a")), "what is within is told"


@pytest.mark.parametrize("read", READS)
async def test_without_limits_the_same_reads_tell_it(world: World, read: str) -> None:
    """So that the test above can fail."""
    told = await READS[read](world, FREE)
    if read == "candidates":
        assert told.looked_at > (await READS[read](world, NILS)).looked_at
    elif read == "rules tried out":
        assert len(told) > len(await READS[read](world, NILS))
    else:
        assert _leaks(repr(told), world.far)


@pytest.mark.parametrize("read", ["journal", "audit", "change feed", "queue", "queue by page"])
async def test_a_reviewer_of_some_operations_learns_of_no_other_held_write(world: World, read: str) -> None:
    told = repr(await READS[read](world, MODEST))
    assert _leaks(told, world.forgets) == []
    assert world.held_inside in told
    assert len(_leaks(repr(await READS[read](world, FREE)), world.forgets)) == 2


#: Reads that name something; beyond the limits they answer as if it were not there.
BY_NAME: dict[str, Callable[[World, Principal, str], Awaitable[Any]]] = {
    "get": lambda w, p, name: w.service.reading.get(p, None, name, None),
    "get of an agent": lambda w, p, name: w.service.reading.get(p, "ana", name, None),
    "as of": lambda w, p, name: w.service.reading.get(p, None, name, str(w.head)),
    "history": lambda w, p, name: w.service.reading.history(p, None, name),
    "history of an agent": lambda w, p, name: w.service.reading.history(p, "ana", name),
    "graph": lambda w, p, name: w.service.graphs.around(p, GraphRequest(id=name)),
    "proposal": lambda w, p, name: w.service.governance.proposal(p, name),
    "review": lambda w, p, name: w.service.reviewing.review(p, name),
    "recover by proposal": lambda w, p, name: w.service.recovery.recover(
        p, RecoverRequest(agent_id="ana", proposal_id=name)
    ),
    "recall in a store": lambda w, p, name: w.service.recall(p, _recall(store=name)),
    "list of a store": lambda w, p, name: w.service.reading.list(p, ListRequest(agent_id="ana", store=name)),
    "feed of a store": lambda w, p, name: followed(w, p, store=name),
    "propose": lambda w, p, name: w.service.tidying.propose(p, [name]),
}


@pytest.mark.parametrize("read", BY_NAME)
async def test_what_is_beyond_is_answered_as_what_does_not_exist(world: World, read: str) -> None:
    errors: set[str] = set()
    for name in (*world.far.values(), "mem_00000000000000000000000000"):
        with pytest.raises(NotFoundError) as refused:
            await BY_NAME[read](world, NILS, name)
        errors.add(repr(refused.value.__dict__))
    assert len(errors) == 1, "one and the same answer"
    mark = await world.service.reading.marks(NILS, world.outside)
    assert (mark.recall_count, mark.last_recalled_at) == (0, None)


async def test_suggested_rules_and_imports_and_runs_keep_within_the_limits(world: World) -> None:
    assert await world.service.learning.suggested(NILS) == ()
    brought = Draft(op=Op.IMPORT, actor="local", at=1, detail={"import_id": "imp_1", "sha256": "0" * 64})
    await world.service._parts.ledger.commit(Commit(tenant="default", draft=brought))
    assert [one.import_id for one in await world.service.imports.list(FREE)] == ["imp_1"]
    assert await world.service.imports.list(NILS) == (), "it may have brought anything, to any store"
    for read in (world.service.runs.list(NILS), world.service.runs.get(NILS, "run_1")):
        with pytest.raises(ForbiddenError) as refused:
            await read
        assert refused.value.reason == "review_reach"


@pytest.mark.parametrize("who", [NILS, MODEST])
async def test_who_has_limits_is_no_admin_whatever_the_credential_says(world: World, who: Principal) -> None:
    """A webhook, an export and counts of everything belong to the tenant, so they need somebody without limits."""
    most = replace(who, permissions=frozenset(Permission) - {Permission.OPERATE})
    service = world.service

    async def exported() -> None:
        async for _ in service.audit.exported(most):
            raise AssertionError("something was exported")

    for refused in (
        lambda: service.notices.add(most, url="https://example.org/hook", events=tuple(Event)),
        lambda: service.notices.list(most),
        exported,
        lambda: service.upkeep.statistics(most),
        lambda: service.reading.list(most, ListRequest()),
    ):
        with pytest.raises(ForbiddenError):
            await refused()


async def test_writing_finds_nothing_similar_beyond_the_limits(world: World) -> None:
    writer = person("writer", REVIEWER | {Permission.WRITE}, review_stores=("shop-*",))
    said = RememberRequest(
        agent_id="ana", type=MemoryType.SEMANTIC, content=f"{NEAR} one is shut {FAR}", store="shop-a",
        finds_similar=True,
    )  # fmt: skip
    free: Any = await world.service.remember(person("agent"), said)
    assert "like" in _leaks(repr(free.extensions), world.far)
    limited: Any = await world.service.remember(writer, said)
    assert _leaks(repr(limited.extensions), world.far) == []
    assert free.id in repr(limited.extensions), "what is within is told"


async def test_a_manager_with_limits_lets_nobody_read_beyond_them(world: World) -> None:
    manager = person("manager", REVIEWER | {Permission.MANAGE}, review_stores=("shop-a",))
    with pytest.raises(QuipuError) as refused:
        await world.service.tokens.issue(manager, name="reader", roles=[Role.REVIEWER])
    assert refused.value.reason == "missing_scope"


async def test_the_journal_tells_whoever_is_bound_of_nothing_else(world: World) -> None:
    """Of other agents, of none in particular, or of other users: reads name memories of all of them."""
    service = world.service
    await service.reading.list(FREE, ListRequest(agent_id="ana"))
    bound = replace(FREE, agents=("bo",))
    request = RememberRequest(agent_id="bo", content="Hers.", user_id="ines", type=MemoryType.SEMANTIC)
    mine = (await service.remember(local(), request)).id
    other = (await service.remember(local(), replace(request, content="His.", user_id="jonas"))).id
    told = await service.audit.entries(bound, 0, 1_000)
    assert {entry.agent for entry in told} == {"bo"}
    assert {mention.id for entry in told for mention in entry.records} == {mine, other}
    told = await service.audit.entries(replace(bound, user_id="ines"), 0, 1_000)
    assert {mention.id for entry in told for mention in entry.records} == {mine}
    head = (await service.audit.head(FREE)).seq
    assert await service.audit.entries(bound, 0, 1_000, last=head - 2) == []
