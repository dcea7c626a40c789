"""What the host does with memory by itself: commitments fire, entries become fewer, and an index is kept.

1. What was done is told in the log of a run of the host's own, which is opened only where something was done, and in
   the transaction of what it tells of: neither is there without the other, whenever the process is killed.
2. Several servers may do the same at once: of two changes to one entry the later is too late.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from quipu.errors import ConflictError, ForbiddenError, QuipuError
from quipu.model.change import Commit
from quipu.model.operations import RememberRequest
from quipu.model.principal import Principal
from quipu.model.record import MemoryType, Record
from quipu.model.runs import EventType, Happening, Run
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import runs_authority, runs_refs
from quipu.service.runs_commitments import Commitments
from quipu.service.runs_deriving import Derived, Deriving
from quipu.service.runs_entering import Entering
from quipu.service.runs_stepping import Stepping
from quipu.service.runs_telling import Telling

_log = logging.getLogger("quipu.runs")
INDEX = "MEMORY-INDEX.json"


class RunUpkeep:
    """Passes over refs, and the runs that tell of them. `worker` is the name of this process."""

    def __init__(
        self,
        parts: Parts,
        stepping: Stepping,
        entering: Entering,
        deriving: Deriving,
        commitments: Commitments,
        worker: str,
    ) -> None:
        self._parts, self._stepping, self._entering = parts, stepping, entering
        self._deriving, self._commitments, self._worker = deriving, commitments, worker

    async def keep(self, principal: Principal) -> Run | None:
        """Look after the refs that the settings name; returns the run that tells of it, if there was anything."""
        telling = self._telling(principal)
        for ref in self._parts.host.keeps:
            try:
                await self._kept(principal, ref, telling)
            except ForbiddenError:
                continue  # a ref that another tenant was given
            except QuipuError as error:
                _log.warning("A ref could not be looked after: %s", error.reason or error.code)
        return await telling.end(self._stepping)

    async def _kept(self, principal: Principal, ref: str, telling: Telling) -> None:
        await self._commitments.fire(principal, ref, telling)
        await self._deriving.consolidate(principal, ref, "scheduled", telling)
        above = self._parts.host.compact_above
        if above and await self._deriving.count(principal, ref) > above:
            await self._deriving.compact(principal, ref, telling)

    async def compact(self, principal: Principal, ref: object) -> Derived | None:
        """One entry for several, because somebody asks; None where there are fewer than two."""
        telling = self._telling(principal)
        made = await self._deriving.compact(principal, ref, telling)
        await telling.end(self._stepping)
        return made

    async def consolidate(self, principal: Principal, ref: object) -> JsonObject:
        """Entries that say the same become one, because somebody asks."""
        telling = self._telling(principal)
        done = await self._deriving.consolidate(principal, ref, telling=telling)
        await telling.end(self._stepping)
        return done

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
        telling, index = self._telling(principal), _Index(self._parts, self._entering, principal.tenant, ref)
        updated = Happening(type=EventType.WORKSPACE_UPDATED, payload={"path": INDEX})
        made, checksum = await self._deriving.distill(
            principal,
            ref,
            budget,
            sources,
            telling=telling,
            more=(updated,) if with_index else (),
            index=index.written if with_index else None,
        )
        await telling.end(self._stepping)
        return made, checksum, index.text

    def _telling(self, principal: Principal) -> Telling:
        return Telling(self._parts, principal, self._worker)


class _Index:
    """The workspace file that says which entry each ref was last distilled into."""

    def __init__(self, parts: Parts, entering: Entering, tenant: str, ref: str) -> None:
        self._parts, self._entering, self._ref = parts, entering, ref
        self._host = runs_authority.host(tenant)
        #: As it was last written; None: it was not.
        self.text: str | None = None

    async def written(self, entry: str) -> Commit:
        """How it is written, as things stand."""
        record_id = runs_refs.derived_id(runs_refs.WORKSPACE, INDEX)
        known = (await self._parts.ledger.read(self._host.tenant, [record_id])).get(record_id)
        if known is not None and known.is_emptied:
            raise ConflictError(
                "The index was erased, and nothing that was erased is written again.",
                reason="index_erased",
                hint="Distil without an index.",
            )
        refs: dict[str, str] = {} if known is None else json.loads(known.content)["refs"]
        self.text = json.dumps({"refs": {**refs, self._ref: entry}}, ensure_ascii=False, sort_keys=True)
        return await self._entering.beside(self._host, _file(self.text, known), record_id)


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
