"""Registered secrets: kept out of everything, by every process, from the moment they are registered."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import Running, start
from quipu.config import Config
from quipu.errors import (
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    SecretLeakageError,
    UnverifiableError,
)
from quipu.model.access import Role
from quipu.model.journal import Op
from quipu.model.operations import (
    CreateStoreRequest,
    Embedding,
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    Line,
    ListRequest,
    MergeRequest,
    MergeStrategy,
    RecallRequest,
    RememberRequest,
    UpdateStrategy,
)
from quipu.model.principal import Permission, Principal, local
from quipu.model.record import MemoryType
from quipu.rules.runs_options import ListOptions
from quipu.service.memory import MemoryService
from quipu.service.runs import OpenRequest
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder

OWNER = local()
VALUE = "tr0ub4dor-and-three"
MARK = "<REDACTED:db-password>"

Opened = Callable[..., Any]


@pytest.fixture
async def running(clock: FixedClock, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens services on one file; each is like a process of its own."""
    async with AsyncExitStack() as stack:

        async def make(**settings: Any) -> Running:
            config = Config(store_url=f"sqlite://{tmp_path}/m.db", **settings)
            running = await start(config, embedder=WordEmbedder(), clock=clock)
            stack.push_async_callback(running.close)
            await running.parts.ledger.open(OWNER.tenant)
            return running

        yield make


@pytest.fixture
async def service(running: Opened) -> MemoryService:
    return (await running()).service


def fact(content: Any = f"it opens with {VALUE}", **given: Any) -> RememberRequest:
    return RememberRequest(**{"agent_id": "ana", "type": MemoryType.SEMANTIC, "content": content, **given})


async def registered(service: MemoryService, **given: Any) -> str:
    return (await service.secrets.register(OWNER, **{"label": "db-password", "value": VALUE, **given})).id


async def told(service: MemoryService, record_id: str) -> str:
    return (await service.reading.get(OWNER, "ana", record_id, None)).content


def holding(folder: Path, text: str) -> list[str]:
    """The files that hold a text."""
    return [file.name for file in folder.iterdir() if text.encode() in file.read_bytes()]


@pytest.mark.parametrize("run_id", ["a\x00b", "a\ud800"])
async def test_a_run_that_no_ledger_can_name_is_refused(service: MemoryService, run_id: str) -> None:
    with pytest.raises(InvalidError) as refused:
        await registered(service, run_id=run_id)
    assert [fault.pointer for fault in refused.value.faults] == ["/run_id"]


async def test_a_registered_value_is_marked_from_then_on(service: MemoryService) -> None:
    before = await service.remember(OWNER, fact())
    await registered(service)
    after = await service.remember(OWNER, fact())
    assert await told(service, before.id) == f"it opens with {VALUE}"
    assert await told(service, after.id) == f"it opens with {MARK}"


async def test_its_encoded_forms_are_marked_too(service: MemoryService) -> None:
    await registered(service)
    for form in (
        base64.b64encode(VALUE.encode()).decode(),
        VALUE.encode().hex().upper(),
        VALUE[::-1],
        "\u200b".join(VALUE),
    ):
        stored = await service.remember(OWNER, fact(f"x {form} y"))
        assert form not in await told(service, stored.id)
        assert MARK in await told(service, stored.id)


async def test_a_value_is_never_shown_again(service: MemoryService, tmp_path: Path) -> None:
    await registered(service)
    (secret,) = await service.secrets.list(OWNER)
    assert (secret.label, secret.created_by, secret.run_id) == ("db-password", "local", None)
    await service.flush()
    assert holding(tmp_path, VALUE) == []


async def test_removing_lets_it_in_again(service: MemoryService) -> None:
    secret_id = await registered(service)
    await service.secrets.remove(OWNER, secret_id)
    stored = await service.remember(OWNER, fact())
    assert VALUE in await told(service, stored.id)
    with pytest.raises(NotFoundError):
        await service.secrets.remove(OWNER, secret_id)


