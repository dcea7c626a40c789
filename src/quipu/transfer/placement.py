"""Where what a file brings belongs among what is there: new, there already, in conflict, newer, or not wanted back.

1. An id that is free is kept.
2. The same id with the same content is a duplicate: nothing happens.
3. The same id with other content becomes a memory of its own that points to the old one; nothing is ever written over.
4. What a file of the same owner brought, and has changed there since, gets a new version from an incremental file.
5. What was forgotten or erased here stays so, except where the forgetting was the undoing of an import.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from quipu.audit.model import UNDONE
from quipu.errors import QuipuError
from quipu.governance.model import PROPOSAL_SUBJECTS, PROPOSALS
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.memory.drafts import content_text
from quipu.memory.model import LinkTo
from quipu.model.principal import Principal
from quipu.model.record import MemoryType, Record
from quipu.model.value import JsonObject
from quipu.sharing.items import derived_id
from quipu.transfer.formats.values import refused
from quipu.transfer.model import IMPORTS, ImportedMemory

_PAGE = 1_000


def owner_mark(owner: str) -> str:
    """What is kept of an owner: enough to know them again."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True, kw_only=True)
class ImportsOfOwner:
    """The imports of one owner whose signature was good; looked up when first asked for."""

    ledger: Ledger
    tenant: str
    owner: str
    #: The import that asks.
    import_id: str
    _ids: set[str] | None = field(default=None, init=False)

    async def brought(self, record: Record) -> bool:
        """Whether the memory is still as a file of this owner brought it. Any change here makes it ours."""
        name = record.provenance.import_id
        if name is None or name == self.import_id:
            return name is not None
        return name in await self._known()

    async def took(self, record: Record) -> bool:
        """Whether the memory was forgotten because a file of this owner said so."""
        if record.died is None or record.is_emptied:
            return False
        query = JournalQuery(after=record.died - 1, before=record.died + 1, limit=1)
        entries = await self.ledger.entries(self.tenant, query)
        name = entries[0].detail.get("import_id") if entries and entries[0].op == "forget" else None
        return name is not None and (name == self.import_id or name in await self._known())

    async def _known(self) -> set[str]:
        if self._ids is None:
            rows = await self.ledger.page(
                IMPORTS, self.tenant, {"owner": owner_mark(self.owner)}, limit=_PAGE
            )
            self._ids = {row.id for row in rows}
        return self._ids


#: What becomes of an item.
Place: TypeAlias = Literal["new", "duplicate", "conflict", "update"]
#: The same item may have been brought in and undone so many times.
_ROUNDS = 16
_THERE = ("live", "archived")


@dataclass(frozen=True, slots=True)
class Placed:
    """A memory with the id that it will have; an update with the version that it follows."""

    memory: ImportedMemory
    place: Place
    after: Record | None = None


