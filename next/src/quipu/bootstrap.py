"""Puts one installation together. The only module that names implementations."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from quipu.access.credentials import Identities
from quipu.access.model import TABLES as ACCESS_TABLES
from quipu.access.operations import OPERATIONS as ACCESS_OPERATIONS
from quipu.access.service import AccessService, access_service
from quipu.audit.anchors import anchor_at
from quipu.audit.keys import FileSigner, KeySigner, Signer
from quipu.audit.model import ANCHORS
from quipu.audit.operations import OPERATIONS as AUDIT_OPERATIONS
from quipu.audit.service import AuditService, audit_service
from quipu.config import Settings, data_dir
from quipu.consolidation.extraction import Extraction, Extractor
from quipu.consolidation.operations import OPERATIONS as CONSOLIDATION_OPERATIONS
from quipu.consolidation.rules import Scorer, Thresholds, score
from quipu.consolidation.service import Consolidation
from quipu.consolidation.windows import Windows
from quipu.embed.cache import CachedEmbedder
from quipu.embed.port import Embedder
from quipu.errors import Fault, InvalidError, QuipuError, UnsupportedError
from quipu.fields import duration_ms
from quipu.governance.gate import Gate
from quipu.governance.in_process import InProcessReview, InProcessReviewer
from quipu.governance.model import TABLES as GOVERNANCE_TABLES
from quipu.governance.operations import OPERATIONS as GOVERNANCE_OPERATIONS
from quipu.governance.rule_list import RuleFile, Rules
from quipu.governance.service import GovernanceService, gate, governance_service
from quipu.governance.suggestions.learned_rules import LearnedRules
from quipu.governance.suggestions.memories import Suggestions
from quipu.governance.suggestions.model import TABLES as SUGGESTION_TABLES
from quipu.governance.suggestions.operations import OPERATIONS as SUGGESTION_OPERATIONS
from quipu.governance.text_classes import classes
from quipu.governance.webhooks.addresses import Webhooks
from quipu.governance.webhooks.delivery import Delivery
from quipu.governance.webhooks.model import TABLES as WEBHOOK_TABLES
from quipu.governance.webhooks.model import WEBHOOKS
from quipu.governance.webhooks.operations import OPERATIONS as WEBHOOK_OPERATIONS
from quipu.http.health import OPERATIONS as HEALTH_OPERATIONS
from quipu.http.health import HealthService
from quipu.http.settings import HttpSettings
from quipu.ledger.driver import Driver
from quipu.ledger.ledger import Ledger
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.ledger.table import Table
from quipu.mcp.settings import McpParts, McpSettings, Profile
from quipu.memory.change_feed import CommitSignal
from quipu.memory.drafts import Limits
from quipu.memory.embedding import Embedding
from quipu.memory.memory_store import MemoryStore
from quipu.memory.operations import OPERATIONS as MEMORY_OPERATIONS
from quipu.memory.pipeline import Pipeline
from quipu.memory.read_log import ReadLog
from quipu.memory.scope import STORES, Scopes
from quipu.memory.service import MemoryService, memory_service
from quipu.mirrors.checks import MirrorChecks
from quipu.mirrors.copies import Mirror
from quipu.mirrors.guard import GuardedBackend, Patience
from quipu.mirrors.model import TABLES as MIRROR_TABLES
from quipu.mirrors.operations import OPERATIONS as MIRROR_OPERATIONS
from quipu.mirrors.registry import MirrorAddress, OpenMemory, adapter_at, addresses, is_ledger
from quipu.mirrors.search import MirrorSearches
from quipu.mirrors.service import Mirrors
from quipu.model import ids
from quipu.model.principal import Principal, local
from quipu.operation import AnyBinding, AnyOperation, Clock, Context, Services
from quipu.outbound import HttpOutbound, Outbound
from quipu.procedures.operations import OPERATIONS as PROCEDURE_OPERATIONS
from quipu.procedures.service import Procedures
from quipu.router.model import PEER_IDS
from quipu.runs.attribution import Attribution
from quipu.runs.conformance import TEST_SECRETS
from quipu.runs.lookup import RunLookup, VariablesReach
from quipu.runs.model import TABLES as RUN_TABLES
from quipu.runs.operations import OPERATIONS as RUN_OPERATIONS
from quipu.runs.run_secrets import RunSecrets
from quipu.runs.service import Runs, runs_service
from quipu.schemas import Operations
from quipu.search.engine import SearchEngine
from quipu.secrets.detectors import Detectors
from quipu.secrets.marker import Marker
from quipu.secrets.model import SECRETS
from quipu.secrets.operations import OPERATIONS as SECRETS_OPERATIONS
from quipu.secrets.redaction import Guard
from quipu.secrets.sealing import FileSealer, KeySealer
from quipu.secrets.service import Secrets
from quipu.sharing.dids import is_did
from quipu.sharing.grants.operations import OPERATIONS as GRANT_OPERATIONS
from quipu.sharing.host import Host
from quipu.sharing.identity import Documents, Keyring
from quipu.sharing.model import TABLES as SHARING_TABLES
from quipu.sharing.operations import OPERATIONS as SHARING_OPERATIONS
from quipu.sharing.service import Sharing, sharing_service
from quipu.upkeep.operations import OPERATIONS as UPKEEP_OPERATIONS
from quipu.upkeep.service import Upkeep
from quipu.web.view_log import WEB_VIEWS

if TYPE_CHECKING:
    import ssl

    from starlette.responses import Response as HttpResponse
    from starlette.types import Scope

    from quipu.http.authentication import Authentication
    from quipu.http.jobs import Job
    from quipu.mcp.tools import ToolSpec
    from quipu.web.app import Site

#: Every operation of the product, capability by capability. Importing a module adds nothing to it.
OPERATIONS: Operations = (
    *MEMORY_OPERATIONS,
    *SECRETS_OPERATIONS,
    *ACCESS_OPERATIONS,
    *GOVERNANCE_OPERATIONS,
    *SUGGESTION_OPERATIONS,
    *WEBHOOK_OPERATIONS,
    *AUDIT_OPERATIONS,
    *PROCEDURE_OPERATIONS,
    *CONSOLIDATION_OPERATIONS,
    *RUN_OPERATIONS,
    *SHARING_OPERATIONS,
    *MIRROR_OPERATIONS,
    *GRANT_OPERATIONS,
    *UPKEEP_OPERATIONS,
    *HEALTH_OPERATIONS,
)
#: Every table that a capability declares.
TABLES: tuple[Table[Any], ...] = (
    STORES,
    SECRETS,
    *ACCESS_TABLES,
    *GOVERNANCE_TABLES,
    *SUGGESTION_TABLES,
    *WEBHOOK_TABLES,
    *RUN_TABLES,
    *SHARING_TABLES,
    *MIRROR_TABLES,
    ANCHORS,
    WEB_VIEWS,
    PEER_IDS,
)
_DAY_MS = 86_400_000
#: How often runs are looked after: those whose server has gone, and histories that have had their time.
_RUNS_S = 30.0
#: How often webhooks are sent what is due.
_WEBHOOKS_S = 2.0
#: How soon after its start a server loads what speaks MCP.
_MCP_S = 2.0


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
    mirrors: Mirrors
    mirror_searches: MirrorSearches
    services: Services

    def context(self, principal: Principal) -> Context:
        return Context(principal, self.clock, self.services)

    async def close(self) -> None:
        """In the order of use: what waits is written, then the ledger goes, then the embedder."""
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


class Lent:
    """An embedder for somebody who does not close it."""

    def __init__(self, inner: Embedder) -> None:
        self.model, self.dimensions = inner.model, inner.dimensions
        self.embed, self.clear = inner.embed, inner.clear

    async def close(self) -> None:
        """It is still in use."""


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
    extractor: Extractor | None = None,
    scorer: Scorer = score,
    outbound: Outbound | None = None,
    write_policy: Literal["all", "primary_only"] = "all",
    mirrors: Sequence[Mirror] = (),
    ledger_ranks: bool = True,
    **later: Any,
) -> Container:
    """Everything wired, from the ledger upwards. What is handed in stands for what the settings would open.

    stores: The first ledger among them is the ledger, all others mirror it.
    scorer: How much a short-term memory weighs.
    outbound: How the hosts are reached that memory is shared with.
    write_policy: `primary_only`: mirrors are searched and not written to.
    mirrors: Further mirrors, as they are.
    ledger_ranks: Off, a recall ranks by mirrors alone: to see what they find.
    """
    for name, value in later.items():
        if value not in (None, False):
            raise UnsupportedError(f"{name} is not supported yet.", reason=name)
    address, places = _places(stores, settings)
    others = addresses(places, taken=("sqlite", "postgresql", *(mirror.name for mirror in mirrors)))
    core = await _core(settings, address, embedder, clock, new_id)
    mirroring = Mirrors(
        ledger=core.ledger,
        mirrors=(*mirrors, *(_mirror(core, other) for other in others)),
        clock=clock,
        new_id=new_id,
        write_deadline_ms=settings.mirror_write_deadline_ms,
        writes=write_policy == "all",
    )
    access = _access(core)
    governor = _governor(core)
    run_secrets = RunSecrets(
        ledger=core.ledger,
        secrets=core.secrets,
        built_in=TEST_SECRETS if settings.openwop_conformance else {},
    )
    #: What keeps texts in memory, and forgets them after an erasure.
    forgetting = [core.embedding.forget_texts]
    pipeline = Pipeline(
        ledger=core.ledger,
        redactor=run_secrets,
        governor=governor,
        new_id=new_id,
        forget_texts=lambda: _forget(forgetting),
        contributors=(Attribution(core.ledger),),
        mirrors=mirroring,
    )
    searches = MirrorSearches(
        mirrors=mirroring,
        embedder=core.embedder,
        deadline_ms=settings.recall_deadline_ms,
        votes=settings.mirror_votes,
        ledger_ranks=ledger_ranks,
    )
    memory = _memory(core, access, governor, pipeline, searches)
    governed = governance_service(gate=governor, pipeline=pipeline, memory=memory, access=access)
    webhooks = _webhooks(core, access)
    audit = _audit(core, memory)
    consolidation = _consolidation(
        core, governor, pipeline, memory, extractor or _extractor(settings), scorer
    )
    runs = _runs(core, access, pipeline, memory, run_secrets)
    sharing = _sharing(core, pipeline, outbound)
    forgetting.append(sharing.views.forget)
    bindings = (
        *_decided_here(
            (*memory.bindings, *_procedures(core, access, pipeline, memory).bindings), governance, governed
        ),
        *runs.bindings,
        *sharing.bindings,
        *core.secrets.bindings,
        *access.bindings,
        *governed.bindings,
        *LearnedRules(ledger=core.ledger, rules=governor.rules, scopes=core.scopes).bindings,
        *_suggestions(core, access, governor, memory).bindings,
        *webhooks.bindings,
        *audit.bindings,
        *consolidation.bindings,
        *MirrorChecks(mirroring).bindings,
        *_upkeep(core).bindings,
        *_health(core).bindings,
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
        mirrors=mirroring,
        mirror_searches=searches,
        services=Services.of(bindings, access.budgets, Untraced()),
    )


def _forget(forgetting: Sequence[Callable[[], None]]) -> None:
    for forget in forgetting:
        forget()


# -- rooms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Core:
    """What rooms are put together of."""

    settings: Settings
    #: Where the ledger is.
    address: str
    clock: Clock
    new_id: Callable[[str], str]
    ledger: Ledger
    embedder: Embedder | None
    embedding: Embedding
    scopes: Scopes
    engine: SearchEngine
    #: Finds what looks like a secret; knows no registered values.
    detectors: Guard
    secrets: Secrets
    #: Signs what leaves the ledger.
    signer: Signer
    rule_file: RuleFile | None


async def _core(
    settings: Settings,
    address: str,
    embedder: Embedder | Literal["none"] | None,
    clock: Clock,
    new_id: Callable[[str], str],
) -> _Core:
    # Rules that do not load stop the start before anything is opened.
    rule_file = None if settings.rules is None else RuleFile(settings.rules, clock)
    ledger = Ledger(_driver(address, settings, settings.replica), TABLES)
    if embedder is None:
        embedder = await _embedder(settings)
    elif embedder == "none":
        embedder = None
    sealer = KeySealer.fresh() if is_memory(address) else FileSealer(sealing_key_file(address, settings))
    detectors = Guard(
        detectors=Detectors() if settings.secrets_detectors else Detectors(()),
        policy=settings.secrets,
        marker=Marker(settings.secrets_marker),
    )
    return _Core(
        settings=settings,
        address=address,
        clock=clock,
        new_id=new_id,
        ledger=ledger,
        embedder=embedder,
        embedding=Embedding(ledger, embedder),
        scopes=Scopes(ledger, clock, new_id),
        engine=SearchEngine(settings.cache_mb << 20),
        detectors=detectors,
        secrets=Secrets(ledger, sealer, detectors, new_id, sealed=(WEBHOOKS,)),
        signer=KeySigner.fresh() if is_memory(address) else FileSigner(signing_key_file(address, settings)),
        rule_file=rule_file,
    )


def _access(core: _Core) -> AccessService:
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


def _governor(core: _Core) -> Gate:
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


def _memory(
    core: _Core, access: AccessService, governor: Gate, pipeline: Pipeline, searches: MirrorSearches
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


def _webhooks(core: _Core, access: AccessService) -> Webhooks:
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


def _suggestions(core: _Core, access: AccessService, governor: Gate, memory: MemoryService) -> Suggestions:
    return Suggestions(
        ledger=core.ledger,
        scopes=core.scopes,
        engine=core.engine,
        similar=governor.similar,
        read_log=memory.read_log,
        budget=access.budgets,
        clock=core.clock,
    )


def _audit(core: _Core, memory: MemoryService) -> AuditService:
    settings = core.settings
    return audit_service(
        ledger=core.ledger,
        memory=memory,
        signer=core.signer,
        clock=core.clock,
        anchors=() if settings.audit_anchor is None else (anchor_at(settings.audit_anchor),),
        every_ms=settings.checkpoint_s * 1000,
        detect=classes,
    )


def _procedures(core: _Core, access: AccessService, pipeline: Pipeline, memory: MemoryService) -> Procedures:
    return Procedures(
        ledger=core.ledger,
        pipeline=pipeline,
        scopes=core.scopes,
        remember=memory.remember,
        read_log=memory.read_log,
        budget=access.budgets,
    )


def _consolidation(
    core: _Core,
    governor: Gate,
    pipeline: Pipeline,
    memory: MemoryService,
    extractor: Extractor | None,
    scorer: Scorer,
) -> Consolidation:
    extraction = None
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


def _extractor(settings: Settings) -> Extractor | None:
    """The model that finds facts, if the settings name one."""
    if settings.extractor_url is None and settings.extractor_model is None:
        return None
    if settings.extractor_url is None or settings.extractor_model is None:
        raise InvalidError(
            "A model that finds facts needs an address and a name.",
            faults=[Fault("/extractor_url", "missing_field", "extractor_url and extractor_model")],
        )
    from quipu.consolidation.chat_model import ChatModel  # a client that nobody else needs

    key = settings.extractor_key
    return ChatModel(
        base_url=settings.extractor_url,
        model=settings.extractor_model,
        api_key=None if key is None else key.get_secret_value(),
    )


def _runs(
    core: _Core, access: AccessService, pipeline: Pipeline, memory: MemoryService, secrets: RunSecrets
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


def _sharing(core: _Core, pipeline: Pipeline, outbound: Outbound | None) -> Sharing:
    settings = core.settings
    allowed = frozenset(name.lower().rstrip("/") for name in settings.oap_allowed_hosts)
    folder = None if is_memory(core.address) else identity_folder(core.address)
    keyring = Keyring(folder, settings.public_url, _owners(settings))
    outbound = outbound or HttpOutbound(allowed, tls=_authorities(settings))
    plain = frozenset(name for name in allowed if name.startswith("http://"))
    return sharing_service(
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
        sealing=core.secrets.sealing,
        embedder=core.embedder,
        free_text=settings.oap_free_text,
    )


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


def _upkeep(core: _Core) -> Upkeep:
    return Upkeep(
        ledger=core.ledger,
        embedding=core.embedding,
        redactor=core.secrets,
        detectors=core.detectors,
        open_file=lambda path: open_ledger(str(path), core.settings),
    )


def _health(core: _Core) -> HealthService:
    return HealthService(
        ledger=core.ledger,
        embedder=None if core.embedder is None else core.embedder.model,
        operations=lambda: tuple(operation.name for operation in OPERATIONS),
        content_bytes=core.settings.limit_content_bytes,
    )


def _decided_here(
    bindings: Sequence[AnyBinding], reviewer: InProcessReviewer | None, governance: GovernanceService
) -> Sequence[AnyBinding]:
    """Writes that are held go to an object in this process first, where one is given."""
    if reviewer is None:
        return bindings
    review = InProcessReview(reviewer=reviewer, reviews=governance.reviews, waits=governance.waits)
    return [review.around(binding) for binding in bindings]


def http_settings(settings: Settings) -> HttpSettings:
    """The server's settings."""
    return HttpSettings(
        host=settings.host,
        port=settings.port,
        tls_cert=settings.tls_cert,
        tls_key=settings.tls_key,
        allowed_hosts=settings.allowed_hosts,
        cors_origins=settings.cors_origins,
        trusted_proxies=settings.trusted_proxies,
        request_timeout_s=settings.request_timeout_s,
        most_requests=settings.most_requests,
        shutdown_grace_s=settings.shutdown_grace_s,
        metrics_public=settings.metrics_public,
    )


