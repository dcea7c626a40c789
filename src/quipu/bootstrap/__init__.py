"""From settings to running parts. The only place that names a ledger, an embedder, a key."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

from quipu._version import __version__
from quipu.bootstrap import databases, telemetry
from quipu.bootstrap.addresses import Address, address
from quipu.bootstrap.embedders import BuildProgress, IsMeant, open_embedder
from quipu.bootstrap.envelopes import envelope
from quipu.bootstrap.lender import Lender
from quipu.bootstrap.openwop import host_options
from quipu.bootstrap.settling import open_extractor, settling_of
from quipu.bootstrap.surroundings import mint_id, mint_salt, now_ms, now_ns
from quipu.config import Config
from quipu.crypto import kept
from quipu.crypto.canonical import canonical
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.effects import Effect
from quipu.model.limits import Limits
from quipu.ports.backend import Mirror, Routing
from quipu.ports.courier import Courier
from quipu.ports.embedder import Embedder
from quipu.ports.identities import Identities
from quipu.ports.ledger import Ledger, Space
from quipu.ports.parts import Parts
from quipu.ports.rules_file import RulesFile
from quipu.ports.sealer import Sealer
from quipu.ports.signer import Signer
from quipu.ports.surroundings import Clock
from quipu.rules.blending import Weights
from quipu.rules.detectors import Detectors
from quipu.rules.durations import duration
from quipu.rules.marking import Marker
from quipu.rules.redaction import Policy, Redaction
from quipu.service.memory import MemoryService

_log = logging.getLogger("quipu.server")


def open_ledger(where: Address, config: Config, *, clock: Clock = now_ms) -> Ledger:
    """The ledger at an address; the directory is made if it is missing."""
    if where.database is not None:
        return databases.open_ledger(where.name, where.database, where.schema, config, clock, mint_id)
    if where.path is not None:
        _make(where.path.parent)
    return SqliteLedger(
        where.path,
        clock=clock,
        mint_id=mint_id,
        canonical=canonical,
        name=where.name,
        cache_bytes=config.cache_mb << 20,
    )


def _make(folder: Path) -> None:
    """The directory, if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendUnavailableError(
            f"The directory {folder} cannot be made.",
            reason="cannot_open",
            hint="Choose a path in a directory that is writable.",
        ) from error


def open_signer(where: Address) -> Signer:
    """The key that signs the journal, in a file of its own beside the ledger."""
    path = where.beside(".key")
    if path is None:
        from quipu.crypto.keys import Ed25519Signer

        return Ed25519Signer.fresh()
    _make(path.parent)
    return kept.KeptSigner(path)


def verify(message: bytes, name: str, signature: str, keys: Mapping[str, str]) -> bool:
    """Is this the signature of the named key?"""
    from quipu.crypto import keys as ed25519  # who only reads verifies nothing

    return ed25519.verify(message, name, signature, keys)


def open_sealer(where: Address, config: Config) -> Sealer:
    """The key that seals registered secrets: never in the ledger, so that a copy of it does not hold both."""
    if config.sealing_key:
        return kept.KeptSealer(Path(config.sealing_key).expanduser())
    path = where.beside(".sealing-key")
    if path is not None:
        return kept.KeptSealer(path)
    from quipu.crypto.sealing import KeySealer

    return KeySealer.fresh()


def redaction_of(config: Config) -> Redaction:
    """How secrets that nobody registered are found, and what becomes of a write that holds one."""
    try:
        policy = Policy(config.secrets_policy)
    except ValueError:
        raise InvalidError(
            "There is no such policy for secrets.",
            reason="bad_setting",
            hint=f"Set QUIPU_SECRETS to one of {', '.join(Policy)}.",
        ) from None
    marker = Marker(config.secrets_marker)
    found_by = (Detectors(marker),) if config.secrets_detectors else ()
    return Redaction(found_by, policy, marker.template)


def default_of(config: Config) -> Effect:
    """What becomes of a write that no rule is about."""
    try:
        return Effect(config.governance_default)
    except ValueError:
        raise InvalidError(
            "There is no such default for writes.",
            reason="bad_setting",
            hint=f"Set QUIPU_RULES_DEFAULT to one of {', '.join(Effect)}.",
        ) from None


def keeps_rejected(config: Config) -> bool:
    """Whether the text of what was rejected is kept."""
    if config.governance_on_reject not in ("erase", "keep"):
        raise InvalidError(
            "There is no such way with what was rejected.",
            reason="bad_setting",
            hint="Set QUIPU_ON_REJECT to erase or keep.",
        )
    return config.governance_on_reject == "keep"


def max_retain_ms(config: Config) -> int | None:
    """So long after it was written nothing is kept any more."""
    if not config.max_retain:
        return None
    try:
        length = duration(config.max_retain)
    except InvalidError:
        length = None
    if not isinstance(length, int):
        raise InvalidError(
            "There is no such longest time to keep memories.",
            reason="bad_setting",
            hint="Set QUIPU_MAX_RETAIN to a length such as 365d, 12h or P1Y, or to nothing.",
        )
    return length


def open_rules(config: Config, clock: Clock) -> RulesFile | None:
    """The file of rules, if a setting names one."""
    if not config.governance_rules:
        return None
    from quipu.bootstrap.governing import RulesOnDisk  # who has none need not load what reads one

    return RulesOnDisk(config.governance_rules, clock)


