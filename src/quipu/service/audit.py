"""Proof: checking the chain, signing it, and taking it away to be checked elsewhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from quipu.errors import TamperedError, UnverifiableError
from quipu.model.journal import Checkpoint, Entry, Head, Mention, Op
from quipu.model.outcomes import Fault, Verification
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.model.store import MAIN
from quipu.model.value import Json
from quipu.ports.ledger import Indexed
from quipu.ports.parts import Parts
from quipu.rules import chain, validation, values
from quipu.service import held, rechecking
from quipu.service.access import Access
from quipu.service.exporting_watch import Watch
from quipu.service.sight import Sight

Progress = Callable[[int, int], None]
_CHUNK = 500


class Audit:
    """One tenant's chain at a time."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        self._sight = Sight(parts, access)

    async def verify(self, principal: Principal, progress: Progress | None = None) -> Verification:
        """Check everything that can be checked, and name the first fault."""
        self._access.authorise(principal, Permission.READ)
        ledger, tenant = self._parts.ledger, principal.tenant
        damage = list(await ledger.integrity_faults())
        if MAIN not in await self._access.stores(tenant):
            damage.append(Fault(kind="damaged_file", detail="the store main is missing"))
        checkpoints = await ledger.checkpoints(tenant)
        walk = chain.Walk(self._parts.canonical, wanted={point.seq: None for point in checkpoints})
        head = await ledger.head(tenant)
        faults: list[Fault] = damage
        records = 0
        try:
            after = before = 0
            while True:  # others may write meanwhile: the end is where nothing more has come
                after = await self._follow(tenant, after, head.seq, walk, progress)
                head = await ledger.head(tenant)
                if after >= head.seq or after == before:
                    break
                before = after
            faults.extend(walk.faults)
            if (walk.seq, walk.hash) != (head.seq, head.hash):
                faults.append(
                    Fault(kind="wrong_head", seq=head.seq, detail="the head is not the end of the chain")
                )
            records = await self._check_records(tenant, walk, faults)
            faults.extend([fault async for fault in held.faults(self._parts, tenant)])
        except TamperedError as error:
            faults.append(Fault(kind=error.reason or "altered", detail=error.message))
        keys = self._parts.signer.known_keys

        def check(message: bytes, key: str, signature: str) -> bool:
            return self._parts.verify(message, key, signature, keys)

        unchecked = _check_points(checkpoints, walk, self._parts.canonical, check, faults)
        return Verification(
            entries=walk.seq,
            records=records,
            checkpoints=len(checkpoints),
            head_seq=head.seq,
            head_hash=head.hash,
            faults=chain.in_order(faults),
            last_checkpoint=checkpoints[-1] if checkpoints else None,
            **_told(unchecked),
        )

    async def _follow(
        self, tenant: str, after: int, last: int, walk: chain.Walk, progress: Progress | None
    ) -> int:
        """Walk on behind a position; returns the last one."""
        while entries := await self._parts.ledger.entries(tenant, after):
            walk.follow(entries)
            after = entries[-1].seq
            if progress is not None:
                progress(after, last)
        return after

    async def _check_records(self, tenant: str, walk: chain.Walk, faults: list[Fault]) -> int:
        """Every version against the walk. What others wrote behind its end meanwhile is held against that."""
        count = 0
        found: list[Fault] = []
        late: list[Record] = []
        waiting: list[Indexed] = []
        async for record in self._parts.ledger.every_version(tenant):
            count += 1
            if max(record.born, record.died or 0) > walk.seq:
                late.append(record)
            if record.born <= walk.seq:
                found.extend(chain.version_faults(chain.body_as_of(record, walk.seq), walk))
            waiting.append(Indexed(record=record, search_text=rechecking.indexed_text(record)))
            if len(waiting) >= _CHUNK:
                found.extend(await self._parts.ledger.index_faults(tenant, waiting))
                waiting.clear()
        found.extend(await self._parts.ledger.index_faults(tenant, waiting))
        found.extend(chain.missing_faults(walk))
        if late or found:
            later = walk.onward()
            await self._follow(tenant, walk.seq, walk.seq, later, None)
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
        return signed

    async def checkpoint_if_due(
        self, principal: Principal, *, every_ms: int, every_entries: int
    ) -> Checkpoint | None:
        """Sign when enough has happened, or enough time has passed since the last signature; whoever is at work."""
        head = await self._parts.ledger.head(principal.tenant)
        points = await self._parts.ledger.checkpoints(principal.tenant)
        last_seq, last_at = (points[-1].seq, points[-1].at) if points else (0, 0)
        due = head.seq - last_seq >= every_entries or self._parts.clock() - last_at >= every_ms
        return await self._signed(principal.tenant) if head.seq > last_seq and due else None

    async def entries(self, principal: Principal, after: int = 0, limit: int = 100) -> Sequence[Entry]:
        """A stretch of the journal behind a position, as far as the principal may act for the agents in it, and look."""
        self._access.authorise(principal, Permission.REVIEW)
        validation.checked_whole("/after", after, 0, values.INT64 - 1)
        validation.checked_whole("/limit", limit, 1, values.INT64 - 1)
        found: list[Entry] = []
        while len(found) < limit:
            wanted = limit - len(found)
            page = await self._parts.ledger.entries(principal.tenant, after, wanted)
            mine = [entry for entry in page if entry.agent is None or principal.may_act_for(entry.agent)]
            found += await self._sight.entries(principal, mine)
            if len(page) < wanted:
                break
            after = page[-1].seq
        return found

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


