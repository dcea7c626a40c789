"""What a store URL means."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from quipu import config as settings
from quipu.bootstrap import databases
from quipu.errors import InvalidError

SQLITE_SCHEMES = ("sqlite", "sqlite-vec", "sqlite+vec", "sqlitevec")
_MEMORY = ":memory:"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a ledger is: a name for answers, and a path (None: gone when closed) or a database."""

    name: str
    path: Path | None
    #: PostgreSQL's, with whatever it takes to get in; None for a file.
    database: str | None = field(default=None, repr=False)
    #: Which of the database's schemas; None: the user's own.
    schema: str | None = None

    @property
    def shown(self) -> str:
        """The place as anybody may see it."""
        if self.database is not None:
            return databases.shown(self.database, self.schema)
        return "in memory only" if self.path is None else str(self.path)

    @property
    def is_fleeting(self) -> bool:
        """In memory only: gone when it is closed."""
        return self.path is None and self.database is None

    @property
    def missing(self) -> Path | None:
        """The file, where it is not there; a database answers for itself, and so does a place that is closed to us."""
        try:
            return None if self.path is None or self.path.exists() else self.path
        except OSError:
            return None

    def beside(self, suffix: str) -> Path | None:
        """Where a key of this ledger is kept: beside its file, or among this user's data under the database's name."""
        if self.database is not None:
            return settings.data_dir() / "postgresql" / (databases.label(self.database, self.schema) + suffix)
        return None if self.path is None else self.path.with_name(self.path.name + suffix)


def address(url: str) -> Address:
    """What a store URL means; a bare path is a SQLite file."""
    if not url:
        return Address("sqlite", settings.data_dir() / "memory.db")
    if "://" not in url:
        return Address("sqlite", None if url == _MEMORY else _file(url))
    scheme, _, rest = url.partition("://")
    if scheme.lower() in databases.SCHEMES:
        name, database, schema = databases.parsed(url)
        return Address(name, None, database, schema)
    if scheme.lower() not in SQLITE_SCHEMES:
        raise InvalidError.at(
            "/stores",
            "bad_value",
            f"Unknown store URL scheme {scheme!r}.",
            accepted=[f"{known}://" for known in (*SQLITE_SCHEMES, *databases.SCHEMES)],
        )
    query = parse_qs(urlsplit(url).query, keep_blank_values=True)
    if unknown := sorted(query.keys() - {"name"}):
        raise InvalidError.at(
            "/stores", "bad_value", f"Unknown parameter {unknown[0]!r} in a store URL.", accepted=["name"]
        )
    place = rest.partition("?")[0]
    name = query.get("name", [scheme.lower()])[0]
    if place in (_MEMORY, ""):
        return Address(name, None)
    # sqlite:///abs.db has three slashes: the rest of the third is the absolute path.
    return Address(name, _file(place))


def _file(text: str) -> Path:
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise InvalidError.at(
            "/stores",
            "bad_value",
            "A path begins with ~ and leads nowhere: nobody on this machine is called so, or there is no home.",
            hint="Write the whole path, from / on.",
        ) from None
    if not path.name:
        raise InvalidError.at(
            "/stores",
            "bad_value",
            f"{text} names a directory, not a database file.",
            hint="Name a file in it, such as memory.db.",
        )
    # SQLite opens no link itself; and keys and log stand beside the file, whatever name it was opened by.
    return Path(os.path.realpath(path)) if os.path.islink(path) else path
