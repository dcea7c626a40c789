"""In front of every request: who is asking, and which of the lists they see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST

from quipu.errors import QuipuError
from quipu.faces.mcp.caller import As, Caller, Who
from quipu.faces.mcp.resources import PROFILES as WITH_RESOURCES
from quipu.faces.mcp.resources import is_seen
from quipu.faces.mcp.tools import ToolSpec


class Gate:
    """A middleware of the SDK's. A tool that the caller cannot use is not listed."""

    def __init__(self, who: Who, specs: Sequence[ToolSpec], prefix: str) -> None:
        self._who = who
        self._specs = {prefix + spec.name: spec for spec in specs}

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            who = self._who(ctx)
        except QuipuError as error:
            raise MCPError(INVALID_REQUEST, f"{error.code}: {error.message}") from None
        with As(who):
            return self._seen(who, ctx.method, await call_next(ctx))

    def _seen(self, who: Caller, method: str, result: HandlerResult) -> HandlerResult:
        if not isinstance(result, dict):
            return result
        match method:
            case "tools/list":
                kept = [tool for tool in _rows(result, "tools") if self._specs[tool["name"]].is_for(who)]
                return {**result, "tools": kept}
            case "resources/list":
                kept = [row for row in _rows(result, "resources") if is_seen(who, row["uri"])]
                return {**result, "resources": kept}
            case "resources/templates/list" if who.profile not in WITH_RESOURCES:
                return {**result, "resourceTemplates": []}
            case "prompts/list" if who.profile not in WITH_RESOURCES:
                return {**result, "prompts": []}
            case _:
                return result


def _rows(result: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", result.get(name, []))
