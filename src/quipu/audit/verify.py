"""Whether everything is what was written: entries, versions, rows, what search knows, signatures, the schema itself.

It is read page by page, so others go on writing meanwhile and memory stays bounded. What does not fit then may be news, so
it is looked at a second time, all at one moment, before it is reported.

What no entry names proves nothing and is not looked at: reasons, answers to repeated writes, how often a memory was used.
Of vectors only the form is looked at, because they are made anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from quipu.audit import anchors as places
from quipu.audit.anchors import Anchor
from quipu.audit.chain import Lives, Side, Walk
from quipu.audit.checkpoints import SignedPositions
from quipu.audit.keys import Signer
from quipu.audit.model import ANCHORS, AuditFault, Faults, TenantReport, Unverifiable
from quipu.audit.versions import Indexed, missing_fault, stray_index_faults, version_faults
from quipu.errors import QuipuError
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.records import StoredVersion
from quipu.ledger.table import Key, Table
from quipu.model.journal import Head

_PAGE = 500
_FIRST = -(2**62)


@dataclass(slots=True)
class _Tenant:
    """What is being found out about one tenant."""

    tenant: str
    keys: dict[str, str]
    #: Where the journal ended when it was begun.
    end: int
    unverifiable: Unverifiable = field(default_factory=Unverifiable)
    records: int = 0
    rows: int = 0
    #: Records and rows that did not fit when they were first looked at.
    suspects: set[str] = field(default_factory=set[str])
    suspect_rows: set[tuple[str, Key]] = field(default_factory=set[tuple[str, Key]])


@dataclass(slots=True)
class _Walked:
    """A walk along the journal, with the signed positions beside it."""

    walk: Walk
    signed: SignedPositions

    @classmethod
    def of(cls, about: _Tenant, lives: Lives) -> "_Walked":
        walk = Walk(about.tenant, lives)
        return cls(walk, SignedPositions(about.tenant, about.keys, walk.faults, about.unverifiable))

    def page(self, reader: Reader, end: int | None = None) -> bool:
        """Follow the next page, up to a position; False: there was none."""
        walk = self.walk
        limit = _PAGE if end is None else min(_PAGE, end - walk.seq)
        entries = reader.chain(walk.seq, walk.hash, limit) if limit > 0 else []
        if not entries:
            return False
        after = walk.seq - 1 if walk.seq else _FIRST
        points = reader.checkpoints(after, _PAGE + 1)
        self.signed.follow(entries, [point for point in points if point.seq < entries[-1].seq])
        walk.follow(entries)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Checks one ledger."""

    ledger: Ledger
    signer: Signer
    anchors: Sequence[Anchor] = ()
    #: How many versions are remembered at once; more take another walk along the journal.
    most_lives: int = 200_000

    async def database(self) -> tuple[Faults, Unverifiable]:
        """Tables, indexes and triggers against what they were made as, and the pages of a file."""
        faults, unverifiable = Faults(), Unverifiable()
        for said in await self.ledger.integrity_faults():
            faults.add("damaged_file", said)
        try:
            for said in await self.ledger.schema_faults():
                faults.add("altered_schema", said)
        except QuipuError as error:
            unverifiable.setdefault(error.reason or error.code, error.message)
        return faults, unverifiable

    async def tenants(self) -> list[str]:
        """Everybody who is listed or has a journal."""
        names: set[str] = set()
        after = ""
        while page := await self.ledger.tenants(after):
            names.update(one.tenant for one in page)
            after = page[-1].tenant
        async for name in self.ledger.journaled_tenants():
            names.add(name)
        return sorted(names)

    async def tenant(self, tenant: str) -> TenantReport:
        """One tenant's report."""
        end = (await self.ledger.head(tenant)).seq
        about = _Tenant(tenant, dict(self.signer.known_keys), end)
        walked = await self._first_look(about)
        if (
            walked is None
        ):  # there were too many versions for one walk: another one for those that are suspected
            walked = _Walked.of(about, Lives(only=about.suspects))
            await self._follow(about, walked)
        head, settled = await self.ledger.read(tenant, lambda reader: self._settled(reader, about, walked))
        faults = walked.walk.faults
        published = await self._compared(about, faults)
        faults.include(settled)
        return TenantReport(
            tenant=tenant,
            entries=walked.walk.count,
            records=about.records,
            side_rows=about.rows,
            checkpoints=walked.signed.count,
            anchors=published,
            head_seq=head.seq,
            head_hash=head.hash.hex(),
            faults=faults.named,
            fault_count=faults.count,
            unverifiable=tuple(about.unverifiable.values()),
            reasons=tuple(about.unverifiable),
        )

    # -- the first look: page by page -------------------------------------------------------------------------------------

    async def _first_look(self, about: _Tenant) -> _Walked | None:
        """Everything once. The walk that saw it all; None where it took several."""
        lives, is_first = Lives(most=self.most_lives), True
        while True:
            walked = _Walked.of(about, lives)
            await self._follow(about, walked)
            await self._versions(about, walked.walk)
            if is_first:
                await self._rows(about, walked.walk.side)
            if lives.last is None:
                return walked if is_first else None
            lives, is_first = Lives(lives.last, most=self.most_lives), False

    async def _follow(self, about: _Tenant, walked: _Walked) -> None:
        """To where the journal ended at first: one that grows as fast as it is read would never be at its end."""
        while await self.ledger.read(about.tenant, lambda reader: walked.page(reader, about.end)):
            pass

    async def _versions(self, about: _Tenant, walk: Walk) -> None:
        """Every version of the records that the walk has remembered, and of those that no entry names."""
        last = walk.lives.last
        after = (walk.lives.after, 2**62)
        while True:

            def page(reader: Reader, after: tuple[str, int] = after) -> tuple[tuple[str, int] | None, int]:
                found = reader.stored_versions(after, _PAGE)
                here = [one for one in found if last is None or one.id <= last]
                about.suspects.update(fault.id for fault in _faults_of(reader, here, walk) if fault.id)
                is_end = len(here) < len(found) or len(found) < _PAGE
                return (None if is_end else (here[-1].id, here[-1].version)), len(here)

            next_, count = await self.ledger.read(about.tenant, page)
            about.records += count
            if next_ is None:
                break
            after = next_
        about.suspects.update(record_id for record_id, _, _ in walk.lives.unseen())

    async def _rows(self, about: _Tenant, side: Side) -> None:
        erased: set[str] = (
            set()
        )  # a row that an erasure emptied is looked at again with those that do not fit
        for table in self.ledger.tables:
            if not table.is_journaled:
                continue
            after: Key | None = None
            missing = set(side.standing(table.name))
            while True:

                def page(
                    reader: Reader, table: Table[Any] = table, after: Key | None = after
                ) -> tuple[Key | None, int]:
                    rows = reader.stored_rows(table, after, _PAGE)
                    for row in rows:
                        missing.discard(row.key)  # noqa: B023  used in this turn only
                        if side.fault(table, row.key, row, erased) is not None:
                            about.suspect_rows.add((table.name, row.key))
                    return (rows[-1].key if len(rows) == _PAGE else None), len(rows)

                after, count = await self.ledger.read(about.tenant, page)
                about.rows += count
                if after is None:
                    break
            about.suspect_rows.update((table.name, key) for key in missing)

    # -- the second look: all at one moment ---------------------------------------------------------------------------------

    def _settled(self, reader: Reader, about: _Tenant, walked: _Walked) -> tuple[Head, Faults]:
        """Whatever is wrong now, with everything that others wrote meanwhile."""
        walk, head, faults = walked.walk, reader.head(), Faults()
        while walked.page(reader):
            pass
        self._check_head(reader, walk, head, faults)
        ids = sorted(about.suspects)
        for start in range(0, len(ids), _PAGE):
            some = ids[start : start + _PAGE]
            lives = [(name, *one) for name in some for one in enumerate(walk.lives.of(name), 1)]
            for _, _, life in lives:
                life.is_seen = False
            faults.extend(_faults_of(reader, reader.stored_versions_of(some), walk))
            faults.extend(missing_fault(*one) for one in lives if not one[2].is_seen)
        tables = {table.name: table for table in self.ledger.tables}
        for name, key in sorted(about.suspect_rows, key=repr):
            row = reader.stored_row(tables[name], key)
            fault = walk.side.fault(tables[name], key, row, walk.erased)
            faults.extend([] if fault is None else [fault])
        walked.signed.beyond(reader.checkpoints(walk.seq - 1, _PAGE))
        return head, faults

    def _check_head(self, reader: Reader, walk: Walk, head: Head, faults: Faults) -> None:
        if (head.seq, head.hash, head.at) != (walk.seq, walk.hash, walk.at):
            faults.add("wrong_head", "the head is not the end of the journal", seq=head.seq)
        said = (head.horizon, head.guarded, head.suspended_at)
        expected = (walk.horizon, walk.side.guarded(self.ledger.tables), walk.suspended_at)
        if said != expected or not walk.changed <= head.changed <= walk.seq:
            faults.add("wrong_head", "the head says otherwise than the journal", seq=head.seq)
        if walk.count and reader.created_at() is None:
            faults.add("missing_tenant", "the tenant has a journal and is not listed")

    # -- outside of the database ----------------------------------------------------------------------------------------------

    async def _compared(self, about: _Tenant, faults: Faults) -> int:
        """Every published position against the journal. Returns how many there were."""
        count = 0
        for anchor in self.anchors:
            published = await places.read_from(anchor, about.tenant, about.unverifiable)
            if published is None:
                continue
            seqs = sorted({point.seq for point in published.checkpoints})
            hashes = await self.ledger.read(about.tenant, lambda reader, seqs=seqs: _hashes(reader, seqs))
            places.compare(anchor, about.tenant, hashes, published, about.keys, faults, about.unverifiable)
            await self._check_still_published(about, anchor, set(seqs))
            count += len(published.checkpoints)
        return count

    async def _check_still_published(self, about: _Tenant, anchor: Anchor, seqs: set[int]) -> None:
        after: Key | None = None
        while rows := await self.ledger.page(
            ANCHORS, about.tenant, {"target": anchor.target}, after, limit=_PAGE
        ):
            for row in rows:
                if row.entry not in seqs:
                    said = f"position {row.entry} was published at {anchor.target}, which has it no more"
                    about.unverifiable.setdefault("missing_anchor", said)
            after = (rows[-1].target, rows[-1].entry)


def _hashes(reader: Reader, seqs: Iterable[int]) -> dict[int, bytes | None]:
    return {seq: reader.entry_hash(seq) for seq in seqs}


def _faults_of(reader: Reader, stored: Sequence[StoredVersion], walk: Walk) -> list[AuditFault]:
    """What is wrong with these versions, and with what search knows of their records."""
    ids = sorted({one.id for one in stored})
    indexed = _indexed(reader, ids)
    faults = [fault for one in stored for fault in version_faults(one, walk, indexed)]
    return faults + [fault for record_id in ids for fault in stray_index_faults(record_id, walk, indexed)]


def _indexed(reader: Reader, ids: Sequence[str]) -> Indexed:
    links = sorted(reader.stored_links(ids), key=lambda row: row[0])
    vectors = sorted(reader.stored_vectors(ids), key=lambda row: row[0])
    return Indexed(
        links={name: [row[1:] for row in rows] for name, rows in groupby(links, key=lambda row: row[0])},
        vectors={name: [row[1:] for row in rows] for name, rows in groupby(vectors, key=lambda row: row[0])},
        spaces=reader.spaces(),
    )
