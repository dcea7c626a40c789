"""By walking every operation, not by cases: marks, limits, secrets, one definition."""

import asyncio
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, Field

from quipu.bootstrap import OPERATIONS, TABLES, Container, open_container
from quipu.config import Settings
from quipu.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    UnsupportedError,
)
from quipu.fields import Name, Redact
from quipu.http.openapi import document
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import REMEMBER
from quipu.methods import async_source
from quipu.model.principal import Permission, Principal, local
from quipu.operation import AnyOperation, Operation, Request, authorised, dispatch, dispatch_stream
from quipu.schemas import fields, schema
from quipu.secrets.operations import ADD_SECRET
from quipu.testing.embedders import WordEmbedder

SECRET = "correct-horse-battery-staple"


@pytest.fixture
async def container() -> Any:
    opened = await open_container(Settings(), stores=[":memory:"], embedder=WordEmbedder())
    yield opened
    await opened.close()


# -- what a secret in a field means ------------------------------------------------------------------------------------


def unmarked(annotation: Any, mark: bool = False) -> bool:
    """Whether there is a text in a type that says nothing about secrets."""
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *metadata = typing.get_args(annotation)
        return unmarked(inner, mark or any(isinstance(one, Redact) for one in metadata))
    if annotation is str or annotation is dict:
        return not mark
    if typing.get_origin(annotation) is typing.Literal:
        return False
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return any(is_unmarked_field(annotation, name) for name in annotation.model_fields)
    if typing.get_origin(annotation) is dict:
        return not mark
    return any(unmarked(one, mark) for one in typing.get_args(annotation))


def is_unmarked_field(model: type[BaseModel], name: str) -> bool:
    return unmarked(typing.get_type_hints(model, include_extras=True)[name])


def test_every_text_field_of_every_request_says_what_a_secret_in_it_means() -> None:
    missing = [
        f"{operation.name}.{name}"
        for operation in OPERATIONS
        for name in operation.request.model_fields
        if is_unmarked_field(operation.request, name)
    ]
    assert missing == []


async def test_a_registered_secret_in_any_field_of_any_request_is_never_kept(container: Container) -> None:
    ctx = lambda: container.context(local(agent_id="agent"))  # noqa: E731
    await dispatch(ctx(), ADD_SECRET, {"label": "pass", "value": SECRET})
    kept = (await dispatch(ctx(), REMEMBER, {"content": "something to name"})).id
    tried = 0
    for operation in OPERATIONS:
        if operation.is_stream or operation.name == "add_secret":
            continue
        for body in poisoned(operation, kept):
            tried += 1
            try:
                answer = await dispatch(ctx(), operation, body)
            except QuipuError as error:
                said = f"{error} {error.hint} {error.faults}"
            else:
                said = (
                    "" if operation.name == "merge" else answer.model_dump_json()
                )  # v0: canonical, as it was sent
            assert SECRET not in said, (operation.name, body)
    assert tried > 100
    await container.memory.read_log.flush()
    for tenant in await container.ledger.tenants():
        assert SECRET not in tenant.tenant
        everything = [record async for record in container.ledger.every_version(tenant.tenant)]
        entries = await container.ledger.entries(tenant.tenant, JournalQuery(limit=10_000))
        rows = [
            row
            for table in TABLES
            if table.is_journaled
            async for row in container.ledger.side_rows(tenant.tenant, table)
        ]
        assert SECRET not in repr((everything, entries, rows))


def poisoned(operation: AnyOperation, record_id: str) -> Iterator[dict[str, Any]]:
    """The least request that is valid, with the secret in one of its fields after the other."""
    base = least(operation, record_id)
    for name, field in fields(operation.request).items():
        for value in values(field.kind, field.other_kinds):
            yield {**base, name: value}


def values(kind: str, others: tuple[str, ...]) -> Iterator[Any]:
    for one in (kind, *others):
        if one == "string":
            yield from (SECRET, f"it is {SECRET}.")
        elif one == "array":
            yield from ([SECRET], [{"to": SECRET, "rel": SECRET}], [{"content": SECRET}])
        elif one == "object":
            yield from ({SECRET: SECRET}, {"a": [SECRET]}, {"consent_id": SECRET}, {"metadata.x": SECRET})


