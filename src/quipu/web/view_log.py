"""What people were shown on the page: one entry in the journal for each session and hour, with the ids of the memories.

What is seen within the hour is kept in a row of the ledger, so that nothing of it is lost when a server dies; any server
writes the entry when the hour is over, or the person signs out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.ledger.commit import Commit
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.table import Table
from quipu.model.journal import Draft, Mention
from quipu.model.principal import Principal
from quipu.model.record import Record

HOUR_MS = 3_600_000
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WebView:
    """What a session was shown in one hour, counted from 1970."""

    #: Of the session; on a server that asks nobody who they are, of the machine.
    id: str
    hour: int
    actor: str
    #: Id, version and digest of each.
    records: tuple[Any, ...]


WEB_VIEWS = Table("web_view", WebView, key=("id", "hour"), is_journaled=False)


@dataclass(frozen=True, slots=True)
class ViewLog:
    """Collects, and writes when the time has come."""

    ledger: Ledger
    clock: Callable[[], int]

    async def note(self, session_id: str, principal: Principal, records: Sequence[Record]) -> None:
        """These were shown. What was shown in this hour before is not noted again."""
        if not records:
            return
        tenant, hour = principal.tenant, self.clock() // HOUR_MS
        shown = {(one.id, one.version): [one.id, one.version, one.digest] for one in records}
        row = await self.ledger.get(WEB_VIEWS, tenant, session_id, hour)
        if row is not None and shown.keys() <= _known(row).keys():
            return

        def work(reader: Reader) -> tuple[None, list[WebView]]:
            kept = reader.get(WEB_VIEWS, session_id, hour) or WebView(
                id=session_id, hour=hour, actor=principal.name, records=()
            )
            return None, [replace(kept, records=tuple((_known(kept) | shown).values()))]

        await self.ledger.revise(tenant, WEB_VIEWS, work)

    async def write_due(self, tenant: str, now: int) -> None:
        """Entries of hours that are over."""
        for row in await self.ledger.page(WEB_VIEWS, tenant, limit=_PAGE):
            if row.hour < now // HOUR_MS:
                await self._write(tenant, row)

    async def end(self, tenant: str, session_id: str) -> None:
        """The session is over, and nobody is shown anything in it any more."""
        for row in await self.ledger.page(WEB_VIEWS, tenant, equal={"id": session_id}, limit=_PAGE):
            await self._write(tenant, row)

    async def _write(self, tenant: str, row: WebView) -> None:
        """The entry first: a server that dies in between leaves two entries, and not none."""
        mentions = tuple(Mention(*one) for one in row.records)
        draft = Draft(op="view", actor=row.actor, at=self.clock(), detail={"hour": row.hour})
        await self.ledger.commit(Commit(tenant=tenant, draft=draft, mentions=mentions))
        await self.ledger.update(tenant, WEB_VIEWS, drop=[(row.id, row.hour)])


def _known(row: WebView) -> dict[tuple[Any, Any], Any]:
    return {(one[0], one[1]): one for one in row.records}
