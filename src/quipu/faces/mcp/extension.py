"""Mode 3, experimental: the operations and the governance channel as methods of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.server import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, RequestParams
from pydantic import ConfigDict

from quipu.errors import QuipuError
from quipu.faces.http.problems import on_the_wire
from quipu.faces.mcp import admin
from quipu.faces.mcp.caller import Caller, caller
from quipu.faces.mcp.operations import Operations, schemas
from quipu.faces.mcp.results import explained
from quipu.faces.mcp.tools import Arguments, Call, Schema, checked
from quipu.faces.memorywire.wire_replies import RecallReply
from quipu.faces.memorywire.wire_reviews import review_body
from quipu.model.record import MemoryType
from quipu.service.memory import MemoryService

#: Breaking changes get a new one.
ID = "dev.quipu/mcp.memory.v0"
_VERSIONS = frozenset({"2026-07-28"})
_OPERATIONS = ("remember", "recall", "forget", "merge", "expire")
_TEXT = {"type": "string"}

Method: TypeAlias = Callable[[Caller, Arguments], Awaitable[Mapping[str, Any]]]


class Params(RequestParams):
    """Whatever was sent: it is judged as a tool's arguments are."""

    model_config = ConfigDict(extra="allow")


class MemoryExtension(Extension):
    """Additive: everything it offers is also reachable by tools and resources."""

    identifier = ID

    def __init__(self, service: MemoryService, operations: Operations) -> None:
        self._service, self._operations = service, operations

    def settings(self) -> dict[str, Any]:
        return {
            "wire": "memorywire/v0",
            "operations": list(_OPERATIONS),
            "types": [kind.value for kind in MemoryType],
            "governance": {
                "operations": ["remember", "forget", "merge"],
                "inPlace": True,
                "queue": True,
            },
        }

    def methods(self) -> Sequence[MethodBinding]:
        bound = [_bound(name, schemas()[name]["input"], self._operation(name)) for name in _OPERATIONS]
        return [
            *bound,
            _bound("review/list", _closed(status=_TEXT, cursor=_TEXT, limit={"type": "integer"}), self._list),
            _bound("review/get", _closed("id", id=_TEXT), self._get),
            _bound(
                "review",
                _closed("id", "approved", id=_TEXT, approved={"type": "boolean"}, reason=_TEXT),
                self._review,
            ),
        ]

    def _operation(self, name: str) -> Method:
        async def call(who: Caller, arguments: Arguments) -> Mapping[str, Any]:
            if name == "recall":
                return RecallReply.from_model(await self._operations.recalled(who, arguments)).body()
            _, body = await self._operations.written(name, Call(who, arguments))
            return body

        return call

    async def _list(self, who: Caller, arguments: Arguments) -> Mapping[str, Any]:
        return await admin.listed(self._service, who, arguments)

    async def _get(self, who: Caller, arguments: Arguments) -> Mapping[str, Any]:
        return review_body(await admin.held(self._service, who, str(arguments["id"])))

    async def _review(self, who: Caller, arguments: Arguments) -> Mapping[str, Any]:
        return await admin.reviewed(self._service, who, arguments)


def _closed(*required: str, **properties: Any) -> Schema:
    return {"required": list(required), "properties": properties}


def _bound(name: str, schema: Schema, method: Method) -> MethodBinding:
    async def handle(ctx: ServerRequestContext[Any, Any], params: Params) -> dict[str, Any]:
        require_client_extension(ctx, ID)
        arguments = dict(params.model_extra or {})
        try:
            return dict(await method(caller(), checked(schema, arguments)))
        except QuipuError as error:
            known = on_the_wire(error)
            data = {"code": known.code, "retryable": known.retryable}
            raise MCPError(INVALID_PARAMS, explained(known), data) from None

    return MethodBinding(f"memory/{name}", Params, handle, protocol_versions=_VERSIONS)
