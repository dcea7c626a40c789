"""What stands around an operation that is watched, whatever operation it is.

1. A name that a caller chose is shown only after the tenant's redactors have seen it; so is content, where it is wanted.
2. Whatever fails in here is logged and left out: no operation fails because it is watched.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from quipu.errors import ConflictError
from quipu.model.store import MAIN
from quipu.rules import redaction
from quipu.rules.observing import Place
from quipu.rules.texts import is_keepable

if TYPE_CHECKING:
    from quipu.model.observation import Observation
    from quipu.ports.parts import Parts
    from quipu.service.access import Access
    from quipu.service.secrets import Checked, Secrets

R = TypeVar("R")

_log = logging.getLogger("quipu.telemetry")
_MOST_READ = 1_000
_KEPT_NAMES = 4_096


class Around:
    """Tells an observer of one service's operations."""

    def __init__(self, parts: Parts, access: Access, secrets: Secrets) -> None:
        self._parts, self._access, self._secrets = parts, access, secrets
        #: For each tenant, what its names are checked with, and what shows them.
        self._names: dict[str, tuple[Checked, Callable[[str], str]]] = {}

    async def _observed(
        self,
        seen: Observation,
        store: str | None,
        work: Callable[[], Awaitable[R]],
        told: Callable[[R], Awaitable[None] | None],
    ) -> R:
        with self._parts.observer.operation(seen):
            if not seen.is_watched:
                return await work()
            if not self._is_ready(seen):
                await quietly(self._begun(seen))
            try:
                answer = await work()
            finally:
                self._located(seen, store)
            try:
                if (telling := told(answer)) is not None:
                    await telling
            except Exception as error:  # noqa: BLE001  an operation that was done must not fail for being watched
                left_off(error)
            return answer

    def _is_ready(self, seen: Observation) -> bool:
        """Whether names can be shown without asking the ledger, as is the case nearly always."""
        tenant = seen.tenant or ""
        known = self._names.get(tenant)
        if seen.wants_content or known is None or self._secrets.current(tenant) is not known[0]:
            return False
        seen.clean = known[1]
        return True

    async def _begun(self, seen: Observation) -> None:
        """From here on names can be shown."""
        tenant = seen.tenant or ""
        if self._access.known(tenant, MAIN) is None:
            await self._access.stores(tenant)
        checked = await (self._checked(tenant) if seen.wants_content else self._secrets.checked(tenant))
        known = self._names.get(tenant)
        if known is None or known[0] is not checked:
            known = self._names[tenant] = checked, _cleaning(checked)
        seen.clean = known[1]

    async def _checked(self, tenant: str, run_id: str | None = None) -> Checked:
        """What texts are checked with, as of this moment: a secret may just have been registered elsewhere."""

        async def work(checked: Checked) -> Checked:
            if (await self._parts.ledger.guard(tenant)).position != checked.position:
                raise ConflictError(reason="secrets_changed")
            return checked

        return await self._secrets.checking(tenant, work, run_id)

    def _located(self, seen: Observation, name: str | None) -> None:
        """The store that was named; without a name, the only one there is."""
        store = self._access.known(seen.tenant or "", name)
        if store is not None:
            seen.within(store)

    async def _recorded(self, seen: Observation, record_id: str) -> None:
        """The record as it now is: it stays in its store, whatever the request names."""
        record = (await self._parts.ledger.read(seen.tenant or "", [record_id])).get(record_id)
        if record is None or record.is_emptied:
            return
        self._located(seen, record.store_id)
        seen.tier, seen.importance, seen.expires_at = record.tier, record.importance, record.expires_at
        seen.session_id, seen.user_id = record.session_id, record.user_id
        seen.agent_id = seen.agent_id or record.agent_id

    async def _places(self, seen: Observation, ids: Sequence[str]) -> dict[str, Place]:
        """Where each record is, as far as it is known."""
        tenant = seen.tenant or ""
        named = [name for name in ids[:_MOST_READ] if is_keepable(name)]
        records = await self._parts.ledger.read(tenant, named)
        if any(self._access.known(tenant, record.store_id) is None for record in records.values()):
            await self._access.stores(tenant)
        return {
            name: Place(store, record.agent_id, record.session_id)
            for name, record in records.items()
            if (store := self._access.known(tenant, record.store_id)) is not None
        }


def _cleaning(checked: Checked) -> Callable[[str], str]:
    """Takes secrets out of a name; of names seen before it knows how they are shown."""
    names: dict[str, str] = {}

    def clean(name: str) -> str:
        shown = names.get(name)
        if shown is None:
            if len(names) > _KEPT_NAMES:
                names.clear()
            shown = names[name] = redaction.redacted_text(name, checked.redaction.redactors, [])
        return shown

    return clean


async def quietly(telling: Awaitable[None]) -> None:
    try:
        await telling
    except Exception as error:  # noqa: BLE001  an operation that was done must not fail for being watched
        left_off(error)


def left_off(error: Exception) -> None:
    _log.warning("An operation could not be described: %s", type(error).__name__)