async def test_another_process_knows_it_at_once(running: Opened) -> None:
    """It had compiled the list before the registration, and is not told: the ledger refuses what it checked."""
    one, other = (await running()).service, (await running()).service
    await other.remember(OWNER, fact("warm"))
    await registered(one)
    for number in range(3):
        stored = await other.remember(OWNER, fact(f"{number}: {VALUE}"))
        assert await told(other, stored.id) == f"{number}: {MARK}"
    (many,) = await other.remember_many(OWNER, [fact()])
    assert not isinstance(many, QuipuError)
    assert MARK in await told(other, many.id)


async def test_every_path_of_another_process_is_refused_the_old_list(running: Opened) -> None:
    one, other = (await running()).service, (await running()).service
    kept = await other.remember(OWNER, fact("something else"))
    twin = await other.remember(OWNER, fact("something else again"))

    async def lines() -> AsyncIterator[Line | QuipuError]:
        for number in range(700):
            yield Line(fact(f"{VALUE} {number}", approval_required=number == 3))

    paths: list[Callable[[], Any]] = [
        lambda: other.remember(OWNER, fact(approval_required=True)),
        lambda: other.forget(OWNER, ForgetRequest(agent_id="ana", ids=(kept.id,), reason=VALUE)),
        lambda: other.restore(OWNER, "ana", kept.id, VALUE),
        lambda: other.merge(
            OWNER,
            MergeRequest(
                agent_id="ana",
                canonical=kept.id,
                duplicates=(twin.id,),
                reasoning=VALUE,
                approval_required=True,
            ),
        ),
        lambda: other.expire(
            OWNER,
            ExpireRequest(
                agent_id="ana", policy=ExpirePolicy(older_than_days=1), reason=VALUE, approval_required=True
            ),
        ),
        lambda: other.stores.create(OWNER, CreateStoreRequest(name="attic", description=f"see {VALUE}")),
        lambda: other.exchange.import_lines(OWNER, lines()),
    ]
    for path in paths:
        secret_id = await registered(one)  # the other process has the list of before
        await path()
        await one.secrets.remove(OWNER, secret_id)
    await registered(one)
    told_of = repr(await other.governance.proposals(OWNER)) + repr(await other.stores.list(OWNER))
    told_of += repr([await other.reading.history(OWNER, "ana", name) for name in (kept.id, twin.id)])
    async for record in other.exchange.export(OWNER, _everything()):
        told_of += record.content
    assert MARK in told_of
    assert VALUE not in told_of


def _everything() -> Any:
    from quipu.model.operations import ListRequest

    return ListRequest(agent_id="ana")


async def test_writes_and_registrations_at_once_lose_nothing_and_leak_nothing(running: Opened) -> None:
    services = [(await running()).service for _ in range(3)]

    async def write(service: MemoryService, name: int) -> list[str]:
        return [(await service.remember(OWNER, fact(f"{name} {n} {VALUE}"))).id for n in range(15)]

    async def register() -> str:
        await asyncio.sleep(0.02)
        return await registered(services[0])

    done = await asyncio.gather(*(write(service, n) for n, service in enumerate(services)), register())
    ids = [record_id for written in done[:3] for record_id in written]
    assert len(set(ids)) == 45
    (entry,) = [
        entry for entry in await services[0].audit.entries(OWNER, 0, 1000) if entry.op is Op.KEEP_SECRET
    ]
    for record_id in ids:
        record = await services[1].reading.get(OWNER, "ana", record_id, None)
        assert (VALUE in record.content) == (record.born < entry.seq)


async def test_a_run_s_secret_is_kept_out_of_that_run(service: MemoryService) -> None:
    await registered(service, run_id="run_1")
    inside = await service.remember(OWNER, fact(run_id="run_1"))
    outside = await service.remember(OWNER, fact(run_id="run_2"))
    assert MARK in await told(service, inside.id)
    assert VALUE in await told(service, outside.id)


