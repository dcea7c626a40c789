"""The items of a file, a chunk at a time: read, placed, judged, and written or put before a person."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from quipu.errors import QuipuError
from quipu.formats import items, values
from quipu.formats.reading import Opened
from quipu.formats.signing import VALID
from quipu.formats.values import Found, Item
from quipu.model.governance import Found as Class
from quipu.model.governance import Verdict
from quipu.model.moving import FileImport, ImportReport, RefusedItem
from quipu.model.operations import BatchRequest, Line
from quipu.model.principal import Principal
from quipu.model.record import Link, MemoryType
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules.policy_classes import classes
from quipu.service.governance import Governance
from quipu.service.import_placing import Place, Placing
from quipu.service.secrets import Checked, Secrets
from quipu.service.writing import Writing

#: Items that are one transaction, and bytes of text that end one earlier.
_CHUNK, _CHUNK_BYTES = 500, 4 << 20
_TOLD, _SHOWN = 1_000, 20
#: Told while it goes on: items read so far.
Progress = Callable[[int], None]


@dataclass(slots=True)
class _Tally:
    """The report as it grows."""

    blank: ImportReport
    counts: Counter[str] = field(default_factory=Counter[str])
    rejected: list[RefusedItem] = field(default_factory=list[RefusedItem])
    sample: list[JsonObject] = field(default_factory=list[JsonObject])

    def refuse(self, number: int, error: QuipuError) -> None:
        self.counts["refused"] += 1
        if len(self.rejected) < _TOLD:
            reason = error.reason or error.code
            self.rejected.append(RefusedItem(line=number, reason=reason, message=error.message))

    def done(self, opened: Opened) -> ImportReport:
        return replace(
            self.blank,
            **self.counts,
            rejected=tuple(self.rejected),
            sample=tuple(self.sample),
            loss=opened.loss.report(),
        )


class Bringing:
    """From items to records and proposals."""

    def __init__(self, parts: Parts, secrets: Secrets, writing: Writing, governance: Governance) -> None:
        self._parts, self._secrets = parts, secrets
        self._writing, self._governance = writing, governance
        self._placing = Placing(parts)

    async def gone_through(
        self,
        principal: Principal,
        opened: Opened,
        request: FileImport,
        report: ImportReport,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Everything that is in the file; a dry run writes nothing."""
        tally, dry, import_id = _Tally(report), report.dry_run, report.import_id
        landing = await self._landing(principal, opened, request)
        waiting = await self._placing.waiting(principal.tenant, import_id)
        found = opened.items()
        seen: set[int] = set()
        while stretch := await asyncio.to_thread(_stretch, found):
            chunk: list[tuple[int, Line]] = []
            for number, item in stretch:
                tally.counts["read"] += 1
                try:
                    chunk.append((number, self._line(principal, item, landing, opened, tally)))
                except QuipuError as error:
                    tally.refuse(number, error)
            if dry:
                chunk = _first_seen(chunk, seen, tally)
            if chunk:
                await self._chunk(principal, chunk, import_id, waiting, tally, opened, dry=dry)
            if progress is not None:
                progress(tally.counts["read"])
        opened.loss.dropped("tombstones", await asyncio.to_thread(_counted, opened.tombstones))
        return tally.done(opened)

    async def _landing(self, principal: Principal, opened: Opened, request: FileImport) -> items.Landing:
        there = {store.name for store in await self._parts.ledger.stores(principal.tenant)}
        brought = {str(store.get("name")) for store in opened.stores}
        return items.Landing(
            agent_id=request.agent_id,
            source=opened.source,
            cap=opened.cap,
            store=request.store,
            stores=frozenset(there | (brought if request.store is None else set())),
            now=self._parts.clock(),
        )

    def _line(
        self,
        principal: Principal,
        item: Item | QuipuError,
        landing: items.Landing,
        opened: Opened,
        tally: _Tally,
    ) -> Line:
        """An item as a write that is authorised and valid. What could steer a model has to wait for a person."""
        if isinstance(item, QuipuError):
            raise item
        line = items.line_of(item, landing)
        request = self._writing.accepted(principal, line.request)
        content = request.content if isinstance(request.content, str) else ""
        is_steering = Class.INSTRUCTION in classes(content) or "pam:instruction" in (request.tags or ())
        if is_steering:
            tally.counts["instruction_like"] += 1
        is_risky = is_steering or request.type is MemoryType.PROCEDURAL
        if is_risky and opened.signature != VALID:
            request = replace(request, approval_required=True)
        if len(tally.sample) < _SHOWN:
            tally.sample.append(
                {"kind": str(item.get("kind")), "type": request.type.value, "content": content}
            )
        return replace(line, request=request)

    async def _chunk(
        self,
        principal: Principal,
        chunk: Sequence[tuple[int, Line]],
        import_id: str,
        waiting: set[str],
        tally: _Tally,
        opened: Opened,
        *,
        dry: bool,
    ) -> None:
        """One transaction; where one line is at fault, each by itself."""

        async def work(checked: Checked) -> _Outcome:
            return await self._written(principal, chunk, import_id, waiting, checked, dry=dry)

        try:
            outcome = await self._secrets.checking(principal.tenant, work)
        except QuipuError as error:
            if len(chunk) == 1:
                tally.refuse(chunk[0][0], error)
                return
            for one in chunk:
                await self._chunk(principal, [one], import_id, waiting, tally, opened, dry=dry)
            return
        tally.counts.update(outcome.counts)
        opened.loss.dropped("links to what is not there yet", outcome.lost_links)
        for number, error in outcome.refused:
            tally.refuse(number, error)

    async def _written(
        self,
        principal: Principal,
        chunk: Sequence[tuple[int, Line]],
        import_id: str,
        waiting: set[str],
        checked: Checked,
        *,
        dry: bool,
    ) -> _Outcome:
        outcome = _Outcome()
        kept: list[tuple[int, Line, bool]] = []
        for number, line in chunk:
            try:
                clean = checked.kept(line.request)
            except QuipuError as error:
                outcome.refused.append((number, error))
                continue
            kept.append((number, replace(line, request=clean), clean is not line.request))
        placed = await self._placing.placed(principal, [line for _, line, _ in kept], waiting)
        new: list[tuple[int, Line, bool]] = []
        for (number, _, has_secret), place in zip(kept, placed, strict=True):
            if isinstance(place, QuipuError):
                outcome.refused.append((number, place))
            elif place.place is Place.DUPLICATE:
                outcome.counts["duplicate"] += 1
            else:
                outcome.counts["conflict"] += place.place is Place.CONFLICT
                new.append((number, place.line, has_secret))
        await self._judged(principal, new, import_id, checked, outcome, dry=dry)
        return outcome

    async def _judged(
        self,
        principal: Principal,
        new: Sequence[tuple[int, Line, bool]],
        import_id: str,
        checked: Checked,
        outcome: _Outcome,
        *,
        dry: bool,
    ) -> None:
        # Links may lead to what comes later in the file; they are looked at where somebody has to wait.
        bare = [replace(line, request=replace(line.request, links=None)) for _, line, _ in new]
        # The gate tells a secret by the request that was given being another one.
        given = [
            replace(line, request=replace(line.request)) if has_secret else line
            for line, (_, _, has_secret) in zip(bare, new, strict=True)
        ]
        refused, held, _ = await self._writing.judged(
            principal, given, bare, checked.position, import_id, is_trial=dry
        )
        outcome.refused += [
            (new[place][0], error) for place, error in refused.items() if isinstance(error, QuipuError)
        ]
        free = [line for place, (_, line, _) in enumerate(new) if place not in refused and place not in held]
        outcome.counts["accepted"] += len(free)
        outcome.counts["quarantined"] += len(held)
        if dry:
            return
        if free:
            planned = await self._writing.creations(principal, free, import_id)
            await self._parts.ledger.commit(*planned.commits, guard=checked.position)
        await self._hold(
            principal, [(new[place][1], held[place]) for place in held], import_id, checked, outcome
        )

    async def _hold(
        self,
        principal: Principal,
        held: Sequence[tuple[Line, Verdict]],
        import_id: str,
        checked: Checked,
        outcome: _Outcome,
    ) -> None:
        """What waits of one chunk is one proposal for each agent; the whole import is decided on at once."""
        agents: dict[str, list[tuple[Line, Verdict]]] = {}
        for line, verdict in held:
            agents.setdefault(line.request.agent_id, []).append((line, verdict))
        for agent, waiting in agents.items():
            lines = [await self._with_known_links(line, principal, outcome) for line, _ in waiting]
            batch = BatchRequest(
                agent_id=agent,
                items=tuple(line.request for line in lines),
                record_ids=tuple(line.record_id or "" for line in lines),
                import_id=import_id,
                times=tuple(
                    (line.record_id or "", line.created_at, line.updated_at, line.state.value)
                    for line in lines
                ),
            )
            verdicts = [verdict for _, verdict in waiting]
            await self._governance.hold_together(principal, batch, verdicts, guard=checked.position)

    async def _with_known_links(self, line: Line, principal: Principal, outcome: _Outcome) -> Line:
        links = line.request.links or ()
        if not links:
            return line
        there = await self._parts.ledger.read(principal.tenant, [link.to for link in links])
        known: tuple[Link, ...] = tuple(
            link for link in links if link.to in there and there[link.to].agent_id == line.request.agent_id
        )
        outcome.lost_links += len(links) - len(known)
        return replace(line, request=replace(line.request, links=known))


