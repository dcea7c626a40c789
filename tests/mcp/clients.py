"""A memory with everything in it, and real clients of the SDK for it, in both generations of the protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from mcp import Client
from mcp.types import CallToolResult, ElicitResult

from quipu.bootstrap import Container, mcp_parts
from quipu.governance.operations import SET_RULES
from quipu.mcp.caller import Caller
from quipu.mcp.server import McpServer, mcp_server
from quipu.mcp.settings import McpSettings
from quipu.model.principal import Permission, Principal, local
from quipu.operation import AnyOperation, Context, dispatch
from tests.fixtures.memories import Clock

MODES = ("2026-07-28", "legacy")
FACT = {"type": "semantic", "content": "Mara keeps bees", "source": "user"}
#: What a person's client may do, without the review permission.
MEMORY = frozenset({Permission.READ, Permission.WRITE, Permission.DELETE})


@dataclass
class World:
    """A memory, and who asks."""

    container: Container
    clock: Clock
    mode: str
    principal: Principal = field(default_factory=lambda: local(agent_id="agent"))

    def named(self, **changes: Any) -> Principal:
        """Somebody with a credential, and with these limits."""
        return replace(self.principal, name="somebody", is_local=False, **changes)

    def caller(self, principal: Principal | None = None, **given: Any) -> Caller:
        asking = principal or self.principal

        async def renewed() -> Principal:
            return asking

        return Caller(
            **{
                "principal": asking,
                "context": self.container.context,
                "base": "http://memory.example",
                "renewed": renewed,
                **given,
            }
        )

    def server(self, caller: Caller | None = None, **shown: Any) -> McpServer:
        settings = McpSettings(**shown)
        return mcp_server(mcp_parts(self.container, settings), lambda _: caller or self.caller())

    @asynccontextmanager
    async def client(
        self, caller: Caller | None = None, *, shown: dict[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        """In process."""
        server = self.server(caller, **(shown or {})).server
        async with Client(server, mode=self.mode, **options) as client:
            yield client

    async def __call__(self, operation: AnyOperation, /, **fields: Any) -> Any:
        """Run an operation as who may do everything."""
        return await dispatch(self.container.context(local(agent_id="agent")), operation, fields)

    async def rules(self, *rules: dict[str, Any]) -> None:
        await self(SET_RULES, rules=list(rules))

    def context(self) -> Context:
        return self.container.context(self.principal)


class Person:
    """Somebody at the client who answers in one way, and what they were asked."""

    def __init__(self, action: str = "accept", *, approve: bool = True, reason: str = "fine") -> None:
        self._action, self._content = action, {"approve": approve, "reason": reason}
        self.asked: list[str] = []

    async def __call__(self, _context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        content = self._content if self._action == "accept" else None
        return ElicitResult(action=self._action, content=content)  # type: ignore[arg-type]


def body(result: CallToolResult) -> dict[str, Any]:
    """The structured part of an answer that is no error."""
    assert not result.is_error, result
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def text(result: CallToolResult) -> str:
    (block,) = result.content
    return block.text  # type: ignore[union-attr]


def fault(result: CallToolResult) -> str:
    """The code of an error, which is also what its text begins with."""
    assert result.is_error, result
    assert result.meta is not None
    code: str = result.meta["dev.quipu/error"]["code"]
    assert text(result).startswith(f"{code}: ")
    return code
