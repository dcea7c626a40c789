"""In front of every request: who is asking, and which of the lists they see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, INVALID_REQUEST

from quipu.errors import QuipuError
from quipu.faces.mcp import results
from quipu.faces.mcp.caller import As, Caller, Who
from quipu.faces.mcp.resources import PROFILES as WITH_RESOURCES
from quipu.faces.mcp.resources import is_seen
from quipu.faces.mcp.tools import ToolSpec

_LONGEST_NAME = 128


class Gate:
    """A middleware of the SDK's. A tool that the caller cannot use is not listed."""

    def __init__(
        self, who: Who, specs: Sequence[ToolSpec], prompts: Mapping[str, frozenset[str]], prefix: str
    ) -> None:
        """`prompts`: the arguments of each."""
        self._who, self._prompts = who, prompts
        self._specs = {prefix + spec.name: spec for spec in specs}

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            who = self._who(ctx)
        except QuipuError as error:
            raise MCPError(INVALID_REQUEST, f"{error.code}: {error.message}") from None
        if ctx.method == "prompts/get":
            self._check_prompt(ctx.params or {})
        with As(who):
            return self._seen(who, ctx, await call_next(ctx))

    def _check_prompt(self, params: Mapping[str, Any]) -> None:
        """What the SDK would answer with an error that has no code, and log with a traceback."""
        name, given = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(given, dict | None):
            return
        if name not in self._prompts:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name[:_LONGEST_NAME]}")
        if frozenset(cast("dict[str, Any]", given or {})) != self._prompts[name]:
            takes = ", ".join(self._prompts[name])
            raise MCPError(INVALID_PARAMS, f"The prompt {name} takes exactly these arguments: {takes}")

    def _seen(self, who: Caller, ctx: ServerRequestContext[Any, Any], result: HandlerResult) -> HandlerResult:
        if not isinstance(result, dict):
            return result
        match ctx.method:
            case "tools/call" if (name := (ctx.params or {}).get("name")) not in self._specs:
                told = results.no_tool(str(name)).model_dump(
                    by_alias=True, include={"content", "meta"}, exclude_none=True
                )
                return {**result, **told, "_meta": {**result.get("_meta", {}), **told["_meta"]}}
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