async def test_a_tenant_s_secrets_are_its_own(service: MemoryService) -> None:
    await service.tenancy.create(OWNER, "acme")
    await registered(service)
    there = local("acme")
    stored = await service.remember(there, fact())
    assert VALUE in (await service.reading.get(there, "ana", stored.id, None)).content
    assert await service.secrets.list(there) == ()


async def test_the_policy_may_refuse_instead(running: Opened) -> None:
    service = (await running(secrets_policy="reject")).service
    await registered(service)
    with pytest.raises(SecretLeakageError) as refused:
        await service.remember(OWNER, fact())
    assert [fault.pointer for fault in refused.value.faults] == ["/content"]
    assert VALUE not in str(refused.value) + str(refused.value.hint)
    good, bad = await service.remember_many(OWNER, [fact("fine"), fact()])
    assert isinstance(bad, SecretLeakageError)
    assert not isinstance(good, QuipuError)
    with pytest.raises(SecretLeakageError) as refused:
        await service.remember_many(OWNER, [fact("fine"), fact()], atomic=True)
    assert [fault.pointer for fault in refused.value.faults] == ["/items/1/content"]
    with pytest.raises(SecretLeakageError):
        await service.forget(OWNER, ForgetRequest(agent_id="ana", ids=(good.id,), reason=VALUE))
    assert await told(service, good.id) == "fine"


async def test_an_identity_that_holds_a_secret_is_refused(service: MemoryService) -> None:
    await registered(service)
    for field in ("agent_id", "user_id", "session_id", "idempotency_key"):
        with pytest.raises(SecretLeakageError) as refused:
            await service.remember(OWNER, fact("x", **{field: VALUE}))
        assert [fault.pointer for fault in refused.value.faults] == [f"/{field}"]
    with pytest.raises(SecretLeakageError):
        await service.stores.create(OWNER, CreateStoreRequest(name=VALUE))


#: Requests that change no text, and what of them is kept: with a key, and while they wait.
_KEYED: dict[str, Any] = {
    "/idempotency_key": ForgetRequest(agent_id="ana", ids=("mem_x",), idempotency_key=VALUE),
    "/ids/0": ForgetRequest(agent_id="ana", ids=(VALUE,), idempotency_key="once"),
    "/canonical": MergeRequest(agent_id="ana", canonical=VALUE, duplicates=("x",), idempotency_key="once"),
    "/duplicates/0": MergeRequest(agent_id="ana", canonical="x", duplicates=(VALUE,), idempotency_key="once"),
}
_OLD = ExpirePolicy(older_than_days=1)
_HELD: dict[str, Any] = {
    "/filter": ForgetRequest(agent_id="ana", filter={"or": [{"a": {"in": [VALUE]}}]}),
    "/user_id": ForgetRequest(agent_id="ana", ids=("mem_x",), user_id=VALUE),
    "/ids/1": ForgetRequest(agent_id="ana", ids=("mem_x", VALUE)),
    "of an expiry": ExpireRequest(
        agent_id="ana", policy=_OLD, filter={"a": VALUE}, action=ExpireAction.ARCHIVE
    ),
}


async def _done(service: MemoryService, request: Any) -> Any:
    kinds = {ForgetRequest: service.forget, MergeRequest: service.merge, ExpireRequest: service.expire}
    return await kinds[type(request)](OWNER, request)


@pytest.mark.parametrize("pointer", _KEYED)
async def test_what_is_kept_with_a_key_holds_no_secret(
    service: MemoryService, tmp_path: Path, pointer: str
) -> None:
    await registered(service)
    with pytest.raises(SecretLeakageError) as refused:
        await _done(service, _KEYED[pointer])
    assert [fault.pointer for fault in refused.value.faults] == [pointer]
    assert holding(tmp_path, VALUE) == []


