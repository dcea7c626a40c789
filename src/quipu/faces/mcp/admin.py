"""The profile `admin`: the default and what keeps a memory in order: records by id, stores, reviews."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, cast

from mcp.types import CallToolResult

from quipu.errors import InvalidError, NotFoundError
from quipu.faces.mcp import approval, results
from quipu.faces.mcp.admin_schemas import INPUTS, OUTPUTS
from quipu.faces.mcp.caller import Caller
from quipu.faces.mcp.operations import QUOTED, addressed, body_of, schemas
from quipu.faces.mcp.resources import is_about, store_bodies, store_body
from quipu.faces.mcp.tools import Arguments, Call, Handler, ToolSpec
from quipu.faces.memorywire.wire_reviews import decision_body, review_body
from quipu.faces.memorywire.wire_shown import record_body
from quipu.model.change import Proposal
from quipu.model.operations import CreateStoreRequest, ForgetRequest, ListRequest, ProposalsRequest
from quipu.model.principal import Permission
from quipu.model.record import Record, State, Tier
from quipu.model.store import StoreScope
from quipu.service.memory import MemoryService

_ONLY = frozenset({"admin"})
_EVERYTHING: Mapping[str, Any] = {"created_at": {"$gte": 0}}
_STATUSES = ("pending", "approved", "rejected")


class Admin:
    """Ten tools over one service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    def specs(self) -> list[ToolSpec]:
        """In the order in which they are published."""
        read, write, admin, review = (
            Permission.READ,
            Permission.WRITE,
            Permission.ADMIN,
            Permission.REVIEW,
        )
        return [
            _spec("get", "Read records by their ids.", self._get, read),
            _spec("list", "Page through records, newest first.", self._list, read),
            _spec("history", "Every version of one record.", self._history, read),
            _spec("create_store", "Make a memory store.", self._create_store, write),
            _spec("list_stores", "The memory stores.", self._list_stores, read),
            _spec("delete_store", "Delete a store with all it holds.", self._delete_store, admin),
            ToolSpec(
                name="forget_all",
                description="Forget everything in a store, once a person has agreed.",
                input=INPUTS["forget_all"],
                output=schemas()["forget"]["output"],
                handler=self._forget_all,
                needs=(Permission.DELETE,),
                destructive=True,
                idempotent=True,
                question=_forget_all_question,
                profiles=_ONLY,
            ),
            _spec("list_reviews", "Writes that wait for a decision.", self._list_reviews, review),
            _spec("review", "Approve or reject a write that waits.", self._review, review),
            _spec("operation_status", "What became of a write that was held.", self._status, read),
        ]

    # -- records ------------------------------------------------------------------------------------------------

    async def _get(self, call: Call) -> CallToolResult:
        ids = call.arguments["ids"]
        if not isinstance(ids, list) or not all(isinstance(name, str) for name in cast("list[Any]", ids)):
            raise InvalidError.at("/ids", "bad_value", "ids is not a list of ids.", accepted=["list of text"])
        found: list[Record] = []
        for name in dict.fromkeys(cast("list[str]", ids)):
            with contextlib.suppress(NotFoundError):
                found.append(await self._service.reading.get(call.caller.principal, None, name, None))
        memories = await self._bodies(call.caller, found)
        known = {memory["id"] for memory in memories}
        missing = [name for name in dict.fromkeys(cast("list[str]", ids)) if name not in known]
        return results.answered({"memories": memories, "missing": missing}, QUOTED)

    async def _list(self, call: Call) -> CallToolResult:
        given = call.caller.scoped(call.arguments)
        page = await self._service.reading.list(
            call.caller.principal,
            ListRequest(
                agent_id=_text(given, "agent_id"),
                filter=_object(given, "filter"),
                store=_text(given, "store"),
                cursor=_text(given, "cursor"),
                limit=_whole(given, "limit", 50),
            ),
        )
        memories = await self._bodies(call.caller, page.records)
        return results.answered({"memories": memories, "next_cursor": page.next_cursor}, QUOTED)

    async def _history(self, call: Call) -> CallToolResult:
        name = _text(call.arguments, "id") or ""
        found = await self._service.reading.history(call.caller.principal, None, name)
        names = await self._store_names(call.caller)
        if not call.caller.sees(names.get(found[-1].record.store_id)):
            raise NotFoundError("There is no such record.", reason="record")
        versions: list[dict[str, Any]] = []
        for version in found:
            record = version.record
            body: dict[str, Any] = {"id": record.id, "version": record.version, "state": State.ERASED.value}
            if not record.is_emptied:
                body = {**record_body(record, names.get(record.store_id, "")), "state": record.standing.value}
            versions.append({**body, "reason": version.reason})
        return results.answered({"versions": versions}, QUOTED)

    async def _bodies(self, who: Caller, records: list[Record] | tuple[Record, ...]) -> list[Any]:
        names = await self._store_names(who)
        return [
            record_body(record, names.get(record.store_id, ""))
            for record in records
            if who.sees(names.get(record.store_id))
        ]

    async def _store_names(self, who: Caller) -> dict[str, str]:
        return {store.id: store.name for store in await self._service.stores.list(who.principal)}

    # -- stores -------------------------------------------------------------------------------------------------

    async def _create_store(self, call: Call) -> CallToolResult:
        given, name = call.arguments, _text(call.arguments, "name") or ""
        call.caller.scoped({"store": name})
        made = await self._service.stores.create(
            call.caller.principal,
            CreateStoreRequest(
                name=name,
                scope=_member(given, "scope", StoreScope, StoreScope.AGENT),
                tier=_member(given, "type", Tier, Tier.LONG_TERM),
            ),
        )
        return results.answered(cast("dict[str, Any]", store_body(made, 0)))

    async def _list_stores(self, call: Call) -> CallToolResult:
        return results.answered({"stores": await store_bodies(self._service, call.caller)})

    async def _delete_store(self, call: Call) -> CallToolResult:
        name = _text(call.arguments, "name") or ""
        call.caller.scoped({"store": name})
        removed = await self._service.stores.delete(call.caller.principal, name, name, hard_delete=False)
        return results.answered({"deleted_records": removed})

    async def _forget_all(self, call: Call) -> CallToolResult:
        given = call.caller.scoped(call.arguments)
        request = ForgetRequest(
            agent_id=_text(given, "agent_id") or "",
            user_id=_text(given, "user_id"),
            store=_text(given, "store"),
            filter=_EVERYTHING,
            approval_required=True,
        )
        done = await self._service.forget(call.caller.principal, request)
        done = addressed(call.caller, await approval.decided(self._service, call.caller, done, call.decision))
        notes = [approval.PENDING] if done.pending_approval else []
        return results.answered(body_of(done), *notes)

    # -- reviews ------------------------------------------------------------------------------------------------

    async def _list_reviews(self, call: Call) -> CallToolResult:
        return results.answered(await listed(self._service, call.caller, call.arguments), QUOTED)

    async def _review(self, call: Call) -> CallToolResult:
        return results.answered(await reviewed(self._service, call.caller, call.arguments))

    async def _status(self, call: Call) -> CallToolResult:
        handle = _text(call.arguments, "handle") or ""
        proposal = await held(self._service, call.caller, handle)
        is_open = proposal.status == "pending"
        result = None if is_open else decision_body(proposal)
        return results.answered(
            {"status": proposal.status, "progress": 0 if is_open else 1, "result": result}
        )


