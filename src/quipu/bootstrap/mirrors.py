"""Mirrors: from URLs to guarded backends. Which ones there are stands in the settings and beside the ledger."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from quipu import config as settings
from quipu.backends import registry
from quipu.backends.guarded import GuardedBackend, Patience
from quipu.backends.ledgers import LedgerBackend
from quipu.bootstrap import databases
from quipu.config import Config
from quipu.crypto import keys
from quipu.crypto.canonical import canonical
from quipu.crypto.files import write_once
from quipu.errors import InvalidError
from quipu.ports.backend import Backend, Mirror, Routing, Setup
from quipu.ports.embedder import Embedder
from quipu.ports.surroundings import Clock
from quipu.rules.fusion import Foreign

if TYPE_CHECKING:
    from quipu.bootstrap import Address

_POLICIES = {"all": True, "fan_out": True, "primary_only": False}


def urls_of(where: Address, config: Config) -> list[str]:
    """Every mirror's URL: those of the settings, then those that were added to this ledger."""
    given = [*re.split(r"\s+(?=[A-Za-z][A-Za-z0-9+.-]*://)", config.mirrors.strip()), *kept_urls(where)]
    return list(dict.fromkeys(url for url in given if url))


def kept_urls(where: Address) -> list[str]:
    """The mirrors that were added to this ledger, so that whoever opens it has them."""
    path = where.beside(".mirrors")
    if path is None or not path.exists():
        return []
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidError(f"The file of mirrors {path} cannot be read.", reason="bad_setting") from error
    if not isinstance(found, list) or not all(isinstance(url, str) for url in cast("list[object]", found)):
        raise InvalidError(f"The file of mirrors {path} is no list of URLs.", reason="bad_setting")
    return cast("list[str]", found)


def keep_urls(where: Address, urls: Sequence[str]) -> None:
    """Write the file of mirrors anew. It may hold credentials, so only its owner may read it."""
    path = where.beside(".mirrors")
    if path is None:
        raise InvalidError(
            "A memory that is gone when it is closed keeps no mirrors.",
            reason="bad_setting",
            hint="Name them in QUIPU_MIRRORS.",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    write_once(fresh, (json.dumps(list(urls), indent=2) + "\n").encode())
    fresh.replace(path)


def addresses(where: Address, config: Config) -> list[registry.MirrorAddress]:
    """The mirrors, taken apart and named."""
    return registry.parsed(urls_of(where, config), taken=(where.name,))


def check_schemes(where: Address, config: Config) -> None:
    """Refuse a mirror that nobody knows how to speak to."""
    for one in addresses(where, config):
        _check_scheme(one)


def _check_scheme(address: registry.MirrorAddress) -> None:
    from quipu.bootstrap.addresses import SQLITE_SCHEMES

    ledgers = (*SQLITE_SCHEMES, *databases.SCHEMES)
    if address.scheme not in (*ledgers, *registry.schemes()):
        raise registry.unknown_scheme(address.scheme, ledgers)


def mirrors_of(where: Address, config: Config, embedder: Embedder | None, clock: Clock) -> tuple[Mirror, ...]:
    """The mirrors, not opened yet."""
    return tuple(_mirror(address, where, config, embedder, clock) for address in addresses(where, config))


def routing_of(config: Config) -> Routing:
    """How mirrors take part."""
    if config.mirror_write_policy not in _POLICIES:
        raise InvalidError.at(
            "/write_policy",
            "bad_value",
            "There is no such write policy.",
            accepted=["all", "primary_only"],
        )
    try:
        foreign = Foreign(config.recall_foreign)
    except ValueError:
        raise InvalidError(
            "There is no such place for foreign hits.",
            reason="bad_setting",
            hint=f"Set QUIPU_FOREIGN to one of {', '.join(Foreign)}.",
        ) from None
    return Routing(
        is_written=_POLICIES[config.mirror_write_policy],
        write_deadline_ms=config.mirror_write_deadline_ms,
        deadline_ms=config.recall_deadline_ms,
        foreign=foreign,
        trim_votes=config.recall_trim_votes,
        audience=config.public_url or "quipu",
        ledger_votes=config.recall_ledger_votes,
        sign_hits=config.recall_sign_hits,
    )


def _mirror(
    address: registry.MirrorAddress,
    where: Address,
    config: Config,
    embedder: Embedder | None,
    clock: Clock,
) -> Mirror:
    from quipu.bootstrap.surroundings import jitter

    guarded = GuardedBackend(
        address.name,
        _backend(address, where, config, embedder, clock),
        patience=Patience(search_s=address.deadline_ms / 1000),
        jitter=jitter,
    )
    return Mirror(
        name=address.name,
        backend=guarded,
        weight=address.weight,
        keys=_keys(address.public_key),
        shown=address.shown,
        has_own_contents=address.has_own_contents,
    )


def _keys(public: str | None) -> dict[str, str]:
    if public is None:
        return {}
    try:
        return {keys.key_id(public): public}
    except ValueError:
        raise InvalidError.at(
            "/stores",
            "bad_value",
            "require_signed is the mirror's public key, in base64url.",
        ) from None


def _backend(
    address: registry.MirrorAddress,
    where: Address,
    config: Config,
    embedder: Embedder | None,
    clock: Clock,
) -> Backend:
    from quipu import bootstrap
    from quipu.bootstrap.addresses import SQLITE_SCHEMES

    if address.scheme in (*SQLITE_SCHEMES, *databases.SCHEMES):
        there = bootstrap.address(address.url)
        if (there.path, there.database, there.schema) == (where.path, where.database, where.schema):
            raise InvalidError.at("/stores", "bad_value", "A ledger cannot be its own mirror.")
        return LedgerBackend(
            partial(bootstrap.open_ledger, there, config, clock=clock),
            embedder=embedder,
            clock=clock,
            mint_salt=bootstrap.mint_salt,
            canonical=canonical,
        )
    _check_scheme(address)
    return registry.maker(address.scheme)(
        Setup(
            name=address.name,
            url=address.url,
            scheme=address.scheme,
            parameters=address.parameters,
            embedder=embedder,
            folder=_folder(where, address.name),
            python=address.python,
        )
    )


def _folder(where: Address, name: str) -> Path:
    """A folder of the mirror's own: beside the ledger, or among this user's data."""
    beside = where.beside(f".mirror-{name}")
    return settings.data_dir() / "mirrors" / name if beside is None else beside