@pytest.mark.parametrize("by", ["caller", "rule"])
@pytest.mark.parametrize("place", _HELD)
async def test_what_waits_holds_no_secret_whatever_it_asks_for(
    service: MemoryService, tmp_path: Path, place: str, by: str
) -> None:
    await registered(service)
    if by == "rule":
        await service.policies.set(OWNER, {"rules": [{"id": "r", "effect": "hold"}]})
    with pytest.raises(SecretLeakageError) as refused:
        await _done(service, replace(_HELD[place], approval_required=by == "caller"))
    assert [fault.pointer for fault in refused.value.faults] == [place if place[0] == "/" else "/filter"]
    assert await service.governance.proposals(OWNER) == ()
    assert holding(tmp_path, VALUE) == []


async def test_what_was_remembered_before_can_still_be_erased_by_its_words(service: MemoryService) -> None:
    before = await service.remember(OWNER, fact(metadata={"key": VALUE}, user_id=VALUE))
    await registered(service)
    asked = ForgetRequest(agent_id="ana", filter={"key": VALUE}, user_id=VALUE, hard_delete=True)
    assert (await service.forget(OWNER, asked)).forgotten_ids == (before.id,)


async def test_a_held_recall_waits_without_the_secret_in_its_question(
    service: MemoryService, tmp_path: Path
) -> None:
    await registered(service)
    asked = RecallRequest(agent_id="ana", query=f"what opens with {VALUE}?", approval_required=True)
    with pytest.raises(ForbiddenError):
        await service.recall(OWNER, asked)
    (waiting,) = await service.governance.proposals(OWNER)
    assert waiting.request["query"] == f"what opens with {MARK}?"
    assert holding(tmp_path, VALUE) == []
    await service.decide(OWNER, waiting.id, approved=True)
    await service.recall(OWNER, asked)


async def test_what_a_run_keeps_is_checked_with_what_another_process_registered(running: Opened) -> None:
    one, other = (await running()).service, (await running()).service
    await other.remember(OWNER, fact("warm"))
    await registered(one)
    opened = await other.runs.open(
        OWNER, OpenRequest(workflow_id="errand", inputs={"with": VALUE}, is_external=True)
    )
    assert opened.run.inputs == {"with": MARK}


async def test_a_machine_stays_a_machine_or_is_refused(service: MemoryService) -> None:
    await registered(service)
    machine = {"name": VALUE, "initial": "a", "states": ["a"], "transitions": []}
    stored = await service.remember(OWNER, fact(machine, type=MemoryType.PROCEDURAL))
    assert MARK in await told(service, stored.id)
    guard = VALUE.replace("-", "_")
    await registered(service, label="guard", value=guard)
    step = {"trigger": "t", "source": "a", "dest": "a", "conditions": guard}
    with pytest.raises(SecretLeakageError):
        await service.remember(
            OWNER, fact({**machine, "name": "m", "transitions": [step]}, type=MemoryType.PROCEDURAL)
        )


async def test_a_held_write_is_checked_again_when_it_is_let_through(service: MemoryService) -> None:
    held = await service.remember(OWNER, fact(approval_required=True))
    await registered(service)
    await service.decide(OWNER, str(held.extensions["proposal_id"]), approved=True)
    assert await told(service, held.id) == f"it opens with {MARK}"


async def test_without_the_key_nothing_is_written(running: Opened, tmp_path: Path) -> None:
    await registered((await running()).service)
    (tmp_path / "m.db.sealing-key").unlink()
    later = (await running()).service
    with pytest.raises(UnverifiableError) as refused:
        await later.remember(OWNER, fact("harmless"))
    assert refused.value.reason == "missing_key"


