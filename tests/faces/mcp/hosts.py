"""Real clients of the SDK, over each transport and in both generations of the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CallToolResult, ElicitResult

from tests.conventions import command
from tests.faces.serving import Served

#: The newest, and the one with sessions.
GENERATIONS = ("2026-07-28", "legacy")
T = TypeVar("T")


@contextlib.asynccontextmanager
async def over_http(
    at: Served, mode: str = "2026-07-28", token: str | None = None, path: str = "/mcp", **options: Any
) -> AsyncIterator[Client]:
    """A client of a running server."""
    http = create_mcp_http_client(headers=at.headers(token))
    async with (
        http,
        Client(streamable_http_client(at.url + path, http_client=http), mode=mode, **options) as client,
    ):
        yield client


async def kept_open(context: contextlib.AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """For fixtures: a client must be closed by the task that opened it, and a fixture ends in another."""
    ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        async with context as value:
            ready.set_result(value)
            await done.wait()

    holding = asyncio.create_task(hold())
    await asyncio.wait({holding, ready}, return_when=asyncio.FIRST_COMPLETED)
    if holding.done():
        await holding
    yield await ready
    done.set()
    await holding


def stdio(store: Path, *words: str, **environment: str) -> StdioServerParameters:
    """How a host starts `quipu mcp`."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("QUIPU_", "MEMORYWIRE_"))
    }
    given = {
        "QUIPU_STORE": f"sqlite://{store}",
        "QUIPU_EMBEDDER": "none",
        "XDG_CONFIG_HOME": str(store.parent / "no-settings"),
    }
    program, *line = command("mcp", *words)
    return StdioServerParameters(command=program, args=line, env={**kept, **given, **environment})


class Person:
    """Somebody at the client who answers in one way, and what they were asked."""

    def __init__(self, action: str = "accept", *, approve: bool = True, reason: str = "fine") -> None:
        self._action, self._content = action, {"approve": approve, "reason": reason}
        self.asked: list[str] = []

    async def __call__(self, _context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        is_accepted = self._action == "accept"
        return ElicitResult(action=self._action, content=self._content if is_accepted else None)


def body(result: CallToolResult) -> dict[str, Any]:
    """The structured part, which must be what the first text says."""
    assert not result.is_error, result
    assert result.structured_content is not None
    assert json.loads(text(result)) == result.structured_content
    return result.structured_content


def text(result: CallToolResult, index: int = 0) -> str:
    return result.content[index].text


def fault(result: CallToolResult) -> str:
    """The code of an error, which is also what its text begins with."""
    assert result.is_error, result
    assert result.meta is not None
    code: str = result.meta["dev.quipu/error"]["code"]
    return code
