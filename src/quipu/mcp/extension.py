"""Experimental: the operations and the governance channel as methods of their own. All of it is also reachable by tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types as t
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict

from quipu.errors import ForbiddenError, presentable
from quipu.governance.operations import DECIDE, LIST_REVIEWS, REVIEW
from quipu.mcp import results
from quipu.mcp.caller import Caller, Who
from quipu.mcp.schema import input_schema
from quipu.mcp.tools import checked
from quipu.memory.operations import EXPIRE, FORGET, MERGE, RECALL, REMEMBER
from quipu.model.principal import Permission
from quipu.operation import AnyOperation, dispatch

#: Breaking changes get a new one.
ID = "dev.quipu/mcp.memory.v0"
SETTINGS: Mapping[str, Any] = {
    "wire": "memorywire/v0",
    "operations": ["remember", "recall", "forget", "merge", "expire"],
    "types": ["semantic", "episodic", "procedural", "emotional"],
    "governance": {"operations": ["remember", "forget", "merge"], "inPlace": True, "queue": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Method:
    """An operation as a method."""

    operation: AnyOperation
    #: The arguments it takes, and the fields of its answer; none: as the tool.
    takes: tuple[str, ...] | None = None
    answers: tuple[str, ...] | None = None
    permission: Permission | None = None


_REVIEW = ("id", "operation", "agent_id", "request", "diff", "etag", "reasoning", "status")
METHODS: Mapping[str, _Method] = {
    **{
        operation.name: _Method(operation=operation)
        for operation in (REMEMBER, RECALL, FORGET, MERGE, EXPIRE)
    },
    "review/list": _Method(
        operation=LIST_REVIEWS,
        takes=("status", "cursor", "limit"),
        answers=("reviews", "next_cursor"),
        permission=Permission.REVIEW,
    ),
    "review/get": _Method(operation=REVIEW, takes=("id",), answers=_REVIEW, permission=Permission.REVIEW),
    "review": _Method(
        operation=DECIDE,
        takes=("id", "approved", "reason", "etag"),
        answers=("approved", "reviewer", "reviewed_at", "reason"),
        permission=Permission.REVIEW,
    ),
}


class Params(t.RequestParams):
    """Whatever was sent: it is judged as a tool's arguments are."""

    model_config = ConfigDict(extra="allow")


def offer(server: Server[Any], who: Who) -> None:
    """Add the methods, and say so to clients."""
    server.extensions[ID] = dict(SETTINGS)
    for name, method in METHODS.items():
        _bind(server, f"memory/{name}", method, who)


def _bind(server: Server[Any], name: str, method: _Method, who: Who) -> None:
    operation, tool = method.operation, method.operation.mcp
    takes = tool.shows if method.takes is None and tool is not None else method.takes
    schema = input_schema(operation.request, takes, () if tool is None else tool.requires)

    async def handle(ctx: ServerRequestContext[Any, Any], params: Params) -> dict[str, Any]:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(t.METHOD_NOT_FOUND, "Method not found", name)
        _check_declared(ctx)
        try:
            caller = who(ctx)
            given = caller.narrowed(operation, checked(schema, params.model_extra or {}))
            _check_permission(caller, method)
            response = await dispatch(caller.ctx(), operation, given)
        except Exception as error:  # noqa: BLE001  an error of ours says nothing of what was in it
            raise results.protocol_error(presentable(error)) from None
        body = results.body_of(operation, response, base=caller.base)
        shown = {name: body[name] for name in method.answers or body if name in body}
        if "next_cursor" in shown:
            shown["nextCursor"] = shown.pop("next_cursor")
        return shown

    server.add_request_handler(name, Params, handle)


def _check_permission(caller: Caller, method: _Method) -> None:
    if method.permission is not None and not caller.principal.may(method.permission):
        raise ForbiddenError(hint=f"It needs the permission {method.permission}.")


def _check_declared(ctx: ServerRequestContext[Any, Any]) -> None:
    """A client that does not know these methods learns what it would have to declare."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or ID not in (capabilities.extensions or {}):
        needed = t.MissingRequiredClientCapabilityErrorData(
            required_capabilities=t.ClientCapabilities(extensions={ID: {}})
        )
        raise MCPError(
            t.MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"The client has not declared the extension {ID}.",
            needed.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