def http_app(container: Container, *, is_open: bool = False, only: Literal["mcp"] | None = None) -> Any:
    """The server's application.

    is_open: Everybody on this machine is the local person; on loopback only.
    only: Nothing but MCP, beside the probes.
    """
    from quipu.http.app import app  # a command loads no server
    from quipu.http.authentication import Authentication
    from quipu.http.exchange import exchange_of
    from quipu.http.jobs import Job
    from quipu.http.problems import problem_response
    from quipu.mcp.http import McpEndpoint
    from quipu.runs.refusals import openwop_refusal
    from quipu.runs.routes import OpenWopRoutes
    from quipu.sharing.routes import OapRoutes
    from quipu.web.errors import error_page

    settings = http_settings(container.config)
    if is_open and settings.host not in ("127.0.0.1", "localhost", "::1"):
        raise InvalidError(
            "A server without tokens listens on this machine only.",
            faults=[Fault("/host", "bad_value", "127.0.0.1, or tokens")],
        )
    everybody = local(agent_id=container.config.agent) if is_open else None
    authentication = Authentication(container.access.credentials, container.context, everybody)
    mcp = McpEndpoint(
        mcp_parts(container),
        authentication,
        lambda http, error: problem_response(error, exchange_of(http.scope).request_id),
    )
    web = None if only is not None else _web(container, authentication)
    oap = () if only is not None else OapRoutes.of(container.sharing, authentication).routes
    openwop = OpenWopRoutes(
        authentication=authentication,
        follower=container.runs.follower,
        workflows=container.runs.player,
    )

    def refusal(scope: "Scope", error: QuipuError) -> "HttpResponse | None":
        return openwop_refusal(scope, error) or (None if web is None else error_page(scope, error))

    return app(
        OPERATIONS if only is None else (),
        authentication,
        container.ledger.health,
        ids.new_id,
        settings,
        protocols=(*mcp.routes, *oap, *(() if web is None else web.routes())),
        addresses=() if only is not None else openwop.endpoints,
        described={} if only is not None else openwop.described,
        error_page=None if only is not None else refusal,
        # The SDK takes most of a second to load: not while the server starts, and not while the first client waits.
        jobs=(
            *background_jobs(container),
            *(() if web is None else web.jobs()),
            Job(name="mcp", every_s=_MCP_S, work=mcp.load),
            Job(name="mcp", every_s=0, work=mcp.close, is_last=True),
        ),
        waiting=container.governance.waits,
    )


