"""Addresses of ledgers, and the files beside them."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import unquote, urlsplit

from quipu.config import Settings, data_dir
from quipu.errors import Fault, InvalidError
from quipu.ledger.driver import Driver
from quipu.ledger.ledger import Ledger
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.ledger.table import Table

if TYPE_CHECKING:
    from quipu.memory.memory_store import MemoryStore


class Late(Sequence[Table[Any]]):
    """Tables whose capabilities are loaded when the first of them is looked at."""

    def __init__(self, load: Callable[[], Sequence[Table[Any]]]) -> None:
        self._load = load

    @cached_property
    def _loaded(self) -> Sequence[Table[Any]]:
        return self._load()

    @overload
    def __getitem__(self, index: int) -> Table[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Table[Any]]: ...
    def __getitem__(self, index: int | slice) -> Table[Any] | Sequence[Table[Any]]:
        return self._loaded[index]

    def __len__(self) -> int:
        return len(self._loaded)


def _declared() -> Sequence[Table[Any]]:
    from quipu.bootstrap.declared import TABLES  # loads every capability's rows

    return TABLES


#: Every table that a capability declares. An erasure and a verification look at them; most calls do not.
TABLES = Late(_declared)


def places_of(stores: Sequence[Any], settings: Settings) -> "tuple[str, list[str | MemoryStore]]":
    """Where the ledger is, and what mirrors it: the first ledger is the ledger."""
    if not stores and not settings.mirrors:
        return settings.store or _default_store(), []
    from quipu.mirrors.registry import is_ledger  # loads what mirrors are made of

    places = [str(place) if isinstance(place, Path) else place for place in stores]
    ledger = next((place for place in places if is_ledger(place)), None)
    if ledger is None:
        address = settings.store or _default_store()
    else:
        address = str(ledger)
        places.remove(ledger)
    places += [other for other in settings.mirrors if other not in places]
    others = [place for place in places if is_ledger(place) and is_ledger(address)]
    if any(_is_same(address, str(place)) for place in others):
        raise InvalidError(
            "A ledger cannot be its own mirror.",
            faults=[Fault("/stores", "bad_value", "another place for copies")],
        )
    return address, places


def _is_same(one: str, other: str) -> bool:
    """Whether two addresses of ledgers are the same one."""
    if is_memory(other):
        return False
    first, second = sqlite_path(one), sqlite_path(other)
    if first is None or second is None:
        return first is second and _postgres_url(one) == _postgres_url(other)
    return first.resolve() == second.resolve()


def _default_store() -> str:
    """A file in the data directory of the user."""
    return f"sqlite://{data_dir() / 'memory.db'}"


def is_memory(address: str) -> bool:
    """Whether what is kept there is gone with the process."""
    return address in (":memory:", "sqlite://:memory:", "sqlite://")


def sqlite_path(address: str) -> Path | None:
    """The file of an address; None where it is no file's."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address).expanduser()
    rest = rest.partition("?")[0]
    if scheme.lower() in ("sqlite", "sqlite-vec", "sqlite+vec", "sqlitevec"):
        return Path(unquote(rest.removeprefix("/") if rest.startswith("//") else rest)).expanduser()
    return None


def open_ledger(address: str, settings: Settings) -> Ledger:
    """Another ledger than that of the settings: a copy, a backup."""
    return Ledger(driver_at(address, settings, None), TABLES)


def driver_at(address: str, settings: Settings, replica: str | None) -> Driver:
    if is_memory(address):
        return SqliteDriver(":memory:")
    path = sqlite_path(address)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        return SqliteDriver(path)
    if urlsplit(address).scheme in ("postgresql", "postgres", "pgvector", "pgvector+postgres"):
        from quipu.ledger.postgres.driver import PostgresDriver  # an extra: psycopg may not be installed

        return PostgresDriver(
            _postgres_url(address),
            size=settings.pool_size,
            replica=None if replica is None else _postgres_url(replica),
        )
    raise InvalidError(
        "This is no address of a ledger.",
        faults=[
            Fault(
                "/store", "bad_value", "sqlite:///path, sqlite://:memory: or postgresql://user@host/database"
            )
        ],
    )


def sealing_key_file(address: str, settings: Settings) -> Path:
    """Beside the file, unless a setting says where; for a server's database in the user's data directory."""
    if settings.sealing_key is not None:
        return settings.sealing_key
    path = sqlite_path(address)
    if path is not None:
        return path.with_name(f"{path.name}.key")
    return data_dir() / "sealing.key"


def signing_key_file(address: str, settings: Settings) -> Path:
    """The same for the key that signs the journal."""
    if settings.signing_key is not None:
        return settings.signing_key
    path = sqlite_path(address)
    if path is not None:
        return path.with_name(f"{path.name}.signing.key")
    return data_dir() / "signing.key"


def identity_folder(address: str) -> Path:
    """Where the keys are that this host and its owners are known by: outside of the database."""
    path = sqlite_path(address)
    if path is not None:
        return path.with_name(f"{path.name}.identity")
    return data_dir() / "identity"


def _postgres_url(address: str) -> str:
    """In the one scheme that its client knows."""
    return "postgresql" + address[address.index("://") :]