def least(operation: AnyOperation, record_id: str) -> dict[str, Any]:
    known: dict[str, Any] = {
        **{
            "id": record_id,
            "content": "x",
            "query": "x",
            "name": "n",
            "confirm": "n",
            "label": "l",
            "value": "v" * 20,
        },
        **{
            "canonical": record_id,
            "duplicates": [record_id],
            "policy": {"type": "semantic"},
            "ids": [record_id],
        },
        **{"items": [{"content": "x"}], "tenant": "other", "roles": ["agent"], "token_id": "tok_1"},
    }
    wanted = {name for name, field in fields(operation.request).items() if field.is_required}
    wanted |= {"ids"} if operation.name == "forget" else set()
    wanted |= {"policy"} if operation.name == "expire" else set()
    body = {name: known[name] for name in wanted if name in known}
    return {**body, "dry_run": False} if "dry_run" in operation.request.model_fields else body


# -- limits ------------------------------------------------------------------------------------------------------------


LIMITED: dict[str, dict[str, Any]] = {
    "an agent": {"agents": ("mine",), "default_agent": "mine"},
    "a user": {"user_id": "me", "default_agent": "agent"},
    "a store": {"review_stores": ("mine",), "default_agent": "agent"},
}


async def test_no_operation_shows_or_changes_what_is_beyond_a_credentials_limits(
    container: Container,
) -> None:
    """Every operation, asked by principals limited to an agent, a user and a store, about somebody else's record."""
    whole = local(agent_id="agent")
    for limits in LIMITED.values():
        theirs = await dispatch(
            container.context(whole), REMEMBER, {"content": "their private words", "user_id": "them"}
        )
        limited = Principal(
            tenant="default",
            name="limited",
            permissions=frozenset(Permission) - {Permission.OPERATE},
            **limits,
        )
        for operation in OPERATIONS:
            body = least(operation, theirs.id)
            if operation.is_stream:
                await shows_nothing_of(theirs.id, container, limited, operation)
                continue
            try:
                answer = await dispatch(container.context(limited), operation, body)
            except (ForbiddenError, NotFoundError, InvalidError, ConflictError, UnsupportedError) as error:
                said = str(error)
            else:
                said = answer.model_dump_json()
            assert "private words" not in said, operation.name
        current = (await container.ledger.records("default", [theirs.id]))[theirs.id]
        assert (current.version, current.content) == (1, "their private words"), limits


async def shows_nothing_of(
    record_id: str, container: Container, principal: Principal, operation: AnyOperation
) -> None:
    """A stream, asked for everything so far."""

    async def read() -> None:
        async for item in dispatch_stream(container.context(principal), operation, {"since": 0}):
            assert record_id not in item.record_ids

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await read()


def test_no_operation_is_open_to_a_credential_without_permissions() -> None:
    nobody = Principal(tenant="default", name="nobody", permissions=frozenset(), default_agent="agent")
    let_in = []
    for operation in OPERATIONS:
        try:
            request = operation.request.parse(least(operation, "mem_1"))
            authorised(nobody, operation, request)
            let_in.append(operation.name)
        except (ForbiddenError, InvalidError):
            pass
    assert let_in == ["whoami"]


# -- one definition ----------------------------------------------------------------------------------------------------


def test_a_field_that_is_added_to_a_request_is_on_every_face_without_another_line() -> None:
    class Wider(REMEMBER.request):  # type: ignore[name-defined, misc]
        """Keep one fact, with its mood."""

        mood: Name | None = Field(default=None, description="How it felt.")

    wider: Operation[Any, Any] = Operation(
        name="remember",
        request=Wider,
        response=REMEMBER.response,
        permission=REMEMBER.permission,
        limits=REMEMBER.limits,
        http=REMEMBER.http,
        cli=REMEMBER.cli,
    )
    assert "mood" in schema(Wider)["properties"]
    assert "mood" in fields(Wider)
    assert Wider.parse({"content": "x", "mood": "glad"}).mood == "glad"
    described = document([wider])["components"]["schemas"]["Wider"]["properties"]
    assert described["mood"]["description"] == "How it felt."
    source = async_source([wider])
    assert "mood: str | None = None" in source
    assert "How it felt." in source
    assert issubclass(Wider, Request)
