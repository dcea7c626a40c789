"""Which journal position a reader means by `as_of`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from quipu.errors import Fault, NotFoundError
from quipu.ledger.ledger import Ledger
from quipu.model.journal import Head
from quipu.model.search import Snapshot
from quipu.operation import Context, invalid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ACCEPTED = "a journal position such as 42, a moment with its zone such as 2026-05-08T13:56:00Z, or a run id"

#: A run's id → the position that it sees, and the clock that judges expiry there; None: the caller has no such run.
RunSnapshot = Callable[[Context, str], Awaitable[Snapshot | None]]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Reads `as_of`. Expiry is judged by today's clock: it beats a snapshot, as erasure does."""

    ledger: Ledger
    run_snapshot: RunSnapshot | None = None

    async def of(self, ctx: Context, as_of: str | None) -> Snapshot:
        now = ctx.clock()
        if as_of is None:
            return Snapshot(None, now)
        text = as_of.strip()
        if text.startswith("run_"):
            found = None if self.run_snapshot is None else await self.run_snapshot(ctx, text)
            if found is None or found.seq is None:
                raise NotFoundError("There is no such run.", reason="snapshot_unavailable")
            return Snapshot(_readable(found.seq, await self.ledger.head(ctx.tenant)), found.now)
        head = await self.ledger.head(ctx.tenant)
        if text.isascii() and text.isdigit() and len(text) <= 18:
            return Snapshot(_readable(int(text), head), now)
        moment = _moment(text)
        if moment is None or moment > max(now, head.at):
            raise invalid([Fault("/as_of", "bad_value", _ACCEPTED + ", not in the future")])
        return Snapshot(_readable(await self.ledger.position_at(ctx.tenant, moment), head), now)


def _moment(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else (moment - _EPOCH) // timedelta(milliseconds=1)


def _readable(seq: int, head: Head) -> int:
    """A position that can be read: neither ahead of the journal nor behind its horizon."""
    if seq > head.seq:
        raise invalid([Fault("/as_of", "bad_value", f"a position from {head.horizon} to {head.seq}")])
    if seq < head.horizon:
        raise NotFoundError(
            "That snapshot is gone: retention has emptied versions that were current then.",
            reason="snapshot_unavailable",
        )
    return seq
