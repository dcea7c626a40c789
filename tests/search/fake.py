"""A ledger in memory, as far as search sees one, and somebody who asks a search engine about it."""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from quipu.ledger.index import IndexRow, Known, News, Owner, Space, VersionKey
from quipu.model.record import Link, Provenance, Record
from quipu.model.search import (
    Found,
    Neighbours,
    Restriction,
    Scope,
    Search,
    SessionContext,
    SharedWord,
    Snapshot,
    WordShares,
)
from quipu.model.value import JsonObject
from quipu.search.engine import SearchEngine
from quipu.search.source import Source
from quipu.search.terms import index_terms
from quipu.search.text import is_question

TENANT, AGENT, MAIN = "tenant-1", "ana", "ms_main"
DIMENSIONS = 8
NO_CONTEXT = SessionContext()


def unit(numbers: Sequence[float]) -> bytes:
    """These numbers as a vector of length one."""
    values = np.array(numbers, np.float64)
    return (values / np.linalg.norm(values)).astype("<f4").tobytes()


def vector(name: object, dimensions: int = DIMENSIONS) -> bytes:
    """A vector of its own for each name."""
    return unit(np.random.default_rng(zlib.crc32(str(name).encode())).standard_normal(dimensions).tolist())


def cosine(one: bytes, other: bytes) -> float:
    return float(np.dot(np.frombuffer(one, "<f4").astype(float), np.frombuffer(other, "<f4").astype(float)))


def drafted(content: str = "tea at noon", **fields: Any) -> Record:
    """A first version that is not committed yet."""
    known: dict[str, Any] = {
        "id": "mem_0",
        "version": 1,
        "store_id": MAIN,
        "agent_id": AGENT,
        "type": "semantic",
        "content": content,
        "provenance": Provenance(written_by="tester", subject=fields.pop("subject", None)),
        "created_at": 1_000,
        "updated_at": 1_000,
        "salt": b"salt",
    }
    return Record(**{**known, **fields})


def linked(*ids: str) -> tuple[Link, ...]:
    return tuple(Link(record_id, "about") for record_id in ids)


def index_row(record: Record, data: bytes | None) -> IndexRow:
    """What the ledger tells search of a version."""
    privacy = record.privacy
    event_time = record.details.get("event_time")
    shared = None if privacy is None or privacy.share_with is None else json.dumps(privacy.share_with)
    return IndexRow(
        id=record.id,
        version=record.version,
        born=record.born,
        died=record.died,
        expires_at=record.expires_at,
        created_at=record.created_at,
        user_id=record.user_id,
        store_id=record.store_id,
        session_id=record.session_id,
        type=record.type,
        state=record.state,
        confidence=record.confidence,
        subject=record.provenance.subject,
        sensitivity=None if privacy is None else privacy.sensitivity,
        event_time=event_time if isinstance(event_time, int) else record.created_at,
        terms=index_terms(record),
        vector=data,
        agent_id=record.agent_id,
        share_with=shared,
        asks=int(is_question(record)),
        by_assistant=0,
        valid_until=record.valid_until,
    )


@dataclass
class FakeLedger:
    """Versions with their births and deaths. Every call that changes something is one position of the journal."""

    space: Space | None = field(default_factory=lambda: Space("m", DIMENSIONS))
    seq: int = 0
    refilled: int = 0
    now: int = 1_000_000
    versions: dict[VersionKey, Record] = field(default_factory=dict[VersionKey, Record])
    vectors: dict[VersionKey, bytes] = field(default_factory=dict[VersionKey, bytes])
    demotions: list[tuple[int, str, bool]] = field(default_factory=list[tuple[int, str, bool]])
    erasures: list[int] = field(default_factory=list[int])
    _minted: int = 0

    def put(self, content: str = "tea at noon", *, vector: bytes | None = None, **fields: Any) -> Record:
        """Commit a new record."""
        return self.put_all([self.draft(content, **fields)], [vector])[0]

    def draft(self, content: str = "tea at noon", **fields: Any) -> Record:
        self._minted += 1
        known = {"id": f"mem_{self._minted:06d}", "created_at": self.now, "updated_at": self.now}
        return drafted(content, **{**known, **fields})

    def put_all(self, records: Sequence[Record], vectors: Sequence[bytes | None] = ()) -> list[Record]:
        """Commit records at one position."""
        self.seq += 1
        done = [replace(record, born=self.seq) for record in records]
        for record, data in zip(done, vectors or [None] * len(done), strict=True):
            self.versions[record.id, record.version] = record
            if data is not None:
                self.vectors[record.id, record.version] = data
        return done

    def change(self, record: Record, *, vector: bytes | None = None, **fields: Any) -> Record:
        """Commit the next version of a record."""
        self.end(record, "replaced", self.seq + 1)
        following = replace(record, version=record.version + 1, **fields)
        return self.put_all([following], [vector])[0]

    def forget(self, *records: Record) -> int:
        self.seq += 1
        for record in records:
            self.end(record, "forgotten", self.seq)
        return self.seq

    def end(self, record: Record, ending: Any, seq: int) -> None:
        key = (record.id, record.version)
        self.versions[key] = replace(self.versions[key], died=seq, ending=ending)

    def erase(self, record_id: str) -> None:
        """No trace is left of a record."""
        self.seq += 1
        self.erasures.append(self.seq)
        for key in [key for key in self.versions if key[0] == record_id]:
            del self.versions[key]
            self.vectors.pop(key, None)

    def demote(self, record: Record, is_demoted: bool = True) -> None:
        self.seq += 1
        self.demotions.append((self.seq, record.id, is_demoted))

    def embed_again(self, space: Space, vectors: dict[VersionKey, bytes]) -> None:
        """Move to another embedder."""
        self.space, self.vectors, self.refilled = space, vectors, self.refilled + 1

    def reader(self) -> "FakeReader":
        """The ledger at this moment."""
        return FakeReader(
            self.seq,
            self.space,
            self.refilled,
            dict(self.versions),
            dict(self.vectors),
            list(self.demotions),
            list(self.erasures),
        )


