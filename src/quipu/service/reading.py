"""Reading by id, by page and by history."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from dataclasses import dataclass

from quipu.errors import InvalidError, NotFoundError
from quipu.model.journal import Draft, Mention, Op
from quipu.model.operations import ListRequest
from quipu.model.outcomes import Page
from quipu.model.principal import Permission, Principal
from quipu.model.record import Mark, Record, State
from quipu.model.search import Scope, Selection
from quipu.ports.parts import Parts
from quipu.rules import validation
from quipu.rules.reach import in_reach
from quipu.rules.texts import is_keepable
from quipu.service.access import Access
from quipu.service.notes import ReadNotes
from quipu.service.recalling import Recalling


@dataclass(frozen=True, slots=True)
class Version:
    """One version in a record's history, and why it came to its end or its being, where somebody said so."""

    record: Record
    reason: str | None


class Reading:
    """Reads that do not rank."""

    def __init__(self, parts: Parts, access: Access, recalling: Recalling, notes: ReadNotes) -> None:
        self._parts, self._access, self._recalling, self._notes = parts, access, recalling, notes

    async def get(
        self, principal: Principal, agent_id: str | None, record_id: str, as_of: str | None
    ) -> Record:
        """The record as it stands, or stood. Archived ones can be read; forgotten and expired ones not."""
        self._access.authorise(principal, Permission.READ, agent_id)
        scope = await self._reach(principal, agent_id)
        snapshot = await self._recalling.snapshot(principal.tenant, as_of)
        if not is_keepable(record_id):
            raise _absent()
        found = (await self._parts.ledger.read(principal.tenant, [record_id], snapshot.seq)).get(record_id)
        if found is None or not in_reach(found, scope) or found.expired(snapshot.now) or found.is_emptied:
            raise _absent()
        if snapshot.seq is None and found.standing is State.FORGOTTEN:
            raise _absent(found.merged_into)
        self._note(principal, agent_id, Op.READ, [found])
        return found

    async def marks(self, principal: Principal, record_id: str) -> Mark:
        """Use and standing of a record."""
        self._access.authorise(principal, Permission.READ)
        return (await self._parts.ledger.marks(principal.tenant, [record_id])).get(record_id) or Mark(
            record_id
        )

    async def history(
        self, principal: Principal, agent_id: str | None, record_id: str
    ) -> tuple[Version, ...]:
        """All versions, oldest first."""
        self._access.authorise(principal, Permission.READ, agent_id)
        scope = await self._reach(principal, agent_id)
        if not is_keepable(record_id):
            raise _absent()
        versions = await self._parts.ledger.versions(principal.tenant, record_id)
        in_hand = [version for version in versions if in_reach(version, scope) or version.is_emptied]
        if not in_hand or (not in_reach(versions[-1], scope) and not versions[-1].agent_id == agent_id):
            raise _absent()
        reasons = await self._parts.ledger.reasons(principal.tenant, record_id)
        return tuple(
            Version(version, reasons.get(version.born) or reasons.get(version.died or -1))
            for version in in_hand
        )

    async def list(self, principal: Principal, request: ListRequest) -> Page:
        """A page of records, newest first."""
        validation.checked_list(request, self._parts.limits)
        records: list[Record] = []
        async for record in self.walk(principal, request, limit=request.limit + 1):
            records.append(record)
        page = records[: request.limit]
        more = len(records) > request.limit
        return Page(
            records=tuple(page),
            next_cursor=_cursor(page[-1].id) if more else None,
            store_names=await self._access.store_names(principal.tenant, {row.store_id for row in page}),
        )

    async def walk(
        self, principal: Principal, request: ListRequest, limit: int | None = None
    ) -> AsyncIterator[Record]:
        """All records a list request means, beginning behind its cursor."""
        self._access.authorise(principal, Permission.READ, request.agent_id)
        scope = await self._reach(principal, request.agent_id, request.user_id, request.store)
        snapshot = await self._recalling.snapshot(principal.tenant, request.as_of)
        selection = Selection(
            tenant=principal.tenant,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            session_id=request.session_id,
            store_id=scope.store_id,
            types=frozenset(request.types),
            states=frozenset(request.states),
            filter=request.filter or None,
            below=None if request.cursor is None else _below(request.cursor),
        )
        left = limit
        async for record in self._parts.ledger.scan(selection, snapshot):
            if in_reach(record, scope) and principal.may_act_for(record.agent_id):
                yield record
                if left is not None and (left := left - 1) <= 0:
                    return

    async def _reach(
        self, principal: Principal, agent_id: str | None, user_id: str | None = None, store: str | None = None
    ) -> Scope:
        """Without an agent: everything of the tenant that the principal may act for, which needs to be said."""
        if agent_id is not None:
            return await self._access.scope(principal, agent_id, user_id, store)
        self._access.authorise(principal, Permission.ADMIN)
        named = None if store is None else await self._access.store(principal.tenant, store)
        return Scope(
            tenant=principal.tenant,
            agent_id=None,
            user_id=principal.user_id if user_id is None else user_id,
            store_id=None if named is None else named.id,
        )

    def _note(self, principal: Principal, agent_id: str | None, op: Op, records: list[Record]) -> None:
        draft = Draft(op=op, actor=principal.name, at=self._parts.clock(), agent=agent_id)
        mentions = [Mention(record.id, record.version, record.digest) for record in records]
        self._notes.add(principal.tenant, draft, mentions, is_recall=False)


def _absent(merged_into: str | None = None) -> NotFoundError:
    hint = None if merged_into is None else f"It was merged into {merged_into}."
    return NotFoundError("There is no such record.", reason="record", hint=hint)


def _cursor(record_id: str) -> str:
    return base64.urlsafe_b64encode(record_id.encode("utf-8")).decode("ascii").rstrip("=")


def _below(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("utf-8")
    except (binascii.Error, ValueError):
        raise InvalidError.at("/cursor", "bad_value", "This is no cursor of ours.") from None
