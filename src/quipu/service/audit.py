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
from quipu.model.record import Record, State
from quipu.model.value import Json
from quipu.ports.ledger import Indexed
from quipu.ports.parts import Parts
from quipu.rules import chain, texts
from quipu.service.access import Access
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
        damage = await ledger.integrity_faults()
        checkpoints = await ledger.checkpoints(tenant)
        walk = chain.Walk(self._parts.canonical, wanted={point.seq: None for point in checkpoints})
        head = await ledger.head(tenant)
        faults: list[Fault] = list(damage)
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
        except TamperedError as error:
            faults.append(Fault(kind=error.reason or "altered", detail=error.message))
        keys = self._parts.signer.known_keys
        unverifiable = _check_points(checkpoints, walk, self._parts, keys, faults)
        return Verification(
            entries=walk.seq,
            records=records,
            checkpoints=len(checkpoints),
            head_seq=head.seq,
            head_hash=head.hash,
            faults=tuple(sorted(faults, key=lambda fault: fault.seq or 0)),
            unverifiable=tuple(unverifiable),
            last_checkpoint=checkpoints[-1] if checkpoints else None,
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
        count = 0
        waiting: list[Indexed] = []
        async for record in self._parts.ledger.every_version(tenant):
            count += 1
            faults.extend(chain.version_faults(chain.version_body(record), walk))
            waiting.append(Indexed(record=record, search_text=indexed_text(record)))
            if len(waiting) >= _CHUNK:
                faults.extend(await self._parts.ledger.index_faults(tenant, waiting))
                waiting.clear()
        faults.extend(await self._parts.ledger.index_faults(tenant, waiting))
        faults.extend(chain.missing_faults(walk))
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
        """
        self._access.authorise(principal, Permission.ADMIN)
        await self.checkpoint(principal)
        tenant, after = principal.tenant, 0
        while entries := await self._parts.ledger.entries(tenant, after):
            for entry in entries:
                yield "journal.ndjson", _line({**chain.entry_body(entry), "hash": entry.hash})
            after = entries[-1].seq
        for point in await self._parts.ledger.checkpoints(tenant):
            yield "checkpoints.ndjson", _line(_point_body(point))
        yield "keys.json", _line(dict(self._parts.signer.known_keys))
        async for record in self._parts.ledger.every_version(tenant):
            yield "records.ndjson", _line(chain.version_body(record))


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
    records = _check_exported_records(files, walk, faults)
    unverifiable: list[str] = []
    for point in points:
        for found in chain.checkpoint_faults(
            point,
            walk,
            parts_canonical,
            lambda message, key, signature: verify(message, key, signature, keys),
        ):
            if isinstance(found, Fault):
                faults.append(found)
            else:
                unverifiable.append(found.message)
    return Verification(
        entries=walk.seq,
        records=records,
        checkpoints=len(points),
        head_seq=walk.seq,
        head_hash=walk.hash,
        faults=tuple(sorted(faults, key=lambda fault: fault.seq or 0)),
        unverifiable=tuple(dict.fromkeys(unverifiable)),
        last_checkpoint=points[-1] if points else None,
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
    parts: Parts,
    keys: Mapping[str, str],
    faults: list[Fault],
) -> list[str]:
    unverifiable: list[str] = []
    for point in points:
        for found in chain.checkpoint_faults(
            point,
            walk,
            parts.canonical,
            lambda message, key, signature: parts.verify(message, key, signature, keys),
        ):
            if isinstance(found, UnverifiableError):
                unverifiable.append(found.message)
            else:
                faults.append(found)
    return list(dict.fromkeys(unverifiable))


def _parsed(
    name: str, files: Mapping[str, Iterable[str]], faults: list[Fault]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(files.get(name, ()), start=1):
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            yield number, body
        elif line.strip():
            faults.append(
                Fault(kind="altered_entry", seq=number, detail=f"line {number} of {name} is damaged")
            )


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


def indexed_text(record: Record) -> str | None:
    """What keyword search must know of a version: archived and emptied ones are not searched."""
    return None if record.is_emptied or record.state is not State.LIVE else texts.search_text(record)


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
