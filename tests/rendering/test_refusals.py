"""A bad value is refused alike whichever way it comes: the same code, the same reason, the same field."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx
import pytest

from quipu.bootstrap import OPERATIONS, Container, http_app, open_container
from quipu.cli.program import Surroundings, run
from quipu.client import RemoteConnection, Transport
from quipu.config import Loaded, Settings
from quipu.errors import InvalidError, QuipuError
from quipu.model.principal import local
from quipu.opening import EmbeddedConnection, Runner
from quipu.operation import AnyOperation
from quipu.schemas import Field, fields
from tests.fixtures.memories import Clock
from tests.mcp.clients import MODES, World
from tests.rendering.samples import requests
from tests.rendering.test_walk import piped, words

#: Code, reason and the field of the first fault.
Refusal = tuple[str, str | None, str | None]


@pytest.fixture
async def container() -> AsyncIterator[Container]:
    opened = await open_container(Settings(), stores=[":memory:"], embedder="none")
    yield opened
    await opened.close()


def bad_values(field: Field) -> Iterator[Any]:
    """Values of the right kind that are out of bounds: every way in can carry them."""
    if field.choices:
        yield "nonsense"
    elif field.kind == "string" and not field.other_kinds:
        yield "a\0b"
        if "maxLength" in field.schema and field.schema["maxLength"] < 50_000:
            yield "x" * (field.schema["maxLength"] + 1)
    elif field.kind in ("integer", "number") and not field.other_kinds:
        yield 10**30
        if field.schema.get("minimum", -1) >= 0:
            yield -1
    elif field.kind == "array" and field.schema.get("items", {}).get("type") == "string":
        yield ["ok", "a\0b"]


def cases() -> Iterator[tuple[AnyOperation, str, dict[str, Any]]]:
    for operation in OPERATIONS:
        valid = dict(requests(operation))
        for name, field in fields(operation.request).items():
            for value in bad_values(field):
                given = {**valid[name], name: value}
                if refused(lambda: operation.request.parse(given)) is not None:  # noqa: B023  called at once
                    yield operation, name, given


def of(error: QuipuError) -> Refusal:
    return error.code, error.reason, error.faults[0].pointer if error.faults else None


def of_problem(body: Mapping[str, Any]) -> Refusal:
    errors = body.get("errors") or [{}]
    return body["code"], body["reason"], errors[0].get("pointer")


def refused(work: Any) -> Refusal | None:
    try:
        work()
    except InvalidError as error:
        return of(error)
    return None


CASES = list(cases())


async def test_http_and_its_client_refuse_as_python_does(container: Container) -> None:
    transport = httpx.ASGITransport(http_app(container, is_open=True))
    connection = RemoteConnection(Transport("http://127.0.0.1", network=transport), new_key=lambda: "key")
    wrong: list[Any] = []
    for operation, name, given in CASES:
        if operation.http is None or operation.is_stream or f"{{{name}" in operation.http.path:
            continue  # in a path, what is no name is no address
        wanted = refused(lambda: operation.request.parse(given))  # noqa: B023  called at once
        try:
            await connection.call(operation, given)
        except QuipuError as error:
            if of(error) != wanted:
                wrong.append((operation.name, name, of(error), wanted))
        else:
            wrong.append((operation.name, name, "was let through"))
    await connection.close()
    assert not wrong


async def test_python_in_process_refuses_before_anything_is_done(container: Container) -> None:
    before = await container.ledger.head("default")
    runner = Runner(_opened(container), agent_id="agent")
    for operation, name, given in CASES:
        if operation.is_stream:
            continue
        with pytest.raises(InvalidError) as raised:
            await runner.call(operation.name, given)
        assert of(raised.value)[2], (operation.name, name)
    assert await container.ledger.head("default") == before


def test_commands_refuse_as_python_does(capsys: pytest.CaptureFixture[str]) -> None:
    surroundings = Surroundings(
        loaded=lambda: Loaded(settings=Settings(), sources={}, file=None, unknown=(), warnings=()),
        embedded=lambda *_, **__: _never,
    )
    wrong: list[Any] = []
    for operation, name, given in CASES:
        if (
            operation.cli is None
            or operation.is_stream
            or "\0" in json.dumps(given)
            or "\\u0000" in json.dumps(given)
        ):
            continue  # no word of a command line holds a zero
        wanted = refused(lambda: operation.request.parse(given))  # noqa: B023  called at once
        with piped(operation, given):
            code = run(["--json", *words(operation, given)], surroundings)
        shown = capsys.readouterr().err.strip().splitlines()
        found = of_problem(json.loads(shown[-1])) if shown else None
        if code != 1 or found != wanted:
            wrong.append((operation.name, name, code, found, wanted))
    assert not wrong


async def test_tools_refuse_as_python_does(container: Container) -> None:
    tools = World(container, Clock(), MODES[-1])
    wrong: list[Any] = []
    tried = 0
    async with tools.client(tools.caller(profile="admin")) as client:
        known = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
        for operation, name, given in CASES:
            if not given.keys() <= known.get(operation.name, {}).keys():
                continue  # a field that the tool does not show is refused as unknown
            wanted = refused(lambda: operation.request.parse(given))  # noqa: B023  called at once
            assert wanted is not None
            needed = {"type": "semantic"} if operation.name == "remember" else {}  # a model has to choose one
            said = (await client.call_tool(operation.name, {**needed, **given})).content[0].text
            where = (wanted[2] or "").lstrip("/").replace("/", ".")
            tried += 1
            if not said.startswith(f"{wanted[0]}: {where}"):
                wrong.append((operation.name, name, said, wanted))
    assert not wrong
    assert tried > 60


def _opened(container: Container) -> Any:
    async def opened() -> EmbeddedConnection:
        return EmbeddedConnection(container, local(agent_id="agent"))

    return opened


async def _never() -> Any:
    raise AssertionError("a memory was opened for a request that is not valid")