@pytest.mark.parametrize("first", ["secret", "webhook", "another tenant's"])
@pytest.mark.parametrize("second", ["secret", "webhook"])
async def test_a_lost_key_is_not_replaced_by_a_second_one(
    running: Opened, tmp_path: Path, first: str, second: str
) -> None:
    """With two keys, what was sealed with one of them could never be opened again beside the other."""
    key = tmp_path / "m.db.sealing-key"

    async def sealing(service: MemoryService, what: str, label: str, who: Principal = OWNER) -> str:
        if what == "webhook":
            return (await service.notices.add(who, url="https://example.com/told")).webhook.id
        return (await service.secrets.register(who, label=label, value=f"{VALUE}-{label}")).id

    one = await running()
    other = replace(OWNER, tenant="other")
    await one.parts.ledger.open(other.tenant)
    was = other if first == "another tenant's" else OWNER
    kept = await sealing(one.service, first, "first", was)
    lost = key.read_bytes()
    key.unlink()
    later = (await running()).service
    with pytest.raises(UnverifiableError) as refused:
        await sealing(later, second, "second")
    assert refused.value.reason == "missing_key"
    assert "back" in str(refused.value.hint)
    assert not key.exists()
    key.write_bytes(lost)
    await sealing((await running()).service, second, "second")
    # Lost for good: what nobody can open is removed, and a new key is made.
    key.unlink()
    last = (await running()).service
    await (last.notices.remove(was, kept) if first == "webhook" else last.secrets.remove(was, kept))
    for secret in await last.secrets.list(OWNER):
        await last.secrets.remove(OWNER, secret.id)
    for webhook in await last.notices.list(OWNER):
        await last.notices.remove(OWNER, webhook.id)
    await sealing(last, second, "third")
    assert key.read_bytes() != lost


async def test_shapes_are_found_without_registration_unless_switched_off(running: Opened) -> None:
    shape = "ghp_" + "0123456789abcdefghijABCDEFGHIJ456789"
    service = (await running()).service
    stored = await service.remember(OWNER, fact(f"use {shape} for the build"))
    assert shape not in await told(service, stored.id)
    assert "<REDACTED:" in await told(service, stored.id)
    without = (await running(secrets_detectors=False)).service
    stored = await without.remember(OWNER, fact(f"use {shape} for the build"))
    assert shape in await told(without, stored.id)


async def test_registering_is_for_those_who_manage(service: MemoryService) -> None:
    agent = Principal(
        tenant="default", name="bot", permissions=frozenset({Permission.WRITE, Permission.READ})
    )
    with pytest.raises(ForbiddenError):
        await service.secrets.register(agent, label="x", value=VALUE)
    manager = replace(agent, permissions=frozenset({Permission.MANAGE}))
    await service.secrets.register(manager, label="x", value=VALUE)


@pytest.mark.parametrize(
    "given", [{"value": "short"}, {"value": ""}, {"label": ""}, {"label": "a>b"}, {"label": VALUE}]
)
async def test_bad_registrations(service: MemoryService, given: dict[str, str]) -> None:
    with pytest.raises(InvalidError) as refused:
        await registered(service, **given)
    assert VALUE not in str(refused.value)
    assert await service.secrets.list(OWNER) == ()


async def test_a_value_in_the_place_of_the_label_is_refused(service: MemoryService) -> None:
    shape = "ghp_" + "0123456789abcdefghijABCDEFGHIJ456789"
    for given in ({"label": shape, "value": "github-token"}, {"run_id": shape}):
        with pytest.raises(SecretLeakageError) as refused:
            await registered(service, **given)
        assert shape not in str(refused.value)
    assert await service.secrets.list(OWNER) == ()
    assert shape not in repr(await service.audit.entries(OWNER, 0, 100))


async def test_the_journal_names_the_label_alone(service: MemoryService) -> None:
    secret_id = await registered(service)
    await service.secrets.remove(OWNER, secret_id)
    entries = await service.audit.entries(OWNER, 0, 100)
    assert [(e.op, e.detail["label"]) for e in entries if "secret" in e.detail] == [
        (Op.KEEP_SECRET, "db-password"),
        (Op.DROP_SECRET, "db-password"),
    ]
    assert VALUE not in repr(entries)
    assert (await service.audit.verify(OWNER)).holds


# -- what is joined -------------------------------------------------------------------------------------------------

BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
#: Two texts, and what neither of them holds alone.
HALVES = {
    "registered": ("it is tr0ub4dor-", "and-three", "and-three"),
    "encoded": ("dHIwdWI0ZG9yLWFu", "ZC10aHJlZQ==", "ZC10aHJlZQ"),
    "shaped": ("the key is sk-ant-api03-", f"{'CANARYshape0123456789' * 2}abcdefghij", "CANARYshape"),
    "armoured": ("-----BEGIN PRIVATE KEY-----", f"{BODY}\n-----END PRIVATE KEY-----", BODY),
}
JOINS = ("append", "append held", "append together", "merge", "merge held", "merge_into")


