"""PostgreSQL ledgers: what their addresses mean, and how they are opened, made, upgraded and copied."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from quipu import config as settings
from quipu.config import Config
from quipu.crypto.canonical import canonical
from quipu.crypto.files import write_once
from quipu.errors import InvalidError, UnsupportedError
from quipu.ports.surroundings import Clock, MintId

if TYPE_CHECKING:
    from quipu.bootstrap import Address
    from quipu.ledger.postgres.database import Place
    from quipu.ledger.postgres.ledger import PostgresLedger
    from quipu.ledger.postgres.running import Status
    from quipu.ledger.transfer import Copied, Tables

SCHEMES: Final = ("postgresql", "postgres", "pgvector", "pgvector+postgres")
#: Parameters of an address that are ours; all others are PostgreSQL's own.
_OURS = ("name", "schema")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def parsed(url: str) -> tuple[str, str, str | None]:
    """An address as a name for answers, PostgreSQL's own address, and a schema."""
    scheme, _, rest = url.partition("://")
    if scheme.lower().startswith("pgvector") and rest.partition("?")[0] in ("default", "default/"):
        given = settings.database_url()
        if not given:
            raise InvalidError.at("/stores", "bad_value", f"{scheme}://default needs DATABASE_URL to be set.")
        rest = given.partition("://")[2] + ("&" if "?" in given else "?") + rest.partition("?")[2]
    try:
        parts = urlsplit(f"postgresql://{rest}")
        _ = parts.port
    except ValueError:
        raise InvalidError.at("/stores", "bad_value", "The database's address cannot be read.") from None
    query = parse_qsl(parts.query, keep_blank_values=True)
    mine = {key: value for key, value in query if key in _OURS}
    schema = mine.get("schema")
    if schema is not None and not _SCHEMA.fullmatch(schema):
        raise InvalidError.at(
            "/stores", "bad_value", "A schema has a plain name: letters, digits, underscores."
        )
    theirs = urlencode([(key, value) for key, value in query if key not in _OURS])
    database = f"postgresql://{parts.netloc}{parts.path}{'?' if theirs else ''}{theirs}"
    return mine.get("name", scheme.lower()), database, schema


def label(database: str, schema: str | None = None) -> str:
    """A name for a database that can name a file: the same for everybody who gets in, whatever their password."""
    parts = urlsplit(database)
    query = dict(parse_qsl(parts.query))
    name = parts.path.strip("/") or query.get("dbname", "postgres")
    where = (_host(parts, query), str(parts.port or query.get("port", 5432)), name, schema or "")
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", name)
    return f"{plain}-{hashlib.sha256(' '.join(where).encode()).hexdigest()[:12]}"


def _host(parts: SplitResult, query: dict[str, str]) -> str:
    return query.get("host", parts.hostname or "localhost")


def shown(database: str, schema: str | None = None) -> str:
    """An address that may be shown to anybody."""
    parts = urlsplit(database)
    query = dict(parse_qsl(parts.query))
    place = f"{_host(parts, query)}{f':{parts.port}' if parts.port else ''}"
    return f"postgresql://{place}{parts.path}{f'?schema={schema}' if schema else ''}"


def _place(database: str, schema: str | None) -> Place:
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        from quipu.ledger.postgres.database import Place
    except ImportError as error:
        raise UnsupportedError(
            "PostgreSQL needs a package that is not installed.",
            reason="missing_extra",
            hint="pip install 'quipu-memory[postgres]'",
        ) from error
    try:
        conninfo_to_dict(database)
    except psycopg.ProgrammingError:
        unknown = sorted({key for key, _ in parse_qsl(urlsplit(database).query)})
        raise InvalidError.at(
            "/stores",
            "bad_value",
            f"A parameter of the database's address is not PostgreSQL's: one of {', '.join(unknown) or 'none'}.",
            accepted=[*_OURS, "and those of libpq, such as sslmode, connect_timeout, application_name"],
        ) from None
    return Place(database, schema)


