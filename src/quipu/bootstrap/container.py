"""One installation: everything wired, from the ledger upwards."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from quipu.access.service import AccessService
from quipu.audit.service import AuditService
from quipu.bootstrap.capabilities import (
    access_of,
    audit_of,
    consolidation_of,
    decided_here,
    exports_of,
    governor_of,
    health_of,
    memory_of,
    mirrors_of,
    pipeline_of,
    procedures_of,
    run_secrets_of,
    runs_of,
    searches_of,
    sharing_of,
    suggestions_of,
    transfer_of,
    upkeep_of,
    webhooks_of,
)
from quipu.bootstrap.core import open_core
from quipu.bootstrap.places import places_of
from quipu.config import Settings
from quipu.consolidation.rules import Scorer, score
from quipu.consolidation.service import Consolidation
from quipu.embed.port import Embedder
from quipu.governance.in_process import InProcessReviewer
from quipu.governance.service import GovernanceService, governance_service
from quipu.governance.suggestions.learned_rules import LearnedRules
from quipu.governance.webhooks.addresses import Webhooks
from quipu.http.jobs import JobLog
from quipu.ledger.ledger import Ledger
from quipu.memory.service import MemoryService
from quipu.mirrors.checks import MirrorChecks
from quipu.mirrors.copies import Mirror
from quipu.mirrors.search import MirrorSearches
from quipu.mirrors.service import Mirrors
from quipu.model import ids
from quipu.model.principal import Principal
from quipu.operation import AnyOperation, Clock, Context, Services
from quipu.outbound import Outbound
from quipu.runs.service import Runs
from quipu.secrets.service import Secrets
from quipu.sharing.service import Sharing
from quipu.telemetry.settings import Telemetry
from quipu.telemetry.spans import Spans
from quipu.transfer.exporting.grant_exports import GrantExports
from quipu.transfer.service import Transfer, import_writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What every face is given."""

    config: Settings
    clock: Clock
    ledger: Ledger
    embedder: Embedder | None
    memory: MemoryService
    secrets: Secrets
    access: AccessService
    governance: GovernanceService
    webhooks: Webhooks
    audit: AuditService
    consolidation: Consolidation
    runs: Runs
    sharing: Sharing
    transfer: Transfer
    mirrors: Mirrors
    mirror_searches: MirrorSearches
    #: How the jobs of a server in this process go.
    job_log: JobLog
    #: None: what memory does is reported to nobody.
    spans: Spans | None
    services: Services

    def context(self, principal: Principal) -> Context:
        return Context(principal, self.clock, self.services)

    async def close(self) -> None:
        """In the order of use: what waits is written, then the ledger goes, then the embedder."""
        await self.transfer.close()
        await self.runs.player.close()
        await self.webhooks.delivery.close()
        await self.mirror_searches.close()
        await self.mirrors.close()
        await self.memory.read_log.close()
        await self.access.budgets.close()
        await self.audit.close()
        if self.consolidation.extraction is not None:
            await self.consolidation.extraction.extractor.close()
        await self.ledger.close()
        if self.embedder is not None:
            await self.embedder.close()


class Untraced:
    """No telemetry."""

    @contextmanager
    def observe(self, operation: AnyOperation, ctx: Context) -> Generator[None]:
        yield


async def open_container(
    settings: Settings,
    *,
    stores: Sequence[Any] = (),
    embedder: Embedder | Literal["none"] | None = None,
    governance: InProcessReviewer | None = None,
    clock: Clock = ids.now,
    new_id: Callable[[str], str] = ids.new_id,
    scorer: Scorer = score,
    outbound: Outbound | None = None,
    write_policy: Literal["all", "primary_only"] = "all",
    mirrors: Sequence[Mirror] = (),
    ledger_ranks: bool = True,
    telemetry: Telemetry | None = None,
) -> Container:
    """Everything wired, from the ledger upwards. What is handed in stands for what the settings would open.

    stores: The first ledger among them is the ledger, all others mirror it.
    scorer: How much a short-term memory weighs.
    outbound: How the hosts are reached that memory is shared with.
    write_policy: `primary_only`: mirrors are searched and not written to.
    mirrors: Further mirrors, as they are.
    ledger_ranks: Off, a recall ranks by mirrors alone: to see what they find.
    telemetry: OpenTelemetry providers, instead of those of the process.
    """
    address, places = places_of(stores, settings)
    core = await open_core(settings, address, embedder, clock, new_id, telemetry)
    mirroring = mirrors_of(core, mirrors, places, writes=write_policy == "all")
    searches = searches_of(core, mirroring, ledger_ranks=ledger_ranks)

    access, governor, run_secrets = access_of(core), governor_of(core), run_secrets_of(core)
    pipeline = pipeline_of(core, governor, run_secrets, mirroring)
    memory = memory_of(core, access, governor, pipeline, searches)
    writes = import_writes(ledger=core.ledger, pipeline=pipeline, memory=memory)
    governed = governance_service(
        gate=governor, pipeline=pipeline, memory=memory, access=access, others=(writes.write, writes.removal)
    )
    runs = runs_of(core, access, pipeline, memory, run_secrets)
    sharing = sharing_of(core, governor, pipeline, memory, outbound)
    transfer = transfer_of(writes, sharing, governed)
    audit = audit_of(core, memory, transfer)
    consolidation = consolidation_of(core, governor, pipeline, memory, scorer)
    webhooks = webhooks_of(core, access)
    job_log = JobLog(clock)

    writing = (*memory.bindings, *procedures_of(core, access, pipeline, memory).bindings)
    others = (
        *(runs, sharing, transfer, exports_of(core, memory, sharing), core.secrets, access, governed),
        GrantExports(host=sharing.host, queries=sharing.queries),
        LearnedRules(ledger=core.ledger, rules=governor.rules, scopes=core.scopes),
        suggestions_of(core, access, governor, memory),
        *(webhooks, audit, consolidation, MirrorChecks(mirroring), upkeep_of(core), health_of(core, job_log)),
    )
    bindings = (
        *decided_here(writing, governance, governed),
        *(binding for one in others for binding in one.bindings),
    )
    core.ledger.listen()
    mirroring.start()
    return Container(
        config=settings,
        clock=clock,
        ledger=core.ledger,
        embedder=core.embedder,
        memory=memory,
        secrets=core.secrets,
        access=access,
        governance=governed,
        webhooks=webhooks,
        audit=audit,
        consolidation=consolidation,
        runs=runs,
        sharing=sharing,
        transfer=transfer,
        mirrors=mirroring,
        mirror_searches=searches,
        job_log=job_log,
        spans=core.spans,
        services=Services.of(bindings, access.budgets, core.spans or Untraced()),
    )
