"""What the doctor looks at, one function for each part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from quipu.cli import output, places
from quipu.errors import QuipuError

if TYPE_CHECKING:
    from quipu.bootstrap import Address, Running
    from quipu.config import Config
    from quipu.model.principal import Principal
    from quipu.ports.ledger import Space

Status: TypeAlias = Literal["ok", "warn", "fail"]

#: SQLite's header: where the schema version stands, and how long the header is.
_HEADER, _VERSION = 100, slice(60, 64)
_OTHERS = 0o077
_TIGHT, _FULL = 500_000_000, 50_000_000
#: Who has done so already, and left the log of the former file beside it, reads here why it did not help.
_RESTORE = (
    "Restore the latest backup: end every process that uses the file, move it away together with the -wal and -shm "
    "beside it, then copy the backup there. A log that belongs to another file damages the one it stands beside."
)
_OVERDUE_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: how it is, and what to do about it."""

    name: str
    status: Status
    detail: str
    advice: str | None = None

    def body(self) -> dict[str, Any]:
        return {"name": self.name, "status": self.status, "detail": self.detail, "advice": self.advice}


def file_checks(where: Address, *, is_named: bool) -> list[Check]:
    """The file from outside: is it there, is it ours to read, how large is it.

    One that the command names has to be there; the usual one may still be to come.
    """
    if where.database is not None:
        return _database_checks(where)
    path = where.path
    if path is None:
        return [Check("file", "ok", "in memory only; gone when the program ends")]
    if path.is_dir():
        return [Check("file", "fail", f"{path} is a directory", "Name a file in it.")]
    if path.exists() and not path.is_file():  # who opens a pipe waits for somebody at its other end
        return [Check("file", "fail", f"{path} is no file, but a pipe or a device", "Name a file.")]
    if not path.exists():
        status, advice = ("fail", places.advice(path)) if is_named else ("warn", "Run `quipu init`.")
        return [Check("file", status, f"there is no memory at {path} yet", advice)]
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except OSError as error:
        return [Check("file", "fail", f"{path} cannot be read: {error.strerror}", "Check its permissions.")]
    log = path.with_name(path.name + "-wal")
    sizes = (
        f"{output.size(path.stat().st_size)}, log {output.size(log.stat().st_size if log.exists() else 0)}"
    )
    checks = [Check("file", "ok", f"{path} ({sizes})")]
    if not os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        said = f"the folder {path.parent} is read-only: even who only reads needs a log beside the file"
        checks.append(Check("folder", "warn", said, "Make it writable, or copy the memory elsewhere."))
    if len(header) == _HEADER:
        checks.append(Check("schema", "ok", f"version {int.from_bytes(header[_VERSION], 'big')}"))
    return [*checks, _key_check(path.with_name(path.name + ".key"))]


def _database_checks(where: Address) -> list[Check]:
    """The database from outside: does it answer, and does it hold what this program needs?"""
    import asyncio

    from quipu.bootstrap import databases

    try:
        found = asyncio.run(databases.status(where))
    except QuipuError as error:
        return [Check("database", "fail", error.message, error.hint or "Check the address.")]
    said = f"PostgreSQL {found.server}, {output.size(sum(found.sizes.values()))}"
    checks = [Check("database", "ok", f"{databases.shown(where.database or '', where.schema)} ({said})")]
    if found.is_replica:
        checks.append(
            Check("database", "fail", "it is a replica", "Name the primary; QUIPU_REPLICA is for this.")
        )
    if found.version != found.newest:
        advice = "Run `quipu db init`." if found.version is None else "Run `quipu db migrate`."
        checks.append(Check("schema", "fail", f"version {found.version or 0} of {found.newest}", advice))
    else:
        checks.append(Check("schema", "ok", f"version {found.version}"))
    key = where.beside(".key")
    return checks if key is None else [*checks, _key_check(key)]


def _key_check(key: Path) -> Check:
    if not key.exists():
        return Check("key", "warn", f"{key.name} is not beside the file", "Restore it, or a new one is made.")
    if key.stat().st_mode & _OTHERS:
        return Check("key", "warn", f"others may read {key.name}", f"Run `chmod 600 {key}`.")
    return Check("key", "ok", f"{key.name}, readable by its owner only")


async def ledger_checks(
    config: Config, *, is_quick: bool, progress: Callable[[int, int], None]
) -> tuple[list[Check], Space | None]:
    """The ledger from inside, and the vector space it is in."""
    from quipu import bootstrap
    from quipu.model.principal import local

    principal = local()
    try:
        running = await bootstrap.start(config.with_values(embedder="none"))
    except QuipuError as error:
        return [Check("ledger", "fail", error.message, _mending(error))], None
    try:
        await running.parts.ledger.open(principal.tenant)
        checks = [] if is_quick else [await _integrity(running, principal, progress)]
        checks += [
            *await _sealing(running),
            await _chain(running, principal),
            *await _contents(running, principal),
        ]
        # Who has read every text knows whether its terms are right, whoever cut them.
        if is_quick and await running.parts.ledger.has_other_terms(principal.tenant):
            said = "by another build's rules: some texts may not be found by their words"
            checks.append(Check("terms", "warn", said, "Run `quipu reembed`."))
        return checks, await running.parts.ledger.space(principal.tenant)
    except QuipuError as error:
        return [Check("ledger", "fail", error.message, _mending(error))], None
    finally:
        await running.close()