_Known: TypeAlias = "dict[str, Record | ImportedMemory | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Looks up ids, many at a time."""

    ledger: Ledger

    async def placed(
        self,
        principal: Principal,
        memories: Sequence[ImportedMemory],
        owner: ImportsOfOwner | None,
    ) -> list[Placed | QuipuError]:
        """What becomes of each, in order. They are as they would be kept, without secrets.

        owner: The file is incremental, and may change what this owner's files brought.
        """
        tenant = principal.tenant
        names = list(dict.fromkeys(one.record_id for one in memories))
        # A name that leads to nothing is known too: asking for each again would cost more than all the rest.
        known: _Known = dict.fromkeys(names)
        known |= await self.ledger.newest_versions(tenant, names)
        waiting = await self.waiting(tenant, names)
        result: list[Placed | QuipuError] = []
        for memory in memories:
            try:
                placed = await self._placed(principal, memory, known, waiting, owner)
            except QuipuError as error:
                result.append(error)
                continue
            if placed.place != "duplicate":
                known[placed.memory.record_id] = placed.memory
            result.append(placed)
        return result

    async def waiting(self, tenant: str, names: Sequence[str]) -> Collection[str]:
        """Those of these ids that a memory which waits for a person will have, or that one would take away."""
        subjects = await self.ledger.matching(PROPOSAL_SUBJECTS, tenant, "record_id", names)
        found = await self.ledger.matching(
            PROPOSALS, tenant, "id", sorted({one.proposal_id for one in subjects})
        )
        pending = {one.id: one for one in found if one.is_pending}
        return {
            one.record_id
            for one in subjects
            if one.proposal_id in pending
            and (one.version == 0 or pending[one.proposal_id].operation == "import_removals")
        }

    async def _placed(
        self,
        principal: Principal,
        memory: ImportedMemory,
        known: _Known,
        waiting: Collection[str],
        owner: ImportsOfOwner | None,
    ) -> Placed:
        place: Place = "new"
        for _ in range(_ROUNDS):
            name = memory.record_id
            if name in waiting:
                return Placed(memory, "duplicate")
            if name not in known:
                known |= {name: None, **await self.ledger.newest_versions(principal.tenant, [name])}
                waiting = {*waiting, *await self.waiting(principal.tenant, [name])}
                if name in waiting:
                    continue
            there = known[name]
            if there is None:
                return Placed(memory, place)
            if owner is not None and isinstance(there, Record) and await _is_followed(there, memory, owner):
                return Placed(memory, "update", there)
            if isinstance(there, Record) and there.standing not in _THERE:
                if not await self._is_undone(principal.tenant, there):
                    raise refused("tombstone", "It was forgotten here.", "Restore it, if it is wanted back.")
                memory = renamed(memory, derived_id("mem", name, f"undone {there.version}"))
            elif _is_same(there, memory):
                return Placed(memory, "duplicate")
            else:
                place, memory = "conflict", beside(principal, there, memory)
        raise refused("tombstone", "It was brought in and undone too often.")

    async def _is_undone(self, tenant: str, record: Record) -> bool:
        """Whether it is gone because an import was undone, and not because somebody wanted it gone."""
        if record.died is None:
            return False
        if not record.is_emptied:
            if record.ending != "forgotten" or record.provenance.import_id is None:
                return False
            reasons = await self.ledger.reasons(tenant, record.id)
            return reasons.get(record.died, "").startswith(UNDONE)
        if record.born != record.died:
            return False
        # A deletion that a file brought of what was never here: it holds nothing back once that import is undone.
        query = JournalQuery(after=record.born - 1, before=record.born + 1, limit=1)
        entries = await self.ledger.entries(tenant, query)
        name = entries[0].detail.get("import_id") if entries else None
        row = await self.ledger.get(IMPORTS, tenant, name) if isinstance(name, str) else None
        return row is not None and row.undone_at is not None


def beside(principal: Principal, there: Record | ImportedMemory, memory: ImportedMemory) -> ImportedMemory:
    """A memory of its own, under an id that follows from the old one and from what it says."""
    text = content_text(memory.type, memory.content)
    name = derived_id("mem", memory.record_id, memory.type, text)
    if there.agent_id == memory.agent_id and principal.may_act_for(memory.agent):
        link = LinkTo(to=memory.record_id, rel="derived_from")
        memory = memory.model_copy(update={"links": (*(memory.links or ()), link)})
    return renamed(memory, name)


def renamed(memory: ImportedMemory, record_id: str) -> ImportedMemory:
    return memory.model_copy(update={"record_id": record_id})


async def _is_followed(there: Record, memory: ImportedMemory, owner: ImportsOfOwner) -> bool:
    """Whether the memory is what became of one that the same owner's file brought."""
    later = memory.created_at if memory.updated_at is None else memory.updated_at
    return (
        later > there.updated_at
        and (there.agent_id, there.type) == (memory.agent_id, memory.type)
        and await (owner.brought(there) if there.standing in _THERE else owner.took(there))
    )


def _is_same(there: Record | ImportedMemory, memory: ImportedMemory) -> bool:
    """Whether they say the same, of the same agent."""
    return _essence(there) == _essence(memory)


def _essence(one: Record | ImportedMemory) -> tuple[str, str, str]:
    content: str | Mapping[str, object] | JsonObject = one.content
    return one.agent_id or "", one.type, _ordered(one.type, content_text(one.type, content))


def _ordered(kind: MemoryType, content: str) -> str:
    """A machine says the same in whatever order its members stand."""
    return content if kind != "procedural" else json.dumps(json.loads(content), sort_keys=True)
