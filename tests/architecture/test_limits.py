"""No operation shows or changes what lies beyond a credential's limits, nor says that it is there.

Each operation is asked for somebody else's things, by principals that are limited to an agent, a user, a store and an
operation. That the owner can do the same is what the first test shows: without it, the others would show nothing.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import OPERATIONS, TABLES
from quipu.errors import ForbiddenError, QuipuError
from quipu.fields import Name
from quipu.memory.operations import REMEMBER
from quipu.model.principal import Permission, Principal
from quipu.operation import FILTERED, NAMED, WHOLE, AnyOperation, Operation, Request, Response, authorised
from tests.architecture.world import PRIVATE, REFUSED, REQUESTS, Thing, World, open_world

EVERYTHING_BUT_OPERATE = frozenset(Permission) - {Permission.OPERATE}
LIMITED: dict[str, dict[str, Any]] = {
    "an agent": {"agents": ("mine",), "default_agent": "mine"},
    "a user": {"user_id": "me", "default_agent": "theirs"},
    "a store": {"review_stores": ("mine",), "default_agent": "theirs"},
}
#: Open to every credential; what they show is the handler's to decide: what the caller wrote itself, or how the server is.
OPEN = {"whoami", "review", "withdraw_proposal", "describe_service", "health"}
#: Open to strangers: what they bring along, a signature or a proof, is what they are believed for.
SIGNED = {
    *("register_grant", "exchange_grant", "query_grant", "read_shared_log", "read_shared_vector"),
    *("report_grant_incident", "list_shared_receipts", "return_borrowed", "export_grant"),
}


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.chdir(tmp_path)
    opened = await open_world(tmp_path, user="them", store="main")
    yield opened
    await opened.container.close()


def limited(limits: Mapping[str, Any]) -> Principal:
    return Principal(tenant="default", name="limited", permissions=EVERYTHING_BUT_OPERATE, **limits)


def ids_in(body: Any) -> set[str]:
    """The ids of things in a request."""
    return set(re.findall(r'"([a-z]+_[0-9A-Z]{26})"', json.dumps(body)))


def of_nothing(body: Any) -> Any:
    """The same request about things that do not exist."""
    return json.loads(
        re.sub(r'"([a-z]+)_[0-9A-Z]{26}"', r'"\1_00000000000000000000000000"', json.dumps(body))
    )


async def outcome(
    world: World, operation: AnyOperation, body: Mapping[str, Any], who: Principal
) -> tuple[str, str | None]:
    """What is said, with the ids that were sent taken out of it; and the reason of a refusal."""
    try:
        answers = await world.answers(operation, body, who)
        said, reason = json.dumps([one.to_dict() for one in answers]), None
    except QuipuError as error:
        said, reason = f"{error.code} {error} {error.hint} {error.faults}", error.reason
    for sent in ids_in(body):
        said = said.replace(sent, "…")
    return said.replace("00000000000000000000000000", "…"), reason


async def state(world: World) -> str:
    """Everything that there is of records and of what rooms keep, but not who has read it."""
    ledger = world.container.ledger
    records = [record async for record in ledger.every_version(world.tenant)]
    rows = [
        row for table in TABLES if table.is_journaled async for row in ledger.side_rows(world.tenant, table)
    ]
    return repr((records, rows))


async def test_the_owner_can_do_everything_that_the_walks_ask_for(world: World) -> None:
    for operation in OPERATIONS:
        body = await world.request(operation)
        said, reason = await outcome(world, operation, body, world.owner)
        assert reason == REFUSED.get(operation.name), (operation.name, said)
    assert set(REQUESTS) <= {operation.name for operation in OPERATIONS}, "a line for what is not there"


async def test_an_operation_that_is_new_is_walked_by_itself_or_asks_for_its_line(world: World) -> None:
    class Nothing(Request):
        """Ask for nothing."""

    class Something(Request):
        """Ask for something."""

        id: Name

    def planted(request: type[Request]) -> AnyOperation:
        return Operation(
            name="planted", request=request, response=Response, permission=Permission.READ, limits=FILTERED
        )

    assert await world.request(planted(Nothing)) == {}
    with pytest.raises(AssertionError, match="planted needs a line"):
        await world.request(planted(Something))


@pytest.mark.parametrize("limit", LIMITED)
async def test_no_operation_shows_or_changes_what_is_beyond_a_credentials_limits(
    world: World, limit: str
) -> None:
    who = limited(LIMITED[limit])
    for operation in OPERATIONS:
        if operation.permission is Permission.OPERATE:
            continue  # about the server; nobody has it here
        body = await world.request(operation)
        before = await state(world)
        said, _ = await outcome(world, operation, body, who)
        assert PRIVATE not in said, operation.name
        after = await state(world)
        if operation.limits == WHOLE:
            assert said.startswith("forbidden"), operation.name
        if operation.name not in (
            "remember",
            "remember_many",
            "note_recalled",
            "open_run",
            "mint_memory_ref",
            "register_grant",
        ):  # they add something of their own
            assert after == before, operation.name
        assert PRIVATE not in after[len(before) :], operation.name


@pytest.mark.parametrize("limit", LIMITED)
async def test_what_is_beyond_the_limits_answers_as_what_does_not_exist(world: World, limit: str) -> None:
    who = limited(LIMITED[limit])
    for operation in OPERATIONS:
        has_ids = any(
            isinstance(value, Thing) or "Thing" in repr(value)
            for value in REQUESTS.get(operation.name, {}).values()
        )
        if operation.limits not in (FILTERED, NAMED) or not has_ids:
            continue
        body = await world.request(operation)
        assert ids_in(body), operation.name
        real = await outcome(world, operation, body, who)
        assert real == await outcome(world, operation, of_nothing(body), who), operation.name


@pytest.mark.parametrize("limit", LIMITED)
async def test_lists_show_a_limited_credential_its_own(world: World, limit: str) -> None:
    """Or hiding everything from everybody would pass for a limit that works."""
    who = limited(LIMITED[limit])
    await world.request(next(one for one in OPERATIONS if one.name == "get"))
    own = {
        "an agent": {"agent_id": "mine"},
        "a user": {"user_id": "me"},
        "a store": {"store": "mine"},
    }[limit]
    if limit == "a store":
        await world(next(one for one in OPERATIONS if one.name == "create_store"), name="mine")
    kept = (await world(REMEMBER, replace(world.owner, name="x"), content="my own words", **own)).id
    for name, body in {
        "get": {"id": kept},
        "history": {"id": kept},
        "related": {"id": kept},
        "list": {},
        "recall": {"query": "my own words", "min_relevance": 0},
        "changes": {"since": 0},
    }.items():
        operation = next(one for one in OPERATIONS if one.name == name)
        given = {**body, **({"store": "mine"} if limit == "a store" and name in ("list", "recall") else {})}
        said, reason = await outcome(world, operation, given, who)
        assert reason is None, (name, said)
        assert "my own words" in said or kept in said or "…" in said, name
        assert PRIVATE not in said, name


async def test_a_reviewer_limited_to_other_operations_sees_and_decides_nothing(world: World) -> None:
    who = limited({"review_operations": ("forget",), "default_agent": "theirs"})
    for name in ("list_reviews", "review", "decide", "journal", "test_rules"):
        operation = next(one for one in OPERATIONS if one.name == name)
        body = await world.request(operation)
        before = await state(world)
        said, _ = await outcome(world, operation, body, who)
        assert await state(world) == before, name
        if name in ("list_reviews", "review", "decide"):
            assert PRIVATE not in said, name


async def test_every_permission_is_asked_for(world: World) -> None:
    """All permissions but the one that is needed do not do; nor does an admin's, where the server is concerned."""
    for operation in OPERATIONS:
        request = operation.request.parse(await world.request(operation))
        permission = operation.permission
        needed = permission(request) if callable(permission) else permission
        if needed is None:
            assert operation.name in OPEN | SIGNED, operation.name
            continue
        implied = {Permission.ADMIN} - ({Permission.ADMIN} if needed is Permission.OPERATE else set())
        others = frozenset(Permission) - {needed} - implied
        who = Principal(tenant="default", name="other", permissions=others, default_agent="theirs")
        with pytest.raises(ForbiddenError):
            authorised(who, operation, request)
        with pytest.raises(ForbiddenError):
            await world.answers(operation, request.model_dump(exclude_unset=True), who)


async def test_an_open_operation_shows_a_credential_without_permissions_nothing(world: World) -> None:
    nobody = Principal(tenant="default", name="nobody", permissions=frozenset(), default_agent="theirs")
    for operation in OPERATIONS:
        body = await world.request(operation)
        said, _ = await outcome(world, operation, body, nobody)
        assert PRIVATE not in said, operation.name
        if operation.name not in OPEN | SIGNED:
            assert said.startswith("forbidden"), operation.name
