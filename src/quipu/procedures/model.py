"""What procedures take and give."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Strict

from quipu.fields import Count, IdempotencyKey, Name, Redact, Version, bad_value
from quipu.memory.model import WriteResponse
from quipu.operation import Request, Response


def _only_yes_and_no(value: Any) -> Any:
    """Refused as a whole: a name that somebody sent is not repeated."""
    if isinstance(value, dict) and not all(isinstance(item, bool) for item in value.values()):  # pyright: ignore[reportUnknownVariableType]  any object
        raise bad_value("an object of names, each true or false")
    return value  # pyright: ignore[reportUnknownVariableType]  checked by the model


#: Only what the machine itself names is kept, and that was checked when the machine was written.
Trigger = Annotated[str, Field(min_length=1, max_length=128), Redact.NONE]
Triggers = Annotated[tuple[Trigger, ...], Strict(False), Field(max_length=10_000)]
Facts = Annotated[dict[str, bool], Field(max_length=256), BeforeValidator(_only_yes_and_no), Redact.NONE]


class StepRequest(Request):
    """Take a step of a procedure, try one, or see where it stands.

    Without `trigger` and `replay` nothing changes: the answer says in which state the procedure is, and which triggers
    lead on. A step is a new version of the memory. The answer says `pending_approval` when a person has to agree first;
    the step is not taken until then.
    """

    id: Name = Field(description="Which procedure.")
    trigger: Trigger | None = Field(default=None, description="What happens: one of the machine's triggers.")
    facts: Facts = Field(
        default={}, description="What is true now, for guards: name to true or false. Left out is false."
    )
    replay: Triggers | None = Field(
        default=None, description="Begin at the initial state and take these triggers first."
    )
    persist: bool | None = Field(
        default=None,
        description="Whether the new state is kept. Left out: yes for a step, no for a replay.",
    )
    agent_id: Name | None = Field(default=None, description="Only if it is this agent's.")
    if_version: Version | None = Field(default=None, description="Only if this is still its version.")
    approval_required: bool = Field(default=False, description="Hold it until a person has approved it.")
    idempotency_key: IdempotencyKey | None = Field(
        default=None, description="Repeat it with the same request and the step is taken once."
    )
    run_id: Name | None = Field(default=None, description="The workflow run that steps.")
    node_id: Name | None = Field(default=None, description="The node of the workflow that steps.")

    @property
    def is_asking(self) -> bool:
        """Whether it only asks where the procedure stands."""
        return self.trigger is None and self.replay is None

    @property
    def is_kept(self) -> bool:
        """Whether the new state is to be kept."""
        return not self.is_asking and (self.replay is None if self.persist is None else self.persist)


class StepResponse(WriteResponse):
    """Where the procedure stands."""

    id: str = Field(description="The procedure.")
    version: int = Field(description="Its version.")
    current: str = Field(
        description="The state it is in; while a step waits for approval, the one before it."
    )
    available_triggers: tuple[str, ...] = Field(description="What can be asked of it now, guards aside.")
    facts: tuple[str, ...] = Field(default=(), description="Names of facts that guards of these ask for.")
    stored_at: int | None = Field(
        default=None, description="When the step was committed or held; none where nothing is kept."
    )


class GetProcedureRequest(Request):
    """Show a procedure: its machine, the state it is in, and how it came there."""

    id: Name = Field(description="Which procedure.")
    agent_id: Name | None = Field(default=None, description="Only if it is this agent's.")
    limit: Count = Field(default=100, description="So many versions of its life at most, the newest.")


class LifeStep(Response):
    """One version of a procedure, and the trigger that brought it there."""

    version: int = Field(description="The version.")
    at: int = Field(description="When it was written; milliseconds since 1970.")
    written_by: str = Field(description="Who wrote it.")
    current: str = Field(description="The state it was in.")
    trigger: str | None = Field(
        default=None, description="The step that led there; none where it was written, edited or restored."
    )
    facts: tuple[str, ...] = Field(default=(), description="The facts that its guard asked for.")
    is_explained: bool = Field(
        default=True,
        description="Whether the machine as it was leads from the version before to this one so.",
    )


class ProcedureView(Response):
    """A procedure and its life."""

    id: str = Field(description="Its id.")
    agent_id: str = Field(description="Whose it is.")
    version: int = Field(description="Its version.")
    name: str = Field(description="The machine's name.")
    machine: dict[str, Any] = Field(description="The machine as it is kept.")
    current: str = Field(description="The state it is in.")
    available_triggers: tuple[str, ...] = Field(description="What can be asked of it now, guards aside.")
    unreachable: tuple[str, ...] = Field(description="States that no transition leads to.")
    facts: tuple[str, ...] = Field(description="Names of facts that some guard asks for.")
    life: tuple[LifeStep, ...] = Field(description="Its versions, oldest first; emptied ones are left out.")
    is_cut: bool = Field(default=False, description="True: it has older versions than these.")
