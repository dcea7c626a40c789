"""The capability put together: every operation of transfer and the function that does it."""

from dataclasses import dataclass

from quipu.governance.proposals import Proposals
from quipu.ledger.ledger import Ledger
from quipu.memory.pipeline import Pipeline
from quipu.memory.service import MemoryService
from quipu.operation import AnyBinding, Binding
from quipu.secrets.sealing import Sealing
from quipu.sharing.identity import Documents
from quipu.transfer import operations as ops
from quipu.transfer.imports import Imports
from quipu.transfer.placement import Placement
from quipu.transfer.register import Decide, ImportRegister
from quipu.transfer.tombstones import Tombstones
from quipu.transfer.waiting import WaitingFiles
from quipu.transfer.writes import ImportWrites


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What transfer does."""

    imports: Imports
    register: ImportRegister

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.IMPORT_FILE, self.imports.import_file),
            Binding(ops.COMMIT_IMPORT, self.imports.commit_import),
            Binding(ops.DECIDE_IMPORT, self.register.decide),
            Binding(ops.GET_IMPORT, self.register.get),
            Binding(ops.LIST_IMPORTS, self.register.listed),
        )

    async def close(self) -> None:
        await self.imports.close()


def import_writes(*, ledger: Ledger, pipeline: Pipeline, memory: MemoryService) -> ImportWrites:
    """How imports write: needed before governance, which plans what was held again."""
    return ImportWrites(
        ledger=ledger,
        pipeline=pipeline,
        remember=memory.remember,
        batch=memory.batch,
        forget=memory.forget,
        placement=Placement(ledger=ledger),
    )


def transfer_service(
    *,
    writes: ImportWrites,
    documents: Documents,
    sealing: Sealing,
    proposals: Proposals,
    decide: Decide,
) -> Transfer:
    """Everything of transfer."""
    ledger, pipeline, scopes = writes.ledger, writes.pipeline, writes.remember.scopes
    tombstones = Tombstones(
        ledger=ledger, pipeline=pipeline, scopes=scopes, placement=writes.placement, writes=writes
    )
    imports = Imports(
        ledger=ledger,
        pipeline=pipeline,
        scopes=scopes,
        documents=documents,
        writes=writes,
        tombstones=tombstones,
        files=WaitingFiles(ledger=ledger, sealing=sealing),
    )
    return Transfer(
        imports=imports,
        register=ImportRegister(ledger=ledger, imports=imports, proposals=proposals, decide_one=decide),
    )
