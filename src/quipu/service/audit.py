"""Proof: checking the chain, signing it, and taking it away to be checked elsewhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from quipu.errors import TamperedError
from quipu.model.journal import Checkpoint, Entry, Head
from quipu.model.outcomes import Fault, Verification
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.model.store import MAIN
from quipu.model.trail import TrailRequest
from quipu.model.value import Json
from quipu.ports.ledger import Entries, Indexed
from quipu.ports.parts import Parts
from quipu.rules import chain, validation, values
from quipu.rules.beside import Told
from quipu.rules.edges import Seen
from quipu.service import beside, rechecking
from quipu.service.access import Access
from quipu.service.exported_audit import check_points, in_words
from quipu.service.exporting_watch import Watch
from quipu.service.sight import Sight

Progress = Callable[[int, int], None]
_CHUNK = 500


class Audit:
    """One tenant's chain at a time."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        self._sight = Sight(parts, access)
        #: Of each tenant the last one that was seen, its position and time. Others may have signed since.
        self._last_seen: dict[str, tuple[int, int]] = {}

    async def verify(self, principal: Principal, progress: Progress | None = None) -> Verification:
        """Check everything that can be checked, and name the first fault."""
        self._access.authorise(principal, Permission.READ)
        ledger, tenant = self._parts.ledger, principal.tenant
        faults = list(await ledger.integrity_faults())
        checkpoints = await ledger.checkpoints(tenant)
        walk = chain.Walk(self._parts.canonical, wanted={point.seq: None for point in checkpoints})
        told, seen = Told(), Seen()
        head = await ledger.head(tenant)
        records = 0
        try:
            if MAIN not in await self._access.stores(tenant):
                faults.append(Fault(kind="damaged_file", detail="the store main is missing"))
            after = before = 0
            while True:  # others may write meanwhile: the end is where nothing more has come
                after = await self._follow(tenant, after, head.seq, walk, progress, told)
                head = await ledger.head(tenant)
                if after >= head.seq or after == before:
                    break
                before = after
            faults.extend(walk.faults)
            if (walk.seq, walk.hash, walk.at, walk.pruned_to) != (head.seq, head.hash, head.at, head.horizon):
                faults.append(
                    Fault(kind="wrong_head", seq=head.seq, detail="the head is not the end of the chain")
                )
            records = await self._check_records(tenant, walk, faults, seen)
        except TamperedError as error:
            faults.append(Fault(kind=error.reason or "altered", detail=error.message))
        else:
            faults.extend(await beside.faults(self._parts, tenant, told, seen))
        keys = self._parts.signer.known_keys

        def check(message: bytes, key: str, signature: str) -> bool:
            return self._parts.verify(message, key, signature, keys)

        unchecked = check_points(checkpoints, walk, self._parts.canonical, check, faults)
        return Verification(
            entries=walk.seq,
            records=records,
            checkpoints=len(checkpoints),
            head_seq=head.seq,
            head_hash=head.hash,
            faults=chain.in_order(faults),
            last_checkpoint=checkpoints[-1] if checkpoints else None,
            **in_words(unchecked),
        )

    async def _follow(
        self,
        tenant: str,
        after: int,
        last: int,
        walk: chain.Walk,
        progress: Progress | None = None,
        told: Told | None = None,
    ) -> int:
        """Walk on behind a position; returns the last one."""
        while entries := await self._parts.ledger.entries(tenant, after):
            walk.follow(entries)
            if told is not None:
                told.follow(entries)
            after = entries[-1].seq
            if progress is not None:
                progress(after, last)
        return after

    async def _check_records(self, tenant: str, walk: chain.Walk, faults: list[Fault], seen: Seen) -> int:
        """Every version against the walk. What others wrote behind its end meanwhile is held against that."""
        count = 0
        found: list[Fault] = []
        late: list[Record] = []
        waiting: list[Indexed] = []
        async for record in self._parts.ledger.every_version(tenant):
            count += 1
            seen.note(record)
            if max(record.born, record.died or 0) > walk.seq:
                late.append(record)
            if record.born <= walk.seq:
                found.extend(chain.ledger_faults(record, walk, walk.seq))
            waiting.append(Indexed(record=record, search_text=rechecking.indexed_text(record)))
            if len(waiting) >= _CHUNK:
                found.extend(await self._parts.ledger.index_faults(tenant, waiting))
                waiting.clear()
        found.extend(await self._parts.ledger.index_faults(tenant, waiting))
        found.extend(chain.missing_faults(walk))
        if late or found:
            later = walk.onward()
            await self._follow(tenant, walk.seq, walk.seq, later)
            faults.extend(later.faults)
            found.extend(chain.late_faults(late, later, walk.seq))
        faults.extend(await rechecking.standing(self._parts, tenant, found))
        return count

    async def checkpoint(self, principal: Principal) -> Checkpoint:
        """Sign where the chain stands."""
        self._access.authorise(principal, Permission.READ)
        return await self._signed(principal.tenant)

    async def _signed(self, tenant: str) -> Checkpoint:
        head = await self._parts.ledger.head(tenant)
        draft = Checkpoint(
            tenant=tenant,
            seq=head.seq,
            hash=head.hash,
            at=self._parts.clock(),
            key_id=self._parts.signer.key_id,
            signature="",
        )
        signature = self._parts.signer.sign(self._parts.canonical(chain.checkpoint_body(draft)))
        signed = replace(draft, signature=signature)
        await self._parts.ledger.add_checkpoint(signed)
        self._last_seen[tenant] = signed.seq, signed.at
        return signed

    async def checkpoint_if_due(
        self, principal: Principal, *, every_ms: int, every_entries: int
    ) -> Checkpoint | None:
        """Sign when enough has happened, or enough time has passed since the last signature; whoever is at work."""
        tenant, now = principal.tenant, self._parts.clock()
        head = await self._parts.ledger.head(tenant)

        def is_due(last: tuple[int, int]) -> bool:
            seq, at = last
            # A signature far ahead is of a clock that was wrong: nobody waits until it is right.
            return head.seq > seq and (head.seq - seq >= every_entries or abs(now - at) >= every_ms)

        # Nothing is due by a newer signature that was not by an older one, so that all are read only now and then.
        if (seen := self._last_seen.get(tenant)) is not None and not is_due(seen):
            return None
        points = await self._parts.ledger.checkpoints(tenant)
        last = self._last_seen[tenant] = (points[-1].seq, points[-1].at) if points else (0, 0)
        return await self._signed(tenant) if is_due(last) else None

    async def entries(
        self, principal: Principal, after: int = 0, limit: int = 100, last: int | None = None
    ) -> Sequence[Entry]:
        """A stretch of the journal behind a position, at most up to another, as far as the principal may look."""
        return await self.entries_with(principal, Entries(after=after, last=last, limit=limit))

    async def entries_with(self, principal: Principal, wanted: Entries) -> Sequence[Entry]:
        """Entries that are wanted, as far as the principal may look; in the chain's order, or newest first."""
        self._access.authorise(principal, Permission.REVIEW)
        validation.checked_whole("/after", wanted.after, 0, values.INT64 - 1)
        validation.checked_whole("/limit", wanted.limit, 1, values.INT64 - 1)
        found: list[Entry] = []
        size = wanted.limit
        while len(found) < wanted.limit:
            page = await self._parts.ledger.entries_with(principal.tenant, replace(wanted, limit=size))
            found += await self._sight.looked_back(principal, TrailRequest(), page)
            if len(page) < size:
                break
            seq = page[-1].seq
            wanted = replace(wanted, last=seq - 1) if wanted.is_newest_first else replace(wanted, after=seq)
            # Who may see little of it is not asked for each of the others.
            size = min(max(size, _CHUNK), 4 * size)
        return found[: wanted.limit]

    async def head(self, principal: Principal) -> Head:
        """Where the chain ends."""
        self._access.authorise(principal, Permission.READ)
        return await self._parts.ledger.head(principal.tenant)

    async def checkpoints(self, principal: Principal) -> Sequence[Checkpoint]:
        """Every signed statement of where the chain stood."""
        self._access.authorise(principal, Permission.READ)
        return await self._parts.ledger.checkpoints(principal.tenant)

    async def keys(self, principal: Principal) -> Mapping[str, str]:
        """The public keys that signatures are checked with, by id. Asking makes the key that will sign."""
        self._access.authorise(principal, Permission.READ)
        signer = self._parts.signer
        return {**signer.known_keys, signer.key_id: signer.public_key}

    async def exported(self, principal: Principal) -> AsyncIterator[tuple[str, str]]:
        """The journal as lines of files, (file name, line): entries, checkpoints, keys, and digests' salts.

        `records.ndjson` holds every version with its salt, so that digests can be checked away from the ledger.
        All of it is as of the position that is signed first: others may go on writing meanwhile. What they erase can
        neither be proven nor should it stand there; then a ConflictError says at the end to begin again.
        """
        self._access.authorise(principal, Permission.ADMIN)
        tenant = principal.tenant
        watch = await Watch.begun(self._parts, tenant, is_of_history=True)
        end = (await self.checkpoint(principal)).seq
        async for entries in rechecking.entries_after(self._parts, tenant, 0):
            for entry in entries:
                if entry.seq <= end:
                    yield "journal.ndjson", _line({**chain.entry_body(entry), "hash": entry.hash})
            if entries[-1].seq >= end:
                break
        for point in await self._parts.ledger.checkpoints(tenant):
            if point.seq <= end:
                yield "checkpoints.ndjson", _line(_point_body(point))
        yield "keys.json", _line(dict(self._parts.signer.known_keys))
        async for record in self._parts.ledger.every_version(tenant):
            if record.born <= end:
                yield "records.ndjson", _line(chain.body_as_of(record, end))
        await watch.still()


def _point_body(point: Checkpoint) -> dict[str, Any]:
    return {
        "tenant": point.tenant,
        "seq": point.seq,
        "hash": point.hash,
        "at": point.at,
        "key_id": point.key_id,
        "signature": point.signature,
    }


def _line(body: Mapping[str, Json]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