def _mending(error: QuipuError) -> str:
    """Of a damaged file the error says to ask the doctor, and this is the doctor."""
    if error.reason in ("corrupt", "ledger"):
        return _RESTORE
    return error.hint or "Restore a backup."


async def _sealing(running: Running) -> list[Check]:
    from quipu.service.sealed import unopened

    found = await unopened(running.parts)
    return [] if found is None else [Check("sealing", "fail", found.said, found.advice)]


async def _integrity(running: Running, principal: Principal, progress: Callable[[int, int], None]) -> Check:
    found = await running.service.audit.verify(principal, progress)
    if found.faults:
        first = found.faults[0]
        where = f" at position {first.seq}" if first.seq is not None else ""
        said = f"{output.counted(len(found.faults), 'fault')}, the first: {first.kind}{where}: {first.detail}"
        is_of_index = all(fault.kind == "index_differs" for fault in found.faults)
        mending = ", and what mends each" if is_of_index else "; restore a backup that verifies"
        return Check("integrity", "fail", said, f"`quipu verify` shows all{mending}.")
    if found.unverifiable:
        advice = "Put the former key file back beside the memory."
        return Check("integrity", "warn", f"not everything could be checked: {found.unverifiable[0]}", advice)
    counts = (
        f"{output.counted(found.entries, 'entry', 'entries')} and {output.counted(found.records, 'version')}"
    )
    return Check("integrity", "ok", f"file, chain, digests, signatures and index hold over {counts}")


async def _chain(running: Running, principal: Principal) -> Check:
    head = await running.parts.ledger.head(principal.tenant)
    points = await running.parts.ledger.checkpoints(principal.tenant)
    said = f"head {head.seq} {head.hash[:12]}, written {output.when(head.at)}"
    if not points:
        return Check("chain", "warn", f"{said}; never signed", "`quipu export --journal DIR` signs it.")
    last = points[-1]
    said += f"; signed up to {last.seq}"
    if last.seq < head.seq and running.parts.clock() - last.at > _OVERDUE_MS:
        return Check(
            "chain", "warn", f"{said}, {output.when(last.at)}", "Any writing command signs it again."
        )
    return Check("chain", "ok", said)


async def _contents(running: Running, principal: Principal) -> list[Check]:
    ledger = running.parts.ledger
    counts = await ledger.statistics(principal.tenant)
    said = f"{output.counted(counts['live'], 'live record')}, {counts['archived']:,} archived, "
    checks = [Check("records", "ok", f"{said}{output.counted(counts['versions'], 'version')}")]
    space = await ledger.space(principal.tenant)
    if space is None:
        if counts["versions"]:
            advice = "Run `quipu reembed --embedder onnx` to search by meaning too."
            checks.append(Check("vectors", "warn", "none: recall goes by words alone", advice))
        return checks
    missing = len(await ledger.without_vector(principal.tenant, space, 1000))
    said = f"{counts['vectors']:,} by {space.model}"
    if missing:
        more = "or more " if missing >= 1000 else ""
        checks.append(Check("vectors", "warn", f"{said}; {missing} {more}missing", "Run `quipu reembed`."))
    else:
        checks.append(Check("vectors", "ok", f"{said}; none missing"))
    return checks


async def model_check(config: Config, space: Space | None, progress: Any) -> Check:
    """The embedder: can it be had, and does it speak the ledger's language?"""
    from quipu import bootstrap

    if config.embedder == "none":
        return Check("embedder", "ok", "none configured: recall goes by words alone")
    try:
        embedder = await bootstrap.open_embedder(config, progress)
    except QuipuError as error:
        return Check("embedder", "warn", error.message, error.hint or "Correct the settings.")
    if embedder is None:
        return Check("embedder", "ok", "none configured: recall goes by words alone")
    try:
        await embedder.embed(["ready"])
    except QuipuError as error:
        return Check("embedder", "warn", f"{error.message} Recall goes by words alone.", error.hint)
    finally:
        await embedder.close()
    said = f"{embedder.model}, {embedder.dimensions} dimensions"
    if space is not None and (space.model, space.dimensions) != (embedder.model, embedder.dimensions):
        advice = "Run `quipu reembed`, or configure the former embedder."
        return Check("embedder", "fail", f"{said}; but this memory was embedded with {space.model}", advice)
    return Check("embedder", "ok", said)


def disk_check(path: Path) -> Check:
    """Room to grow."""
    folder = next((parent for parent in path.parents if parent.exists()), Path("/"))
    free = shutil.disk_usage(folder).free
    said = f"{output.size(free)} free"
    if free < _FULL:
        return Check("disk", "fail", said, "Free some space: writes will soon be refused.")
    taken = path.stat().st_size if path.exists() else 0
    if free < max(_TIGHT, 2 * taken):
        return Check("disk", "warn", said, "Free some space: `quipu vacuum` and `quipu backup` need room.")
    return Check("disk", "ok", said)
