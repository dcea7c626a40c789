"""Runs on their way into the file."""

from __future__ import annotations

from typing import assert_never

import apsw

from quipu.ledger import runs
from quipu.ledger.sqlite import statements
from quipu.model.runs import ExpireRun, KeepRef, OpenRun, RunChange, RunStep


def change(connection: apsw.Connection, tenant: str, seq: int, at: int, wanted: RunChange) -> None:
    """Carry out a change that concerns a run."""
    match wanted:
        case OpenRun():
            _, made = runs.opened(wanted, seq, at)
        case RunStep():
            _, made = runs.stepped(wanted, tenant, _head(connection, tenant, wanted.run_id), seq, at)
        case ExpireRun():
            made = runs.expired(wanted, tenant, _head(connection, tenant, wanted.run_id))
        case KeepRef():
            made = [runs.kept_ref(wanted)]
        case _:
            assert_never(wanted)
    for name, values in made:
        statements.run(connection, name, **values)


def _head(connection: apsw.Connection, tenant: str, run_id: str) -> runs.RunHead | None:
    row = statements.first(connection, "run_head", tenant=tenant, id=run_id)
    return None if row is None else runs.RunHead.of(row)