def open_courier(config: Config) -> Courier:
    """Who carries notices; nothing is connected before there is one to carry."""
    from quipu.client.courier import HttpCourier  # most processes never send a notice

    hosts = (name.strip() for name in config.webhook_hosts.split(","))
    return HttpCourier(tuple(name for name in hosts if name))


def open_identities(config: Config, clock: Clock) -> Identities | None:
    """The identity provider, if one is configured."""
    if not config.oidc_issuer:
        return None
    from quipu.crypto.oidc import OidcIdentities, Provider  # who does not sign in elsewhere need not load it

    provider = Provider(
        issuer=config.oidc_issuer,
        audience=config.oidc_audience,
        jwks_url=config.oidc_jwks_url,
        tenant=config.oidc_tenant,
        tenant_claim=config.oidc_tenant_claim,
        name_claim=config.oidc_name_claim,
        roles_claim=config.oidc_roles_claim,
        agents_claim=config.oidc_agents_claim,
        review_stores_claim=config.oidc_review_stores_claim,
        review_operations_claim=config.oidc_review_operations_claim,
        default_role=config.oidc_default_role,
    )
    return OidcIdentities(provider, clock)


class _Mirroring(TypedDict, total=False):
    mirrors: tuple[Mirror, ...]
    routing: Routing


def open_mirrors(where: Address, config: Config, embedder: Embedder | None, clock: Clock) -> _Mirroring:
    """The mirrors and how they take part; where there are none, only whether we sign for others."""
    kept = where.beside(".mirrors")
    if not config.mirrors and (kept is None or not os.path.exists(kept)):
        return {"routing": Routing(sign_hits=config.recall_sign_hits)}
    from quipu.bootstrap import mirrors  # who has none need not load it

    return {
        "mirrors": mirrors.mirrors_of(where, config, embedder, clock),
        "routing": mirrors.routing_of(config),
    }


@dataclass(frozen=True, slots=True)
class Running:
    """A service and what must be closed after it. What was handed in is left open."""

    service: MemoryService
    parts: Parts
    owns_embedder: bool
    lender: Lender

    async def close(self, patience_s: float | None = None) -> None:
        """`patience_s`: what services still have to write may take so long; then the ledger is closed all the same."""
        limit = asyncio.timeout(patience_s)
        try:
            async with limit:
                await self.service.close()
        except TimeoutError:
            if not limit.expired():
                raise
            _log.warning("Something was left unwritten: the ledger did not answer in time.")
        finally:
            if self.parts.embedder is not None and self.owns_embedder:
                await self.parts.embedder.close()
            if self.parts.identities is not None:
                await self.parts.identities.close()
            if self.parts.courier is not None:
                await self.parts.courier.close()
            if self.parts.extractor is not None:
                await self.parts.extractor.close()
            await self.lender.close()
            await self.parts.ledger.close()


async def _space_before(where: Address, config: Config, clock: Clock, is_meant: IsMeant) -> Space | None:
    """The space of that kind that this memory has vectors of."""
    if where.is_fleeting or where.missing is not None:
        return None
    ledger = open_ledger(where, config, clock=clock)
    try:
        for tenant in await ledger.tenants():
            space = await ledger.space(tenant.id)
            if space is not None and is_meant(space):
                return space
        return None
    finally:
        await ledger.close()


async def start(
    config: Config,
    *,
    embedder: Embedder | None = None,
    clock: Clock = now_ms,
    limits: Limits | None = None,
    weights: Weights | None = None,
    progress: BuildProgress | None = None,
    watched: telemetry.Watched | None = None,
) -> Running:
    """Everything wired together."""
    where = address(config.store_url)
    rules, default = open_rules(config, clock), default_of(config)
    signer = open_signer(where)
    observer = telemetry.observer(config, watched or telemetry.Watched(), clock_ns=now_ns, sign=signer.sign)
    served = config.embedder_model if config.embedder == "openai" else None
    shown = partial(telemetry.shown_embedder, observer=observer, served=served)
    before = partial(_space_before, where, config, clock)
    chosen = embedder or await open_embedder(config, progress, shown, before)
    try:
        mirrors = open_mirrors(where, config, chosen, clock)
        ledger = open_ledger(where, config, clock=clock)
    except BaseException:
        if chosen is not None and embedder is None:
            await chosen.close()
        raise
    lender = Lender(where.beside(".dids"), config, clock, telemetry.injecting(observer))
    parts = Parts(
        ledger=ledger,
        embedder=chosen,
        clock=clock,
        mint_id=mint_id,
        mint_salt=mint_salt,
        canonical=canonical,
        signer=signer,
        verify=verify,
        sealer=open_sealer(where, config),
        envelope=envelope(),
        redaction=redaction_of(config),
        rules_file=rules,
        host=host_options(config),
        governance_default=default,
        keeps_rejected=keeps_rejected(config),
        max_retain_ms=max_retain_ms(config),
        courier=open_courier(config),
        public_url=config.public_url,
        identities=open_identities(config, clock),
        rate=config.rate_per_minute or None,
        recall_budget=config.recall_budget or None,
        limits=limits or config.limits,
        weights=weights or Weights(),
        settling=settling_of(config),
        extractor=open_extractor(config),
        lender=lender,
        observer=observer,
        **mirrors,
    )
    return Running(MemoryService(parts, __version__), parts, owns_embedder=embedder is None, lender=lender)
