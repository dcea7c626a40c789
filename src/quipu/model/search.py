"""What a ledger is asked to find, and what it tells about each candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quipu.model.record import MemoryType, State
from quipu.model.value import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose records are in reach. Statistics are taken over exactly these, so nobody else's text moves a score."""

    tenant: str
    #: None only together with a shared store: all agents' records in it.
    agent_id: str | None
    user_id: str | None = None
    store_id: str | None = None
    #: Who asks, where the scope is a shared store: others' records are in reach as far as they may be shared.
    reader: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A journal position to read as of (None: now), and the clock that judges expiry."""

    seq: int | None
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """What narrows the scope further. Always applied before the best are chosen."""

    session_id: str | None = None
    types: frozenset[MemoryType] = frozenset()
    created_from: int | None = None
    filter: JsonObject | None = None
    #: Leave these sensitivities out.
    without_sensitivity: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One hybrid search: a keyword leg over `text`, a vector leg over `vector`, `limit` candidates each."""

    scope: Scope
    snapshot: Snapshot
    restriction: Restriction
    text: str
    vector: bytes | None
    limit: int
    #: How much of the previous and the next turn's keyword score a turn inherits.
    previous_turn: float
    next_turn: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A record some leg found, with what each leg says of it."""

    id: str
    version: int
    #: Cosine of query and record, None without a vector.
    cosine: float | None
    #: The same after taking the scope's mean vector out of both.
    centred: float | None
    #: BM25 of the record's own words, and with its neighbours' share added.
    keyword: float
    context: float
    #: Share of the query's weight of meaning (inverse document frequency) that the record's words cover.
    coverage: float
    session_id: str | None
    subject: str | None
    confidence: float
    is_demoted: bool
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The union of both legs' best, and how many records were in reach."""

    candidates: tuple[Candidate, ...]
    in_reach: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Records to walk through, newest id first."""

    tenant: str
    agent_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    store_id: str | None = None
    types: frozenset[MemoryType] = frozenset()
    states: frozenset[State] = frozenset({State.LIVE})
    filter: JsonObject | None = None
    ids: tuple[str, ...] | None = None
    #: Continue below this id.
    below: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class WordShares:
    """For each word of a text as written: the share of the records in reach that have it."""

    words: tuple[tuple[str, float], ...]
    in_reach: int
    #: Subjects in reach that the text names.
    subjects: frozenset[str]


#: One hop in the graph: record id → neighbouring record ids.
Neighbours = Mapping[str, frozenset[str]]
