"""A run's log as it grows: what each mode shows of it, to whoever may still see it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias

from quipu.errors import Fault, NotFoundError, QuipuError
from quipu.ledger.ledger import Ledger
from quipu.memory.change_feed import CommitSignal
from quipu.operation import Context, authorised, invalid
from quipu.runs.messages import ListRunEventsRequest, ListRunEventsResponse, RunEventView, RunView
from quipu.runs.model import ENDS, RUNS, EventType
from quipu.runs.operations import LIST_RUN_EVENTS
from quipu.runs.wire import event_body, run_body

MODES = ("values", "updates", "messages", "debug")
MOST_BUFFER_MS = 5_000
#: So many events are read at once.
PAGE = 500
#: Commits of this process wake whoever follows; for those of others it is looked so often.
_LOOK_S = 0.25
#: So often it is asked again whose credential it is, and so often a stream that has nothing to say shows that it is alive.
_RENEW_S, HEARTBEAT_S = 1.0, 15.0
#: No event has such a number: whoever waits for one behind it waits for the end.
_NOTHING_BEHIND = 2**53
_Types: TypeAlias = frozenset[EventType]
_UPDATES = _Types({"run.started", *ENDS.values(), "node.completed", "node.failed", "memory.written"})
_SHOWN: dict[str, _Types] = {
    "updates": _UPDATES,
    "debug": _UPDATES | _Types({"node.started", "variable.changed"}),
    "values": _UPDATES | _Types({"node.started"}),
    # Pieces of what a model says, and no model runs here.
    "messages": _Types(),
}
#: Makes the caller's context anew: QuipuError once the credential is good no longer.
Renew: TypeAlias = Callable[[], Awaitable[Context]]


@dataclass(frozen=True, slots=True)
class Mode:
    """What a stream shows."""

    types: _Types
    #: Whether it shows the run as it stands, instead of what happened.
    is_values: bool

    def shown(self, events: Sequence[RunEventView]) -> list[RunEventView]:
        return [event for event in events if event.type in self.types]


def mode_of(given: str | None) -> Mode:
    """A mode, or several with commas between them; `values` stands alone."""
    names = {name.strip() for name in ("updates" if given is None else given).split(",")}
    if not names <= set(MODES) or ("values" in names and len(names) > 1):
        accepted = f"{', '.join(MODES)}; several with commas, values alone"
        raise invalid([Fault("/streamMode", "unsupported_stream_mode", accepted)])
    return Mode(_Types().union(*(_SHOWN[name] for name in names)), "values" in names)


@dataclass(frozen=True, slots=True)
class News:
    """What came since the last time; no events: nothing did."""

    ctx: Context
    events: Sequence[RunEventView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFollower:
    """Follows logs. Before anything of one is shown, it is asked again whether whoever follows may see it."""

    ledger: Ledger
    signal: CommitSignal
    events: Callable[[Context, ListRunEventsRequest], Awaitable[ListRunEventsResponse]]

    async def follow(
        self, run_id: str, after: int, renew: Renew, *, gather_s: float = 0
    ) -> AsyncGenerator[News]:
        """To the end of the run, or of the credential. `gather_s`: news are collected so long, but for an end."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                ctx = await renew()
                page = await self._page(ctx, run_id, after)
                if gather_s and page.events and not page.is_complete:
                    await self.news(ctx.tenant, run_id, _NOTHING_BEHIND, gather_s)
                    ctx = await renew()
                    page = await self._page(ctx, run_id, after)
            except QuipuError:
                return
            if page.events:
                after = page.events[-1].sequence
                yield News(ctx, page.events)
            if page.is_complete:
                return
            until = loop.time() + HEARTBEAT_S
            while (left := until - loop.time()) > 0:
                if await self.news(ctx.tenant, run_id, after, min(left, _RENEW_S)):
                    break
                try:
                    ctx = await renew()
                except QuipuError:
                    return
            if loop.time() >= until:
                yield News(ctx, ())

    async def news(self, tenant: str, run_id: str, after: int, seconds: float) -> bool:
        """Wait for something behind a number, or for the end, so long at most."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            run = await self.ledger.get(RUNS, tenant, run_id)
            if run is None or run.is_over or run.last > after:
                return True
            left = until - loop.time()
            if left <= 0:
                return False
            await self.signal.wait(tenant, min(left, _LOOK_S))

    async def _page(self, ctx: Context, run_id: str, after: int) -> ListRunEventsResponse:
        request = ListRunEventsRequest(run_id=run_id, after=after, limit=PAGE)
        return await self.events(ctx, authorised(ctx.principal, LIST_RUN_EVENTS, request))


# -- frames -----------------------------------------------------------------------------------------------------------


def snapshot_event(run: RunView, tenant: str, sequence: int) -> dict[str, Any]:
    """The run as it stands, among events."""
    body = run_body(run, tenant)
    return {
        "eventId": f"{run.id}.{sequence}.snapshot",
        "runId": run.id,
        "type": "state.snapshot",
        "payload": body,
        "timestamp": body.get("completedAt", body["startedAt"]),
        "sequence": sequence,
    }


async def frames(
    news: AsyncGenerator[News],
    run_id: str,
    mode: Mode,
    shown_run: Callable[[Context], Awaitable[RunView]],
    *,
    first: bytes = b"",
    is_batched: bool = False,
) -> AsyncGenerator[bytes]:
    """News as server-sent events, `first` before them; a comment where there is nothing to show."""
    yield b": open\n\n" + first
    async with aclosing(news):
        async for some in news:
            shown = mode.shown(some.events)
            if not shown:
                yield b": alive\n\n"
                continue
            parts: list[tuple[int, str, Any]]
            if mode.is_values:
                try:
                    body = run_body(await shown_run(some.ctx), some.ctx.tenant)
                except NotFoundError:
                    return
                parts = [(event.sequence, "state.snapshot", body) for event in shown]
            else:
                parts = [(event.sequence, event.type, event_body(run_id, event)) for event in shown]
            if is_batched:
                parts = [(parts[-1][0], "batch", [body for _, _, body in parts])]
            yield b"".join(frame(*part) for part in parts)


def frame(sequence: int, name: str, body: Any) -> bytes:
    """One server-sent event."""
    data = json.dumps(body, separators=(",", ":"))
    return f"id: {sequence}\nevent: {name}\ndata: {data}\n\n".encode()
