"""What a server refuses about runs is the error that the same call raises where the runs are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from quipu.client.runs import RemoteRuns
from quipu.errors import ConflictError, InvalidError, QuipuError, UnauthenticatedError
from quipu.model.principal import Permission, local
from tests.client.conftest import watched
from tests.faces.serving import Served


@pytest.fixture
async def runs(server: Served) -> AsyncIterator[RemoteRuns]:
    connection = watched(server.url, server.admin_token)
    yield RemoteRuns(connection.transport)
    await connection.close()


async def refusal(call: Awaitable[Any]) -> QuipuError:
    with pytest.raises(QuipuError) as refused:
        await call
    return refused.value


async def test_a_run_that_is_over_is_told_as_here(server: Served, runs: RemoteRuns) -> None:
    name = (await runs.open("w"))["runId"]
    await runs.complete(name)
    calls: list[tuple[Callable[[], Awaitable[Any]], Any]] = [
        (lambda: runs.complete(name), lambda: server.service.runs.complete(local(), name, ())),
        (lambda: runs.cancel(name), lambda: server.service.runs.cancel(local(), name)),
    ]
    for theirs, ours in calls:
        told = await refusal(theirs())
        with pytest.raises(ConflictError) as here:
            server.do(ours())
        assert isinstance(told, ConflictError)
        assert (told.reason, told.faults, str(told)) == (
            here.value.reason,
            here.value.faults,
            str(here.value),
        )


async def test_what_is_wrong_with_a_request_keeps_its_place_and_its_reason(runs: RemoteRuns) -> None:
    name = (await runs.open("w"))["runId"]
    for call, pointer, reason in (
        (runs.open("w" * 300), "/workflowId", "bad_value"),
        (runs.list(None, 0), "/limit", "bad_value"),
        (runs.fork(name, "branch", 99), "/fromSeq", "from_seq"),
    ):
        told = await refusal(call)
        assert isinstance(told, InvalidError)
        assert (told.reason, told.faults[0].pointer, told.faults[0].reason) == (reason, pointer, reason)
        assert told.faults[0].accepted


async def test_a_token_that_was_taken_back_is_told_as_such(server: Served) -> None:
    issued = server.do(server.service.tokens.issue(local(), name="gone", permissions=(Permission.READ,)))
    server.do(server.service.tokens.revoke(local(), issued.token.id))
    connection = watched(server.url, issued.text)
    told = await refusal(RemoteRuns(connection.transport).show("run_no"))
    await connection.close()
    assert isinstance(told, UnauthenticatedError)
    assert told.reason == "revoked_token"
