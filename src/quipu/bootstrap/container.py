"""One installation: everything wired, from the ledger upwards.

A capability is loaded and put together when it is first asked for, so that a command loads no more than it needs. What is
imported at the top of this file is paid for by every command.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from quipu import catalogue
from quipu.access.budgets import Budgets
from quipu.bootstrap.places import (
    TABLES,
    Late,
    driver_at,
    identity_folder,
    is_memory,
    open_ledger,
    places_of,
    sealing_key_file,
    signing_key_file,
)
from quipu.config import Settings
from quipu.errors import Fault, InvalidError
from quipu.fields import DAY_MS, duration_ms
from quipu.ledger.ledger import Ledger
from quipu.memory.read import Read
from quipu.memory.read_log import ReadLog
from quipu.memory.scope import Scopes
from quipu.memory.snapshots import Snapshots
from quipu.model import ids
from quipu.model.principal import Principal
from quipu.operation import AnyBinding, AnyOperation, Clock, Context, Services

if TYPE_CHECKING:
    import ssl

    from quipu.access.credentials import Identities
    from quipu.access.service import AccessService
    from quipu.audit.checkpoints import Checkpoints
    from quipu.audit.keys import Signer
    from quipu.audit.service import AuditService
    from quipu.consolidation.extraction import Extractor
    from quipu.consolidation.rules import Scorer
    from quipu.consolidation.service import Consolidation
    from quipu.embed.port import Embedder
    from quipu.governance.decision_wait import InProcessReviewer
    from quipu.governance.gate import Gate
    from quipu.governance.learned_rules import LearnedRules
    from quipu.governance.rule_list import RuleFile
    from quipu.governance.service import GovernanceService
    from quipu.governance.suggestions import Suggestions
    from quipu.governance.webhooks import Webhooks
    from quipu.http.health import HealthService
    from quipu.http.jobs import JobLog
    from quipu.ledger.commit import Commit
    from quipu.memory.change_feed import CommitSignal
    from quipu.memory.embedding import Embedding
    from quipu.memory.pipeline import Pipeline
    from quipu.memory.recall.recall import Recall
    from quipu.memory.service import MemoryService
    from quipu.mirrors.checks import MirrorChecks
    from quipu.mirrors.copies import Mirror
    from quipu.mirrors.registry import MirrorAddress
    from quipu.mirrors.search import MirrorSearches
    from quipu.mirrors.service import Mirrors
    from quipu.model.search import Snapshot
    from quipu.outbound import Outbound
    from quipu.procedures.service import Procedures
    from quipu.runs.service import Runs
    from quipu.runs.steps import RunSecrets
    from quipu.search.engine import SearchEngine
    from quipu.secrets.redaction import Guard
    from quipu.secrets.service import Secrets
    from quipu.sharing.service import Sharing
    from quipu.telemetry.settings import Telemetry
    from quipu.telemetry.spans import Spans
    from quipu.transfer.exports import Exports
    from quipu.transfer.grant_exports import GrantExports
    from quipu.transfer.service import Transfer
    from quipu.transfer.writes import ImportWrites
    from quipu.upkeep.service import Upkeep

#: Where operations are declared → what carries them out, by its names in `Container`; the lightest first.
_HOMES: Mapping[str, tuple[str, ...]] = {
    "quipu.memory.operations": ("reads", "recall", "memory"),
    "quipu.procedures.operations": ("procedures",),
    "quipu.runs.operations": ("runs",),
    "quipu.sharing.operations": ("sharing",),
    "quipu.sharing.grants.operations": ("sharing",),
    "quipu.transfer.operations": ("transfer", "exports", "grant_exports"),
    "quipu.secrets.operations": ("secrets",),
    "quipu.access.operations": ("access",),
    "quipu.governance.operations": ("governance", "webhooks", "suggestions", "learned_rules"),
    "quipu.audit.operations": ("audit",),
    "quipu.consolidation.operations": ("consolidation",),
    "quipu.mirrors.operations": ("mirror_checks",),
    "quipu.upkeep.operations": ("upkeep",),
    "quipu.http.health": ("health",),
}


class Untraced:
    """No telemetry."""

    @contextmanager
    def observe(self, operation: AnyOperation, ctx: Context) -> Generator[None]:
        yield


@dataclass(frozen=True, slots=True)
class _Bindings(Mapping[str, AnyBinding]):
    """Every operation and the function that does it."""

    container: "Container"
    made: dict[str, AnyBinding]

    def __getitem__(self, name: str) -> AnyBinding:
        if name not in self.made:
            for home in _HOMES[catalogue.PLACES[name].partition(":")[0]]:
                self.made.update(self.container.bindings(home))
                if name in self.made:
                    break
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(catalogue.PLACES)

    def __len__(self) -> int:
        return len(catalogue.PLACES)


@dataclass(kw_only=True, eq=False)
class Container:
    """What every face is given."""

    config: Settings
    #: Where the ledger is, and what mirrors it.
    address: str
    mirrored_at: "Sequence[MirrorAddress]"
    clock: Clock
    new_id: Callable[[str], str]
    ledger: Ledger
    rule_file: "RuleFile | None"
    given_embedder: "Embedder | Literal['none'] | None"
    reviewer: "InProcessReviewer | None"
    given_extractor: "Extractor | None"
    given_scorer: "Scorer | None"
    given_outbound: "Outbound | None"
    given_mirrors: "Sequence[Mirror]"
    writes_to_mirrors: bool
    ledger_ranks: bool
    given_telemetry: "Telemetry | None"

    def context(self, principal: Principal) -> Context:
        return Context(principal, self.clock, self.services)

    def open(self) -> None:
        """Begin to hear of commits, and to deliver to mirrors. On the event loop that it is used on."""
        self.ledger.on_commit(self._committed)
        self.ledger.listen()
        if self.mirrored_at or self.given_mirrors:
            self.mirrors.start()

    def load(self) -> None:
        """Put everything together now, so that no caller of a server waits for it."""
        for name in self.services.bindings:
            _ = self.services.bindings[name]

    async def close(self) -> None:
        """In the order of use: what waits is written, then the ledger goes, then the embedder."""
        made = vars(self)
        if "transfer" in made:
            await self.transfer.close()
        if "runs" in made:
            await self.runs.player.close()
        if "webhooks" in made:
            await self.webhooks.delivery.close()
        if "mirror_searches" in made:
            await self.mirror_searches.close()
        if "mirrors" in made:
            await self.mirrors.close()
        await self.read_log.close()
        await self.budgets.close()
        if "checkpoints" in made:
            await self.checkpoints.close()
        if "consolidation" in made and self.consolidation.extraction is not None:
            await self.consolidation.extraction.extractor.close()
        await self.ledger.close()
        embedder = self.given_embedder if "embedder" not in made else self.embedder
        if embedder is not None and embedder != "none":
            await embedder.close()

    # -- what operations are carried out by ---------------------------------------------------------------------------

    @cached_property
    def services(self) -> Services:
        return Services(_Bindings(self, {}), self.budgets, self.spans or Untraced())

    def bindings(self, home: str) -> dict[str, AnyBinding]:
        """What one of these properties carries out, by operation."""
        bound: Sequence[AnyBinding] = getattr(self, home).bindings
        if self.reviewer is not None and home in ("memory", "procedures"):
            from quipu.governance.decision_wait import InProcessReview

            governance = self.governance
            review = InProcessReview(
                reviewer=self.reviewer, reviews=governance.reviews, waits=governance.waits
            )
            bound = [review.around(binding) for binding in bound]
        return {binding.operation.name: binding for binding in bound}

    def _committed(self, tenant: str, seq: int, commits: "Sequence[Commit] | None") -> None:
        if commits is not None:  # whoever has committed signs
            self.checkpoints.committed(tenant, seq, commits)

    # -- what capabilities are put together of ------------------------------------------------------------------------

    @cached_property
    def spans(self) -> "Spans | None":
        """None: what memory does is reported to nobody."""
        if not self.config.telemetry:
            return None
        from quipu.telemetry.settings import Showing
        from quipu.telemetry.spans import Spans

        return Spans(Showing.of(self.config), self.given_telemetry, redaction=lambda: self.secrets)

    @cached_property
    def embedder(self) -> "Embedder | None":
        """None: memory goes by words alone."""
        given, settings = self.given_embedder, self.config
        if given == "none" or (given is None and settings.embedder == "none"):
            return None
        if given is not None:
            return given
        from quipu.bootstrap.embedders import local_embedder
        from quipu.embed.cache import CachedEmbedder

        return CachedEmbedder(local_embedder(settings))

    @cached_property
    def embedding(self) -> "Embedding":
        from quipu.memory.embedding import Embedding

        return Embedding(self.ledger, self.embedder)

    @cached_property
    def engine(self) -> "SearchEngine":
        from quipu.search.engine import SearchEngine

        return SearchEngine(self.config.cache_mb << 20)

    @cached_property
    def scopes(self) -> Scopes:
        created = None if self.spans is None else self.spans.store_created
        return Scopes(self.ledger, self.clock, self.new_id, created)

    @cached_property
    def signal(self) -> "CommitSignal":
        from quipu.memory.change_feed import CommitSignal

        return CommitSignal(self.ledger)

    @cached_property
    def budgets(self) -> Budgets:
        return Budgets(self.ledger, rate=self.config.rate, recall_budget=self.config.recall_budget)

    @cached_property
    def detectors(self) -> "Guard":
        """Finds what looks like a secret; knows no registered values."""
        from quipu.secrets.detectors import Detectors
        from quipu.secrets.marker import Marker
        from quipu.secrets.redaction import Guard

        settings = self.config
        return Guard(
            detectors=Detectors() if settings.secrets_detectors else Detectors(()),
            policy=settings.secrets,
            marker=Marker(settings.secrets_marker),
        )

    @cached_property
    def secrets(self) -> "Secrets":
        from quipu.secrets.sealing import FileSealer, KeySealer
        from quipu.secrets.service import Secrets

        def sealed() -> Sequence[Any]:
            from quipu.governance.model import WEBHOOKS

            return (WEBHOOKS,)

        has_file = not is_memory(self.address)
        sealer = FileSealer(sealing_key_file(self.address, self.config)) if has_file else KeySealer.fresh()
        return Secrets(self.ledger, sealer, self.detectors, self.new_id, sealed=Late(sealed))

    @cached_property
    def signer(self) -> "Signer":
        """Signs what leaves the ledger."""
        from quipu.audit.keys import FileSigner, KeySigner

        has_file = not is_memory(self.address)
        return FileSigner(signing_key_file(self.address, self.config)) if has_file else KeySigner.fresh()

    # -- access -------------------------------------------------------------------------------------------------------

    @cached_property
    def access(self) -> "AccessService":
        from quipu.access.service import access_service

        return access_service(
            ledger=self.ledger,
            redactor=self.secrets,
            detectors=self.detectors,
            new_id=self.new_id,
            clock=self.clock,
            random=os.urandom,
            reviewable=(
                *("remember", "update", "remember_many", "forget", "merge", "expire", "restore", "recall"),
            ),
            budgets=self.budgets,
            identities=self._identities(),
            public_url=self.config.public_url,
        )

    def _identities(self) -> "Identities | None":
        """The identity provider, if the settings name one."""
        settings = self.config
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
        return OidcIdentities(provider, self.clock)

    # -- memory -------------------------------------------------------------------------------------------------------

    @cached_property
    def read_log(self) -> ReadLog:
        return ReadLog(self.ledger, lambda commits: self.secrets.without_secret_names(commits))

    @cached_property
    def reads(self) -> Read:
        return Read(
            ledger=self.ledger,
            scopes=self.scopes,
            snapshots=Snapshots(self.ledger, self._run_snapshot),
            read_log=self.read_log,
            budget=self.budgets,
        )

    async def _run_snapshot(self, ctx: Context, run_id: str) -> "Snapshot | None":
        from quipu.runs.lookup import RunLookup

        return await RunLookup(self.ledger).snapshot(ctx, run_id)

    @cached_property
    def recall(self) -> "Recall":
        from quipu.memory.recall.recall import recall_over

        return recall_over(
            self.reads,
            embedding=self.embedding,
            engine=self.engine,
            governor=self.gate,
            mirrors=self.mirror_searches if self.mirrored_at or self.given_mirrors else None,
            signer=self.signer,
        )

    @cached_property
    def gate(self) -> "Gate":
        from quipu.governance.gate import gate
        from quipu.governance.rule_list import Rules

        settings, marker = self.config, self.detectors.marker
        return gate(
            ledger=self.ledger,
            redactor=self.secrets,
            rules=Rules(
                self.ledger,
                self.secrets,
                self.clock,
                file=self.rule_file,
                has_shipped=settings.rules_shipped,
                default=settings.rules_default,
            ),
            scopes=self.scopes,
            embedding=self.embedding,
            engine=self.engine,
            clock=self.clock,
            new_id=self.new_id,
            random=os.urandom,
            is_marked=lambda text: bool(marker.places(text)),
            public_url=settings.public_url,
            keeps_rejected=settings.on_reject == "keep",
        )

    @cached_property
    def run_secrets(self) -> "RunSecrets":
        from quipu.runs.steps import RunSecrets

        built_in: Mapping[str, str] = {}
        if self.config.openwop_conformance:
            from quipu.runs.conformance import TEST_SECRETS as built_in
        return RunSecrets(ledger=self.ledger, secrets=self.secrets, built_in=built_in)

    @cached_property
    def pipeline(self) -> "Pipeline":
        from quipu.memory.pipeline import Pipeline
        from quipu.runs.attribution import Attribution

        return Pipeline(
            ledger=self.ledger,
            redactor=self.run_secrets,
            governor=self.gate,
            new_id=self.new_id,
            forget_texts=self._forget_texts,
            contributors=(Attribution(self.ledger),),
            mirrors=self.mirrors,
        )

    def _forget_texts(self) -> None:
        """After an erasure: what keeps texts in memory forgets them."""
        self.embedding.forget_texts()
        if "sharing" in vars(self):
            self.sharing.views.forget()

    @cached_property
    def memory(self) -> "MemoryService":
        from quipu.memory.drafts import Limits
        from quipu.memory.service import memory_service
        from quipu.runs.lookup import VariablesReach

        settings = self.config
        longest = None if settings.max_retain is None else duration_ms(settings.max_retain)
        return memory_service(
            read=self.reads,
            recall=self.recall,
            pipeline=self.pipeline,
            signal=self.signal,
            limits=Limits(content_bytes=settings.limit_content_bytes, max_retain_ms=longest),
            reach=(self.gate.proposals, VariablesReach(self.ledger)),
        )

    # -- mirrors ------------------------------------------------------------------------------------------------------

    @cached_property
    def mirrors(self) -> "Mirrors":
        from quipu.bootstrap.mirrors import mirror_of
        from quipu.mirrors.service import Mirrors

        return Mirrors(
            ledger=self.ledger,
            mirrors=(
                *self.given_mirrors,
                *(mirror_of(self.config, self.address, self.embedder, place) for place in self.mirrored_at),
            ),
            clock=self.clock,
            new_id=self.new_id,
            write_deadline_ms=self.config.mirror_write_deadline_ms,
            writes=self.writes_to_mirrors,
        )

    @cached_property
    def mirror_searches(self) -> "MirrorSearches":
        from quipu.mirrors.search import MirrorSearches

        return MirrorSearches(
            mirrors=self.mirrors,
            embedder=self.embedder,
            deadline_ms=self.config.recall_deadline_ms,
            votes=self.config.mirror_votes,
            ledger_ranks=self.ledger_ranks,
        )

    @cached_property
    def mirror_checks(self) -> "MirrorChecks":
        from quipu.mirrors.checks import MirrorChecks

        return MirrorChecks(self.mirrors)

    # -- governance ---------------------------------------------------------------------------------------------------

    @cached_property
    def governance(self) -> "GovernanceService":
        from quipu.governance.service import governance_service

        writes = self.import_writes
        return governance_service(
            gate=self.gate,
            pipeline=self.pipeline,
            memory=self.memory,
            access=self.access,
            others=(writes.write, writes.removal),
        )

    @cached_property
    def learned_rules(self) -> "LearnedRules":
        from quipu.governance.learned_rules import LearnedRules

        return LearnedRules(ledger=self.ledger, rules=self.gate.rules, scopes=self.scopes)

    @cached_property
    def suggestions(self) -> "Suggestions":
        from quipu.governance.suggestions import Suggestions

        return Suggestions(
            ledger=self.ledger,
            scopes=self.scopes,
            engine=self.engine,
            similar=self.gate.similar,
            read_log=self.read_log,
            budget=self.budgets,
            clock=self.clock,
        )

    @cached_property
    def webhooks(self) -> "Webhooks":
        from quipu.governance.webhooks import Delivery, Webhooks
        from quipu.outbound import HttpOutbound

        settings, sealing = self.config, self.secrets.sealing
        delivery = Delivery(
            ledger=self.ledger,
            sealing=sealing,
            outbound=HttpOutbound(settings.webhook_hosts),
            clock=self.clock,
            new_id=self.new_id,
            may_see_all=self.access.credentials.is_whole_admin,
            public_url=settings.public_url,
        )
        return Webhooks(
            ledger=self.ledger,
            redactor=self.secrets,
            sealing=sealing,
            delivery=delivery,
            new_id=self.new_id,
            random=os.urandom,
        )

    # -- audit --------------------------------------------------------------------------------------------------------

    @cached_property
    def checkpoints(self) -> "Checkpoints":
        """Signs positions of the journal while something is written."""
        from quipu.audit.checkpoints import Checkpoints

        signs = Checkpoints(self.ledger, self.signer, self.clock, self.config.checkpoint_s * 1000)
        if self.config.audit_anchor is not None:
            signs.signed = lambda tenant, checkpoint: self.audit.publish_due(tenant, checkpoint)
        return signs

    @cached_property
    def audit(self) -> "AuditService":
        from quipu.audit.anchors import anchor_at
        from quipu.audit.service import audit_service
        from quipu.governance.text_classes import classes

        anchor = self.config.audit_anchor
        return audit_service(
            ledger=self.ledger,
            memory=self.memory,
            signer=self.signer,
            checkpoints=self.checkpoints,
            anchors=() if anchor is None else (anchor_at(anchor),),
            detect=classes,
            imports=self.transfer,
        )

    # -- procedures, consolidation, runs ------------------------------------------------------------------------------

    @cached_property
    def procedures(self) -> "Procedures":
        from quipu.procedures.service import Procedures

        return Procedures(
            ledger=self.ledger,
            pipeline=self.pipeline,
            scopes=self.scopes,
            remember=self.memory.remember,
            read_log=self.read_log,
            budget=self.budgets,
        )

    @cached_property
    def consolidation(self) -> "Consolidation":
        from quipu.consolidation.extraction import Extraction
        from quipu.consolidation.rules import Thresholds, score
        from quipu.consolidation.service import Consolidation
        from quipu.consolidation.windows import Windows

        extractor = self.given_extractor or self._extractor()
        extraction = None
        if extractor is not None:
            extraction = Extraction(
                extractor=extractor,
                remember=self.memory.remember,
                similar=self.gate.similar,
                secrets=self.secrets,
            )
        return Consolidation(
            ledger=self.ledger,
            pipeline=self.pipeline,
            memory=self.memory,
            windows=Windows(ledger=self.ledger, scopes=self.scopes, thresholds=Thresholds()),
            similar=self.gate.similar,
            extraction=extraction,
            scorer=self.given_scorer or score,
        )

    def _extractor(self) -> "Extractor | None":
        """The model that finds facts, if the settings name one."""
        settings = self.config
        if settings.extractor_url is None and settings.extractor_model is None:
            return None
        if settings.extractor_url is None or settings.extractor_model is None:
            raise InvalidError(
                "A model that finds facts needs an address and a name.",
                faults=[Fault("/extractor_url", "missing_field", "extractor_url and extractor_model")],
            )
        from quipu.consolidation.chat_model import ChatModel  # a client that nobody else needs
        from quipu.telemetry.models import ShownExtractor

        key = settings.extractor_key
        model = ChatModel(
            base_url=settings.extractor_url,
            model=settings.extractor_model,
            api_key=None if key is None else key.get_secret_value(),
        )
        return model if self.spans is None else ShownExtractor(model, self.spans, settings.extractor_model)

    @cached_property
    def runs(self) -> "Runs":
        from quipu.runs.service import runs_service

        return runs_service(
            ledger=self.ledger,
            pipeline=self.pipeline,
            secrets=self.run_secrets,
            memory=self.memory,
            scopes=self.scopes,
            budget=self.budgets,
            signal=self.signal,
            is_conformance=self.config.openwop_conformance,
            history_ms=self.config.run_history_days * DAY_MS,
        )

    # -- sharing, transfer --------------------------------------------------------------------------------------------

    @cached_property
    def sharing(self) -> "Sharing":
        from quipu.outbound import HttpOutbound
        from quipu.sharing.host import Host
        from quipu.sharing.identity import Documents, Keyring
        from quipu.sharing.service import sharing_service

        settings = self.config
        allowed = frozenset(name.lower().rstrip("/") for name in settings.oap_allowed_hosts)
        folder = None if is_memory(self.address) else identity_folder(self.address)
        keyring = Keyring(folder, settings.public_url, _owners(settings))
        outbound = self.given_outbound or HttpOutbound(allowed, tls=_authorities(settings))
        plain = frozenset(name for name in allowed if name.startswith("http://"))
        return sharing_service(
            host=Host(
                ledger=self.ledger,
                keyring=keyring,
                documents=Documents(keyring, outbound, self.clock, plain),
                redactor=self.secrets,
                clock=self.clock,
                new_id=self.new_id,
                random=os.urandom,
            ),
            pipeline=self.pipeline,
            forget=self.memory.forget,
            held=self.gate.proposals,
            sealing=self.secrets.sealing,
            embedder=self.embedder,
            free_text=settings.oap_free_text,
        )

    @cached_property
    def import_writes(self) -> "ImportWrites":
        from quipu.transfer.writes import ImportWrites

        return ImportWrites(ledger=self.ledger, pipeline=self.pipeline, memory=self.memory)

    @cached_property
    def transfer(self) -> "Transfer":
        from quipu.transfer.service import transfer_service

        return transfer_service(
            writes=self.import_writes,
            documents=self.sharing.host.documents,
            sealing=self.secrets.sealing,
            proposals=self.governance.proposals,
            decide=self.governance.reviews.decide,
        )

    @cached_property
    def exports(self) -> "Exports":
        from quipu.transfer.exports import Exports

        return Exports(
            host=self.sharing.host,
            scopes=self.scopes,
            snapshots=self.reads.snapshots,
            grants=self.sharing.grants,
        )

    @cached_property
    def grant_exports(self) -> "GrantExports":
        from quipu.transfer.grant_exports import GrantExports

        return GrantExports(host=self.sharing.host, queries=self.sharing.queries)

    # -- the installation itself --------------------------------------------------------------------------------------

    @cached_property
    def upkeep(self) -> "Upkeep":
        from quipu.upkeep.service import Upkeep

        return Upkeep(
            ledger=self.ledger,
            embedding=self.embedding,
            redactor=self.secrets,
            detectors=self.detectors,
            open_file=lambda path: open_ledger(str(path), self.config),
        )

    @cached_property
    def job_log(self) -> "JobLog":
        """How the jobs of a server in this process go."""
        from quipu.http.jobs import JobLog

        return JobLog(self.clock)

    @cached_property
    def health(self) -> "HealthService":
        from quipu.http.health import HealthService

        return HealthService(
            ledger=self.ledger,
            embedder=None if self.embedder is None else self.embedder.model,
            operations=lambda: tuple(catalogue.PLACES),
            content_bytes=self.config.limit_content_bytes,
            jobs=self.job_log,
        )


def _owners(settings: Settings) -> dict[str, str]:
    """DIDs that owners bring along, with their tenants."""
    from quipu.sharing.dids import is_did

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


async def open_container(
    settings: Settings,
    *,
    stores: Sequence[Any] = (),
    embedder: "Embedder | Literal['none'] | None" = None,
    governance: "InProcessReviewer | None" = None,
    clock: Clock = ids.now,
    new_id: Callable[[str], str] = ids.new_id,
    extractor: "Extractor | None" = None,
    scorer: "Scorer | None" = None,
    outbound: "Outbound | None" = None,
    write_policy: Literal["all", "primary_only"] = "all",
    mirrors: "Sequence[Mirror]" = (),
    ledger_ranks: bool = True,
    telemetry: "Telemetry | None" = None,
) -> Container:
    """Open the ledger. What is handed in stands for what the settings would open.

    stores: The first ledger among them is the ledger, all others mirror it.
    scorer: How much a short-term memory weighs.
    outbound: How the hosts are reached that memory is shared with.
    write_policy: `primary_only`: mirrors are searched and not written to.
    mirrors: Further mirrors, as they are.
    ledger_ranks: Off, a recall ranks by mirrors alone: to see what they find.
    telemetry: OpenTelemetry providers, instead of those of the process.
    """
    address, places = places_of(stores, settings)
    rule_file = None
    if settings.rules is not None:  # rules that do not load stop the start before anything is opened
        from quipu.governance.rule_list import RuleFile

        rule_file = RuleFile(settings.rules, clock)
    mirrored_at: Sequence[MirrorAddress] = ()
    if places:
        from quipu.mirrors.registry import addresses

        mirrored_at = addresses(places, taken=("sqlite", "postgresql", *(mirror.name for mirror in mirrors)))
    container = Container(
        config=settings,
        address=address,
        mirrored_at=mirrored_at,
        clock=clock,
        new_id=new_id,
        ledger=Ledger(driver_at(address, settings, settings.replica), TABLES),
        rule_file=rule_file,
        given_embedder=embedder,
        reviewer=governance,
        given_extractor=extractor,
        given_scorer=scorer,
        given_outbound=outbound,
        given_mirrors=mirrors,
        writes_to_mirrors=write_policy == "all",
        ledger_ranks=ledger_ranks,
        given_telemetry=telemetry,
    )
    if embedder is None and settings.embedder == "openai":
        container.given_embedder = await _endpoint(settings, container.spans)
    container.open()
    return container


async def _endpoint(settings: Settings, spans: "Spans | None") -> "Embedder":
    """An embedder that is reached over HTTP, which is asked at once."""
    if settings.embedder_url is None or settings.embedder_model is None:
        raise InvalidError(
            "An embedding endpoint needs an address and a model.",
            faults=[Fault("/embedder_url", "missing_field", "embedder_url and embedder_model")],
        )
    from quipu.embed.cache import CachedEmbedder
    from quipu.embed.endpoint import EndpointEmbedder  # a client that nobody else needs
    from quipu.telemetry.models import ShownEmbedder

    key = settings.embedder_key
    endpoint = await EndpointEmbedder.open(
        base_url=settings.embedder_url,
        model=settings.embedder_model,
        api_key=None if key is None else key.get_secret_value(),
        dimensions=settings.embedder_dimensions or None,
    )
    return CachedEmbedder(
        endpoint if spans is None else ShownEmbedder(endpoint, spans, settings.embedder_model)
    )
