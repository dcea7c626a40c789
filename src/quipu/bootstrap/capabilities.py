"""Each capability, put together of the core and of those below it."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from quipu.access.credentials import Identities
from quipu.access.service import AccessService, access_service
from quipu.audit.anchors import anchor_at
from quipu.audit.service import AuditService, audit_service
from quipu.bootstrap.core import Core, ShownExtractor
from quipu.bootstrap.declared import OPERATIONS
from quipu.bootstrap.places import identity_folder, is_memory, open_ledger, sqlite_path
from quipu.config import Settings, data_dir
from quipu.consolidation.extraction import Extraction, Extractor
from quipu.consolidation.rules import Scorer, Thresholds
from quipu.consolidation.service import Consolidation
from quipu.consolidation.windows import Windows
from quipu.embed.port import Embedder
from quipu.errors import Fault, InvalidError
from quipu.fields import duration_ms
from quipu.governance.gate import Gate
from quipu.governance.in_process import InProcessReview, InProcessReviewer
from quipu.governance.rule_list import Rules
from quipu.governance.service import GovernanceService, gate
from quipu.governance.suggestions.memories import Suggestions
from quipu.governance.text_classes import classes
from quipu.governance.webhooks.addresses import Webhooks
from quipu.governance.webhooks.delivery import Delivery
from quipu.http.health import HealthService
from quipu.http.jobs import JobLog
from quipu.memory.change_feed import CommitSignal
from quipu.memory.drafts import Limits
from quipu.memory.memory_store import MemoryStore
from quipu.memory.pipeline import Pipeline
from quipu.memory.read_log import ReadLog
from quipu.memory.service import MemoryService, memory_service
from quipu.mirrors.copies import Mirror
from quipu.mirrors.guard import GuardedBackend, Patience
from quipu.mirrors.registry import MirrorAddress, OpenMemory, adapter_at, addresses
from quipu.mirrors.search import MirrorSearches
from quipu.mirrors.service import Mirrors
from quipu.operation import AnyBinding, Clock
from quipu.outbound import HttpOutbound, Outbound
from quipu.procedures.service import Procedures
from quipu.runs.attribution import Attribution
from quipu.runs.conformance import TEST_SECRETS
from quipu.runs.lookup import RunLookup, VariablesReach
from quipu.runs.run_secrets import RunSecrets
from quipu.runs.service import Runs, runs_service
from quipu.sharing.dids import is_did
from quipu.sharing.host import Host
from quipu.sharing.identity import Documents, Keyring
from quipu.sharing.service import Sharing, sharing_service
from quipu.telemetry.settings import Propagating
from quipu.transfer.exporting.service import Exports
from quipu.transfer.service import Transfer, transfer_service
from quipu.transfer.writes import ImportWrites
from quipu.upkeep.service import Upkeep

if TYPE_CHECKING:
    import ssl


_DAY_MS = 86_400_000


def access_of(core: Core) -> AccessService:
    settings = core.settings
    return access_service(
        ledger=core.ledger,
        redactor=core.secrets,
        detectors=core.detectors,
        clock=core.clock,
        new_id=core.new_id,
        random=os.urandom,
        reviewable=(
            *("remember", "update", "remember_many", "forget", "merge", "expire", "restore", "recall"),
        ),
        rate=settings.rate,
        recall_budget=settings.recall_budget,
        identities=_identities(settings, core.clock),
        public_url=settings.public_url,
    )


def _identities(settings: Settings, clock: Clock) -> Identities | None:
    """The identity provider, if the settings name one."""
    if settings.oidc_issuer is None:
        return None
    from quipu.access.oidc import OidcIdentities, Provider  # loads what checks signatures

    provider = Provider(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience or "",
        tenant=settings.oidc_tenant,
        tenant_claim=settings.oidc_tenant_claim,
        roles_claim=settings.oidc_roles_claim,
        agents_claim=settings.oidc_agents_claim,
    )
    return OidcIdentities(provider, clock)


def governor_of(core: Core) -> Gate:
    settings = core.settings
    marker = core.detectors.marker
    return gate(
        ledger=core.ledger,
        redactor=core.secrets,
        rules=Rules(
            core.ledger,
            core.secrets,
            core.clock,
            file=core.rule_file,
            has_shipped=settings.rules_shipped,
            default=settings.rules_default,
        ),
        scopes=core.scopes,
        embedding=core.embedding,
        engine=core.engine,
        clock=core.clock,
        new_id=core.new_id,
        random=os.urandom,
        is_marked=lambda text: bool(marker.places(text)),
        public_url=settings.public_url,
        keeps_rejected=settings.on_reject == "keep",
    )


def memory_of(
    core: Core, access: AccessService, governor: Gate, pipeline: Pipeline, searches: MirrorSearches
) -> MemoryService:
    settings = core.settings
    longest = None if settings.max_retain is None else duration_ms(settings.max_retain)
    return memory_service(
        ledger=core.ledger,
        pipeline=pipeline,
        scopes=core.scopes,
        embedding=core.embedding,
        engine=core.engine,
        signal=CommitSignal(core.ledger),
        read_log=ReadLog(core.ledger, core.secrets.without_secret_names),
        budget=access.budgets,
        governor=governor,
        limits=Limits(content_bytes=settings.limit_content_bytes, max_retain_ms=longest),
        reach=(governor.proposals, VariablesReach(core.ledger)),
        run_snapshot=RunLookup(core.ledger).snapshot,
        mirrors=searches,
        signer=core.signer,
    )


def pipeline_of(core: Core, governor: Gate, run_secrets: RunSecrets, mirrors: Mirrors) -> Pipeline:
    def forget_texts() -> None:
        for forget in core.forgetting:
            forget()

    return Pipeline(
        ledger=core.ledger,
        redactor=run_secrets,
        governor=governor,
        new_id=core.new_id,
        forget_texts=forget_texts,
        contributors=(Attribution(core.ledger),),
        mirrors=mirrors,
    )


def webhooks_of(core: Core, access: AccessService) -> Webhooks:
    settings, sealing = core.settings, core.secrets.sealing
    delivery = Delivery(
        ledger=core.ledger,
        sealing=sealing,
        outbound=HttpOutbound(settings.webhook_hosts),
        clock=core.clock,
        new_id=core.new_id,
        may_see_all=access.credentials.is_whole_admin,
        public_url=settings.public_url,
    )
    return Webhooks(
        ledger=core.ledger,
        redactor=core.secrets,
        sealing=sealing,
        delivery=delivery,
        new_id=core.new_id,
        random=os.urandom,
    )


def suggestions_of(core: Core, access: AccessService, governor: Gate, memory: MemoryService) -> Suggestions:
    return Suggestions(
        ledger=core.ledger,
        scopes=core.scopes,
        engine=core.engine,
        similar=governor.similar,
        read_log=memory.read_log,
        budget=access.budgets,
        clock=core.clock,
    )


def audit_of(core: Core, memory: MemoryService, transfer: Transfer) -> AuditService:
    settings = core.settings
    return audit_service(
        ledger=core.ledger,
        memory=memory,
        signer=core.signer,
        clock=core.clock,
        anchors=() if settings.audit_anchor is None else (anchor_at(settings.audit_anchor),),
        every_ms=settings.checkpoint_s * 1000,
        detect=classes,
        imports=transfer.register,
    )


def procedures_of(core: Core, access: AccessService, pipeline: Pipeline, memory: MemoryService) -> Procedures:
    return Procedures(
        ledger=core.ledger,
        pipeline=pipeline,
        scopes=core.scopes,
        remember=memory.remember,
        read_log=memory.read_log,
        budget=access.budgets,
    )


def consolidation_of(
    core: Core, governor: Gate, pipeline: Pipeline, memory: MemoryService, scorer: Scorer
) -> Consolidation:
    extractor, extraction = _extractor(core), None
    if extractor is not None:
        extraction = Extraction(
            extractor=extractor, remember=memory.remember, similar=governor.similar, secrets=core.secrets
        )
    return Consolidation(
        ledger=core.ledger,
        pipeline=pipeline,
        memory=memory,
        windows=Windows(ledger=core.ledger, scopes=core.scopes, thresholds=Thresholds()),
        similar=governor.similar,
        extraction=extraction,
        scorer=scorer,
    )


def _extractor(core: Core) -> Extractor | None:
    """The model that finds facts, if the settings name one."""
    settings = core.settings
    if settings.extractor_url is None and settings.extractor_model is None:
        return None
    if settings.extractor_url is None or settings.extractor_model is None:
        raise InvalidError(
            "A model that finds facts needs an address and a name.",
            faults=[Fault("/extractor_url", "missing_field", "extractor_url and extractor_model")],
        )
    from quipu.consolidation.chat_model import ChatModel  # a client that nobody else needs

    key = settings.extractor_key
    model = ChatModel(
        base_url=settings.extractor_url,
        model=settings.extractor_model,
        api_key=None if key is None else key.get_secret_value(),
    )
    return model if core.spans is None else ShownExtractor(model, core.spans, settings.extractor_model)


def run_secrets_of(core: Core) -> RunSecrets:
    built_in: Mapping[str, str] = TEST_SECRETS if core.settings.openwop_conformance else {}
    return RunSecrets(ledger=core.ledger, secrets=core.secrets, built_in=built_in)


def runs_of(
    core: Core, access: AccessService, pipeline: Pipeline, memory: MemoryService, secrets: RunSecrets
) -> Runs:
    return runs_service(
        ledger=core.ledger,
        pipeline=pipeline,
        secrets=secrets,
        memory=memory,
        scopes=core.scopes,
        budget=access.budgets,
        clock=core.clock,
        signal=CommitSignal(core.ledger),
        is_conformance=core.settings.openwop_conformance,
        history_ms=core.settings.run_history_days * _DAY_MS,
    )


def sharing_of(
    core: Core, governor: Gate, pipeline: Pipeline, memory: MemoryService, outbound: Outbound | None
) -> Sharing:
    settings = core.settings
    allowed = frozenset(name.lower().rstrip("/") for name in settings.oap_allowed_hosts)
    folder = None if is_memory(core.address) else identity_folder(core.address)
    keyring = Keyring(folder, settings.public_url, _owners(settings))
    outbound = outbound or HttpOutbound(allowed, tls=_authorities(settings))
    plain = frozenset(name for name in allowed if name.startswith("http://"))
    sharing = sharing_service(
        host=Host(
            ledger=core.ledger,
            keyring=keyring,
            documents=Documents(keyring, outbound, core.clock, plain),
            redactor=core.secrets,
            clock=core.clock,
            new_id=core.new_id,
            random=os.urandom,
        ),
        pipeline=pipeline,
        forget=memory.forget,
        held=governor.proposals,
        sealing=core.secrets.sealing,
        embedder=core.embedder,
        free_text=settings.oap_free_text,
    )
    core.forgetting.append(sharing.views.forget)
    return sharing


def _owners(settings: Settings) -> dict[str, str]:
    """DIDs that owners bring along, with their tenants."""
    found: dict[str, str] = {}
    for one in settings.oap_owners:
        did, _, tenant = one.rpartition("=")
        if not is_did(did) or not tenant:
            raise InvalidError(
                "An owner's DID stands before its tenant.",
                faults=[
                    Fault("/oap_owners", "bad_value", "did=tenant, such as did:web:user.example=default")
                ],
            )
        found[did] = tenant
    return found


def _authorities(settings: Settings) -> "ssl.SSLContext | None":
    """What other servers are known by, where that is more than the usual."""
    if settings.oap_authorities is None:
        return None
    import ssl  # slow to load, and most installations name none

    trusted = ssl.create_default_context()
    try:
        trusted.load_verify_locations(settings.oap_authorities)
    except (OSError, ssl.SSLError) as error:
        raise InvalidError(
            "The certificate authorities cannot be read.",
            faults=[Fault("/oap_authorities", "bad_value", "a PEM file with certificates")],
        ) from error
    return trusted


def transfer_of(writes: ImportWrites, sharing: Sharing, governance: GovernanceService) -> Transfer:
    return transfer_service(
        writes=writes,
        documents=sharing.host.documents,
        proposals=governance.proposals,
        decide=governance.reviews.decide,
    )


def exports_of(core: Core, memory: MemoryService, sharing: Sharing) -> Exports:
    return Exports(
        host=sharing.host,
        scopes=core.scopes,
        snapshots=memory.read.snapshots,
        grants=sharing.grants,
    )


def upkeep_of(core: Core) -> Upkeep:
    return Upkeep(
        ledger=core.ledger,
        embedding=core.embedding,
        redactor=core.secrets,
        detectors=core.detectors,
        open_file=lambda path: open_ledger(str(path), core.settings),
    )


def health_of(core: Core, job_log: JobLog) -> HealthService:
    return HealthService(
        ledger=core.ledger,
        embedder=None if core.embedder is None else core.embedder.model,
        operations=lambda: tuple(operation.name for operation in OPERATIONS),
        content_bytes=core.settings.limit_content_bytes,
        jobs=job_log,
    )


def decided_here(
    bindings: Sequence[AnyBinding], reviewer: InProcessReviewer | None, governance: GovernanceService
) -> Sequence[AnyBinding]:
    """Writes that are held go to an object in this process first, where one is given."""
    if reviewer is None:
        return bindings
    review = InProcessReview(reviewer=reviewer, reviews=governance.reviews, waits=governance.waits)
    return [review.around(binding) for binding in bindings]


# -- mirrors: copies of the ledger elsewhere, each behind its guard ---------------------------------------------------


def mirrors_of(
    core: Core, given: Sequence[Mirror], places: Sequence[str | MemoryStore], *, writes: bool
) -> Mirrors:
    others = addresses(places, taken=("sqlite", "postgresql", *(mirror.name for mirror in given)))
    return Mirrors(
        ledger=core.ledger,
        mirrors=(*given, *(_mirror(core, other) for other in others)),
        clock=core.clock,
        new_id=core.new_id,
        write_deadline_ms=core.settings.mirror_write_deadline_ms,
        writes=writes,
    )


def searches_of(core: Core, mirrors: Mirrors, *, ledger_ranks: bool) -> MirrorSearches:
    return MirrorSearches(
        mirrors=mirrors,
        embedder=core.embedder,
        deadline_ms=core.settings.recall_deadline_ms,
        votes=core.settings.mirror_votes,
        ledger_ranks=ledger_ranks,
    )


def _mirror(core: Core, place: MirrorAddress) -> Mirror:
    """A mirror behind its guard, not opened yet."""
    beside = None if is_memory(core.address) else sqlite_path(core.address)
    if beside is None:
        folder = data_dir() / "mirrors" / place.name
    else:
        folder = beside.with_name(f"{beside.name}.mirror-{place.name}")
    backend = adapter_at(
        place, folder=folder, open_memory=other_memories(core.settings), embedder=core.embedder
    )
    return Mirror(
        name=place.name,
        backend=GuardedBackend(place.name, backend, patience=Patience(search_s=place.deadline_ms / 1000)),
        shown=place.shown,
        weight=place.weight,
        has_own_contents=place.contents == "own",
    )


def other_memories(settings: Settings) -> OpenMemory:
    """How mirrors reach other ledgers and servers of ours: with these settings, but for what belongs to one place."""
    own = settings.model_copy(update={"mirrors": (), "rules": None, "sealing_key": None, "signing_key": None})
    #: What is done in a mirror is part of what is done here, so it is not reported once more.
    silent = own.model_copy(update={"telemetry": False})

    def made(address: str, *, token: str | None, embedder: Embedder | None) -> MemoryStore:
        from quipu.api import Memory, connect  # above them, and only a mirror needs them here

        if address.lower().startswith(("http://", "https://")):
            return connect(address, token=token, retries=0, config=own, telemetry=Propagating())
        return Memory(stores=address, embedder=_Lent(embedder) if embedder else "none", config=silent)

    return made


class _Lent:
    """An embedder for somebody who does not close it."""

    def __init__(self, inner: Embedder) -> None:
        self.model, self.dimensions = inner.model, inner.dimensions
        self.embed, self.clear = inner.embed, inner.clear

    async def close(self) -> None:
        """It is still in use."""