@dataclass(slots=True)
class _Outcome:
    """What became of a chunk."""

    counts: Counter[str] = field(default_factory=Counter[str])
    refused: list[tuple[int, QuipuError]] = field(default_factory=list[tuple[int, QuipuError]])
    lost_links: int = 0


def _stretch(found: Iterator[Found]) -> list[Found]:
    """As many items as one transaction takes."""
    stretch: list[Found] = []
    size = 0
    for one in islice(found, _CHUNK):
        stretch.append(one)
        size += _size(one[1])
        if size > _CHUNK_BYTES:
            break
    return stretch


def _size(item: Any) -> int:
    text = values.an_object(values.an_object(item).get("content")).get("text")
    return len(text) if isinstance(text, str) else 0


def _first_seen(chunk: list[tuple[int, Line]], seen: set[int], tally: _Tally) -> list[tuple[int, Line]]:
    """A dry run writes nothing, so it has to know by itself what the file says twice."""
    first: list[tuple[int, Line]] = []
    for number, line in chunk:
        key = hash((line.record_id, str(line.request.content)))
        if key in seen:
            tally.counts["duplicate"] += 1
        else:
            seen.add(key)
            first.append((number, line))
    return first


def _counted(found: Callable[[], Iterator[Found]]) -> int:
    return sum(1 for _ in found())
