"""Every write that names a run leaves `memory.written` in its log, one for each memory, in the commit of the write."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import ConflictError
from quipu.ledger.commit import Change, Commit, Keep, Put
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Kept, Reader
from quipu.operation import Context
from quipu.runs.model import RUNS, Run
from quipu.runs.rules import (
    Happening,
    RunOverError,
    is_reserved,
    is_run_id,
    no_run,
    numbered,
    reaches_run,
    reserved,
)

#: What the adapter and the summary say of their own writes: how the caller called the memory, and that it is ours.
MEMORY_REF, OWN = "memory_ref", "own"


@dataclass(frozen=True, slots=True)
class Attribution:
    """Asked by the pipeline before each commit, whatever way the write came. Most name no run."""

    ledger: Ledger

    async def contributed(self, ctx: Context, commits: Sequence[Commit]) -> Sequence[Commit]:
        for commit in commits:
            _check_names(commit)
            _check_end(commit)
        names = {run for commit in commits if (run := commit.draft.run) is not None and is_run_id(run)}
        if not names:
            return commits

        def work(reader: Reader) -> dict[str, Kept[Run]]:
            return {kept.value.id: kept for kept in reader.matching(RUNS, "id", sorted(names))}

        kept = await self.ledger.read(ctx.tenant, work)
        runs = {name: row.value for name, row in kept.items()}
        expects: dict[str, int | None] = {name: row.seq for name, row in kept.items()}
        return [self._with_events(ctx, commit, runs, expects) for commit in commits]

    def _with_events(
        self, ctx: Context, commit: Commit, runs: dict[str, Run], expects: dict[str, int | None]
    ) -> Commit:
        name = commit.draft.run
        if name is None or not is_run_id(name) or _keeps_run(commit.changes):
            return commit
        run = runs.get(name)
        if run is None or not (_is_approved(commit) or reaches_run(ctx.principal, run)):
            raise no_run()
        if run.is_over and not _is_approved(commit):
            raise RunOverError(run)
        happenings = _written(commit, run)
        if not happenings or run.is_expired:
            return commit
        run, rows = numbered(run, happenings, commit.draft.at)
        changed = Keep(RUNS, run, expects[name])
        # A later commit of the same transaction follows this one, whatever position that gets.
        runs[name], expects[name] = run, None
        return replace(commit, changes=(*commit.changes, changed, *rows))


def _written(commit: Commit, run: Run) -> list[Happening]:
    """`memory.written`, one for each memory, however many versions of it the commit begins: ids and names, never what it
    says. Its tags are read from the version that was written."""
    described: Any = run.body.get("agent") or {}
    last = {change.record.id: change.record for change in commit.changes if isinstance(change, Put)}
    node = {} if commit.draft.node is None else {"nodeId": commit.draft.node}
    return [
        Happening(
            type="memory.written",
            node_id=commit.draft.node,
            payload={
                "memoryRef": commit.draft.detail.get(MEMORY_REF, record.agent_id),
                "memoryId": record.id,
                "agentId": described.get("agent_id", run.agent_id),
                **node,
            },
            record_id=record.id,
            record_version=record.version,
        )
        for record in last.values()
    ]


def _is_approved(commit: Commit) -> bool:
    """Whether a person approved it: who wrote it was asked when it was held, and the run may be over by now."""
    return "proposal" in commit.draft.detail and commit.draft.op != "hold"


def _keeps_run(changes: Sequence[Change]) -> bool:
    """Whether the commit is a step of the run itself."""
    return any(isinstance(change, Keep) and change.table is RUNS for change in changes)


def _check_names(commit: Commit) -> None:
    """Nobody but this server writes, or takes away, where its own names are."""
    if OWN in commit.draft.detail:
        return
    if is_reserved(commit.draft.agent) or any(
        isinstance(change, Put) and is_reserved(change.record.agent_id) for change in commit.changes
    ):
        raise reserved()


def _check_end(commit: Commit) -> None:
    """What was held until nobody would see it any more is not written."""
    if (commit.draft.op, _is_approved(commit)) == ("remember", True) and any(
        isinstance(change, Put) and change.record.is_expired(commit.draft.at) for change in commit.changes
    ):
        raise ConflictError(
            "This memory would have ended by now.", reason="expired", hint="Reject it: nobody would see it."
        )
