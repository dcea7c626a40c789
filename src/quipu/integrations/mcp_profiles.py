"""The MCP profiles `anthropic` and `graph`: tools whose names and shapes are others'."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.types import CallToolResult, TextContent

from quipu.errors import Fault
from quipu.integrations.memory_files import FileError, MemoryCommand, MemoryFiles
from quipu.integrations.records import Call as RunOperation
from quipu.integrations.server_memory import TOOLS, KnowledgeGraph
from quipu.mcp import results
from quipu.mcp.caller import Caller
from quipu.mcp.schema import Schema, input_schema
from quipu.mcp.tools import Call, ToolSpec
from quipu.memory.operations import REMEMBER
from quipu.model.principal import Permission
from quipu.opening import declared
from quipu.operation import Request, dispatch, invalid

_MANY: Schema = {"type": "array", "items": {"type": "object"}}
_ENTITIES = {"entities": {**_MANY, "description": "Nodes with name, entityType and observations."}}
_RELATIONS = {"relations": {**_MANY, "description": "Edges with from, to and relationType."}}
_DELETED = {
    "success": {"type": "boolean", "description": "Whether anything was deleted."},
    "message": {"type": "string", "description": "What was."},
}
#: Of tools that do not answer a graph, and do not delete.
_OUTPUTS: Mapping[str, Mapping[str, Schema]] = {
    "create_entities": _ENTITIES,
    "create_relations": _RELATIONS,
    "add_observations": {"results": {**_MANY, "description": "Per entity, what is new of it."}},
}


def anthropic_tools() -> list[ToolSpec]:
    """One tool, `memory_20250818`."""
    return [
        ToolSpec(
            name="memory",
            description=MemoryCommand.__doc__ or "",
            input=input_schema(MemoryCommand, None),
            output=None,
            profiles=frozenset({"anthropic"}),
            needs=frozenset({Permission.READ}),
            is_destructive=True,
            work=_file_command,
        )
    ]


async def _file_command(call: Call) -> CallToolResult:
    try:
        text = await MemoryFiles(_reaching(call.caller)).run(call.arguments)
    except FileError as error:
        meta = {results.ERROR: {"code": error.code, "retryable": False}}
        return CallToolResult(content=[TextContent(text=str(error))], is_error=True, _meta=meta)
    return CallToolResult(content=[TextContent(text=text)])


def graph_tools() -> list[ToolSpec]:
    """Nine tools, those of `server-memory`."""
    return [_graph_tool(name, request, needs, work) for name, (request, needs, work) in TOOLS.items()]


def _graph_tool(
    name: str,
    request: type[Request],
    needs: Permission,
    work: Callable[[KnowledgeGraph, Any], Awaitable[dict[str, Any]]],
) -> ToolSpec:
    async def done(call: Call) -> CallToolResult:
        body = await work(KnowledgeGraph(_reaching(call.caller)), request.parse(call.arguments))
        text = body["message"] if "message" in body else results.compact(body)
        return results.plain(body, text)

    is_read, is_delete = needs is Permission.READ, name.startswith("delete")
    shown = _OUTPUTS.get(name, _DELETED if is_delete else {**_ENTITIES, **_RELATIONS})
    return ToolSpec(
        name=name,
        description=request.__doc__ or "",
        input=input_schema(request, None),
        output={
            "type": "object",
            "properties": dict(shown),
            "required": list(shown),
            "additionalProperties": False,
        },
        profiles=frozenset({"graph"}),
        needs=frozenset({needs}),
        is_read_only=is_read,
        is_destructive=is_delete,
        is_idempotent=is_read or is_delete,
        work=done,
    )


def _reaching(caller: Caller) -> RunOperation:
    """Operations as far as the caller reaches. These shapes have no place for an agent, so the credential says which."""
    if caller.principal.default_agent is None:
        accepted = (
            "a credential with one agent, or with a default agent: this profile's tools cannot name one"
        )
        raise invalid([Fault("", "missing_field", accepted)])

    async def run(name: str, /, **given: Any) -> Any:
        operation = declared(name)
        if "items" in given:
            given["items"] = [caller.narrowed(REMEMBER, item) for item in given["items"]]
        return await dispatch(caller.ctx(), operation, caller.narrowed(operation, given))

    return run
