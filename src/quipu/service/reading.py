"""Reading by id, by page and by history."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Callable, Mapping

from quipu.errors import InvalidError, NotFoundError
from quipu.model.journal import Draft, Mention, Op
from quipu.model.operations import ListRequest
from quipu.model.outcomes import Page, Version
from quipu.model.principal import Permission, Principal
from quipu.model.record import Ending, Mark, Record, State
from quipu.model.search import Scope, Selection
from quipu.ports.parts import Parts
from quipu.rules import validation
from quipu.rules.reach import in_reach
from quipu.rules.texts import is_keepable
from quipu.service.access import Access
from quipu.service.budgets import Budgets
from quipu.service.notes import ReadNotes
from quipu.service.recalling import Recalling


class Reading:
    """Reads that do not rank."""

    def __init__(
        self, parts: Parts, access: Access, recalling: Recalling, notes: ReadNotes, budgets: Budgets
    ) -> None:
        self._parts, self._access, self._recalling, self._notes = parts, access, recalling, notes
        self._budgets = budgets

    async def get(
        self, principal: Principal, agent_id: str | None, record_id: str, as_of: str | None
    ) -> Record:
        """The record as it stands, or stood. Archived ones can be read; forgotten and expired ones not."""
        self._access.authorise(principal, Permission.READ, agent_id)
        self._budgets.check_recall(principal, agent_id)
        is_mine = await self._access.reach(principal, agent_id)
        snapshot = await self._recalling.snapshot(principal.tenant, as_of)
        if not is_keepable(record_id):
            raise _absent()
        found = (await self._parts.ledger.read(principal.tenant, [record_id], snapshot.seq)).get(record_id)
        if found is None or not is_mine(found) or found.expired(snapshot.now) or found.is_emptied:
            raise _absent()
        if snapshot.seq is None and found.standing is State.FORGOTTEN:
            raise _absent(await self._survivor(found, is_mine))
        self._note(principal, found.agent_id, Op.READ, [found])
        self._budgets.charge_recall(principal, found.agent_id, 1)
        await self._notes.leave_turn()
        return found

    async def _survivor(self, record: Record, is_mine: Callable[[Record], bool]) -> str | None:
        """The record it was merged into, if that may be seen too."""
        name = record.merged_into
        if name is None:
            return None
        survivor = (await self._parts.ledger.read(record.tenant, [name])).get(name)
        return name if survivor is not None and is_mine(survivor) and not survivor.is_emptied else None

    async def marks(self, principal: Principal, record_id: str) -> Mark:
        """Use and standing of a record; of one out of reach, what a record nobody has used would show."""
        self._access.authorise(principal, Permission.READ)
        is_mine = await self._access.reach(principal, None)
        named = [record_id] if is_keepable(record_id) else []
        record = (await self._parts.ledger.read(principal.tenant, named)).get(record_id)
        if record is None or not is_mine(record):
            return Mark(record_id)
        return (await self._parts.ledger.marks(principal.tenant, named)).get(record_id) or Mark(record_id)

    async def history(
        self, principal: Principal, agent_id: str | None, record_id: str
    ) -> tuple[Version, ...]:
        """All versions, oldest first."""
        self._access.authorise(principal, Permission.READ, agent_id)
        self._budgets.check_recall(principal, agent_id)
        is_mine = await self._access.reach(principal, agent_id)
        if not is_keepable(record_id):
            raise _absent()
        versions = await self._parts.ledger.versions(principal.tenant, record_id)
        # Of an erased version nobody knows any more whose it was; its agent's are told that there was one.
        mine = [version for version in versions if is_mine(version) or version.is_emptied]
        if not mine or not (is_mine(versions[-1]) or _is_its_agents(versions[-1], principal, agent_id)):
            raise _absent()
        seen = await self._access.stores_for(principal)
        if seen is not None and versions[-1].store_id not in seen:
            raise _absent()
        reasons = await self._parts.ledger.reasons(principal.tenant, record_id)
        shown = [version for version in mine if not version.is_emptied]
        if shown:
            self._note(principal, shown[-1].agent_id, Op.READ, shown)
            self._budgets.charge_recall(principal, shown[-1].agent_id, len(shown))
        return tuple(Version(version, _reason(version, reasons)) for version in mine)

    async def list(self, principal: Principal, request: ListRequest) -> Page:
        """A page of records, newest first."""
        validation.checked_list(request, self._parts.limits)
        self._budgets.check_recall(principal, request.agent_id)
        records: list[Record] = []
        async for record in self.walk(principal, request, limit=request.limit + 1):
            records.append(record)
        page = records[: request.limit]
        # Who has the file need not ask, and looking at a copy leaves it as it is.
        if page and not principal.is_local:
            self._note(principal, request.agent_id, Op.READ, page)
        self._budgets.charge_recall(principal, request.agent_id, len(page))
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
            stands = record.standing if snapshot.seq is None else record.state
            if stands is State.ARCHIVED and record.expired(snapshot.now):
                continue  # as it is not read by its id any more, swept or not
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
            stores=await self._access.stores_for(principal),
        )

    def _note(self, principal: Principal, agent_id: str | None, op: Op, records: list[Record]) -> None:
        draft = Draft(op=op, actor=principal.name, at=self._parts.clock(), agent=agent_id)
        mentions = [Mention(record.id, record.version, record.digest) for record in records]
        self._notes.add(principal.tenant, draft, mentions, is_recall=False)


def _reason(version: Record, reasons: Mapping[int, str]) -> str | None:
    """Why it came to be, or to its end. What replaced it has its own reason."""
    if version.born in reasons or version.died is None or version.ending is Ending.REPLACED:
        return reasons.get(version.born)
    return reasons.get(version.died)


def _is_its_agents(tombstone: Record, principal: Principal, agent_id: str | None) -> bool:
    """Whether somebody who is not bound to a user may know that there was such a record."""
    return principal.user_id is None and agent_id in (None, tombstone.agent_id)


def _absent(merged_into: str | None = None) -> NotFoundError:
    hint = None if merged_into is None else f"It was merged into {merged_into}."
    error = NotFoundError("There is no such record.", reason="record", hint=hint)
    error.merged_into = merged_into
    return error


def _cursor(record_id: str) -> str:
    return base64.urlsafe_b64encode(record_id.encode("utf-8")).decode("ascii").rstrip("=")


def _below(cursor: str) -> str:
    try:
        below = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("utf-8")
    except (binascii.Error, ValueError):
        below = "\0"
    if not is_keepable(below):
        raise InvalidError.at("/cursor", "bad_value", "This is no cursor of ours.")
    return below
