"""What every capability is put together of: ledger, embedder, search, secrets, keys."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from quipu.audit.keys import FileSigner, KeySigner, Signer
from quipu.bootstrap.declared import TABLES
from quipu.bootstrap.places import driver_at, is_memory, sealing_key_file, signing_key_file
from quipu.config import Settings
from quipu.embed.cache import CachedEmbedder
from quipu.embed.port import Embedder
from quipu.errors import Fault, InvalidError
from quipu.governance.rule_list import RuleFile
from quipu.governance.webhooks.model import WEBHOOKS
from quipu.ledger.ledger import Ledger
from quipu.memory.embedding import Embedding
from quipu.memory.scope import Scopes
from quipu.operation import Clock
from quipu.search.engine import SearchEngine
from quipu.secrets.detectors import Detectors
from quipu.secrets.marker import Marker
from quipu.secrets.redaction import Guard
from quipu.secrets.sealing import FileSealer, KeySealer
from quipu.secrets.service import Secrets
from quipu.telemetry.models import ShownEmbedder
from quipu.telemetry.settings import Showing, Telemetry
from quipu.telemetry.spans import Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
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
    #: None: what memory does is reported to nobody.
    spans: Spans | None


async def open_core(
    settings: Settings,
    address: str,
    embedder: Embedder | Literal["none"] | None,
    clock: Clock,
    new_id: Callable[[str], str],
    telemetry: Telemetry | None,
) -> Core:
    # Rules that do not load stop the start before anything is opened.
    rule_file = None if settings.rules is None else RuleFile(settings.rules, clock)
    ledger = Ledger(driver_at(address, settings, settings.replica), TABLES)
    sealer = KeySealer.fresh() if is_memory(address) else FileSealer(sealing_key_file(address, settings))
    detectors = Guard(
        detectors=Detectors() if settings.secrets_detectors else Detectors(()),
        policy=settings.secrets,
        marker=Marker(settings.secrets_marker),
    )
    secrets = Secrets(ledger, sealer, detectors, new_id, sealed=(WEBHOOKS,))
    spans = Spans(Showing.of(settings), telemetry, redaction=secrets) if settings.telemetry else None
    if embedder is None:
        embedder = await _embedder(settings, spans)
    elif embedder == "none":
        embedder = None
    return Core(
        settings=settings,
        address=address,
        clock=clock,
        new_id=new_id,
        ledger=ledger,
        embedder=embedder,
        embedding=Embedding(ledger, embedder),
        scopes=Scopes(ledger, clock, new_id, None if spans is None else spans.store_created),
        engine=SearchEngine(settings.cache_mb << 20),
        detectors=detectors,
        secrets=secrets,
        signer=KeySigner.fresh() if is_memory(address) else FileSigner(signing_key_file(address, settings)),
        rule_file=rule_file,
        spans=spans,
    )


async def _embedder(settings: Settings, spans: Spans | None) -> Embedder | None:
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
        shown = endpoint if spans is None else ShownEmbedder(endpoint, spans, settings.embedder_model)
        return CachedEmbedder(shown)
    from quipu.bootstrap.embedders import local_embedder  # the runtime of a model that may not be wanted

    return CachedEmbedder(local_embedder(settings))
