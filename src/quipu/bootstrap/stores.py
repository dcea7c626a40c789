"""A list of store URLs: which one is the ledger, and which are mirrors."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.bootstrap import databases
from quipu.bootstrap.addresses import SQLITE_SCHEMES


def is_ledger(url: str) -> bool:
    """Whether a URL names a ledger; a bare path is a SQLite file."""
    scheme, mark, _ = url.partition("://")
    return not mark or scheme.lower() in (*SQLITE_SCHEMES, *databases.SCHEMES)


def ledger_and_mirrors(urls: Sequence[str]) -> tuple[str | None, list[str]]:
    """The first ledger is the ledger and all others are mirrors; without one it is the default ledger."""
    ledger = next((url for url in urls if is_ledger(url)), None)
    rest = list(urls)
    if ledger is not None:
        rest.remove(ledger)
    return ledger, [url for url in rest if url]
