"""A connection that notes what it is asked and answers with a sample."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from quipu.operation import AnyOperation, Request, Response
from tests.rendering.samples import answer


class Recorder:
    """Stands where an embedded or a remote memory stands."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Request]] = []
        self.is_closed = False

    async def opened(self) -> "Recorder":
        return self

    async def check(self) -> None:
        return

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        self.asked.append((operation.name, operation.request.parse(given)))
        return answer(operation.response)

    async def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncGenerator[Response]:
        self.asked.append((operation.name, operation.request.parse(given)))
        yield answer(operation.response)

    async def close(self) -> None:
        self.is_closed = True
