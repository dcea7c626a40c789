"""A procedure as its readers see it: the machine, where it stands, and how it came there."""

from __future__ import annotations

from dataclasses import dataclass

from quipu.model.value import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeStep:
    """One version of a procedure: the state it was in, and the trigger that brought it there."""

    version: int
    at: int
    written_by: str
    current: str
    #: None where the version was not a step: written, edited, restored.
    trigger: str | None = None
    #: The facts that its guard asked for and was given.
    facts: tuple[str, ...] = ()
    #: Whether the machine as it was really leads from the version before to this one by that trigger.
    is_explained: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A machine that is remembered."""

    id: str
    agent_id: str
    version: int
    name: str
    machine: JsonObject
    current: str
    available_triggers: tuple[str, ...]
    #: States that no way leads to.
    unreachable: tuple[str, ...]
    #: The names of facts that some guard asks for.
    facts: tuple[str, ...]
    #: Oldest first; versions that were emptied are left out.
    life: tuple[LifeStep, ...]
