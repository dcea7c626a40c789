"""A tool that lets procedures step. Guards are facts the caller brings along; nothing of a machine is ever run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mcp.types import CallToolResult

from quipu.errors import InvalidError, NotFoundError
from quipu.faces.mcp import approval, results
from quipu.faces.mcp.operations import QUOTED
from quipu.faces.mcp.tools import Call, ToolSpec
from quipu.faces.memorywire.wire_step import StepReply
from quipu.model.operations import StepRequest
from quipu.model.outcomes import StepResponse
from quipu.model.principal import Permission
from quipu.service.memory import MemoryService

_TEXT: dict[str, Any] = {"type": "string"}
_INPUT: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": _TEXT,
        "trigger": {"type": "string", "description": "What happens now; without it: where it stands"},
        "facts": {
            "type": "object",
            "additionalProperties": {"type": "boolean"},
            "description": "What its guards ask for; missing is false",
        },
        "persist": {"type": "boolean", "default": True, "description": "False only tries it"},
    },
    "required": ["id"],
}
_OUTPUT: Mapping[str, Any] = {
    "type": "object",
    "required": ["id", "version", "stored_at", "current", "available_triggers", "pending_approval"],
    "properties": {
        "id": _TEXT,
        "version": {"type": "integer"},
        "stored_at": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "current": _TEXT,
        "available_triggers": {"type": "array", "items": _TEXT},
        "pending_approval": {"type": "boolean"},
        "approval_url": {"anyOf": [_TEXT, {"type": "null"}]},
    },
}


class Procedures:
    """One tool over one service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    def specs(self) -> list[ToolSpec]:
        """In the order in which they are published."""
        return [
            ToolSpec(
                name="step",
                description="Let a procedure take a step, or say where it stands.",
                input=_INPUT,
                output=_OUTPUT,
                handler=self._step,
                needs=(Permission.READ,),
                profiles=frozenset({"admin"}),
            )
        ]

    async def _step(self, call: Call) -> CallToolResult:
        given, who = call.arguments, call.caller
        record_id, trigger = given["id"], given.get("trigger")
        for name, value in (("id", record_id), ("trigger", trigger)):
            if value is not None and not isinstance(value, str):
                raise InvalidError.at(f"/{name}", "bad_value", f"{name} is not a text.", accepted=["string"])
        persist = given.get("persist", True)
        if not isinstance(persist, bool):
            raise InvalidError.at(
                "/persist", "bad_value", "persist is true or false.", accepted=["true", "false"]
            )
        facts = _facts(given.get("facts"))
        await self._check_store(call, record_id)
        if trigger is None:
            return _answered(await self._service.procedures.standing(who.principal, record_id))
        request = StepRequest(id=record_id, trigger=trigger, facts=facts, persist=persist)
        done = await self._service.procedures.step(who.principal, request)
        return _answered(done, *([approval.PENDING] if done.pending_approval else []))

    async def _check_store(self, call: Call, record_id: str) -> None:
        """Where one store is pinned, procedures of others are not there."""
        if call.caller.store is None:
            return
        record = await self._service.reading.get(call.caller.principal, None, record_id, None)
        stores = await self._service.stores.list(call.caller.principal)
        names = {store.id: store.name for store in stores}
        if names.get(record.store_id) != call.caller.store:
            raise NotFoundError("There is no such procedure.", reason="record")


def _facts(given: object) -> dict[str, bool]:
    facts = cast("Mapping[str, object]", given) if isinstance(given, Mapping) else None
    if given is None:
        return {}
    if facts is None or not all(isinstance(value, bool) for value in facts.values()):
        raise InvalidError.at(
            "/facts", "bad_value", "facts are names that are true or false.", accepted=["object"]
        )
    return cast("dict[str, bool]", dict(facts))


def _answered(done: StepResponse, *notes: str) -> CallToolResult:
    return results.answered(StepReply.from_model(done).body(), QUOTED, *notes)