@dataclass
class FakeReader:
    """One moment of a ledger."""

    seq: int
    space: Space | None
    refilled: int
    versions: dict[VersionKey, Record]
    vectors: dict[VersionKey, bytes]
    demotions: list[tuple[int, str, bool]]
    erasures: list[int]
    #: How many versions were read one by one.
    versions_read: int = 0

    def news(self, owner: Owner, known: Known) -> News | None:
        current = Known(self.seq, self.space, self.refilled)
        if known == current:
            return None
        is_whole = (
            not known.seq
            or (known.space, known.refilled) != (self.space, self.refilled)
            or any(seq > known.seq for seq in self.erasures)
        )
        after = 0 if is_whole else known.seq
        owned = sorted(
            (
                record
                for record in self.versions.values()
                if owner.name == (record.store_id if owner.is_store else record.agent_id)
            ),
            key=lambda record: (record.born, record.id, record.version),
        )
        return News(
            current,
            is_whole,
            [
                index_row(record, self.vectors.get((record.id, record.version)))
                for record in owned
                if record.born > after
            ],
            []
            if is_whole
            else [
                (one.id, one.version, one.died) for one in owned if one.died is not None and one.died > after
            ],
            [(record_id, is_demoted) for seq, record_id, is_demoted in self.demotions if seq > after],
        )

    def metadata(self, keys: Sequence[VersionKey]) -> Iterator[JsonObject]:
        return (record.metadata for record in self.versions_of(keys))

    def versions_of(self, keys: Sequence[VersionKey]) -> Iterator[Record]:
        self.versions_read += len(keys)
        return iter([self.versions[key] for key in keys])

    def links(self, ids: Sequence[str], seq: int) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {record_id: set() for record_id in ids}
        for record in self.versions.values():
            if record.born <= seq and (record.died is None or record.died > seq):
                for link in record.links:
                    for one, other in ((record.id, link.to), (link.to, record.id)):
                        if one in found:
                            found[one].add(other)
        return found


@dataclass
class Asker:
    """Asks an engine about a ledger as it stands, with everything that is not said filled in."""

    ledger: FakeLedger = field(default_factory=FakeLedger)
    engine: SearchEngine = field(default_factory=lambda: SearchEngine(1 << 30))

    def reader(self) -> Source:
        return self.ledger.reader()

    def scope(self, agent: str | None = AGENT, **fields: Any) -> Scope:
        return Scope(tenant=TENANT, agent_id=agent, **fields)

    def snapshot(self, seq: int | None = None, now: int | None = None) -> Snapshot:
        return Snapshot(seq, self.ledger.now if now is None else now)

    def search(
        self,
        text: str = "",
        vector: bytes | None = None,
        *,
        source: Source | None = None,
        scope: Scope | None = None,
        seq: int | None = None,
        now: int | None = None,
        limit: int = 10,
        context: SessionContext = NO_CONTEXT,
        model: str | None = None,
        people: frozenset[str] = frozenset(),
        names: frozenset[str] = frozenset(),
        shared_names: frozenset[str] = frozenset(),
        users: frozenset[str] = frozenset(),
        **restriction: Any,
    ) -> Found:
        search = Search(
            scope=scope or self.scope(),
            snapshot=self.snapshot(seq, now),
            restriction=Restriction(**restriction),
            text=text,
            vector=vector,
            limit=limit,
            model=model,
            context=context,
            people=people,
            names=names,
            shared_names=shared_names,
            users=users,
        )
        return self.engine.find(source or self.reader(), search)

    def found(self, text: str = "", vector: bytes | None = None, **asked: Any) -> set[str]:
        """The ids that a search comes back with."""
        return {candidate.id for candidate in self.search(text, vector, **asked).candidates}

    def ranked(self, vector: bytes, **asked: Any) -> list[str]:
        """The ids that a search by vector alone comes back with, nearest first."""
        found = [one for one in self.search("", vector, **asked).candidates if one.cosine is not None]
        return [one.id for one in sorted(found, key=lambda one: -(one.cosine or 0.0))]

    def shares(self, text: str, scope: Scope | None = None, seq: int | None = None) -> WordShares:
        return self.engine.word_shares(self.reader(), scope or self.scope(), self.snapshot(seq), text)

    def neighbours(self, *ids: str, scope: Scope | None = None, seq: int | None = None) -> Neighbours:
        return self.engine.neighbours(self.reader(), scope or self.scope(), self.snapshot(seq), ids)

    def shared_words(
        self, leaders: Sequence[str], members: Sequence[str], text: str = "", seq: int | None = None
    ) -> list[SharedWord]:
        return self.engine.shared_words(
            self.reader(), self.scope(), self.snapshot(seq), leaders, members, text
        )
