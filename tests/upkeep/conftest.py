"""A whole memory in a file, opened as a program opens it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from quipu.bootstrap import Container, open_container
from quipu.config import Settings
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation, dispatch, dispatch_stream
from quipu.testing.embedders import WordEmbedder

Opened: TypeAlias = Callable[..., Awaitable[Container]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens the memory of the test, or another file of its folder; with an embedder of so many dimensions."""
    containers: list[Container] = []

    async def open_file(name: str = "memory.db", dimensions: int = 64) -> Container:
        embedder: Any = WordEmbedder(dimensions) if dimensions else "none"
        container = await open_container(Settings(), stores=[tmp_path / name], embedder=embedder)
        containers.append(container)
        return container

    yield open_file
    for container in containers:
        await container.close()


async def run(
    container: Container, operation: AnyOperation, who: Principal | None = None, **fields: Any
) -> Any:
    """The answer; of an operation that answers one by one, all of them."""
    ctx = container.context(who or local(agent_id="agent"))
    if operation.is_stream:
        return [item async for item in dispatch_stream(ctx, operation, fields)]
    return await dispatch(ctx, operation, fields)
