"""Tombstones of a file: what its owner has forgotten or erased since goes here too (contract 10.3, step 7).

1. They are heeded only in a file that a known key signed.
2. A record that a file of the same owner brought, and that nobody has changed here since, is forgotten: judged by the
   rules like any forgetting, and undone with the import. Nothing is erased on a file's word.
3. Of a record that was never here the tombstone itself is kept, without a word of content, so that no older file brings
   it in.
4. Everything else stays as it is, and is counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from quipu.errors import QuipuError
from quipu.formats import values
from quipu.formats.reading import Opened
from quipu.formats.values import Found
from quipu.model.change import Change, Commit, Erase, Put
from quipu.model.governance import Effect, Verdict
from quipu.model.journal import Draft, Op
from quipu.model.operations import ForgetRequest
from quipu.model.outcomes import ForgetResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Provenance, Record, State
from quipu.model.store import MAIN
from quipu.ports.parts import Parts
from quipu.rules.texts import is_keepable
from quipu.service.access import Access
from quipu.service.gate import Gate
from quipu.service.import_owners import Kin
from quipu.service.secrets import Checked, Secrets

Forget: TypeAlias = Callable[[Principal, ForgetRequest], Awaitable[ForgetResponse]]

_STRETCH, _LONGEST_ID, _HEX = 500, 128, 64
_THERE = (State.LIVE, State.ARCHIVED)


@dataclass(frozen=True, slots=True)
class _Tombstone:
    id: str
    hash: str
    at: int


class Burying:
    """Reads tombstones, and has what they are of forgotten."""

    def __init__(self, parts: Parts, access: Access, gate: Gate, secrets: Secrets, forget: Forget) -> None:
        self._parts, self._access = parts, access
        self._gate, self._secrets, self._forget = gate, secrets, forget

    async def gone_through(
        self,
        principal: Principal,
        opened: Opened,
        agent_id: str,
        import_id: str,
        waiting: Container[str],
        *,
        dry: bool,
    ) -> Counter[str]:
        """What became of them, or would. `waiting`: ids that the same import has put before a person already."""
        counts: Counter[str] = Counter()
        found = opened.tombstones()
        # What stands in no proven owner's name, or in that of somebody who may not forget, is not heeded.
        is_heeded = opened.is_proven and principal.may(Permission.DELETE)
        kin = Kin(self._parts, principal.tenant, opened.owner or "", import_id)
        gone: dict[str, list[str]] = {}
        while stretch := await asyncio.to_thread(_stretch, found):
            stones = [] if not is_heeded else [one for _, line in stretch if (one := self._read(line))]
            opened.loss.dropped("tombstones", len(stretch) - len(stones))
            there = await self._parts.ledger.read(principal.tenant, [stone.id for stone in stones])
            unknown = [stone for stone in stones if stone.id not in there]
            if unknown and not dry:
                await self._parts.ledger.commit(await self._planted(principal, unknown, agent_id, import_id))
            for stone in stones:
                record = there.get(stone.id)
                if record is None or record.standing not in _THERE:
                    continue
                if record.id in waiting:
                    counts["removals_waiting"] += 1
                    continue
                if record.updated_at > stone.at or not await kin.brought(record):
                    counts["kept"] += 1
                    continue
                ids = gone.setdefault(record.agent_id, [])
                ids.append(record.id)
                if len(ids) == self._parts.limits.ids_per_call:
                    del gone[record.agent_id]
                    await self._forgotten(principal, record.agent_id, ids, import_id, counts, dry=dry)
        for agent, ids in gone.items():
            await self._forgotten(principal, agent, ids, import_id, counts, dry=dry)
        return counts

    def _read(self, line: object) -> _Tombstone | None:
        body = values.an_object(line)
        name, digest = values.a_text(body.get("item_id")), body.get("hash")
        at = values.millis(body.get("deleted_at"))
        if name is None or len(name) > _LONGEST_ID or not is_keepable(name) or at is None:
            return None
        if not isinstance(digest, str) or len(digest) != _HEX or set(digest) - set("0123456789abcdef"):
            return None
        return _Tombstone(name, digest, min(at, self._parts.clock()))

    async def _planted(
        self, principal: Principal, stones: Sequence[_Tombstone], agent_id: str, import_id: str
    ) -> Commit:
        """Records that are born erased: id, hash and time, and nothing else."""
        store = await self._access.store(principal.tenant, MAIN)
        changes: list[Change] = []
        for stone in {stone.id: stone for stone in stones}.values():
            record = Record(
                tenant=principal.tenant,
                id=stone.id,
                version=1,
                store_id=store.id,
                agent_id=agent_id,
                type=MemoryType.SEMANTIC,
                content="",
                provenance=Provenance(written_by=principal.name),
                created_at=stone.at,
                updated_at=stone.at,
                salt=self._parts.mint_salt(),
                digest=stone.hash,
            )
            changes += [Put(record=record), Erase(id=stone.id)]
        draft = Draft(
            op=Op.ERASE,
            actor=principal.name,
            at=self._parts.clock(),
            agent=agent_id,
            detail={"import_id": import_id},
        )
        return Commit(tenant=principal.tenant, draft=draft, changes=tuple(changes))

    async def _forgotten(
        self,
        principal: Principal,
        agent_id: str,
        ids: Sequence[str],
        import_id: str,
        counts: Counter[str],
        *,
        dry: bool,
    ) -> None:
        request = ForgetRequest(
            agent_id=agent_id,
            ids=tuple(ids),
            reason="It was forgotten where it came from.",
            # Who may bring in but not decide asks a person, as for what an import brings.
            approval_required=not principal.may(Permission.ADMIN),
            import_id=import_id,
        )
        try:
            if dry:
                is_held, removed = await self._would_wait(principal, request), len(ids)
            else:
                done = await self._forget(principal, request)
                is_held, removed = done.pending_approval, len(done.forgotten_ids)
        except QuipuError:  # a rule forbids it, or it is another's: it stays
            counts["kept"] += len(ids)
            return
        counts["removals_waiting" if is_held else "removed"] += len(ids) if is_held else removed
        counts["kept"] += 0 if is_held else len(ids) - removed

    async def _would_wait(self, principal: Principal, request: ForgetRequest) -> bool:
        self._access.authorise(principal, Permission.DELETE, request.agent_id)

        async def work(checked: Checked) -> Verdict:
            return await self._gate.judged(principal, request, checked.position, is_trial=True)

        return (await self._secrets.checking(principal.tenant, work)).effect is Effect.HOLD


def _stretch(found: Iterator[Found]) -> list[Found]:
    return list(islice(found, _STRETCH))
