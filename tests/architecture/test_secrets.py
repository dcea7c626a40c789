"""No operation keeps or repeats a registered secret, wherever in a request it stands and whenever it was registered."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import OPERATIONS
from quipu.errors import InvalidError, QuipuError, SecretLeakageError
from quipu.memory.operations import REMEMBER
from quipu.model.record import DETAIL_FIELDS
from quipu.operation import AnyOperation
from quipu.secrets.operations import ADD_SECRET, REMOVE_SECRET
from tests.architecture.placements import placed
from tests.architecture.world import NOWHERE, World, open_world

SECRET = "correct-horse-battery-staple"
#: The field that a secret is given in.
_GIVEN = {("add_secret", "value")}
#: What it writes belongs to another tenant's journal, and nothing puts the two in an order.
_ELSEWHERE = {"create_tenant"}
#: Texts that are read as something else, so that none with a secret in it is valid: moments, places in a list, words of a
#: list, a name once more, the name of an embedder, a place in the file system, names that stand for yes and no.
_READ_AS_SOMETHING_ELSE = {
    *((name, "as_of") for name in ("get", "list", "recall", "related", "export_file", "export_records")),
    *(("export_file", name) for name in ("since", "base_export_id", "encrypt_to")),
    *((name, "cursor") for name in ("journal", "list", "list_borrowed", "list_entries", "suggestions")),
    *((name, "expires_at") for name in ("create_token", "remember", "update")),
    *(("anchor", "target"), ("create_token", "review_operations"), ("delete_store", "confirm")),
    *(("share", "grantee"), ("share", "profile"), ("register_grant", "grant"), ("erase", "filter")),
    ("return_borrowed", "body"),
    *(("recall", "embedding"), ("backup", "target"), ("step", "facts")),
}


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.chdir(tmp_path)  # a backup is written where its name says
    opened = await open_world(tmp_path)
    opened.sender = replace(
        opened.owner, name="olga", is_local=False
    )  # whose reads are counted and journaled
    yield opened
    await opened.container.close()


def placements(operation: AnyOperation, text: str) -> Iterator[tuple[str, Any]]:
    """Field and value, also such as the schema does not tell of."""
    for name, value in placed(operation.request, text):
        if (operation.name, name) not in _GIVEN:
            yield name, value
    if operation.name == "create_webhook":
        yield "url", f"{NOWHERE}/{text.replace(' ', '-')}"
    if operation.name == "borrow":
        yield "link", f"https://nowhere.invalid/oap/memory/grant/{text.replace(' ', '-')}"
    if operation.name == "preview_write":
        yield "request", {"id": "mem_1", "tags": [text]}


async def companions(world: World, operation: AnyOperation, name: str) -> dict[str, Any]:
    """What a field cannot stand without: the type of memory that has it; or not beside of: another way to choose."""
    if operation.name == "erase" and name in ("filter", "grant_id", "scope_id"):
        return {"ids": None}
    kind = DETAIL_FIELDS.get(name)
    if kind is None:
        return {}
    if "type" in operation.request.model_fields:
        return {"type": kind}
    return {"id": (await world(REMEMBER, content="x", type=kind)).id}


def kept(folder: Path) -> list[str]:
    """The files that hold the secret as it is."""
    return [
        file.name for file in folder.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()
    ]


async def test_a_registered_secret_in_any_place_of_any_request_is_neither_kept_nor_repeated(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="quipu")
    await world(ADD_SECRET, label="pass", value=SECRET)
    tried: set[tuple[str, str]] = set()
    reached: set[tuple[str, str]] = set()
    for operation in OPERATIONS:
        base: dict[str, Any] | None = None
        for text in (SECRET, f"it is {SECRET}."):
            for name, value in placements(operation, text):
                tried.add((operation.name, name))
                base = base or await world.request(operation)
                body = {**base, **await companions(world, operation, name), name: value}
                try:
                    answers = await world.answers(operation, body, world.sender)
                    said = " ".join(one.model_dump_json() for one in answers)
                    base = None
                    reached.add((operation.name, name))
                except QuipuError as error:
                    said = f"{error} {error.hint} {error.faults}"
                    if isinstance(error, SecretLeakageError) or not isinstance(error, InvalidError):
                        reached.add((operation.name, name))
                assert SECRET not in said, (operation.name, name, body)
        await world.container.memory.read_log.flush()
        assert kept(tmp_path) == [], operation.name
    assert tried - reached == _READ_AS_SOMETHING_ELSE, "a field was never looked at: give it a valid value"
    assert len(tried) > 150
    assert SECRET not in caplog.text


async def test_a_secret_that_is_registered_while_a_request_is_under_way_is_kept_out_of_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody registers it after the request was checked and before it is committed: each commit is refused what was
    checked against an older list, and is checked again."""
    secrets = world.container.secrets
    guard = secrets.guard
    registered: list[str] = []

    async def late(tenant: str, run_id: str | None) -> Any:
        found = await guard(tenant, run_id)
        if not registered:
            registered.append("")  # registering asks for a guard too
            registered[:] = [(await world(ADD_SECRET, label="pass", value=SECRET)).id]
        return found

    checked: set[str] = set()
    for operation in OPERATIONS:
        if operation.name in _ELSEWHERE:
            continue
        for name, value in dict(placements(operation, SECRET)).items():  # the way is the same for every place
            base = await world.request(operation)
            body = {**base, **await companions(world, operation, name), name: value}
            with monkeypatch.context() as patched, suppress(QuipuError):
                patched.setattr(secrets, "guard", late)
                await world.answers(operation, body, world.sender)
            if registered:
                checked.add(operation.name)
            else:
                registered.append((await world(ADD_SECRET, label="pass", value=SECRET)).id)
            await world.container.memory.read_log.flush()
            assert kept(tmp_path) == [], (operation.name, name, body)
            await world(REMOVE_SECRET, id=registered.pop())
    writes = {operation.name for operation in OPERATIONS if operation.span == "update_memory"}
    assert writes - {"note_recalled"} <= checked
    assert {"create_token", "create_webhook", "create_store", "set_rules", "decide", "add_secret"} <= checked
