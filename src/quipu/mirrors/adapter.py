"""What adapters share: names of containers, the mark beside each copy, errors in our words, answers, bytes that are left."""

import hashlib
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from quipu.errors import BackendUnavailableError, Fault, InvalidError, QuipuError
from quipu.mirrors.backend import Answer, Container, Copy, Kept, Mark, Query, Setup
from quipu.model.value import JsonObject

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# -- containers -------------------------------------------------------------------------------------------------------

#: Stands between labels where a container has one name.
SEPARATOR: Final = "--"
NOBODY: Final = "_"
#: What nearly every vendor allows in a name.
PLAIN: Final = r"[A-Za-z0-9_-]+"
_TAKEN: Final = ("x_", "h_")


def within(query: Query) -> tuple[Container, ...]:
    """The containers that hold something of ours and that the query reaches."""
    return tuple(one for one in dict.fromkeys(query.containers) if reaches(query, one))


def reaches(query: Query, one: Container) -> bool:
    """Whether a container is one that the query asks for."""
    return (
        one.tenant == query.tenant
        and query.agent_id in (None, one.agent_id)
        and query.user_id in (None, one.user_id)
        and query.store_id in (None, one.store_id)
    )


def label(text: str | None, legal: str = PLAIN, longest: int = 128) -> str:
    """A part of a container as a name that the vendor allows; `legal` is what a whole name must match.

    A legal name stays as it is, so what was there before Quipu is still found. Anything else, and what looks like an
    escaped name, is written as `x_` and its characters, `_hh` for each byte that is no letter or digit. What is too long
    becomes `h_` and a hash. No user is `_`. Two different names never become one.
    """
    if text is None:
        return NOBODY
    is_plain = re.fullmatch(legal, text) is not None and text != NOBODY
    named = text if is_plain and not text.startswith(_TAKEN) else _escaped(text)
    return named if len(named) <= longest else _hashed(text)


def joined(parts: Sequence[str | None], legal: str = PLAIN, longest: int = 63) -> str:
    """Several parts as one name, hashed as a whole where it would be too long. Different parts never give one name."""
    name = SEPARATOR.join(_apart(part, legal) for part in parts)
    return name if len(name) <= longest else _hashed(name)


def container_name(first: str, one: Container, *more: str, legal: str = PLAIN, longest: int = 120) -> str:
    """A whole container as one name, for vendors that keep each apart."""
    return joined([first, one.tenant, one.store_id, one.agent_id, one.user_id, *more], legal, longest)


def _apart(part: str | None, legal: str) -> str:
    """A label in which no separator can be seen, nor made out together with the one beside it."""
    if part is not None and (SEPARATOR in part or part.startswith("-") or part.endswith("-")):
        return _escaped(part)
    return label(part, legal, longest=10_000)


def _escaped(text: str) -> str:
    coded = (
        chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"_{byte:02x}"
        for byte in text.encode("utf-8", "surrogatepass")
    )
    return "x_" + "".join(coded)


def _hashed(text: str) -> str:
    return "h_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by what they have in common, in the order in which each first came."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


# -- the mark ---------------------------------------------------------------------------------------------------------

#: Keys of the metadata that stands beside a copy, on its top level, where every vendor filters.
TENANT: Final = "quipu_tenant"
RECORD: Final = "quipu_record"
VERSION: Final = "quipu_version"
#: The record's own metadata and tags, each under one key: vendors swallow some names.
METADATA: Final = "quipu_metadata"
TAGS: Final = "quipu_tags"


def mark(copy: Copy) -> dict[str, Any]:
    """The metadata that every adapter writes beside a copy; it adds what its own filters need."""
    return {
        TENANT: copy.container.tenant,
        RECORD: copy.record_id,
        VERSION: copy.version,
        METADATA: dict(copy.metadata),
        TAGS: list(copy.tags),
    }


def mark_in(metadata: Mapping[str, Any] | None) -> Mark | None:
    """The mark in what a vendor gave back; None where somebody else wrote it."""
    said = metadata or {}
    tenant, record_id, version = said.get(TENANT), said.get(RECORD), said.get(VERSION)
    if not (isinstance(tenant, str) and isinstance(record_id, str) and isinstance(version, int | float)):
        return None
    return Mark(tenant=tenant, record_id=record_id, version=int(version))