def _web(container: Container, authentication: "Authentication") -> "Site":
    """The web page."""
    from quipu.web.pages import site

    return site(
        authentication=authentication,
        ledger=container.ledger,
        sealing=container.secrets.sealing,
        signin_links=container.access.signin_links,
        rates=container.access.budgets,
        silent=Untraced(),
        clock=container.clock,
        random=os.urandom,
        sweep_s=container.config.sweep_s,
    )


def mcp_parts(container: Container, shown: McpSettings | None = None) -> McpParts:
    """What serves MCP is given. Nothing of it loads the SDK."""
    settings = container.config
    return McpParts(
        operations=OPERATIONS,
        ledger=container.ledger,
        scopes=container.memory.read.scopes,
        sealing=container.secrets.sealing,
        reviews=container.governance.reviews,
        waits=container.governance.waits,
        settings=replace(
            shown or McpSettings(profile=settings.mcp_profile),
            public_url=settings.public_url,
            issuer=settings.oidc_issuer,
            # Several servers may share a database, so none of them can keep a session.
            keeps_sessions=container.ledger.name == "sqlite",
        ),
        profiles=(Profile("graph", _graph_tools), Profile("anthropic", _anthropic_tools)),
    )


def _graph_tools() -> "Sequence[ToolSpec]":
    from quipu.integrations.mcp_profiles import graph_tools  # loads the SDK

    return graph_tools()


