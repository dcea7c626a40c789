"""Sealing, with the key that what was sealed before can be opened with.

A key file that is missing is made when something is first sealed. Where something was sealed already a second key would
be the wrong one: whichever of the two is there, what was sealed with the other cannot be opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from quipu.errors import UnverifiableError
from quipu.model.access import KeptSecret
from quipu.model.notices import Webhook
from quipu.ports.parts import Parts


class Sealing:
    """Over everything of the ledger that is sealed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: A sealer goes on with the key that it began with.
        self._is_right = False

    async def seal(self, value: bytes, kept: KeptSecret | Webhook) -> bytes:
        """The value, sealed to where it is kept. UnverifiableError without the key that this ledger was sealed with."""
        if not self._is_right:
            await self._check_key(kept.tenant)
        sealed = self._parts.sealer.seal(value, place(kept))
        self._is_right = True
        return sealed

    def unseal(self, value: bytes, kept: KeptSecret | Webhook) -> bytes:
        return self._parts.sealer.unseal(value, place(kept))

    async def _check_key(self, tenant: str) -> None:
        """Raise unless there is nothing sealed yet, or something that the key opens."""
        refused: UnverifiableError | None = None
        async for value, kept in self._sealed(tenant):
            try:
                self.unseal(value, kept)
            except UnverifiableError as error:
                refused = error
            else:
                return
        if refused is not None:
            raise UnverifiableError(
                "The key that secrets and webhooks of this ledger were sealed with is not there.",
                reason="missing_key",
                hint=(
                    "Put its file back (`sealing_key` says where it is looked for). Where it is lost for good, "
                    "remove what was sealed with it, then add it again."
                ),
            ) from refused

    async def _sealed(self, tenant: str) -> AsyncIterator[tuple[bytes, KeptSecret | Webhook]]:
        """All that is sealed, of every tenant, beginning with one: they share the key."""
        ledger = self._parts.ledger
        others = [one.id for one in await ledger.tenants() if one.id != tenant]
        for name in (tenant, *others):
            for secret in (await ledger.guard(name)).secrets:
                yield secret.value, secret.secret
            for webhook in await ledger.webhooks(name):
                yield webhook.sealed, webhook.webhook


def place(kept: KeptSecret | Webhook) -> bytes:
    """What binds a sealed value to where it is kept."""
    return f"{kept.tenant}/{kept.id}".encode()
