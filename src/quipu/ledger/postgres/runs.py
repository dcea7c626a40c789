"""Runs on their way into the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from quipu.ledger import runs
from quipu.ledger.postgres.working import Working
from quipu.model.runs import ExpireRun, KeepRef, OpenRun, RunChange, RunStep


def change(
    working: Working, writes: list[tuple[str, Mapping[str, Any]]], at: int, wanted: RunChange, seq: int
) -> None:
    """Decide a change that concerns a run; the heads of runs are kept up in memory."""
    heads = working.runs
    match wanted:
        case OpenRun(run=run):
            heads[run.id], made = runs.opened(wanted, seq, at)
        case RunStep(run_id=run_id):
            heads[run_id], made = runs.stepped(wanted, working.tenant, heads.get(run_id), seq, at)
        case ExpireRun(run_id=run_id):
            made = runs.expired(wanted, working.tenant, heads.get(run_id))
        case KeepRef():
            made = [runs.kept_ref(wanted)]
        case _:
            assert_never(wanted)
    writes.extend(made)