def _anthropic_tools() -> "Sequence[ToolSpec]":
    from quipu.integrations.mcp_profiles import anthropic_tools  # loads the SDK

    return anthropic_tools()


async def speak_mcp(container: Container, principal: Principal, shown: McpSettings) -> None:
    """Serve one MCP client on standard input and output."""
    from quipu.mcp.stdio import speak

    await speak(mcp_parts(container, shown), principal, container.context)


def background_jobs(container: Container) -> "list[Job]":
    """What a server does by itself."""
    from quipu.http.jobs import Job, for_each_tenant

    async def tenants() -> list[str]:
        return [tenant async for tenant in container.ledger.journaled_tenants()]

    async def sweep(tenant: str) -> None:
        await container.memory.expire.sweep(tenant, container.clock())
        await container.governance.proposals.lapse(tenant, container.clock())

    return [
        Job(
            name="sweep",
            every_s=container.config.sweep_s,
            work=for_each_tenant("sweep", tenants, sweep),
        ),
        Job(
            name="consolidation",
            every_s=container.config.consolidation_s,
            work=for_each_tenant(
                "consolidation",
                tenants,
                lambda tenant: container.consolidation.work(tenant, container.context),
            ),
        ),
        Job(
            name="checkpoint",
            every_s=container.config.checkpoint_s,
            work=for_each_tenant("checkpoint", tenants, container.audit.checkpoints.look),
        ),
        Job(
            name="runs",
            every_s=_RUNS_S,
            work=for_each_tenant(
                "runs", tenants, lambda tenant: container.runs.upkeep.work(tenant, container.context)
            ),
        ),
        Job(
            name="webhooks",
            every_s=_WEBHOOKS_S,
            work=lambda: container.webhooks.delivery.deliver_due(container.clock()),
        ),
    ]


