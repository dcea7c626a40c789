"""Recovery: what a cause has done to memory, and how it is undone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What becomes of what was found."""

    #: What came goes, what changed is as it was before, what went comes back.
    UNDO = "undo"
    #: What came or changed is taken out of sight, and a person decides whether it comes back.
    QUARANTINE = "quarantine"


class Step(StrEnum):
    """What is done to one record."""

    FORGET = "forget"
    ERASE = "erase"
    REVERT = "revert"
    RESTORE = "restore"
    QUARANTINE = "quarantine"
    ARCHIVE = "archive"
    #: Nothing: somebody else has changed it since, or it is out of sight already.
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverRequest:
    """Find what a cause has done, or what looks suspicious, and undo it. Conditions are ANDed."""

    agent_id: str
    #: Causes: globs of sources; a run, an import, a proposal; who wrote it; a stretch of time, both ends included.
    sources: tuple[str, ...] = ()
    run_id: str | None = None
    import_id: str | None = None
    proposal_id: str | None = None
    principal: str | None = None
    since: str | None = None
    until: str | None = None
    #: Suspicions, looked for among live memories when no cause is given: sources (globs) that are fine, how sure a memory
    #: must be, and whether it is searched for instructions and personal data.
    trusted: tuple[str, ...] = ()
    confidence_below: float | None = None
    detectors: bool = False
    action: Action = Action.UNDO
    #: Erase what would be forgotten.
    hard_delete: bool = False
    dry_run: bool = True
    reason: str | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One record, and what is to be done to it."""

    id: str
    version: int
    type: str
    content: str
    source: str | None
    written_by: str
    step: Step
    why: str
    #: The version that a revert brings back.
    back_to: int | None = None
    #: What became of it: done, held or failed, and the proposal or the reason; None in a dry run.
    outcome: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverResponse:
    """What was found, and what was done."""

    dry_run: bool
    findings: tuple[Finding, ...]
    #: Whether there is more than the limit.
    is_cut: bool = False
