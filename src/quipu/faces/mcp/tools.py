"""A tool: what is published of it, who sees it, and how a call becomes a result.

Arguments come as they were sent. Quipu checks them against the published schema itself: the SDK alone would drop a
misspelt name in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias, cast

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations

from quipu.errors import InternalError, InvalidError, QuipuError
from quipu.faces.mcp import results
from quipu.faces.mcp.approval import Decision, can_be_asked
from quipu.faces.mcp.caller import Caller, caller
from quipu.model.principal import Permission

_log = logging.getLogger("quipu.mcp")

Arguments: TypeAlias = dict[str, Any]
Schema: TypeAlias = Mapping[str, Any]

_LONGEST_NAME = 128


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool. `decision` is what a person said, where one was asked."""

    caller: Caller
    arguments: Arguments
    decision: ElicitationResult[Decision] | None = None


Handler: TypeAlias = Callable[[Call], Awaitable[CallToolResult]]
#: What to ask a person before the call is carried out; None: nothing. A function of the arguments alone.
Question: TypeAlias = Callable[[Caller, Arguments], Awaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What one tool is."""

    name: str
    description: str
    input: Schema
    output: Schema | None = None
    handler: Handler
    #: One of them is needed to see it; the service checks what is done with it.
    needs: tuple[Permission, ...]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    question: Question | None = None
    profiles: frozenset[str] = field(default_factory=frozenset[str])
    meta: Mapping[str, Any] | None = None

    def is_for(self, who: Caller) -> bool:
        """Whether the caller sees it."""
        return who.profile in self.profiles and any(who.principal.may(need) for need in self.needs)


def made(spec: ToolSpec, prefix: str) -> Tool:
    """The tool as the SDK wants it, with our schemas in place of those it would make up."""

    async def ask(arguments: Arguments, ctx: Context[Any, Any]) -> Elicit[Decision] | None:
        who = caller()
        if spec.question is None or not who.may_be_asked() or not can_be_asked(ctx):
            return None
        try:
            question = await spec.question(who, checked(spec.input, arguments))
        except QuipuError:  # told by the call itself, which meets it again
            return None
        return None if question is None else Elicit(question, Decision)

    async def call(arguments: Arguments, decision: Any) -> CallToolResult:
        who = caller()
        if who.profile not in spec.profiles:
            return results.no_tool(prefix + spec.name)
        try:
            given = checked(spec.input, arguments)
            answer = decision if getattr(decision, "data", decision) is not None else None
            return await spec.handler(Call(who, given, answer))
        except QuipuError as error:
            return results.refused(error)
        except Exception:  # noqa: BLE001  the model learns that it failed here, and nothing that was in it
            _log.exception("The tool %s failed.", spec.name)
            return results.refused(InternalError())

    # Set by hand: a name that only this function knows cannot be found again from the annotation's text.
    call.__annotations__["decision"] = Annotated[ElicitationResult[Decision], Resolve(ask)]
    tool = _Raw.from_function(
        call,
        name=prefix + spec.name,
        description=spec.description,
        annotations=ToolAnnotations(
            read_only_hint=spec.read_only,
            destructive_hint=spec.destructive,
            idempotent_hint=spec.idempotent,
            open_world_hint=False,
        ),
        structured_output=False,
        meta=None if spec.meta is None else dict(spec.meta),
    )
    tool.parameters = dict(spec.input)
    tool.fn_metadata.output_schema = None if spec.output is None else dict(spec.output)
    return tool


class _Raw(Tool):
    """Hands the arguments over in one piece, just as they came."""

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        return await super().run({"arguments": arguments}, context, convert_result)


def checked(schema: Schema, arguments: Arguments) -> Arguments:
    """Refuse names that the published schema does not have, and the absence of those that it needs.

    What is left is as every tool takes it: null is the same as absent, and a number without a fraction is a whole one.
    """
    kinds: Mapping[str, Any] = schema.get("properties", {})
    known = list(kinds)
    for name in arguments:
        if name not in known:
            close = get_close_matches(name[:_LONGEST_NAME], known, n=3)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            where = f"/{name[:_LONGEST_NAME]}"
            raise InvalidError.at(where, "unknown_field", f"Unknown argument.{hint}", accepted=close or known)
    for name in schema.get("required", ()):
        if arguments.get(name) is None:
            message = f"Required argument missing: {name}."
            raise InvalidError.at(f"/{name}", "missing_field", message, accepted=_values(kinds[name]))
    return {name: _whole(kinds[name], value) for name, value in arguments.items() if value is not None}


def _values(kind: Schema) -> list[str]:
    """What a model can put there: the choices, else the sort of value."""
    return [str(choice) for choice in kind.get("enum", ())] or [str(kind.get("type", "a value"))]


def _whole(kind: Schema, value: Any) -> Any:
    """Some hosts have only one sort of number and send 5 as 5.0, which JSON Schema calls an integer too."""
    if kind.get("type") == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind.get("type") == "array" and isinstance(value, list):
        return [_whole(kind.get("items", {}), item) for item in cast("list[Any]", value)]
    return value
