"""The parts of runs, put together."""

from __future__ import annotations

from quipu.ports.parts import Parts
from quipu.service.access import Access
from quipu.service.budgets import Budgets
from quipu.service.notes import ReadNotes
from quipu.service.runs import Runs
from quipu.service.runs_commitments import Commitments
from quipu.service.runs_deriving import Deriving, Merge
from quipu.service.runs_engine import Engine
from quipu.service.runs_entering import Entering
from quipu.service.runs_memory import Forget, Recall, RunMemory
from quipu.service.runs_scratch import Scratch
from quipu.service.runs_stepping import Stepping
from quipu.service.runs_upkeep import RunUpkeep
from quipu.service.secrets import Secrets


def assembled(
    parts: Parts,
    access: Access,
    secrets: Secrets,
    entering: Entering,
    notes: ReadNotes,
    budgets: Budgets,
    recall: Recall,
    forget: Forget,
    merge: Merge,
) -> Runs:
    """Runs over the operations of memory."""
    memory = RunMemory(parts, access, entering, notes, budgets, recall, forget)
    stepping = Stepping(parts, memory, secrets)
    worker = parts.mint_id("wrk")
    scratch = Scratch(parts, secrets, stepping, worker)
    engine = Engine(parts, memory, stepping, secrets, forget, worker)
    deriving = Deriving(parts, memory, entering, merge)
    commitments = Commitments(parts, memory, entering)
    upkeep = RunUpkeep(parts, stepping, entering, deriving, commitments, worker)
    return Runs(parts, access, secrets, memory, stepping, engine, scratch, deriving, commitments, upkeep)
