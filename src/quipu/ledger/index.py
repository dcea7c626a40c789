"""What the ledger gives to search: rows of an owner's versions, and what is new since they were last read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

#: A version: id and version.
VersionKey: TypeAlias = tuple[str, int]


class IndexRow(NamedTuple):
    """What search knows of one version. Rows come in the order (born, id, version)."""

    id: str
    version: int
    born: int
    died: int | None
    expires_at: int | None
    created_at: int
    user_id: str | None
    store_id: str
    session_id: str | None
    type: str
    state: str
    confidence: float
    subject: str | None
    sensitivity: str | None
    #: When it happened: the event's time, or when the record was created.
    event_time: int
    #: Hashes and counts of its words (`search/terms.py`); None keeps it out of keyword search.
    terms: bytes | None
    #: Little-endian float32 numbers in the tenant's space; None: not embedded.
    vector: bytes | None
    agent_id: str
    #: JSON list of the agents it may be shared with; None: everybody.
    share_with: str | None
    #: 1 when the text ends with a question mark.
    asks: int
    #: 1 when an assistant said it.
    by_assistant: int
    valid_until: int | None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose versions: an agent's, or those of a store that agents share."""

    name: str
    is_store: bool


@dataclass(frozen=True, slots=True)
class Space:
    """The model that a tenant's vectors were made with, and how many numbers each has."""

    model: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Known:
    """How far somebody who keeps an owner's rows in memory has followed the ledger."""

    #: `Head.changed` at that time; 0: nothing was read yet.
    seq: int = 0
    space: Space | None = None
    #: How often versions that were there already got a vector or other terms by then.
    refilled: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """What has to be taken in to be level with the ledger, all of one moment."""

    known: Known
    #: All there is; what was read before is to be dropped (something was erased, re-embedded, or far too much is new).
    is_whole: bool
    rows: Sequence[IndexRow]
    #: Versions that ended, and at which position.
    deaths: Sequence[tuple[str, int, int]]
    #: Records of the owner whose demotion changed, and to what.
    demoted: Sequence[tuple[str, bool]]
