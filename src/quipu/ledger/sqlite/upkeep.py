"""What an operator does to the file as a whole, and the vector spaces it holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw

from quipu.errors import InvalidError
from quipu.ledger import rows
from quipu.ledger.sqlite import drafts, file, statements
from quipu.model.change import Commit, Erase, Settle
from quipu.model.outcomes import Fault
from quipu.model.record import Record
from quipu.ports.ledger import Space

_PAUSE_S = 0.01


class Keeper:
    """Keeps one file in order."""

    def __init__(self, path: Path) -> None:
        self._path = path

    # -- vector spaces ------------------------------------------------------------------------------------------

    def space(self, connection: apsw.Connection, tenant: str) -> Space | None:
        active = self._active(connection, tenant)
        for number, model, dimensions in statements.select(connection, "spaces", tenant=tenant):
            if number == active:
                return Space(model, dimensions)
        return None

    def _active(self, connection: apsw.Connection, tenant: str) -> int | None:
        row = statements.first(connection, "head", tenant=tenant)
        return None if row is None else row[5]

    def _number(self, connection: apsw.Connection, tenant: str, space: Space) -> int:
        """The number of a space; a new one gets a place that does not clash with the one in use."""
        known = statements.select(connection, "spaces", tenant=tenant)
        for number, model, dimensions in known:
            if (model, dimensions) == (space.model, space.dimensions):
                return number
        active = self._active(connection, tenant)
        # Only two spaces exist at a time: an abandoned half-built one makes room.
        for number, _model, _dimensions in known:
            if number != active:
                self._drop_space(connection, tenant, number)
        number = 1 if active is None else active + 1
        statements.run(
            connection,
            "add_space",
            tenant=tenant,
            number=number,
            model=space.model,
            dimensions=space.dimensions,
        )
        return number

    def _drop_space(self, connection: apsw.Connection, tenant: str, number: int) -> None:
        statements.run(connection, "drop_space_vectors", tenant=tenant, space=number)
        statements.run(connection, "drop_space", tenant=tenant, number=number)

    def settle_space(self, connection: apsw.Connection, tenant: str, space: Space) -> Space:
        if (settled := self.space(connection, tenant)) is not None:
            return settled
        self.adopt_space(connection, tenant, space)
        return space

    def adopt_space(self, connection: apsw.Connection, tenant: str, space: Space) -> None:
        former = self._active(connection, tenant)
        number = self._number(connection, tenant, space)
        statements.run(connection, "choose_space", tenant=tenant, space=number)
        if former is not None and former != number:
            self._drop_space(connection, tenant, former)

    def without_vector(
        self, connection: apsw.Connection, tenant: str, space: Space, limit: int
    ) -> list[Record]:
        number = self._number(connection, tenant, space)
        missing = statements.select(
            connection,
            "without_vector",
            tenant=tenant,
            space=number,
            parity=number % 2,
            bytes=4 * space.dimensions,
            limit=limit,
        )
        return [rows.record_of(row) for row in missing]

    def add_vectors(
        self, connection: apsw.Connection, tenant: str, space: Space, vectors: Sequence[tuple[Record, bytes]]
    ) -> int:
        number = self._number(connection, tenant, space)
        added = 0
        for record, data in vectors:
            if len(data) != 4 * space.dimensions:
                raise InvalidError.at(
                    "/embedding", "embedding_mismatch", "A vector has the wrong dimensions."
                )
            row = statements.first(connection, "row_of", tenant=tenant, id=record.id, version=record.version)
            if row is not None:
                statements.run(
                    connection, "add_vector", slot=2 * row[0] + number % 2, space=number, data=data
                )
                added += 1
        statements.run(connection, "note_refill", tenant=tenant, space=number)
        return added

    def vectors(
        self, connection: apsw.Connection, tenant: str, records: Sequence[Record]
    ) -> dict[str, bytes]:
        number = self._active(connection, tenant) or 0
        found: dict[str, bytes] = {}
        for record in records:
            row = statements.first(
                connection,
                "version_vectors",
                tenant=tenant,
                id=record.id,
                version=record.version,
                parity=number % 2,
                space=number,
            )
            if row is not None:
                found[record.id] = row[0]
        return found

    # -- checks -------------------------------------------------------------------------------------------------

    def integrity_faults(self, connection: apsw.Connection) -> list[Fault]:
        try:
            messages = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            orphans = statements.scalar(connection, "orphan_vectors")
        except (apsw.CorruptError, apsw.NotADBError, apsw.IOError):
            return [
                Fault(kind="damaged_file", detail="the database file is damaged and cannot be read whole")
            ]
        faults = [Fault(kind="damaged_file", detail=message) for message in messages if message != "ok"]
        if orphans:
            detail = f"{orphans} vectors belong to no version; `quipu vacuum` drops them"
            faults.append(Fault(kind="index_differs", detail=detail))
        return faults

    # -- the file -----------------------------------------------------------------------------------------------

    def backup(
        self, connection: apsw.Connection, target: Path, progress: Callable[[int, int], None] | None = None
    ) -> None:
        drafts.check_free(target)
        try:
            file.back_up(connection, target, progress)
        except (OSError, apsw.Error) as error:
            raise drafts.refusal("The backup could not be written to", target, error) from error

    def flush_erased(self, connection: apsw.Connection, patience_ms: int) -> bool:
        """Bring erasures from the log into the file and empty the log, so that no old page is left in it.

        False when a reader held on to old pages for longer than that.
        """
        until = time.monotonic() + patience_ms / 1000
        try:
            while True:
                connection.set_busy_timeout(max(0, int(1000 * (until - time.monotonic()))))
                was_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
                if not was_busy or time.monotonic() >= until:
                    return not was_busy
                time.sleep(_PAUSE_S)  # somebody is copying the log: for that SQLite does not wait
        finally:
            connection.set_busy_timeout(file.BUSY_MS)

    def prune(self, connection: apsw.Connection, tenant: str, horizon: int, seq: int) -> int:
        statements.run(connection, "prune", tenant=tenant, horizon=horizon, seq=seq)
        pruned = connection.changes()
        statements.run(connection, "drop_pruned_vectors", tenant=tenant)
        statements.run(connection, "raise_horizon", tenant=tenant, horizon=horizon, seq=seq)
        return pruned

    def compact(self, connection: apsw.Connection) -> None:
        statements.run(connection, "drop_orphan_vectors")
        connection.execute("VACUUM")
        self.flush_erased(connection, file.BUSY_MS)

    def statistics(self, connection: apsw.Connection, tenant: str) -> Mapping[str, int]:
        counts: dict[str, int] = {"live": 0, "archived": 0}
        counts.update(
            (state, count) for state, count in statements.select(connection, "count_records", tenant=tenant)
        )
        space = self._active(connection, tenant)
        counts["versions"] = statements.scalar(connection, "count_versions", tenant=tenant)
        counts["vectors"] = statements.scalar(connection, "count_vectors", tenant=tenant, space=space)
        counts["bytes"] = sum(
            path.stat().st_size
            for path in (self._path, self._path.with_name(self._path.name + "-wal"))
            if path.exists()
        )
        return counts


def erase(commits: Sequence[Commit]) -> bool:
    """Whether nothing of something may be left in the file, or in its log: a rejected write is gone like an erased one."""
    for commit in commits:  # every write pays for this: any() would cost it three times as much
        for change in commit.changes:
            if isinstance(change, Erase) or (isinstance(change, Settle) and not change.approved):
                return True
    return False