def open_ledger(
    name: str, database: str, schema: str | None, config: Config, clock: Clock, mint_id: MintId
) -> PostgresLedger:
    """The ledger in a database; nothing is connected yet."""
    place = _place(database, schema)
    from quipu.ledger.postgres.ledger import PostgresLedger
    from quipu.ledger.sqlite.portable import archive

    replica = None
    if config.replica_url:
        _, copy, _ = parsed(config.replica_url)
        replica = _place(copy, schema)
    return PostgresLedger(
        place,
        clock=clock,
        mint_id=mint_id,
        canonical=canonical,
        name=name,
        cache_bytes=config.cache_mb << 20,
        pool_size=max(config.pool_size, 2),
        replica=replica,
        archive=archive,
    )


# -- the operator's own --------------------------------------------------------------------------------------------


def _asked(where: Address) -> Place:
    if where.database is None:
        raise InvalidError.at(
            "/stores",
            "bad_value",
            "This is about a PostgreSQL database.",
            hint="Give its address with --store-url, or set QUIPU_STORE: postgresql://user@host/database.",
            accepted=[f"{scheme}://" for scheme in SCHEMES],
        )
    return _place(where.database, where.schema)


async def make(where: Address) -> int:
    """Make the tables in an empty database; returns how many steps were taken."""
    place = _asked(where)
    from quipu.ledger.postgres import running

    return await running.init(place)


async def migrate(where: Address) -> int:
    """Bring the tables up to date; returns how many steps were taken."""
    place = _asked(where)
    from quipu.ledger.postgres import running

    return await running.upgrade(place)


async def status(where: Address) -> Status:
    """How a database stands."""
    place = _asked(where)
    from quipu.ledger.postgres import running

    return await running.status(place)


async def distribute(where: Address) -> list[str]:
    """Spread the tables over the machines of a Citus cluster, by tenant; returns the tables."""
    place = _asked(where)
    from quipu.ledger.postgres import running

    return await running.distribute(place)


async def index(where: Address) -> list[str]:
    """Build HNSW indexes for the vectors that are there; returns their names."""
    place = _asked(where)
    from quipu.ledger.postgres import running

    return await running.index(place)


async def copy(
    source: Address, target: Address, progress: Callable[[int, int], None] | None = None
) -> Copied:
    """A whole ledger into another place, all or nothing, verified before it is kept."""
    from quipu.ledger import transfer

    try:
        async with _tables(source) as read, _tables(target, is_target=True) as written:
            return await transfer.copy(read, written, canonical, progress)
    except Exception:
        # A thread may be at a file that is closed because the copy was given up: that is no fault of the file.
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError from None
        raise


def copy_keys(source: Address, target: Address) -> list[str]:
    """The keys of a ledger that was copied, so that its signatures, secrets and grants go on; what is there stays."""
    copied: list[str] = []
    for suffix in (".key", ".sealing-key"):
        mine, theirs = source.beside(suffix), target.beside(suffix)
        if mine is None or theirs is None or not mine.exists() or theirs.exists():
            continue
        theirs.parent.mkdir(parents=True, exist_ok=True)
        write_once(theirs, mine.read_bytes())
        copied.append(str(theirs))
    # By these owners and the host are known to others: with new ones nothing that was lent or received can be proven.
    mine, theirs = source.beside(".dids"), target.beside(".dids")
    if mine is not None and theirs is not None and mine.is_dir() and not theirs.exists():
        theirs.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{theirs.name}.", dir=theirs.parent) as draft:
            shutil.copytree(mine, Path(draft) / "keys").rename(theirs)
        copied.append(str(theirs))
    return copied


def _tables(where: Address, *, is_target: bool = False) -> AbstractAsyncContextManager[Tables]:
    if where.database is not None:
        place = _place(where.database, where.schema)
        from quipu.ledger.postgres import running

        return running.tables(place, is_target=is_target)
    if where.path is None:
        raise InvalidError.at(
            "/stores", "bad_value", "A memory that is gone when it is closed cannot be copied."
        )
    from quipu.ledger.sqlite import portable

    return portable.archive(where.path) if is_target else portable.reading(where.path)
