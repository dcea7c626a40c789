"""How long MCP requests take. Their spans, and the trace in `_meta`, are the SDK's own business on both ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

#: Told the method, the tool, the seconds, and the error of a request.
Operated: TypeAlias = Callable[[str, str | None, float, str | None], None]


class Measured:
    """A middleware of the SDK's. Names that are no tool of ours are nobody's label."""

    def __init__(self, operated: Operated, tools: Collection[str]) -> None:
        self._operated, self._tools = operated, frozenset(tools)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        began = time.perf_counter()
        named = ctx.params.get("name") if ctx.params and ctx.method == "tools/call" else None
        tool = named if isinstance(named, str) and named in self._tools else None
        error: str | None = None
        try:
            result = await call_next(ctx)
        except MCPError as failed:
            error = str(failed.error.code)
            raise
        except BaseException as failed:
            error = type(failed).__qualname__
            raise
        else:
            match result:
                case CallToolResult(is_error=True) | {"isError": True}:
                    error = "tool_error"
                case _:
                    pass
            return result
        finally:
            self._operated(ctx.method, tool, time.perf_counter() - began, error)
