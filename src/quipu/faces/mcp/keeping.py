"""Writes of the profiles that have shapes of their own: several records at once, all of them or none."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.errors import ConflictError
from quipu.faces.mcp.approval import PENDING
from quipu.faces.mcp.caller import Caller
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.record import Record
from quipu.service.memory import MemoryService


async def keep(service: MemoryService, who: Caller, requests: Sequence[RememberRequest]) -> None:
    """Write all of them, or none. One that waits for a person is told as an error: nothing has changed."""
    if len(requests) == 1:  # an error need not say which of them it is about
        told = [await service.remember(who.principal, requests[0])]
    elif requests:
        told = await service.remember_many(who.principal, requests, atomic=True)
    else:
        return
    if any(isinstance(one, RememberResponse) and one.pending_approval for one in told):
        raise _waits()


async def drop(service: MemoryService, who: Caller, records: Sequence[Record]) -> None:
    """Forget all of them; or none, while that waits for a person."""
    if not records:
        return
    ids = tuple(record.id for record in records)
    request = ForgetRequest(agent_id=who.agent_id, ids=ids, store=who.store)
    if (await service.forget(who.principal, request)).pending_approval:
        raise _waits()


def _waits() -> ConflictError:
    return ConflictError(PENDING, reason="waits_for_approval")
