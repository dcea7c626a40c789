"""Every field of every operation, on every way in: HTTP by the client, methods, commands, reference."""

import inspect
import io
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from quipu import api, methods, reference, sync
from quipu.bootstrap import OPERATIONS
from quipu.cli.program import Surroundings, run
from quipu.client import RemoteConnection, Transport
from quipu.config import Loaded, Settings
from quipu.operation import AnyOperation, FilePart, Request, Response
from quipu.schemas import fields
from tests.rendering.recorder import Recorder
from tests.rendering.samples import answer, requests
from tests.rendering.server import Server

METHODS = [operation for operation in OPERATIONS if operation.name in methods.METHODS]
COMMANDS = [operation for operation in OPERATIONS if operation.cli]


def given_by(request: Request, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a request says, as JSON."""
    return {
        name: value
        for name, value in request.model_dump(mode="json", exclude_unset=True).items()
        if name not in without
    }


def wanted(operation: AnyOperation, given: Mapping[str, Any]) -> dict[str, Any]:
    return given_by(operation.request.parse(given))


async def _file() -> AsyncIterator[bytes]:
    yield b"a file"


async def test_every_field_of_every_operation_arrives_at_the_server() -> None:
    asked: list[Request] = []

    async def answered(operation: AnyOperation, given: dict[str, Any]) -> Response:
        asked.append(operation.request.parse(given))
        return answer(operation.response)

    async def streamed(operation: AnyOperation, given: dict[str, Any]) -> Any:
        asked.append(operation.request.parse(given))
        yield answer(operation.response)

    server = Server(OPERATIONS, answered, streamed)
    transport = Transport("http://localhost", network=httpx.ASGITransport(server))
    connection = RemoteConnection(transport, new_key=lambda: "minted")
    walked = 0
    for operation in OPERATIONS:
        if operation.http is None:
            continue
        for name, given in requests(operation):
            if operation.is_stream:
                stream = connection.stream(operation, given)
                response = await anext(stream)
                if isinstance(response, FilePart):  # what it is, then what is in it
                    data = b"".join([part.data async for part in stream])
                    response = response.model_copy(update={"data": data})
                await stream.aclose()
            elif operation.http.body == "bytes":
                response = await connection.send(operation, given, _file())
            else:
                response = await connection.call(operation, given)
            assert response == answer(operation.response), (operation.name, name)
            arrived = given_by(asked[-1])
            if arrived.get("idempotency_key") == "minted":
                del arrived["idempotency_key"]
            assert arrived == wanted(operation, given), (operation.name, name)
            walked += 1
    await connection.close()
    assert walked > 200


async def test_every_field_of_every_method_is_passed_on() -> None:
    recorder = Recorder()
    memory = api.Memory.over(recorder.opened)
    for operation in METHODS:
        for name, given in requests(operation):
            method = getattr(memory, operation.name)
            if operation.is_stream:
                async for response in method(**given):
                    assert isinstance(response, operation.response)
            else:
                assert isinstance(await method(**given), operation.response)
            assert recorder.asked[-1][0] == operation.name
            assert given_by(recorder.asked[-1][1]) == wanted(operation, given), (operation.name, name)
    await memory.close()


def test_every_field_of_every_blocking_method_is_passed_on() -> None:
    recorder = Recorder()
    with sync.Memory.over(recorder.opened) as memory:
        for operation in METHODS:
            for name, given in requests(operation):
                method = getattr(memory, operation.name)
                found = next(method(**given)) if operation.is_stream else method(**given)
                assert isinstance(found, operation.response)
                assert given_by(recorder.asked[-1][1]) == wanted(operation, given), (operation.name, name)
    assert recorder.is_closed


def words(operation: AnyOperation, given: Mapping[str, Any]) -> Iterator[str]:
    """A request as a person types it."""
    assert operation.cli is not None
    yield from (operation.cli.name or operation.name.replace("_", " ")).split()
    known = fields(operation.request)
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if name in (*operation.cli.arguments, operation.cli.hidden):
            continue
        if isinstance(value, bool):
            yield option if value else f"--no-{option[2:]}"
        elif isinstance(value, list):
            for item in value:
                yield from (option, item if isinstance(item, str) else json.dumps(item))
        else:
            yield from (option, value if isinstance(value, str) else json.dumps(value))
    if "hard_delete" in known:
        yield "--yes"
    yield "--"
    for name in operation.cli.arguments:
        value = given.get(name, [])
        yield from value if isinstance(value, list) else [value]


@contextmanager
def piped(operation: AnyOperation, given: Mapping[str, Any]) -> Iterator[None]:
    """Standard input with what a person does not type."""
    assert operation.cli is not None
    hidden = given.get(operation.cli.hidden, "") if operation.cli.hidden else ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(hidden.encode()), encoding="utf-8"))
        yield


def test_every_field_of_every_command_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder()
    settings = Settings(server="https://memory.example.org")
    surroundings = Surroundings(
        loaded=lambda: Loaded(settings=settings, sources={}, file=None, unknown=(), warnings=()),
        remote=lambda *_, **__: recorder.opened,
    )
    for operation in COMMANDS:
        for name, given in requests(operation):
            for more in ([], ["--json"]):
                with piped(operation, given):
                    code = run([*more, *words(operation, given)], surroundings)
                shown = capsys.readouterr()
                assert code in (0, 3), (operation.name, name, shown.err)
                found = given_by(recorder.asked[-1][1])
                assert found == wanted(operation, given), (operation.name, name)
                if more:
                    assert json.loads(shown.out) == answer(operation.response).to_dict()


def test_every_column_of_every_table_is_a_field_of_the_answer() -> None:
    for operation in COMMANDS:
        assert operation.cli is not None
        body = answer(operation.response).to_dict()
        rows = [item for value in body.values() if isinstance(value, list) for item in value]
        shown = [row for row in (body, *rows) if isinstance(row, dict)]
        columns = set(operation.cli.columns)
        assert any(columns <= row.keys() for row in shown), operation.name
        assert set(operation.cli.arguments) <= fields(operation.request).keys(), operation.name


def test_every_field_stands_in_the_reference_with_its_meaning() -> None:
    page = reference.markdown(OPERATIONS)
    sections = {section.partition("\n")[0]: section for section in page.split("\n## ")}
    for operation in OPERATIONS:
        section = sections[operation.name]
        for field in (*fields(operation.request).values(), *fields(operation.response).values()):
            assert field.description or field.schema.get("description"), (operation.name, field.name)
            assert re.search(rf"^\| `{field.name}` \|", section, re.MULTILINE), (operation.name, field.name)
        if operation.http:
            assert f"{operation.http.method} {operation.http.path}" in section


def test_every_method_explains_every_argument() -> None:
    for operation in METHODS:
        for kind in (api.Memory, sync.Memory):
            method = getattr(kind, operation.name)
            names = set(inspect.signature(method).parameters) - {"self", "request"}
            assert names == fields(operation.request).keys(), operation.name
            for name in names:
                assert f"\n        {name}: " in (method.__doc__ or ""), (operation.name, name)
