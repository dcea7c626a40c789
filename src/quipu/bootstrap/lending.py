"""From settings to what lending is made of: keys, tokens, documents of others, and the guarded way to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quipu.config import Config
from quipu.crypto import sdjwt
from quipu.crypto.dids import FetchedDocuments, FileKeyring
from quipu.crypto.jose import JsonWebSignatures
from quipu.errors import InvalidError
from quipu.model.grants import TextMode
from quipu.ports.keys import Answer, LendingParts
from quipu.ports.surroundings import Clock
from quipu.rules import dids
from quipu.rules.exposure import checked_address
from quipu.rules.grants import Limits

if TYPE_CHECKING:
    from quipu.crypto.dids_peers import GuardedPeers, Inject


class LaterPeers:
    """Other hosts; nothing is loaded for them before the first one is asked."""

    def __init__(self, allowed: frozenset[str], authorities: str, inject: Inject) -> None:
        self._allowed, self._authorities, self._inject = allowed, authorities, inject
        self._peers: GuardedPeers | None = None

    def _opened(self) -> GuardedPeers:
        if self._peers is None:
            from quipu.crypto.dids_peers import GuardedPeers

            self._peers = GuardedPeers(self._allowed, authorities=self._authorities, inject=self._inject)
        return self._peers

    def url(self, host: str, path: str) -> str:
        """Where a host keeps a document."""
        return self._opened().url(host, path)

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        return await self._opened().get(url, headers)

    async def post(self, url: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        return await self._opened().post(url, body, headers)

    async def delete(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        return await self._opened().delete(url, headers)

    def pieces(self, url: str, most: int, seconds: float) -> AsyncGenerator[bytes]:
        return self._opened().pieces(url, most, seconds)

    async def close(self) -> None:
        if self._peers is not None:
            await self._peers.close()


def open_peers(config: Config, inject: Inject = lambda headers: None) -> LaterPeers:
    """Other hosts, behind the guard that keeps requests out of private networks."""
    return LaterPeers(frozenset(_listed(config.oap_allowed_hosts)), config.oap_authorities, inject)


def open_lending(
    folder: Path | None, config: Config, clock: Clock, inject: Inject = lambda headers: None
) -> LendingParts:
    """Everything that lending needs; keys are made when they are first used."""
    url = checked_address(config.public_url)
    peers = open_peers(config, inject)
    keyring = FileKeyring(folder, url, _owners(config.oap_owners))
    return LendingParts(
        keyring=keyring,
        jose=JsonWebSignatures(),
        documents=FetchedDocuments(keyring, peers, clock, peers.url),
        peers=peers,
        prove=sdjwt.issued,
        public_url=url,
        limits=Limits(
            max_items=config.oap_max_items,
            days=config.oap_max_days,
            ceiling=config.oap_trust_ceiling,
            unvouched=config.oap_trust_unvouched,
        ),
        vouchers=frozenset(dids.checked(did, "/oap_vouchers") for did in _listed(config.oap_vouchers)),
        text_mode=_mode(config.oap_free_text),
        queries_per_minute=config.oap_queries_per_minute,
        request_life_ms=_days(config.oap_request_days) * 86_400_000,
    )


def _mode(text: str) -> TextMode:
    try:
        return TextMode(text)
    except ValueError:
        raise InvalidError(
            "There is no such way with free text.",
            reason="bad_setting",
            hint=f"Set QUIPU_OAP_FREE_TEXT to one of {', '.join(TextMode)}.",
        ) from None


def _days(count: int) -> int:
    if count < 0:
        raise InvalidError(
            "Requests for access are kept for some days, or none.",
            reason="bad_setting",
            hint="Set QUIPU_OAP_REQUEST_DAYS to 0 or more.",
        )
    return count


def _owners(text: str) -> dict[str, str]:
    """`did=tenant, did=tenant`."""
    owners: dict[str, str] = {}
    for part in _listed(text):
        did, _, tenant = part.partition("=")
        if not tenant:
            raise InvalidError(
                "An owner's DID is given with its tenant.",
                reason="bad_setting",
                hint="Such as QUIPU_OAP_OWNERS=did:web:user.example=default.",
            )
        owners[dids.checked(did.strip())] = tenant.strip()
    return owners


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
