"""Records, vectors, clocks and ids that are the same in every run, and a hand that writes them into a ledger."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import rfc8785

from quipu.model.change import Change, Close, Commit, Committed, Demote, Erase, Once, OpenStore, Put, Touch
from quipu.model.journal import Draft, Entry, Mention, Op
from quipu.model.record import Ending, Link, MemoryType, Provenance, Record, State
from quipu.model.search import (
    Context,
    Found,
    Neighbours,
    Restriction,
    Scope,
    Search,
    Selection,
    SharedWord,
    Snapshot,
    WordShares,
)
from quipu.model.store import MAIN, Store, StoreScope
from quipu.model.value import Json
from quipu.ports.ledger import Ledger, Space
from quipu.rules import chain, drafting, texts

TENANT: Final = "default"
AGENT: Final = "ana"
#: The moment at which a `FixedClock` starts.
START_MS: Final = 1_700_000_000_000
#: A space small enough to write vectors down by hand.
SPACE: Final = Space("letters", 8)


def canonical(value: object) -> bytes:
    """RFC 8785 by its reference implementation."""
    return rfc8785.dumps(value)  # pyright: ignore[reportArgumentType]  it takes any JSON value and says so itself


class FixedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: int = START_MS) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def move(self, milliseconds: int) -> int:
        self.now += milliseconds
        return self.now


class CountedIds:
    """Ids that count upwards, so that a later one sorts behind an earlier one."""

    def __init__(self, mark: str = "0") -> None:
        self._mark = mark
        self._count = itertools.count(1)

    def __call__(self, prefix: str) -> str:
        return f"{prefix}_{next(self._count):025d}{self._mark}"


def vector(seed: object, dimensions: int = SPACE.dimensions, near: bytes | None = None) -> bytes:
    """A unit vector that depends on nothing but its arguments; `near` draws it close to another one."""
    number = int.from_bytes(hashlib.sha256(repr(seed).encode()).digest()[:8], "big")
    drawn = np.random.default_rng(number).standard_normal(dimensions)
    if near is not None:
        drawn = 0.05 * drawn + np.frombuffer(near, "<f4")
    return unit(drawn.tolist())


def unit(numbers: Sequence[float]) -> bytes:
    """These numbers as a vector of length one."""
    values = np.array(numbers, np.float64)
    return (values / np.linalg.norm(values)).astype("<f4").tobytes()


def cosine(one: bytes, other: bytes) -> float:
    return float(np.dot(np.frombuffer(one, "<f4").astype(float), np.frombuffer(other, "<f4").astype(float)))


def sealed(record: Record) -> Record:
    """The record with a salt and the digest that goes with it."""
    salt = hashlib.sha256(f"{record.id} {record.version}".encode()).digest()[:16]
    return drafting.sealed(record, salt, canonical)


def mention(record: Record) -> Mention:
    return Mention(record.id, record.version, record.digest)


def tied(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries as one chain: dense positions, each with the hash of the one before."""
    done: list[Entry] = []
    for seq, entry in enumerate(entries, start=1):
        placed = replace(entry, seq=seq, prev=done[-1].hash if done else "0" * 64)
        done.append(replace(placed, hash=chain.entry_hash(placed, canonical)))
    return done


