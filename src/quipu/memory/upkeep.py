"""Import and export, proof, and upkeep of the ledger."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from quipu.errors import ConflictError, QuipuError
from quipu.memory import arguments
from quipu.memory.files import writing
from quipu.memory.session import Session
from quipu.model.operations import Line, ListRequest
from quipu.model.record import MemoryType, State
from quipu.model.store import MAIN

if TYPE_CHECKING:
    from quipu.model.journal import Checkpoint, Entry
    from quipu.model.outcomes import ImportSummary, Verification
    from quipu.model.value import Json, JsonObject
    from quipu.ports.host import Host


#: So often a proof is begun again because somebody erases.
_ATTEMPTS = 3


class LineFiles:
    """Files of lines in one folder, which stand there only when all of them are whole."""

    def __init__(self, folder: Path) -> None:
        self._target = folder
        with writing(folder):
            self._folder = folder = folder.resolve()
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._draft = Path(
                tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".draft", dir=folder.parent)
            )
        self._stack = ExitStack()
        self._open: dict[str, TextIO] = {}

    def write(self, name: str, line: str) -> None:
        with writing(self._target):
            if name not in self._open:
                self._open[name] = self._stack.enter_context((self._draft / name).open("w", encoding="utf-8"))
            self._open[name].write(line + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with writing(self._target):
                self._stack.close()  # what is still to be written may find the disk full
                if kind is None:
                    self._put_in_place()
        finally:
            shutil.rmtree(self._draft, ignore_errors=True)

    def _put_in_place(self) -> None:
        if not self._folder.exists():
            self._draft.rename(self._folder)
            return
        for name in self._open:
            (self._draft / name).replace(self._folder / name)


class Upkeep(Session):
    """Bringing memories in and out, proving them, keeping the ledger in order."""

    async def import_records(
        self,
        lines: Iterable[Mapping[str, Any] | str] | AsyncIterable[Mapping[str, Any] | str],
        /,
        *,
        dry_run: bool = False,
        stop_on_error: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary:
        """Bring in records as `export` writes them: objects or JSON lines, which may carry id and times."""
        arguments.called(progress, "/progress")
        arguments.truth(dry_run, "/dry_run")
        arguments.truth(stop_on_error, "/stop_on_error")
        service = await self._service()
        return await service.exchange.import_lines(
            self._principal,
            self._lines(lines),
            dry_run=dry_run,
            stop_on_error=stop_on_error,
            progress=progress,
        )

    async def _lines(
        self, lines: Iterable[Mapping[str, Any] | str] | AsyncIterable[Mapping[str, Any] | str]
    ) -> AsyncIterator[Line | QuipuError]:
        from quipu.faces.memorywire import wire  # pydantic is slow to load, and most calls do not need it

        async for line in arguments.each(lines):
            try:
                data = wire.loads(line) if isinstance(line, str) else dict(arguments.mapping(line, ""))
                if isinstance(data, dict):
                    data = {
                        "agent_id": self.agent_id,
                        "type": MemoryType.SEMANTIC.value,
                        **cast("dict[str, Any]", data),
                    }
                parsed = wire.import_line(data)
                arguments.maybe_plain(parsed.id, "/id")
            except QuipuError as error:
                yield error
            else:
                yield Line(
                    parsed.request,
                    parsed.id,
                    parsed.created_at,
                    parsed.updated_at,
                    State.LIVE if parsed.state is None else parsed.state,
                )

    async def export(
        self,
        *,
        states: Sequence[State | str] = (State.LIVE, State.ARCHIVED),
        filter: JsonObject | None = None,
        as_of: str | int | None = None,
        store: str | None = None,
        all_agents: bool = False,
    ) -> AsyncIterator[dict[str, Json]]:
        """Every record as a JSON object that `import_records` takes back."""
        from quipu.faces.memorywire.wire_shown import record_body  # most calls do not need it

        service = await self._service()
        request = ListRequest(
            agent_id=None if arguments.truth(all_agents, "/all_agents") else self.agent_id,
            states=arguments.members(State, states, "/states"),
            filter=arguments.filter(filter),
            as_of=arguments.moment(as_of, "/as_of"),
            store=arguments.maybe_text(store, "/store"),
        )
        names = {named.id: named.name for named in await service.stores.list(self._principal)}
        async with aclosing(service.exchange.export(self._principal, request)) as records:
            async for record in records:
                is_forgotten = as_of is None and record.standing is State.FORGOTTEN
                shown = replace(record, state=State.FORGOTTEN) if is_forgotten else record
                yield record_body(shown, names.get(record.store_id, MAIN))

    async def verify(self, progress: Callable[[int, int], None] | None = None) -> Verification:
        """Check chain, digests, signatures and index."""
        arguments.called(progress, "/progress")
        service = await self._service()
        await service.flush()
        return await service.audit.verify(self._principal, progress)

    async def checkpoint(self) -> Checkpoint:
        """Sign where the journal stands."""
        service = await self._service()
        await service.flush()
        return await service.audit.checkpoint(self._principal)

    async def signing_keys(self) -> Mapping[str, str]:
        """The public keys that the journal is signed with, by id. Keep them somewhere else."""
        return await (await self._service()).audit.keys(self._principal)

    async def journal(self, *, after: int = 0, limit: int = 100) -> Sequence[Entry]:
        """A stretch of the journal."""
        service = await self._service()
        return await service.audit.entries(
            self._principal, arguments.whole(after, "/after"), arguments.whole(limit, "/limit")
        )

    async def export_journal(self, folder: Path | str, /) -> int:
        """Write the journal, its signatures and all digests into a folder that can be verified anywhere."""
        service, target = await self._service(), arguments.path(folder, "/folder")
        await service.flush()
        attempt = 1
        while True:
            try:
                return await self._export_journal(service, target)
            except ConflictError as error:  # somebody has erased something that was just written
                if error.reason != "erased_meanwhile" or attempt == _ATTEMPTS:
                    raise
                attempt += 1

    async def _export_journal(self, service: Host, folder: Path) -> int:
        lines = 0
        with LineFiles(folder) as files:
            async for name, line in service.audit.exported(self._principal):
                files.write(name, line)
                lines += 1
        return lines

    async def backup(
        self, target: Path | str, /, *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """A consistent copy of the whole ledger, while others go on writing."""
        arguments.called(progress, "/progress")
        service, path = await self._service(), arguments.path(target, "/target")
        with writing(path):
            await service.upkeep.backup(self._principal, path, progress)

    async def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Renew search terms that an earlier build cut otherwise, and embed everything with the configured embedder.

        Returns how many terms and vectors were made. Safe to stop and to run again.
        """
        arguments.called(progress, "/progress")
        service = await self._service()
        done = 0
        async for count in service.reembed(self._principal):
            done += count
            if progress is not None:
                progress(done)
        return done

    async def sweep(self) -> int:
        """Close for good what has expired."""
        return await (await self._service()).sweep(self._principal)

    async def vacuum(self, *, keep_history_days: int | None = None) -> int:
        """Give space back; with `keep_history_days`, also empty versions that ended before then."""
        days = arguments.maybe_whole(keep_history_days, "/keep_history_days")
        return await (await self._service()).upkeep.vacuum(self._principal, days)

    async def statistics(self) -> Mapping[str, int]:
        """Counts and sizes."""
        return await (await self._service()).upkeep.statistics(self._principal)

    async def flush(self) -> None:
        """Write what reads have left to be noted."""
        await (await self._service()).flush()

    async def health(self) -> Mapping[str, Json]:
        """Whether it is well, and each part of it."""
        return await (await self._service()).health(self._principal)

    async def describe(self) -> Mapping[str, Json]:
        """What this memory promises: capabilities, types, operations, limits, embedder."""
        told = await (await self._service()).described(self._principal)
        self._promised = {str(one) for one in cast("Sequence[Json]", told["capabilities"])}
        return told

    @property
    def capabilities(self) -> set[str]:
        """memorywire's promises: what the settings allow, and once `describe` was asked, what the memory said."""
        return set(self._promised)