# -- addresses --------------------------------------------------------------------------------------------------------


def _places(stores: Sequence[Any], settings: Settings) -> tuple[str, list[str | MemoryStore]]:
    """Where the ledger is, and what mirrors it: the first ledger is the ledger."""
    places = [str(place) if isinstance(place, Path) else place for place in stores]
    ledger = next((place for place in places if is_ledger(place)), None)
    if ledger is None:
        address = settings.store or _default_store()
    else:
        address = str(ledger)
        places.remove(ledger)
    places += [other for other in settings.mirrors if other not in places]
    if any(isinstance(place, str) and _is_same(address, place) for place in places):
        raise InvalidError(
            "A ledger cannot be its own mirror.",
            faults=[Fault("/stores", "bad_value", "another place for copies")],
        )
    return address, places


def _is_same(one: str, other: str) -> bool:
    """Whether two addresses are the same ledger."""
    if not (is_ledger(one) and is_ledger(other)) or is_memory(other):
        return False
    first, second = sqlite_path(one), sqlite_path(other)
    if first is None or second is None:
        return first is second and _postgres_url(one) == _postgres_url(other)
    return first.resolve() == second.resolve()


def _mirror(core: _Core, place: MirrorAddress) -> Mirror:
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

    def made(address: str, *, token: str | None, embedder: Embedder | None) -> MemoryStore:
        from quipu.api import Memory, connect  # above them, and only a mirror needs them here

        if address.lower().startswith(("http://", "https://")):
            return connect(address, token=token, retries=0, config=own)
        return Memory(stores=address, embedder=Lent(embedder) if embedder else "none", config=own)

    return made