def kept(native_id: str, text: str, metadata: Mapping[str, Any] | None, score: float | None = None) -> Kept:
    """What a vendor has, from its metadata; `score` where it was searched for."""
    own: object = (metadata or {}).get(METADATA)
    given = cast("JsonObject", own if isinstance(own, Mapping) else {})
    return Kept(native_id=native_id, text=text, mark=mark_in(metadata), metadata=given, score=score)


#: Where nobody listens, for clients of language models that vendors insist on.
NOBODY_THERE: Final = "http://127.0.0.1:9/v1"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _LAST_MS = -62_135_510_400_000, 253_402_214_399_999


def date_of(at: int) -> datetime:
    """A record's time as a date. A record may hold any time of 64 bits: one that no date can name is the nearest that can,
    a day within, for vendors count from there in both directions."""
    return _EPOCH + timedelta(milliseconds=min(max(at, _FIRST_MS), _LAST_MS))


# -- parameters, errors -----------------------------------------------------------------------------------------------


def check_parameters(setup: Setup, *known: str) -> None:
    """Refuse parameters of a store URL that the adapter does not have."""
    if set(setup.parameters) - set(known):
        accepted = ", ".join(known) or "no parameter"
        raise bad_url(f"A {setup.scheme} URL has no such parameter.", accepted)


def bad_url(message: str, accepted: str) -> InvalidError:
    """What is wrong with a store URL; it never repeats the URL, which may hold a password."""
    return InvalidError(message, faults=[Fault("/stores", "bad_value", accepted)])


def unavailable(
    message: str, reason: str = "mirror_unreachable", hint: str | None = None
) -> BackendUnavailableError:
    """The vendor is not there, in our words."""
    return BackendUnavailableError(message, reason=reason, hint=hint)


@contextmanager
def vendor_errors(vendor: str, package: str) -> Generator[None]:
    """Whatever a vendor raises, in our words and with the cause kept. `package` is what is installed with pip."""
    try:
        yield
    except QuipuError:
        raise
    except ImportError as error:
        raise unavailable(
            f"{vendor} is not installed for the mirror's interpreter.",
            "missing_extra",
            f"pip install {package}",
        ) from error
    except Exception as error:
        raise unavailable(f"{vendor} failed.") from error


# -- answers ----------------------------------------------------------------------------------------------------------

#: What a query may ask for beyond its containers.
_RESTRICTIONS: Final = frozenset({"types", "session_id", "created_from", "filter"})


def answered(
    query: Query, limit: int, found: Sequence[Kept], *, applied: Iterable[str] = (), most: int | None = None
) -> Answer:
    """The best of what was found, best first; of the pieces of a long text the first.

    applied: Restrictions of the query that the vendor has applied: `types`, `session_id`, `created_from`, `filter`.
    most: More than this it never tells.
    """
    best: dict[str, Kept] = {}
    for hit in found:
        best.setdefault(hit.native_id, hit)
    left = _RESTRICTIONS.difference(applied)
    return Answer(
        hits=tuple(best.values())[:limit],
        is_filtered=all(getattr(query, name) in (None, frozenset(), {}) for name in left),
        has_more=len(found) >= limit and (most is None or limit < most),
    )


def best_first(found: Iterable[Kept]) -> list[Kept]:
    """The answers of several searches by their scores, which are of one kind and higher is better."""
    return sorted(found, key=lambda hit: -(hit.score or 0.0))


def interleaved(rankings: Sequence[Sequence[Kept]]) -> list[Kept]:
    """One ranking of several that have no comparable scores: they take turns."""
    return [hit for turn in zip_longest(*rankings) for hit in turn if hit is not None]


# -- bytes that deleted rows leave ------------------------------------------------------------------------------------

#: Others who look at the same database with a snapshot of their own.
_LOOKING: Final = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL"
)
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.02


def compact_sqlite(file: Path) -> None:
    """Rewrite a vendor's SQLite file without the rows that were deleted. Nobody else has it open."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def compact_postgres(connection: Any, tables: Iterable[str]) -> None:
    """Rewrite a vendor's tables without the rows that were deleted. psycopg's connection commits by itself.

    A deleted row that somebody's snapshot still shows would be copied with the rest, so those who look are waited for;
    not for ever: one who never stops looking is no reason to leave everything as it is.
    """
    end = time.monotonic() + _PATIENCE_S
    for table in tables:
        while connection.execute(_LOOKING).fetchone()[0] and time.monotonic() < end:
            time.sleep(_PAUSE_S)
        quoted = table.replace('"', '""')
        connection.execute(f'VACUUM FULL "{quoted}"')
