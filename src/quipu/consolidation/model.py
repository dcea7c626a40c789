"""What a pass of consolidation is asked for, and what it did."""

from typing import Literal, TypeAlias

from pydantic import Field

from quipu.operation import Response, ScopedRequest

#: What became of short-term memories: `promoted` to a long-term memory that links to them; `known` to long-term memory
#: already, word for word; `evicted`, so forgotten and restorable; `held` until a person decides; `kept` in the window;
#: `failed`, because a rule forbids it or something was in the way.
Outcome: TypeAlias = Literal["promoted", "known", "evicted", "held", "kept", "failed"]


class ConsolidateRequest(ScopedRequest):
    """Go through short-term memory: promote what weighs enough, forget what is old and light.

    Short-term memory is what is in stores of the tier `short_term`. Each agent and user has a window of its newest
    hundred memories. What is promoted becomes a long-term memory with links to what it was made of, which are forgotten in
    the same step. A pass is undone as a whole with `undo` and its `pass_id`.
    """

    all_agents: bool = Field(default=False, description="The windows of every agent; for admins.")
    dry_run: bool = Field(default=False, description="Only say what would happen.")


class Decision(Response):
    """What became of short-term memories that say the same."""

    ids: tuple[str, ...] = Field(description="The memories.")
    agent_id: str = Field(description="Whose they are.")
    user_id: str | None = Field(default=None, description="Which person they are about.")
    outcome: Outcome = Field(description="promoted, known, evicted, held, kept or failed.")
    score: float = Field(description="How much they weigh, from 0 to 1.")
    into: str | None = Field(
        default=None,
        description="The long-term memory that they became or that says the same, or the proposal that waits.",
    )
    reason: str | None = Field(default=None, description="Why they stay where they are, as a stable word.")


class SimilarPair(Response):
    """Two memories that seem to say the same. Named, never merged."""

    id: str = Field(description="The one.")
    other: str = Field(description="The other.")
    similarity: float = Field(description="How near they are, from 0 to 1.")


class ConsolidateResponse(Response):
    """What a pass did."""

    pass_id: str = Field(description="Names the pass, to undo it.")
    dry_run: bool = Field(description="True: nothing was done.")
    windows: int = Field(description="How many windows were gone through.")
    counts: dict[str, int] = Field(description="How many memories had which outcome.")
    decisions: tuple[Decision, ...] = Field(description="The first thousand that did not simply stay.")
    similar: tuple[SimilarPair, ...] = Field(
        default=(), description="The first thousand pairs that seem to say the same."
    )
    proposed: int = Field(default=0, description="Facts that a model found; each waits for a person.")
    unread: int = Field(
        default=0, description="Promoted memories whose text the model could not be asked about."
    )