async def listed(service: MemoryService, who: Caller, given: Arguments) -> dict[str, Any]:
    """A page of reviews, for the tool and for the extension's method."""
    status = given.get("status") or "pending"
    if status not in _STATUSES:
        raise InvalidError.at("/status", "bad_value", "There is no such status.", accepted=list(_STATUSES))
    request = ProposalsRequest(status=status, limit=_whole(given, "limit", 50), cursor=_text(given, "cursor"))
    page = await service.governance.page(who.principal, request)
    return {
        "reviews": [review_body(proposal) for proposal in page.proposals if is_about(proposal, who)],
        "nextCursor": page.next_cursor,
    }


async def held(service: MemoryService, who: Caller, name: str) -> Proposal:
    """One held write."""
    proposal = await service.governance.proposal(who.principal, name)
    if not is_about(proposal, who):
        raise NotFoundError("There is no such proposal.", reason="proposal")
    return proposal


async def reviewed(service: MemoryService, who: Caller, given: Arguments) -> dict[str, Any]:
    """Decide, for the tool and for the extension's method. The reviewer is whoever asks."""
    approved = given.get("approved")
    if not isinstance(approved, bool):
        raise InvalidError.at(
            "/approved", "bad_value", "approved is true or false.", accepted=["true", "false"]
        )
    name = _text(given, "id") or ""
    await held(service, who, name)
    await service.decide(who.principal, name, approved=approved, reason=_text(given, "reason"))
    return decision_body(await service.governance.proposal(who.principal, name))


async def _forget_all_question(who: Caller, arguments: Arguments) -> str | None:
    given = who.scoped(arguments)
    whose = f"user {given['user_id']} of {given['agent_id']}" if "user_id" in given else given["agent_id"]
    return f"Forget everything of {whose} in the memory store {given['store']}?"


def _spec(name: str, description: str, handler: Handler, needs: Permission) -> ToolSpec:
    is_read = name in ("get", "list", "history", "list_stores", "list_reviews", "operation_status")
    return ToolSpec(
        name=name,
        description=description,
        input=INPUTS[name],
        output=OUTPUTS[name],
        handler=handler,
        needs=(needs,),
        read_only=is_read,
        destructive=name in ("delete_store", "review"),
        idempotent=is_read,
        profiles=_ONLY,
    )


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidError.at(f"/{name}", "bad_value", f"{name} is not a text.", accepted=["string"])
    return value


def _whole(given: Mapping[str, Any], name: str, default: int) -> int:
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidError.at(f"/{name}", "bad_value", f"{name} is not a whole number.", accepted=["integer"])
    return value


def _object(given: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = given.get(name)
    if value is not None and not isinstance(value, dict):
        raise InvalidError.at(f"/{name}", "bad_value", f"{name} is not an object.", accepted=["object"])
    return cast("dict[str, Any] | None", value) or None


def _member(given: Mapping[str, Any], name: str, kind: Any, default: Any) -> Any:
    value = given.get(name)
    accepted = [member.value for member in kind]
    if value is not None and value not in accepted:
        raise InvalidError.at(f"/{name}", "bad_value", f"{name} is not accepted.", accepted=accepted)
    return default if value is None else kind(value)