async def joined(service: MemoryService, way: str, one: str, other: str) -> str:
    """The id of what two texts became."""
    first = (await service.remember(OWNER, fact(one))).id
    held = way.endswith("held")
    if way.startswith("append"):
        more = fact(other, id=first, update_strategy=UpdateStrategy.APPEND, approval_required=held)
        if way == "append together":
            await service.remember_many(OWNER, [more], atomic=True)
            return first
        answer: Any = await service.remember(OWNER, more)
    elif way == "merge_into":
        answer = await service.remember(OWNER, fact(other, approval_required=True))
    else:
        second = (await service.remember(OWNER, fact(other))).id
        asked = MergeRequest(
            agent_id="ana",
            canonical=first,
            duplicates=(second,),
            strategy=MergeStrategy.MERGE_CONTENT,
            approval_required=held,
        )
        answer = await service.merge(OWNER, asked)
    if answer.pending_approval:
        name = str(answer.extensions["proposal_id"])
        seen = await service.reviewing.review(OWNER, name)
        more_said: dict[str, Any] = {"etag": seen.etag}
        if way == "merge_into":
            more_said = {"merge_into": first, "strategy": MergeStrategy.MERGE_CONTENT}
        await service.decide(OWNER, name, approved=True, **more_said)
    return first


@pytest.mark.parametrize("way", JOINS)
@pytest.mark.parametrize("kind", HALVES)
async def test_what_only_two_texts_together_hold_is_marked_when_they_are_joined(
    service: MemoryService, way: str, kind: str
) -> None:
    await registered(service)
    one, other, telling = HALVES[kind]
    text = await told(service, await joined(service, way, one, other))
    assert telling not in text
    assert "<REDACTED:" in text


@pytest.mark.parametrize("way", JOINS)
async def test_what_holds_no_secret_is_joined_as_it_is(service: MemoryService, way: str) -> None:
    await registered(service)
    one, other = "it is tr0ub4dor- without its end", "the key is sk-ant- and so on\nand another line"
    assert await told(service, await joined(service, way, one, other)) == f"{one}\n{other}"


async def test_under_reject_texts_that_hold_a_secret_together_are_not_joined(running: Opened) -> None:
    service = (await running(secrets_policy="reject")).service
    await registered(service)
    one, other, _ = HALVES["registered"]
    for way in ("append", "append together", "merge"):
        with pytest.raises(SecretLeakageError) as refused:
            await joined(service, way, one, other)
        assert "and-three" not in repr(refused.value)
    page = await service.reading.list(OWNER, ListRequest(agent_id="ana"))
    assert sorted(record.content for record in page.records) == ["and-three", one, one, one]


@pytest.mark.parametrize("strategy", [UpdateStrategy.APPEND, UpdateStrategy.MERGE])
async def test_metadata_that_holds_a_secret_together_is_marked(
    service: MemoryService, strategy: UpdateStrategy
) -> None:
    await registered(service)
    first = (await service.remember(OWNER, fact("x", metadata={"a": "tr0ub4dor-"}))).id
    more = fact("y", id=first, metadata={"b": "and-three"}, update_strategy=strategy)
    await service.remember(OWNER, more)
    record = await service.reading.get(OWNER, "ana", first, None)
    assert record.metadata == {"a": MARK, "b": MARK}


async def test_a_vector_of_the_callers_goes_with_the_words_that_were_marked(service: MemoryService) -> None:
    """It would tell what the words were."""
    await registered(service)
    one, other, _ = HALVES["registered"]
    first = (await service.remember(OWNER, fact(one))).id
    vector = Embedding(WordEmbedder().model, WordEmbedder().vector("something else entirely"))
    more = fact(other, id=first, update_strategy=UpdateStrategy.APPEND, embedding=vector)
    await service.remember(OWNER, more)
    assert MARK in await told(service, first)
    asked = RecallRequest(agent_id="ana", query="x", embedding=vector, explain=True, min_relevance=0)
    (hit,) = (await service.recall(OWNER, asked)).results
    assert hit.why is not None
    assert float(str(hit.why["cosine"])) < 0.99


