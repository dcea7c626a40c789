"""Where an agent has no memories: whose there are instead, so that a wrong name is not taken for an empty memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quipu.cli import output
from quipu.errors import QuipuError

if TYPE_CHECKING:
    from quipu.cli.session import Session
    from quipu.sync import Memory

#: Agents are gathered from so many of the newest memories, and so many of them are named.
_LOOKED_AT, _NAMED = 200, 5


def advice(run: Session, memory: Memory) -> str | None:
    """What to say to who looks for memories of an agent that has none here, while others have; None otherwise."""
    try:
        if memory.list(limit=1).records:
            return None
        found = memory.list(limit=_LOOKED_AT, all_agents=True).records
    except QuipuError:  # who may not see the others is told nothing of them
        return None
    names = list(dict.fromkeys(record.agent_id for record in found))[:_NAMED]
    if not names:
        return None
    whose = ", ".join(output.clean(name) for name in names)
    return f"The agent {run.config().agent} has no memories here, but there are some of: {whose}. Choose with --agent."
