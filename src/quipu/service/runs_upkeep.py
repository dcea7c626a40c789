"""What the host does with memory by itself: commitments fire, entries become fewer, and an index is kept.

1. What was done is told in the log of a run of the host's own, which is opened only where something was done.
2. Several servers may do the same at once: of two changes to one entry the later is too late.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, cast

from quipu.errors import ConflictError, ForbiddenError, QuipuError
from quipu.model.operations import RememberRequest
from quipu.model.principal import Principal
from quipu.model.record import MemoryType, Record
from quipu.model.runs import Driver, EventType, Happening, OpenRun, Run, RunStatus, RunStep
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import runs_authority, runs_refs
from quipu.service.runs_commitments import Commitments
from quipu.service.runs_deriving import Derived, Deriving
from quipu.service.runs_entering import Entering
from quipu.service.runs_stepping import Stepping

_log = logging.getLogger("quipu.runs")
#: The workflow of the runs in which the host tells what it did.
WORKFLOW = "quipu.upkeep"
INDEX = "MEMORY-INDEX.json"
_ATTEMPTS = 8


class RunUpkeep:
    """Passes over refs, and the runs that tell of them."""

    def __init__(
        self,
        parts: Parts,
        stepping: Stepping,
        entering: Entering,
        deriving: Deriving,
        commitments: Commitments,
    ) -> None:
        self._parts, self._stepping, self._entering = parts, stepping, entering
        self._deriving, self._commitments = deriving, commitments

    async def keep(self, principal: Principal) -> Run | None:
        """Look after the refs that the settings name; returns the run that tells of it, if there was anything."""
        told: list[Happening] = []
        for ref in self._parts.host.keeps:
            try:
                told.extend(await self._kept(principal, ref))
            except ForbiddenError:
                continue  # a ref that another tenant was given
            except QuipuError as error:
                _log.warning("A ref could not be looked after: %s", error.reason or error.code)
        return await self._told(principal, told) if told else None

    async def _kept(self, principal: Principal, ref: str) -> list[Happening]:
        told = [
            Happening(type=EventType.COMMITMENT_FIRED, payload=payload)
            for payload in await self._commitments.fire(principal, ref)
        ]
        merged = await self._deriving.consolidate(principal, ref, "scheduled")
        if merged["mergedIds"]:
            told.append(Happening(type=EventType.MEMORY_CONSOLIDATED, payload=merged))
        above = self._parts.host.compact_above
        if above and await self._deriving.count(principal, ref) > above:
            made = await self._deriving.compact(principal, ref)
            if made is not None:
                told.append(Happening(type=EventType.MEMORY_COMPACTED, payload=made.payload))
        return told

    async def distill(
        self,
        principal: Principal,
        ref: str,
        budget: object,
        sources: Sequence[str] | None = None,
        *,
        with_index: bool = False,
    ) -> tuple[Derived, str, str | None]:
        """Distil a ref: what was made, the checksum of its archive, and the index if it was asked for."""
        made, checksum = await self._deriving.distill(principal, ref, budget, sources)
        index = await self._indexed(principal, ref, str(made.payload["outputId"])) if with_index else None
        distillation = {**cast("dict[str, Any]", made.payload["distillation"]), "indexUpdated": with_index}
        payload: JsonObject = {**made.payload, "distillation": distillation}
        told = [Happening(type=EventType.MEMORY_COMPACTED, payload=payload)]
        if with_index:
            told.append(Happening(type=EventType.WORKSPACE_UPDATED, payload={"path": INDEX}))
        await self._told(principal, told)
        return Derived(made.record, payload), checksum, index

    async def _indexed(self, principal: Principal, ref: str, entry: str) -> str:
        """The workspace file that says which entry each ref was last distilled into."""
        host = runs_authority.host(principal.tenant)
        record_id = runs_refs.derived_id(runs_refs.WORKSPACE, INDEX)
        for _ in range(_ATTEMPTS):
            known = (await self._parts.ledger.read(principal.tenant, [record_id])).get(record_id)
            refs: dict[str, str] = {} if known is None else json.loads(known.content)["refs"]
            text = json.dumps({"refs": {**refs, ref: entry}}, ensure_ascii=False, sort_keys=True)
            try:
                await self._entering.put(host, _file(text, known), record_id=record_id)
            except ConflictError as conflict:
                if conflict.reason != "version_mismatch":
                    raise
            else:
                return text
        raise ConflictError("The index keeps changing.", reason="version_mismatch")

    async def _told(self, principal: Principal, told: Sequence[Happening]) -> Run:
        """A run that is opened, told and completed by the host."""
        run = Run(
            tenant=principal.tenant,
            id=self._parts.mint_id("run"),
            workflow_id=WORKFLOW,
            driver=Driver.EXTERNAL,
            status=RunStatus.RUNNING,
            authority=runs_authority.kept(principal),
            created_at=self._parts.clock(),
        )
        await self._stepping.opened(principal, OpenRun(run=run))
        await self._stepping.step(run.tenant, principal.name, RunStep(run_id=run.id, events=tuple(told)))
        return await self._stepping.end(run, principal.name, RunStatus.COMPLETED)


def _file(text: str, known: Record | None) -> RememberRequest:
    return RememberRequest(
        agent_id=runs_refs.WORKSPACE,
        type=MemoryType.SEMANTIC,
        content=text,
        tags=("workspace-file",),
        metadata={"openwop_entry_id": INDEX},
        memory_ref=runs_refs.WORKSPACE,
        id=None if known is None else known.id,
        if_version=None if known is None else known.version,
    )
