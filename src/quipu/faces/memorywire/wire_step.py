"""A step of a procedure on the wire."""

from __future__ import annotations

from pydantic import Field

from quipu.faces.memorywire.wire_parts import RequestBody
from quipu.faces.memorywire.wire_replies import ExtensionsReply, Reply
from quipu.model.operations import StepRequest
from quipu.model.outcomes import StepResponse


class StepBody(RequestBody):
    """Let a procedure take a step, or play steps through from its beginning."""

    trigger: str | None = None
    facts: dict[str, bool] = Field(default_factory=dict[str, bool])
    replay: list[str] | None = None
    persist: bool | None = None
    approval_required: bool = False
    idempotency_key: str | None = None
    extensions: bool = False

    def to_model(self, record_id: str, agent_id: str | None) -> StepRequest:
        """What the service is asked for."""
        return StepRequest(
            id=record_id,
            agent_id=agent_id,
            trigger=self.trigger,
            facts=self.facts,
            replay=None if self.replay is None else tuple(self.replay),
            persist=self.persist,
            approval_required=self.approval_required,
        )


class StepReply(Reply):
    """Where the procedure stands; `stored_at` is null where a step was only tried."""

    id: str
    version: int
    stored_at: int | None
    current: str
    available_triggers: list[str]
    pending_approval: bool
    approval_url: str | None
    extensions: ExtensionsReply | None = None

    @classmethod
    def from_model(cls, response: StepResponse, extensions: bool = False) -> StepReply:
        return cls.made(
            response.extensions if extensions else None,
            id=response.id,
            version=response.version,
            stored_at=response.stored_at,
            current=response.current,
            available_triggers=list(response.available_triggers),
            pending_approval=response.pending_approval,
            approval_url=response.approval_url,
        )
