"""What the ledger is asked to write: changes decided beforehand, applied all or not at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from quipu.ledger.table import Key, Table
from quipu.model.journal import Draft, Mention
from quipu.model.record import Ending, Record
from quipu.model.value import JsonObject

#: Idempotency keys are honoured this long.
KEY_LIFE_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Begin a version. The version before it, if one is current, ends as replaced."""

    record: Record
    #: The version the decision was based on; 0 when the record is new. Anything else there now is a conflict.
    expects: int = 0
    #: That version must still be current: one that was forgotten meanwhile is not brought back by a change.
    must_stand: bool = False
    #: What keyword search finds it by (`search/terms.py`); None keeps it out.
    terms: bytes | None = None
    vector: bytes | None = None
    #: The model that made the vector; a tenant that has moved to another one refuses it.
    model: str | None = None
    #: Take terms and vector over from the version it follows: the text is the same.
    keeps_index: bool = False
    lifts_demotion: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """End the current version without a successor."""

    id: str
    expects: int
    ending: Ending
    merged_into: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Erase:
    """Remove content, vectors, terms and salts of every version of a record, for good, and all rows that name it."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Demote:
    """Let a record rank lower from now on; its version stays."""

    id: str
    expects: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands:
    """Change nothing, and refuse the whole commit when one of these was erased: what is written holds their words."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """Note that these records were returned by a recall."""

    ids: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Write a capability's row. `expects` is the position that last kept it; 0: no row yet; None: whatever is there.

    A row of an operational table is written along with the commit; no entry names it, and nothing is expected of it.
    """

    table: Table[Any]
    value: Any
    expects: int | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Take a capability's row away; a row that is not there is a conflict."""

    table: Table[Any]
    key: Key
    expects: int | None = None


@dataclass(frozen=True, slots=True)
class ForEach:
    """Write operational rows for each row that another operational table has at the moment of the commit.

    Whoever adds a row there is thereby sure of every commit that comes after it.
    """

    over: Table[Any]
    table: Table[Any]
    #: A row of `over`, the entry's position and its time → what is written.
    rows: Callable[[Any, int, int], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Suspend:
    """Refuse all credentials of the tenant from now on; None lets them in again."""

    at: int | None


Change: TypeAlias = Put | Close | Erase | Demote | Stands | Touch | Keep | Drop | ForEach | Suspend


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """Makes a write happen once: the same key and the same request give the first answer again."""

    principal: str
    operation: str
    key: str
    #: Hash of the request: another request under the same key is refused.
    fingerprint: str
    #: The answer to give again.
    answer: JsonObject
    #: The records whose erasure also erases the answer.
    record_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One journal entry and the changes it stands for, in one transaction."""

    tenant: str
    draft: Draft
    changes: tuple[Change, ...] = ()
    #: Versions a read names; a write's follow from its changes.
    mentions: tuple[Mention, ...] = ()
    once: Once | None = None
    #: Why, in the caller's words. Kept outside the journal, and gone when a record it speaks of is erased.
    reason: str | None = None
    #: The position that an erasure was decided at: if what it erases was merged or derived from since, its words would
    #: live on there, which is a conflict.
    erases_as_of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Durable. `replayed` is the first answer of a repeated write; `seq` and `at` are then the first write's."""

    seq: int
    at: int
    replayed: JsonObject | None = None