@dataclass(slots=True)
class Scribe:
    """Writes and asks through the port of a ledger, with everything that is not said filled in."""

    ledger: Ledger
    clock: FixedClock
    ids: CountedIds
    main: str
    tenant: str = TENANT

    @classmethod
    async def at(
        cls, ledger: Ledger, clock: FixedClock, ids: CountedIds | None = None, tenant: str = TENANT
    ) -> Scribe:
        """Open the tenant and find its store `main`."""
        await ledger.open(tenant)
        main = next(store.id for store in await ledger.stores(tenant) if store.name == MAIN)
        return cls(ledger, clock, ids or CountedIds("1"), main, tenant)

    # -- writing ------------------------------------------------------------------------------------------------

    def drafted(self, content: str = "tea at noon", **fields: Any) -> Record:
        """A first version, sealed, not yet committed."""
        now = self.clock()
        known: dict[str, Any] = {
            "tenant": self.tenant,
            "version": 1,
            "store_id": self.main,
            "agent_id": AGENT,
            "type": MemoryType.SEMANTIC,
            "content": content,
            "provenance": Provenance(written_by="tester", subject=fields.pop("subject", None)),
            "created_at": now,
            "updated_at": now,
        }
        record_id = fields.pop("id", None) or self.ids("mem")
        return sealed(Record(id=record_id, **{**known, **fields}))

    def next_version(self, record: Record, **fields: Any) -> Record:
        """The version after this one, sealed, not yet committed."""
        fresh: dict[str, Any] = {"born": 0, "died": None, "ending": None, "merged_into": None}
        changed: dict[str, Any] = {"version": record.version + 1, "updated_at": self.clock(), **fields}
        return sealed(replace(record, **fresh, **changed))

    async def commit(
        self,
        *changes: Change,
        op: Op = Op.REMEMBER,
        once: Once | None = None,
        reason: str | None = None,
        mentions: Sequence[Mention] = (),
        detail: dict[str, Json] | None = None,
    ) -> Committed:
        commit = self.committing(*changes, op=op, once=once, reason=reason, mentions=mentions, detail=detail)
        return (await self.ledger.commit(commit))[0]

    def committing(self, *changes: Change, op: Op = Op.REMEMBER, **fields: Any) -> Commit:
        """A commit of these changes, not yet handed in."""
        detail: dict[str, Json] = fields.pop("detail", None) or {}
        mentions = tuple(fields.pop("mentions", ()))
        draft = Draft(op=op, actor="tester", at=self.clock(), detail=detail)
        return Commit(tenant=self.tenant, draft=draft, changes=changes, mentions=mentions, **fields)

    async def put(
        self, content: str = "tea at noon", *, vector: bytes | None = None, **fields: Any
    ) -> Record:
        """Commit a new record; what is returned knows when it was born."""
        return await self.put_drafted(self.drafted(content, **fields), vector=vector)

    async def put_drafted(self, record: Record, *, vector: bytes | None = None, expects: int = 0) -> Record:
        done = await self.commit(adding(record, vector=vector, expects=expects))
        return replace(record, born=done.seq)

    async def change(self, record: Record, *, vector: bytes | None = None, **fields: Any) -> Record:
        """Commit the next version of a record."""
        following = self.next_version(record, **fields)
        done = await self.commit(adding(following, vector=vector, expects=record.version), op=Op.UPDATE)
        return replace(following, born=done.seq)

    async def forget(self, record: Record) -> Committed:
        return await self.commit(Close(record=record, ending=Ending.FORGOTTEN), op=Op.FORGET)

    async def merge(self, duplicate: Record, canonical: Record) -> Committed:
        close = Close(record=duplicate, ending=Ending.MERGED, merged_into=canonical.id)
        return await self.commit(close, op=Op.MERGE)

    async def erase(self, *ids: str) -> Committed:
        return await self.commit(*(Erase(id=record_id) for record_id in ids), op=Op.ERASE)

    async def demote(self, record: Record) -> Committed:
        return await self.commit(Demote(record=record), op=Op.DEMOTE)

    async def touch(self, *ids: str) -> Committed:
        return await self.commit(Touch(ids=ids, at=self.clock()), op=Op.RECALL)

    async def open_store(self, name: str, scope: StoreScope = StoreScope.AGENT) -> Store:
        store = Store(tenant=self.tenant, id=self.ids("ms"), name=name, scope=scope, created_at=self.clock())
        await self.commit(OpenStore(store=store), op=Op.CREATE_STORE)
        return store

    # -- asking -------------------------------------------------------------------------------------------------

    def scope(self, agent: str | None = AGENT, **fields: Any) -> Scope:
        return Scope(tenant=fields.pop("tenant", self.tenant), agent_id=agent, **fields)

    def snapshot(self, seq: int | None = None, now: int | None = None) -> Snapshot:
        return Snapshot(seq, self.clock() if now is None else now)

    async def search(
        self,
        text: str = "",
        vector: bytes | None = None,
        *,
        scope: Scope | None = None,
        seq: int | None = None,
        now: int | None = None,
        limit: int = 10,
        context: Context | None = None,
        names: frozenset[str] = frozenset(),
        shared_names: frozenset[str] = frozenset(),
        users: frozenset[str] = frozenset(),
        **restriction: Any,
    ) -> Found:
        return await self.ledger.search(
            Search(
                scope=scope or self.scope(),
                snapshot=self.snapshot(seq, now),
                restriction=Restriction(**restriction),
                text=text,
                vector=vector,
                limit=limit,
                context=context or Context(),
                names=names,
                shared_names=shared_names,
                users=users,
            )
        )

    async def found(self, text: str = "", vector: bytes | None = None, **asked: Any) -> set[str]:
        """The ids a search comes back with."""
        return {candidate.id for candidate in (await self.search(text, vector, **asked)).candidates}

    async def ranked(self, vector: bytes, **asked: Any) -> list[str]:
        """The ids a search by vector alone comes back with, nearest first."""
        found = await self.search("", vector, **asked)
        return [
            candidate.id
            for candidate in sorted(found.candidates, key=lambda one: -(one.cosine or 0.0))
            if candidate.cosine is not None
        ]

    async def shares(self, text: str, scope: Scope | None = None, seq: int | None = None) -> WordShares:
        return await self.ledger.word_shares(scope or self.scope(), self.snapshot(seq), text)

    async def neighbours(self, *ids: str, scope: Scope | None = None, seq: int | None = None) -> Neighbours:
        return await self.ledger.neighbours(scope or self.scope(), self.snapshot(seq), ids)

    async def shared_words(
        self, leaders: Sequence[str], members: Sequence[str], text: str = "", *, seq: int | None = None
    ) -> Sequence[SharedWord]:
        return await self.ledger.shared_words(self.scope(), self.snapshot(seq), leaders, members, text)

    async def scanned(self, *, seq: int | None = None, now: int | None = None, **selection: Any) -> list[str]:
        """The ids of a walk, in its order."""
        walk = self.ledger.scan(Selection(tenant=self.tenant, **selection), self.snapshot(seq, now))
        return [record.id async for record in walk]

    async def entries(self) -> list[Entry]:
        """The whole chain."""
        chained: list[Entry] = []
        while more := await self.ledger.entries(self.tenant, len(chained)):
            chained.extend(more)
        return chained

    async def audit(self) -> list[str]:
        """What is wrong with chain and records, in words; an empty list is as it should be."""
        walk = chain.Walk(canonical)
        walk.follow(await self.entries())
        faults = list(walk.faults)
        async for record in self.ledger.every_version(self.tenant):
            faults.extend(chain.version_faults(chain.version_body(record), walk))
        faults.extend(chain.missing_faults(walk))
        head = await self.ledger.head(self.tenant)
        told = [f"{fault.kind} at {fault.seq}: {fault.detail}" for fault in faults]
        if (head.seq, head.hash) != (walk.seq, walk.hash):
            told.append("the head is not the end of the chain")
        return told


def adding(record: Record, *, vector: bytes | None = None, expects: int = 0) -> Put:
    """The change that adds a version, searchable when it is live."""
    text = texts.search_text(record) if record.state is State.LIVE else None
    return Put(record=record, expects=expects, search_text=text, vector=vector)


def linked(*ids: str, rel: str = "about") -> tuple[Link, ...]:
    """Links to these records."""
    return tuple(Link(record_id, rel) for record_id in ids)
