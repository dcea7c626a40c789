"""Where runs are: in a memory of this machine or on a server, with the same calls and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from quipu.cli.session import Session, Use

if TYPE_CHECKING:
    from quipu.model.principal import Principal
    from quipu.model.runs import Run, RunEvent
    from quipu.service.runs import Runs

T = TypeVar("T")


class RunPlace(Protocol):
    """Runs, each as the contract shows it."""

    async def open(self, workflow: str) -> Any: ...

    async def put(self, run_id: str, ref: str, content: str, node: str | None) -> str:
        """The id of what was written."""
        ...

    async def see(self, run_id: str, ref: str) -> Sequence[Any]: ...

    async def complete(self, run_id: str) -> Any: ...

    async def fail(self, run_id: str, message: str) -> Any: ...

    async def cancel(self, run_id: str) -> Any: ...

    async def list(self, workflow: str | None, limit: int) -> Sequence[Any]: ...

    async def show(self, run_id: str) -> Any: ...

    async def events(self, run_id: str) -> Sequence[RunEvent]: ...

    async def fork(self, run_id: str, mode: str, from_seq: int) -> Any: ...

    async def expire(self, run_id: str) -> Any: ...

    async def compact(self, ref: str) -> Any:
        """What the compaction tells; None where there was nothing to do."""
        ...


def done(session: Session, work: Callable[[RunPlace], Awaitable[T]], *, use: Use = Use.NEEDS) -> T:
    """Work on the runs that the command is about."""
    config = session.config()
    server = session.server_of(config)

    async def there(address: str) -> T:
        from quipu.memory.remote import connection

        way = connection(config, server=address)
        try:
            return await work(way.runs())
        finally:
            await way.close()

    async def here() -> T:
        from quipu import bootstrap
        from quipu.model.principal import local

        chosen = session.ready(config, use)
        running = await bootstrap.start(chosen.with_values(embedder="none"))
        try:
            principal = local()
            await running.parts.ledger.open(principal.tenant)
            return await work(Here(running.service.runs, principal))
        finally:
            await running.close()

    with session.warnings():
        return asyncio.run(here() if server is None else there(server))


class Here:
    """Runs of a memory of this machine."""

    def __init__(self, runs: Runs, principal: Principal) -> None:
        self._runs, self._principal = runs, principal

    async def open(self, workflow: str) -> Any:
        from quipu.service.runs import OpenRequest

        request = OpenRequest(workflow_id=workflow, is_external=True)
        return _shown((await self._runs.open(self._principal, request)).run)

    async def put(self, run_id: str, ref: str, content: str, node: str | None) -> str:
        from quipu.rules.runs_options import NewEntry

        run = await self._runs.driven(self._principal, run_id)
        entry = NewEntry(content=content)
        return (await self._runs.memory.put(self._principal, ref, entry, run=run, node_id=node)).id

    async def see(self, run_id: str, ref: str) -> Sequence[Any]:
        from quipu.rules.runs_options import ListOptions
        from quipu.rules.runs_wire import entry_body

        run = await self._runs.get(self._principal, run_id)
        entries = await self._runs.memory.list(self._principal, ref, ListOptions(), run)
        return [entry_body(entry) for entry in entries]

    async def complete(self, run_id: str) -> Any:
        return _shown(await self._runs.complete(self._principal, run_id))

    async def fail(self, run_id: str, message: str) -> Any:
        from quipu.model.runs import RunError

        return _shown(await self._runs.fail(self._principal, run_id, RunError("failed", message)))

    async def cancel(self, run_id: str) -> Any:
        return _shown(await self._runs.cancel(self._principal, run_id))

    async def list(self, workflow: str | None, limit: int) -> Sequence[Any]:
        found = await self._runs.list(self._principal, workflow_id=workflow, limit=limit)
        return [_shown(run) for run in found]

    async def show(self, run_id: str) -> Any:
        return await self._runs.snapshot(self._principal, run_id)

    async def events(self, run_id: str) -> Sequence[RunEvent]:
        return await self._runs.events(self._principal, run_id)

    async def fork(self, run_id: str, mode: str, from_seq: int) -> Any:
        from quipu.model.runs import ForkMode
        from quipu.service.runs_forking import ForkRequest

        request = ForkRequest(run_id=run_id, mode=ForkMode(mode), from_seq=from_seq)
        return _shown((await self._runs.fork(self._principal, request)).run)

    async def expire(self, run_id: str) -> Any:
        return _shown(await self._runs.expire(self._principal, run_id))

    async def compact(self, ref: str) -> Any:
        made = await self._runs.upkeep.compact(self._principal, ref)
        return None if made is None else made.payload


def _shown(run: Run) -> Any:
    from quipu.rules.runs_wire import run_body

    return run_body(run, {}, {})
