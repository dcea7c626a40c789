"""What a ledger keeps beside records and journal."""

from __future__ import annotations

from dataclasses import dataclass

from quipu.model.journal import Entry
from quipu.model.value import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLink:
    """An edge of the graph, and the positions at which it began and ended."""

    from_id: str
    to_id: str
    rel: str
    born: int
    died: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReason:
    """Why a record was changed at a position."""

    record_id: str
    seq: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """What a repeated request is answered, and the position at which it was answered first."""

    operation: str
    answer: JsonObject
    at: int
    seq: int
    #: What the journal says there.
    entry: Entry | None
