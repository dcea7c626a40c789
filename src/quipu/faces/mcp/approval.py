"""Approval in place: the person at the client is asked, where there is one who may decide (contract, section 5)."""

from __future__ import annotations

from typing import Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field

from quipu.faces.mcp.caller import Caller
from quipu.service.answers import A
from quipu.service.memory import MemoryService

PENDING = "A person has to approve this first. Do not repeat the call; nothing has changed yet."


class Decision(BaseModel):
    """What the person at the client is asked for."""

    approve: bool = Field(description="Let it be carried out")
    reason: str = Field(default="", description="Why, kept in the journal")


def can_be_asked(ctx: Context[Any, Any]) -> bool:
    """Whether the client has said that it shows forms, and can be reached. Asking another would fail the call."""
    capabilities = ctx.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request


async def decided(
    service: MemoryService, who: Caller, held: A, decision: ElicitationResult[Decision] | None
) -> A:
    """What becomes of a held write: carried out, rejected (raises), or left in the queue. Journaled as any decision."""
    proposal_id = held.extensions.get("proposal_id")
    if not held.pending_approval or decision is None or not isinstance(proposal_id, str):
        return held
    if decision.action == "cancel":
        return held
    if not held.is_replayed:
        is_yes = isinstance(decision, AcceptedElicitation) and decision.data.approve
        why = decision.data.reason if isinstance(decision, AcceptedElicitation) else ""
        await service.decide(
            who.principal, proposal_id, approved=is_yes, reason=why or None, is_in_place=True
        )
    return await service.decisions.awaited(who.principal, held, 0)
