"""The items of a file, a chunk at a time: read, placed, judged, and written or put before a person."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from quipu.errors import QuipuError
from quipu.formats import items, values
from quipu.formats.reading import Opened
from quipu.formats.seen import Seen
from quipu.formats.signing import VALID
from quipu.formats.values import Found, Item
from quipu.model.change import Change, Commit, Put
from quipu.model.governance import Found as Class
from quipu.model.governance import Verdict
from quipu.model.moving import FileImport, ImportReport, RefusedItem
from quipu.model.operations import BatchRequest, Embedding, Line
from quipu.model.principal import Principal
from quipu.model.record import Link, MemoryType, Record
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import drafting
from quipu.rules.policy_classes import classes
from quipu.rules.redaction import Batch
from quipu.service import import_vectors
from quipu.service.governance import Governance
from quipu.service.import_owners import Kin, Planted
from quipu.service.import_placing import Place, Placed, Placing
from quipu.service.import_tombstones import Burying
from quipu.service.lines import Lines
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

    def __init__(
        self,
        parts: Parts,
        secrets: Secrets,
        writing: Writing,
        lines: Lines,
        governance: Governance,
        burying: Burying,
    ) -> None:
        self._parts, self._secrets, self._burying = parts, secrets, burying
        self._writing, self._lines, self._governance = writing, lines, governance
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
        ground = _Ground(
            import_id,
            opened,
            await self._placing.waiting(principal.tenant, import_id),
            Planted(self._parts, principal.tenant),
            Kin(self._parts, principal.tenant, opened.owner or "", import_id)
            if opened.is_incremental and opened.is_proven
            else None,
            is_dry=dry,
        )
        vectors = await import_vectors.usable(self._parts, principal.tenant, opened)
        found = opened.items()
        seen = Seen()
        while stretch := await asyncio.to_thread(_stretch, found):
            given: Mapping[int, Embedding] = {}
            if vectors is not None and not dry:
                given = await asyncio.to_thread(import_vectors.looked_up, stretch, vectors)
            chunk: list[tuple[int, Line]] = []
            for number, item in stretch:
                tally.counts["read"] += 1
                try:
                    line = self._line(principal, item, landing, opened, tally)
                except QuipuError as error:
                    tally.refuse(number, error)
                    continue
                if number in given:
                    line = replace(line, request=replace(line.request, embedding=given[number]))
                chunk.append((number, line))
            if dry:
                chunk = _first_seen(chunk, seen, tally)
            if chunk:
                await self._chunk(principal, chunk, ground, tally)
            if progress is not None:
                progress(tally.counts["read"])
        tally.counts.update(
            await self._burying.gone_through(
                principal, opened, request.agent_id, import_id, ground.waiting, dry=dry
            )
        )
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
        self, principal: Principal, chunk: Sequence[tuple[int, Line]], ground: _Ground, tally: _Tally
    ) -> None:
        """One transaction; where one line is at fault, each by itself."""

        async def work(checked: Checked) -> _Outcome:
            return await self._written(principal, chunk, ground, checked)

        try:
            outcome = await self._secrets.checking(principal.tenant, work)
        except QuipuError as error:
            if len(chunk) == 1:
                tally.refuse(chunk[0][0], error)
                return
            for one in chunk:
                await self._chunk(principal, [one], ground, tally)
            return
        tally.counts.update(outcome.counts)
        ground.opened.loss.dropped("links to what is not there yet", outcome.lost_links)
        for number, error in outcome.refused:
            tally.refuse(number, error)

    async def _written(
        self, principal: Principal, chunk: Sequence[tuple[int, Line]], ground: _Ground, checked: Checked
    ) -> _Outcome:
        outcome = _Outcome()
        kept: list[tuple[int, Line, bool]] = []
        batch: Batch = {}
        for number, line in chunk:
            try:
                clean = checked.kept(line.request, batch)
            except QuipuError as error:
                outcome.refused.append((number, error))
                continue
            is_altered = clean is not line.request
            line = replace(line, request=clean) if is_altered else line
            kept.append((number, import_vectors.without(line) if is_altered else line, is_altered))
        lines = [line for _, line, _ in kept]
        placed = await self._placing.placed(principal, lines, ground.waiting, ground.planted, ground.kin)
        new: list[tuple[int, Placed, bool]] = []
        for (number, _, has_secret), place in zip(kept, placed, strict=True):
            if isinstance(place, QuipuError):
                outcome.refused.append((number, place))
            elif place.place is Place.DUPLICATE:
                outcome.counts["duplicate"] += 1
            else:
                new.append((number, place, has_secret))
        await self._judged(principal, new, ground, checked, outcome)
        return outcome

    async def _judged(
        self,
        principal: Principal,
        new: Sequence[tuple[int, Placed, bool]],
        ground: _Ground,
        checked: Checked,
        outcome: _Outcome,
    ) -> None:
        # Links may lead to what comes later in the file; they are looked at where somebody has to wait.
        bare = [replace(one.line, request=replace(one.line.request, links=None)) for _, one, _ in new]
        # The gate tells a secret by the request that was given being another one.
        given = [
            replace(line, request=replace(line.request)) if has_secret else line
            for line, (_, _, has_secret) in zip(bare, new, strict=True)
        ]
        refused, held, _ = await self._lines.judged(
            principal, given, bare, checked.position, ground.import_id, is_trial=ground.is_dry
        )
        outcome.refused += [
            (new[place][0], error) for place, error in refused.items() if isinstance(error, QuipuError)
        ]
        free = [one for place, (_, one, _) in enumerate(new) if place not in refused and place not in held]
        # What follows a version waits beside it: who decides sees both.
        waiting = [
            (
                one.line if one.after is None else self._placing.beside(principal, one.after, one.line),
                held[place],
            )
            for place, (_, one, _) in enumerate(new)
            if place in held
        ]
        outcome.count(free, [new[place][1] for place in held])
        if ground.is_dry:
            return
        if free:
            planned = await self._writing.creations(principal, [one.line for one in free], ground.import_id)
            followed = {one.line.record_id or "": one.after for one in free if one.after is not None}
            commits = [self._following(commit, followed) for commit in planned.commits]
            await self._parts.ledger.commit(*commits, guard=checked.position)
        await self._hold(principal, waiting, ground.import_id, checked, outcome)

    def _following(self, commit: Commit, followed: Mapping[str, Record]) -> Commit:
        """The same, where a record is not new but the next version of one that is there."""
        if not followed:
            return commit

        def next_version(change: Change) -> Change:
            if not isinstance(change, Put) or (was := followed.get(change.record.id)) is None:
                return change
            record = replace(change.record, version=was.version + 1, created_at=was.created_at)
            sealed = drafting.sealed(record, self._parts.mint_salt(), self._parts.canonical)
            return replace(change, record=sealed, expects=was.version)

        return replace(commit, changes=tuple(next_version(change) for change in commit.changes))

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
            lines = [
                import_vectors.without(await self._with_known_links(line, principal, outcome))
                for line, _ in waiting
            ]
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

    def count(self, free: Sequence[Placed], held: Sequence[Placed]) -> None:
        """What comes in and what waits; an update that waits is one beside what it would change."""
        updated = sum(one.place is Place.UPDATE for one in free)
        waiting = sum(one.place is Place.UPDATE for one in held)
        beside = sum(one.place is Place.CONFLICT for one in (*free, *held))
        self.counts["accepted"] += len(free)
        self.counts["quarantined"] += len(held)
        self.counts["updated"] += updated
        self.counts["conflict"] += beside + waiting


@dataclass(frozen=True, slots=True)
class _Ground:
    """What is the same for every chunk of a file."""

    import_id: str
    opened: Opened
    #: Ids that wait for a person already.
    waiting: Container[str]
    planted: Planted
    #: Whose records the file may change; None: nobody's.
    kin: Kin | None
    is_dry: bool


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


def _first_seen(chunk: list[tuple[int, Line]], seen: Seen, tally: _Tally) -> list[tuple[int, Line]]:
    """A dry run writes nothing, so it has to know by itself what the file says twice."""
    first: list[tuple[int, Line]] = []
    for number, line in chunk:
        if seen.add(f"{line.record_id}\n{line.request.content}"):
            first.append((number, line))
        else:
            tally.counts["duplicate"] += 1
    return first
