"""The journal: everything that happened, as a hash chain of entries without content."""

from dataclasses import dataclass, field

from quipu.model.value import Json, JsonObject

#: The hash that the first entry of a tenant follows.
GENESIS = bytes(32)
#: What an entry's detail holds for whoever verifies: rows by digest, versions that ended, records that were erased.
WITNESS = frozenset({"nonce", "side", "ends", "erased"})


@dataclass(frozen=True, slots=True)
class Mention:
    """A version that an entry names."""

    id: str
    version: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry before the ledger gives it its place in the chain."""

    #: What happened: the name of the operation, or of its effect (`hold`, `approve`, `deny`, `sweep`).
    op: str
    actor: str
    at: int
    store: str | None = None
    agent: str | None = None
    run: str | None = None
    node: str | None = None
    #: Ids, numbers and fixed words only: the journal cannot be erased.
    detail: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. `hash` is the SHA-256 of the canonical JSON of all the others, the tenant with them."""

    seq: int
    at: int
    actor: str
    op: str
    store: str | None
    agent: str | None
    run: str | None
    node: str | None
    records: tuple[Mention, ...]
    detail: JsonObject
    prev: bytes
    hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The end of a tenant's chain, and what moves with it."""

    seq: int = 0
    hash: bytes = GENESIS
    at: int = 0
    #: The last position at which a record, a mark or a link changed.
    changed: int = 0
    #: Positions before this one can no longer be read as of.
    horizon: int = 0
    #: The position at which secrets or rules last changed.
    guarded: int = 0
    #: While set, none of the tenant's credentials is good.
    suspended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A signed statement of where the chain stood."""

    seq: int
    hash: bytes
    at: int
    key_id: str
    signature: str
