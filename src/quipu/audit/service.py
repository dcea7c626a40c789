"""The capability put together: every operation of audit and the function that does it."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from quipu.audit import operations as ops
from quipu.audit.anchors import Anchor
from quipu.audit.checkpoints import Checkpoints, statement
from quipu.audit.export import Exporter
from quipu.audit.faults import Faults, Unverifiable
from quipu.audit.journal import Journal
from quipu.audit.keys import Signer
from quipu.audit.model import (
    ANCHORS,
    EVERY_TENANT,
    Anchored,
    AnchorRequest,
    AnchorResponse,
    AnchorView,
    CheckpointView,
    ExportJournalRequest,
    ExportLine,
    ListCheckpointsRequest,
    ListCheckpointsResponse,
    SignCheckpointRequest,
    TenantReport,
    VerifyRequest,
    VerifyResponse,
)
from quipu.audit.remedy import Detect
from quipu.audit.undo import Undo, UndoneImports
from quipu.audit.verify import Verifier
from quipu.errors import Fault, NotFoundError, QuipuError, UnsupportedError
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.ledger import Ledger
from quipu.memory.service import MemoryService
from quipu.model.journal import Checkpoint, Draft
from quipu.model.principal import Permission
from quipu.operation import AnyBinding, Binding, Context, invalid

_log = logging.getLogger("quipu.audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditService:
    """What audit does."""

    ledger: Ledger
    checkpoints: Checkpoints
    anchors: Sequence[Anchor]
    verifier: Verifier
    exporter: Exporter
    journal: Journal
    undo: Undo

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.VERIFY, self.verify),
            Binding(ops.JOURNAL, self.journal.page),
            Binding(ops.JOURNAL_HEAD, self.journal.head),
            Binding(ops.LIST_CHECKPOINTS, self.list_checkpoints),
            Binding(ops.SIGN_CHECKPOINT, self.sign_checkpoint),
            Binding(ops.ANCHOR, self.anchor),
            Binding(ops.EXPORT_JOURNAL, self.export),
            Binding(ops.UNDO, self.undo.undo),
        )

    async def close(self) -> None:
        """Sign what is due."""
        await self.checkpoints.close()

    # -- verification -------------------------------------------------------------------------------------------------

    async def verify(self, ctx: Context, request: VerifyRequest) -> VerifyResponse:
        """One tenant, or every one; each is named. The schema is everybody's."""
        faults, unverifiable = await self.verifier.database()
        known = await self.verifier.tenants()
        if request.tenant == EVERY_TENANT:
            wanted = known
        elif request.tenant is None:
            wanted = [ctx.tenant]
        elif request.tenant in known:
            wanted = [request.tenant]
        else:
            raise NotFoundError(
                "There is no such tenant.", reason="tenant", hint="`quipu tenant list` shows them."
            )
        reports = [await self.verifier.tenant(name) for name in wanted]
        return _answer(reports, faults, unverifiable, names_database=ctx.principal.may(Permission.OPERATE))

    # -- signatures ---------------------------------------------------------------------------------------------------

    async def list_checkpoints(
        self, ctx: Context, request: ListCheckpointsRequest
    ) -> ListCheckpointsResponse:
        points = await self.ledger.checkpoints(ctx.tenant, request.after, request.limit)
        return ListCheckpointsResponse(
            checkpoints=tuple(_view(ctx.tenant, point) for point in points),
            keys=dict(self.checkpoints.signer.known_keys),
        )

    async def sign_checkpoint(self, ctx: Context, request: SignCheckpointRequest) -> CheckpointView:
        return _view(ctx.tenant, await self.checkpoints.sign(ctx.tenant, ctx.principal.name))

    async def anchor(self, ctx: Context, request: AnchorRequest) -> AnchorResponse:
        if not self.anchors:
            raise UnsupportedError(
                "There is no place to publish to.",
                reason="anchor",
                hint="Name one with the setting audit_anchor: file:///path or https://host/path.",
            )
        wanted = [one for one in self.anchors if request.target in (None, one.target)]
        if not wanted:
            accepted = f"one of {', '.join(one.target for one in self.anchors)}"
            raise invalid([Fault("/target", "bad_value", accepted)])
        checkpoint = await self.checkpoints.sign(ctx.tenant, ctx.principal.name)
        published = [await self._publish(one, ctx.tenant, ctx.principal.name, checkpoint) for one in wanted]
        return AnchorResponse(
            anchors=tuple(
                AnchorView(target=one.target, seq=one.entry, hash=one.hash, proof=one.proof)
                for one in published
            )
        )

    async def publish_due(self, tenant: str, checkpoint: Checkpoint) -> None:
        """Publish a position that was signed because it was due; a place that does not answer is tried with the next."""
        for anchor in self.anchors:
            try:
                await self._publish(anchor, tenant, "system", checkpoint)
            except QuipuError as error:
                _log.warning("A signed position could not be published: %s", error.message)

    async def _publish(self, anchor: Anchor, tenant: str, actor: str, checkpoint: Checkpoint) -> Anchored:
        proof = await anchor.publish(tenant, checkpoint)
        anchored = Anchored(
            target=anchor.target,
            entry=checkpoint.seq,
            hash=checkpoint.hash.hex(),
            at=checkpoint.at,
            proof=proof,
        )
        draft = Draft(op="anchor", actor=actor, at=checkpoint.at, detail={"checkpoint": checkpoint.seq})
        commit = Commit(tenant=tenant, draft=draft, changes=(Keep(ANCHORS, anchored),))
        await self.ledger.commit(commit)
        return anchored

    # -- export -------------------------------------------------------------------------------------------------------

    async def export(self, ctx: Context, request: ExportJournalRequest) -> AsyncIterator[ExportLine]:
        lines = self.exporter.lines(ctx.tenant, ctx.principal.name, with_records=request.with_records)
        async for line in lines:
            yield line


def audit_service(
    *,
    ledger: Ledger,
    memory: MemoryService,
    signer: Signer,
    checkpoints: Checkpoints,
    anchors: Sequence[Anchor],
    detect: Detect,
    imports: UndoneImports,
) -> AuditService:
    """Everything of audit, from its parts."""
    return AuditService(
        ledger=ledger,
        checkpoints=checkpoints,
        anchors=anchors,
        verifier=Verifier(ledger=ledger, signer=signer, anchors=anchors),
        exporter=Exporter(ledger=ledger, checkpoints=checkpoints),
        journal=Journal(ledger, memory.read.scopes),
        undo=Undo(ledger=ledger, memory=memory, detect=detect, imports=imports),
    )


def _answer(
    reports: Sequence[TenantReport], faults: Faults, unverifiable: Unverifiable, *, names_database: bool
) -> VerifyResponse:
    """What the database's own pages say may name other tenants' things: that is for who runs the server."""
    return VerifyResponse(
        verified=not faults.count and all(report.is_verified for report in reports),
        tenants=tuple(reports),
        faults=faults.named if names_database else faults.kinds,
        unverifiable=unverifiable.messages,
    )


def _view(tenant: str, checkpoint: Checkpoint) -> CheckpointView:
    return CheckpointView(**statement(tenant, checkpoint))