def verified_export(
    files: Mapping[str, Iterable[str]], parts_canonical: chain.Canonical, verify: Callable[..., bool]
) -> Verification:
    """Check an export by its files alone: no ledger, no network. `keys.json` should come from a place of its own."""
    keys: dict[str, str] = {}
    faults: list[Fault] = []
    for _, body in _parsed("keys.json", files, faults):
        keys.update((name, key) for name, key in body.items() if isinstance(key, str))
    points: list[Checkpoint] = []
    for number, body in _parsed("checkpoints.ndjson", files, faults):
        if _fits(body, _POINT):
            points.append(Checkpoint(**body))
        else:
            faults.append(Fault(kind="bad_signature", seq=number, detail="the line is no checkpoint"))
    walk = chain.Walk(parts_canonical, wanted={point.seq: None for point in points})
    for number, body in _parsed("journal.ndjson", files, faults):
        entry = _entry(body)
        if entry is None:
            faults.append(Fault(kind="altered_entry", seq=number, detail="the line is no journal entry"))
        else:
            walk.follow([entry])
    faults.extend(walk.faults)

    def check(message: bytes, key: str, signature: str) -> bool:
        return verify(message, key, signature, keys)

    unchecked = _check_points(points, walk, parts_canonical, check, faults)
    signed = max((point.seq for point in points), default=0)
    if signed < walk.seq:  # an export signs its end: who takes signatures away can make up what they covered
        unchecked.append(
            UnverifiableError(
                f"The entries behind position {signed} are not signed: nothing proves who wrote them.",
                reason="unsigned_end",
            )
        )
    if "records.ndjson" not in files and walk.lives:
        unchecked.append(
            UnverifiableError(
                f"The records are not in the export: the chain and its signatures were checked, and none of the "
                f"{len(walk.lives)} versions that the journal tells of.",
                reason="missing_records",
            )
        )
    records = _check_exported_records(files, walk, faults)
    return Verification(
        entries=walk.seq,
        records=records,
        checkpoints=len(points),
        head_seq=walk.seq,
        head_hash=walk.hash,
        faults=chain.in_order(faults),
        last_checkpoint=points[-1] if points else None,
        **_told(unchecked),
    )


def _check_exported_records(files: Mapping[str, Iterable[str]], walk: chain.Walk, faults: list[Fault]) -> int:
    if "records.ndjson" not in files:
        return 0
    count = 0
    for _, body in _parsed("records.ndjson", files, faults):
        count += 1
        faults.extend(chain.version_faults(body, walk))
    faults.extend(chain.missing_faults(walk))
    return count


def _check_points(
    points: Iterable[Checkpoint],
    walk: chain.Walk,
    canonical: chain.Canonical,
    check: chain.Check,
    faults: list[Fault],
) -> list[UnverifiableError]:
    """Adds what is wrong to the faults; returns what could not be checked."""
    unchecked: list[UnverifiableError] = []
    for point in points:
        for found in chain.checkpoint_faults(point, walk, canonical, check):
            if isinstance(found, UnverifiableError):
                unchecked.append(found)
            else:
                faults.append(found)
    return unchecked


def _told(unchecked: Iterable[UnverifiableError]) -> dict[str, tuple[str, ...]]:
    """What could not be checked, in words and as stable ones, each once."""
    return {
        "unverifiable": tuple(dict.fromkeys(one.message for one in unchecked)),
        "reasons": tuple(dict.fromkeys(one.reason or one.code for one in unchecked)),
    }


def _parsed(
    name: str, files: Mapping[str, Iterable[str]], faults: list[Fault]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(files.get(name, ()), start=1):
        try:
            body = json.loads(line, object_pairs_hook=_named_once)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            yield number, body
        elif line.strip():
            faults.append(
                Fault(kind="altered_entry", seq=number, detail=f"line {number} of {name} is damaged")
            )


def _named_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. A name that stands in it twice means one thing to us and another to the next reader."""
    body = dict(members)
    if len(body) < len(members):
        raise ValueError
    return body


_TEXT_OR_NONE = (str, type(None))
#: What the lines of an export hold.
_MENTION = {"id": str, "version": int, "digest": str}
_ENTRY = {
    "tenant": str,
    "seq": int,
    "at": int,
    "actor": str,
    "op": str,
    "store": _TEXT_OR_NONE,
    "agent": _TEXT_OR_NONE,
    "run": _TEXT_OR_NONE,
    "node": _TEXT_OR_NONE,
    "records": list,
    "detail": dict,
    "prev": str,
    "hash": str,
}
_POINT = {"tenant": str, "seq": int, "hash": str, "at": int, "key_id": str, "signature": str}


def _fits(body: object, shape: Mapping[str, Any]) -> bool:
    """An object with these members of these types, and no others."""
    if not isinstance(body, dict):
        return False
    members = cast("dict[str, object]", body)
    return members.keys() == shape.keys() and all(
        isinstance(members[name], kind) and not isinstance(members[name], bool)
        for name, kind in shape.items()
    )


def _entry(body: dict[str, Any]) -> Entry | None:
    if not _fits(body, _ENTRY) or not all(_fits(item, _MENTION) for item in body["records"]):
        return None
    if body["op"] not in tuple(Op):
        return None
    mentions = tuple(Mention(item["id"], item["version"], item["digest"]) for item in body["records"])
    fields: dict[str, Any] = {**body, "op": Op(body["op"]), "records": mentions}
    return Entry(**fields)


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
