"""What a search is asked to find, and what it says of each candidate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from quipu.model.record import MemoryType, Record, State
from quipu.model.value import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose records are in reach. Word statistics are taken over exactly these, so nobody else's text moves a score."""

    tenant: str
    #: None only together with a shared store: all agents' records in it.
    agent_id: str | None
    user_id: str | None = None
    store_id: str | None = None
    #: Who asks, where the scope is a shared store: others' records are in reach as far as they may be shared.
    reader: str | None = None
    #: Where the caller is limited to some stores: the ids of those; None is any.
    stores: frozenset[str] | None = None


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
    #: Leave out facts whose validity has ended.
    without_superseded: bool = True
    #: Only these records, and all of them that are in reach, however little they match.
    ids: frozenset[str] | None = None
    #: Names of stores by id, where the filter speaks of stores.
    store_names: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """A turn of a session is understood by its neighbours: these shares of theirs are added to its own."""

    previous_words: float = 0.0
    next_words: float = 0.0
    previous_vector: float = 0.0
    next_vector: float = 0.0

    @property
    def is_empty(self) -> bool:
        return not (self.previous_words or self.next_words or self.previous_vector or self.next_vector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One hybrid search: keywords of `text`, nearest neighbours of `vector`, `limit` candidates of each."""

    scope: Scope
    snapshot: Snapshot
    restriction: Restriction
    text: str
    vector: bytes | None
    limit: int
    #: The model that made the vector; a tenant that has moved to another one refuses it.
    model: str | None = None
    context: SessionContext
    #: Words of `text` that are people's names: they say whose records are meant, not what is asked.
    people: frozenset[str] = frozenset()
    #: Words of `text` that name users; those that do, though others' records have them more often; and the users, whose
    #: nearest are always looked at.
    names: frozenset[str] = frozenset()
    shared_names: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()


@dataclass(slots=True)
class Candidate:
    """A record that keywords or vectors found, with what each says of it.

    Not frozen, though nobody changes one: a recall makes hundreds, and a frozen one takes three times as long to make.
    """

    id: str
    version: int
    #: Cosine of the query and the passage of the record that is nearest to it, None without a vector; and what ranks: with
    #: the neighbours' share, and less for every passage that had a chance.
    cosine: float | None
    near: float | None
    #: BM25 of the record's words and its neighbours' share of theirs.
    keyword: float
    #: Share of the query's weight of meaning (inverse document frequency) that the record's words cover: of all its words,
    #: and without people's names.
    words: float
    coverage: float
    session_id: str | None
    subject: str | None
    confidence: float
    is_demoted: bool
    created_at: int
    #: How many words it has, whether it ends by asking, and whether an assistant said it.
    length: int
    asks: bool
    by_assistant: bool = False
    #: Whose it is, and the share of the users' names in the query that it has.
    user_id: str | None = None
    named: float = 0.0
    #: Which of its passages is nearest to the query, from 0.
    passage: int = 0
    #: From 1 to 0, how short the turns of its session are; 0 for what is no turn.
    brevity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The best by keywords and by vectors, how many records were in reach, and how many the restrictions left."""

    candidates: tuple[Candidate, ...]
    in_reach: int
    searched: int = 0


@dataclass(frozen=True, slots=True)
class WordShares:
    """For each word of a text as written: the share of the records in reach that have it."""

    words: tuple[tuple[str, float], ...]
    in_reach: int
    #: Subjects in reach that the text names.
    subjects: frozenset[str]
    #: The position at which that holds: what was searched for now is searched as of then.
    seq: int = 0
    #: Words of the text that name users in reach. `mentions` are those that others' records hardly have.
    names: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()
    #: The users that are named, where the scope is not one user's, and how many records in reach are theirs.
    users: frozenset[str] = frozenset()
    theirs: int = 0
    has_several_users: bool = False


@dataclass(frozen=True, slots=True)
class SharedWord:
    """A rare word that records have in common: the share of the records in reach that have it, and who has it."""

    share: float
    #: Of the records whose words were asked for, and of those they were compared with.
    leaders: frozenset[str]
    members: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Records to walk through, newest id first."""

    tenant: str
    agent_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    store_id: str | None = None
    types: frozenset[MemoryType] = frozenset()
    states: frozenset[State] = frozenset({"live"})
    #: What a filter says of a record.
    matches: Callable[[Record], bool] | None = None
    created_to: int | None = None
    confidence_below: float | None = None
    #: Continue below this id.
    below: str | None = None
    limit: int | None = None


#: One hop in the graph: record id → neighbouring record ids.
Neighbours: TypeAlias = Mapping[str, frozenset[str]]