def _default_store() -> str:
    """A file in the data directory of the user."""
    return f"sqlite://{data_dir() / 'memory.db'}"


def is_memory(address: str) -> bool:
    """Whether what is kept there is gone with the process."""
    return address in (":memory:", "sqlite://:memory:", "sqlite://")


def sqlite_path(address: str) -> Path | None:
    """The file of an address; None where it is no file's."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address).expanduser()
    rest = rest.partition("?")[0]
    if scheme.lower() in ("sqlite", "sqlite-vec", "sqlite+vec", "sqlitevec"):
        return Path(unquote(rest.removeprefix("/") if rest.startswith("//") else rest)).expanduser()
    return None


def open_ledger(address: str, settings: Settings) -> Ledger:
    """Another ledger than that of the settings: a copy, a backup."""
    return Ledger(_driver(address, settings, None), TABLES)


def _driver(address: str, settings: Settings, replica: str | None) -> Driver:
    if is_memory(address):
        return SqliteDriver(":memory:")
    path = sqlite_path(address)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        return SqliteDriver(path)
    if urlsplit(address).scheme in ("postgresql", "postgres", "pgvector", "pgvector+postgres"):
        from quipu.ledger.postgres.driver import PostgresDriver  # an extra: psycopg may not be installed

        return PostgresDriver(
            _postgres_url(address),
            size=settings.pool_size,
            replica=None if replica is None else _postgres_url(replica),
        )
    raise InvalidError(
        "This is no address of a ledger.",
        faults=[
            Fault(
                "/store", "bad_value", "sqlite:///path, sqlite://:memory: or postgresql://user@host/database"
            )
        ],
    )


def sealing_key_file(address: str, settings: Settings) -> Path:
    """Beside the file, unless a setting says where; for a server's database in the user's data directory."""
    if settings.sealing_key is not None:
        return settings.sealing_key
    path = sqlite_path(address)
    if path is not None:
        return path.with_name(f"{path.name}.key")
    return data_dir() / "sealing.key"


def signing_key_file(address: str, settings: Settings) -> Path:
    """The same for the key that signs the journal."""
    if settings.signing_key is not None:
        return settings.signing_key
    path = sqlite_path(address)
    if path is not None:
        return path.with_name(f"{path.name}.signing.key")
    return data_dir() / "signing.key"


def identity_folder(address: str) -> Path:
    """Where the keys are that this host and its owners are known by: outside of the database."""
    path = sqlite_path(address)
    if path is not None:
        return path.with_name(f"{path.name}.identity")
    return data_dir() / "identity"


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


def _postgres_url(address: str) -> str:
    """In the one scheme that its client knows."""
    return "postgresql" + address[address.index("://") :]


async def _embedder(settings: Settings) -> Embedder | None:
    if settings.embedder == "none":
        return None
    if settings.embedder == "openai":
        if settings.embedder_url is None or settings.embedder_model is None:
            raise InvalidError(
                "An embedding endpoint needs an address and a model.",
                faults=[Fault("/embedder_url", "missing_field", "embedder_url and embedder_model")],
            )
        from quipu.embed.endpoint import EndpointEmbedder  # a client that nobody else needs

        key = settings.embedder_key
        endpoint = await EndpointEmbedder.open(
            base_url=settings.embedder_url,
            model=settings.embedder_model,
            api_key=None if key is None else key.get_secret_value(),
            dimensions=settings.embedder_dimensions or None,
        )
        return CachedEmbedder(endpoint)
    from quipu.embed.minilm import MiniLmEmbedder

    return CachedEmbedder(MiniLmEmbedder(settings.weights))
