"""Operations as tools: what is published of each, who sees it, and how a call becomes a result."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolRequestParams, CallToolResult, InputRequiredResult, Tool, ToolAnnotations

from quipu.errors import Fault, may_repeat, presentable
from quipu.mcp import results
from quipu.mcp.approval import Approval
from quipu.mcp.caller import Caller
from quipu.mcp.schema import Schema, input_schema, output_schema
from quipu.memory.memorywire import answer_fields
from quipu.memory.operations import RECALL
from quipu.model.principal import Permission
from quipu.operation import WHOLE, AnyOperation, dispatch, invalid
from quipu.schemas import Operations, fields

#: Who chose a profile sees these operations' profiles.
_WITHIN: Mapping[str, frozenset[str]] = {
    "readonly": frozenset({"readonly", "default", "admin"}),
    "default": frozenset({"default", "admin"}),
    "admin": frozenset({"admin"}),
}
#: The one argument that is no field: how much of each hit the answer has.
_DETAIL: Schema = {"type": "string", "enum": ["brief", "full"], "description": "full: all fields."}

Result: TypeAlias = CallToolResult | InputRequiredResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool."""

    caller: Caller
    #: What was said; null is the same as absent.
    arguments: Mapping[str, Any]
    request: ServerRequestContext[Any, Any]
    params: CallToolRequestParams


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What one tool is."""

    name: str
    description: str
    input: Schema
    output: Schema | None
    profiles: frozenset[str]
    #: One of them is needed to see it; what is done with it is checked when it is done. None at all: anybody sees it.
    needs: frozenset[Permission]
    work: Callable[[Call], Awaitable[Result]]
    needs_whole: bool = False
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False

    def is_for(self, caller: Caller) -> bool:
        """Whether the caller sees it. To all others it is not there."""
        return (
            caller.profile in self.profiles
            and (not self.needs or any(caller.principal.may(need) for need in self.needs))
            and (not self.needs_whole or caller.principal.is_whole)
        )

    def shown_to(self, caller: Caller, prefix: str) -> Tool:
        return Tool(
            name=prefix + self.name,
            description=f"{self.description} {caller.agents}",
            input_schema=self.input_for(caller),
            # Administrators see many tools, and no host needs to be told what they answer: every model pays for it.
            output_schema=None if caller.profile == "admin" else self.output,
            annotations=ToolAnnotations(
                read_only_hint=self.is_read_only,
                destructive_hint=self.is_destructive,
                idempotent_hint=self.is_idempotent,
                open_world_hint=False,
            ),
        )

    def input_for(self, caller: Caller) -> Schema:
        """Who acts for several agents and for none in particular has to say for which."""
        if caller.principal.default_agent is not None or "agent_id" not in self.input["properties"]:
            return self.input
        return {**self.input, "required": [*self.input.get("required", ()), "agent_id"]}


class Tools:
    """All tools of a server. What a caller sees of them depends on the caller."""

    def __init__(self, specs: Iterable[ToolSpec], prefix: str = "") -> None:
        self._prefix = prefix
        self._specs = {prefix + spec.name: spec for spec in specs}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._specs)

    def listed(self, caller: Caller) -> list[Tool]:
        return [spec.shown_to(caller, self._prefix) for spec in self._specs.values() if spec.is_for(caller)]

    async def call(
        self, caller: Caller, request: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> Result:
        """The answer of a tool; what a model can repair is an answer too."""
        spec = self._specs.get(params.name)
        if spec is None or not spec.is_for(caller):
            return results.no_tool(params.name)
        try:
            given = checked(spec.input_for(caller), params.arguments or {})
            return await spec.work(Call(caller=caller, arguments=given, request=request, params=params))
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001  the model learns that it failed, and nothing that was in it
            return results.refused(presentable(error))


def operation_tools(operations: Operations, approval: Approval) -> list[ToolSpec]:
    """The operations that are tools, in the order in which they are declared."""
    return [_spec(operation, approval) for operation in operations if operation.mcp is not None]


def _spec(operation: AnyOperation, approval: Approval) -> ToolSpec:
    tool = operation.mcp
    assert tool is not None
    given = input_schema(operation.request, tool.shows, tool.requires)
    if operation is RECALL:
        given = {**given, "properties": {**given["properties"], "detail": _DETAIL}}

    async def work(call: Call) -> Result:
        asked = {name: value for name, value in call.arguments.items() if name != "detail"}
        is_full = _is_full(call.arguments.get("detail"))
        request = call.caller.narrowed(operation, asked)
        if tool.asks:
            decided = await approval.decided(call.caller, operation, request, call.request, call.params)
            if isinstance(decided, InputRequiredResult):
                return decided
            response = decided
        else:
            response = await dispatch(call.caller.ctx(), operation, request)
        body = results.body_of(operation, response, base=call.caller.base, is_full=is_full)
        return results.answered(operation, response, body, request)

    return ToolSpec(
        name=operation.name,
        description=operation.summary,
        input=given,
        output=_output(operation),
        profiles=_WITHIN[tool.profile],
        needs=_needs(operation, tuple(given["properties"])),
        needs_whole=operation.limits == WHOLE,
        is_read_only=tool.is_read_only,
        is_destructive=tool.is_destructive,
        is_idempotent=tool.is_idempotent,
        work=work,
    )


def _output(operation: AnyOperation) -> Schema | None:
    """What is published of the answer; of tools for administrators nothing."""
    if operation.mcp is None or operation.mcp.profile == "admin":
        return None
    found = output_schema(operation.response, answer_fields(operation.name))
    if operation is not RECALL:
        return found
    # v0's answer has no place for a recall that a person has to allow first.
    held = output_schema(operation.response, ("pending_approval", "approval_url"))["properties"]
    return {**found, "properties": {**found["properties"], **held}}


def _is_full(detail: Any) -> bool:
    if detail not in (None, "brief", "full"):
        raise invalid([Fault("/detail", "bad_value", "brief or full")])
    return detail == "full"


def _needs(operation: AnyOperation, shown: Sequence[str]) -> frozenset[Permission]:
    """Every permission that a call may need: where it depends on the request, on each choice that a field has."""
    permission = operation.permission
    if not callable(permission):
        return frozenset() if permission is None else frozenset({permission})
    known = fields(operation.request)
    base = {name: None for name, field in known.items() if field.is_required}
    choices: list[dict[str, Any]] = [{}]
    for name in shown:
        if name in known:
            values = (True, False) if known[name].kind == "boolean" else known[name].choices
            choices += [{name: value} for value in values]
    found = {permission(operation.request.model_construct(**{**base, **choice})) for choice in choices}
    return frozenset(need for need in found if need is not None)


def checked(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given, if the tool has them all and has all that it needs.

    What stands in them is for the request's model to judge; it knows more fields than the tool shows.
    """
    known: Mapping[str, Schema] = schema["properties"]
    faults = [_unknown(name, known) for name in arguments if name not in known]
    given = {name: value for name, value in arguments.items() if value is not None}
    for name in schema.get("required", ()):
        if name not in given:
            kind = ", ".join(known[name].get("enum", ())) or known[name].get("type", "a value")
            faults.append(Fault(f"/{name}", "missing_field", f"needed: {kind}"))
    if faults:
        raise invalid(faults)
    return given


def _unknown(name: str, known: Mapping[str, Any]) -> Fault:
    near = get_close_matches(name[:64], known, n=3)
    said = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    # A name that is no plain word may be a value in the wrong place, and is not repeated.
    where = f"/{name}" if near or may_repeat(name) else ""
    return Fault(where[:65], "unknown_field", f"no such argument; {said}")