async def test_a_secret_in_the_place_of_an_agent_is_not_noted_by_reads(
    running: Opened, tmp_path: Path
) -> None:
    """Who only reads may name any agent, and the journal keeps the name."""
    here = await running()
    service = here.service
    await registered(service)
    await service.remember(OWNER, fact("tea"))
    await service.recall(OWNER, RecallRequest(agent_id=VALUE, query="tea"))
    await service.recall(OWNER, RecallRequest(agent_id="ana", query="tea"))
    await service.runs.memory.list(OWNER, VALUE, ListOptions())
    async for _ in service.exchange.export(OWNER, ListRequest(agent_id=VALUE)):
        pass
    await service.flush()
    noted = [entry for entry in await here.parts.ledger.entries(OWNER.tenant, 0, 100) if entry.agent]
    assert {entry.agent for entry in noted} == {"ana", MARK}
    await here.close()
    assert holding(tmp_path, VALUE) == []


async def test_a_secret_in_the_place_of_an_agent_is_not_noted_by_what_a_rule_denies(
    running: Opened, tmp_path: Path
) -> None:
    """Nobody checks whose memories are to go, or to be read, before a rule has said no."""
    here = await running()
    service = here.service
    await registered(service)
    deny = {"id": "no", "when": {"operations": ["forget", "recall"]}, "effect": "deny"}
    await service.policies.set(OWNER, {"rules": [deny]})
    for agent in ("ana", VALUE):
        with pytest.raises(ForbiddenError):
            await service.forget(OWNER, ForgetRequest(agent_id=agent, ids=("mem_x",)))
        with pytest.raises(ForbiddenError):
            await service.recall(OWNER, RecallRequest(agent_id=agent, query="tea"))
    entries = await here.parts.ledger.entries(OWNER.tenant, 0, 100)
    assert [entry.agent for entry in entries if entry.op is Op.DENY] == ["ana", "ana", MARK, MARK]
    await here.close()
    assert holding(tmp_path, VALUE) == []


async def test_a_token_is_not_named_with_a_secret(running: Opened, tmp_path: Path) -> None:
    """The journal tells its name and for whom it acts, and nothing goes from there again."""
    here = await running()
    service = here.service
    await registered(service)
    for field, given in (
        ("/name", {"name": VALUE}),
        ("/user_id", {"user_id": VALUE}),
        ("/agents/1", {"agents": ["ana", VALUE]}),
        ("/review_stores/0", {"review_stores": [VALUE], "roles": [Role.REVIEWER]}),
    ):
        with pytest.raises(SecretLeakageError) as refused:
            await service.tokens.issue(OWNER, **{"name": "bot", "roles": [Role.AGENT], **given})
        assert [fault.pointer for fault in refused.value.faults] == [field]
    await service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])
    await here.close()
    assert holding(tmp_path, VALUE) == []


async def test_without_the_key_a_token_is_issued_all_the_same(running: Opened, tmp_path: Path) -> None:
    await registered((await running()).service)
    (tmp_path / "m.db.sealing-key").unlink()
    later = await running()
    assert (await later.service.tokens.issue(OWNER, name="bot", roles=[Role.AGENT])).text


async def test_without_the_key_a_read_is_noted_and_names_nobody(running: Opened, tmp_path: Path) -> None:
    await registered((await running()).service)
    (tmp_path / "m.db.sealing-key").unlink()
    later = await running()
    await later.service.recall(OWNER, RecallRequest(agent_id=VALUE, query="tea"))
    await later.service.flush()
    last = (await later.parts.ledger.entries(OWNER.tenant, 0, 100))[-1]
    assert (last.op, last.agent) == (Op.RECALL, None)
